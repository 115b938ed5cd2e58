#!/usr/bin/env bash
# An archive of a built program with its man pages, completions, licence and front page.
#
#   archive.sh TARGET FOLDER OUT [RUNNER...]    FOLDER holds the program; RUNNER runs it where this machine does not
set -eu
target=$1 folder=$(realpath "$2") out=$3
shift 3
cd "$(dirname "$0")/.."
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
name=phaselink-$version-$target
program=$folder/phaselink
test -e "$program" || program=$folder/phaselink.exe
mkdir -p "$out/$name/completions" "$out/$name/man"
cp "$program" LICENSE README.md CHANGELOG.md "$out/$name"
run() { "$@" "$program" completions "$shell"; }
for shell in bash zsh fish elvish powershell; do
    run "$@" > "$out/$name/completions/phaselink.$shell"
done
"$@" "$program" completions --man "$out/$name/man" > /dev/null
case $target in
*windows*) (cd "$out" && rm -f "$name.zip" && if command -v 7z > /dev/null; then 7z a -bd "$name.zip" "$name" > /dev/null; else zip -qr "$name.zip" "$name"; fi) ;;
*)
    # GNU tar, which sorts; it is gtar where tar is another.
    tar=tar
    if command -v gtar > /dev/null; then tar=gtar; fi
    "$tar" -C "$out" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@"${SOURCE_DATE_EPOCH:-0}" -czf "$out/$name.tar.gz" "$name"
    ;;
esac
rm -rf "${out:?}/$name"
