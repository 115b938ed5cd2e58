#!/usr/bin/env bash
# llms.txt: the pages of the book with their first sentences, for programs that read documentation. Printed.
set -eu
cd "$(dirname "$0")"
repository=$(sed -n 's/^git-repository-url = "\(.*\)"/\1/p' ../../../book.toml)
echo '# phaselink'
echo
echo '> phaselink designs, simulates and serves storage devices for fast non-volatile memory over PCI Express. A drive is described'
echo '> once; it is predicted in closed form, simulated packet by packet, and served to real hosts at the modelled speed.'
echo
# shellcheck disable=SC2016 # Backticks of Markdown.
echo 'The installed program prints each page: `phaselink docs NAME`. `phaselink COMMAND --help` is the reference of a command, and'
# shellcheck disable=SC2016
echo '`phaselink check --schema` the JSON Schema of a drive file.'
sed -n 's/^#* *\(.*\)$/\1/p' SUMMARY.md | while read -r line; do
    case $line in
    *']('*.md')')
        title=$(printf %s "$line" | sed 's/^- //; s/^\[\(.*\)\](.*/\1/')
        file=$(printf %s "$line" | sed 's/.*](\(.*\))$/\1/')
        case $file in ../*) continue ;; esac
        # The first paragraph is what stands between the heading and the next blank line.
        about=$(awk 'NR > 1 && NF { found = 1 } found && !NF { exit } found' "$file" | grep -v '^<!--' | tr '\n' ' ' | sed 's/\([^.]*\.\) .*/\1/; s/\[\([^]]*\)\]([^)]*)/\1/g; s/ *$//')
        echo "- [$title]($repository/blob/main/crates/cli/docs/$file): $about"
        ;;
    Contents | '') ;;
    *) printf '\n## %s\n\n' "$line" ;;
    esac
done
