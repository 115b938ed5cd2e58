#!/bin/sh
# Install the program of the newest release, or of VERSION, into PREFIX/bin (~/.local/bin) with man pages and completions.
#
#   sh install.sh
#
# REPOSITORY is another address with the same releases: a mirror, or a rehearsal.
set -eu
repository=${REPOSITORY:-https://github.com/phaselink/phaselink}
prefix=${PREFIX:-$HOME/.local}
version=${VERSION:-$(curl -fsSLI -o /dev/null -w '%{url_effective}' "$repository/releases/latest" | sed 's,.*/v,,')}
case $(uname -s)-$(uname -m) in
Linux-x86_64) target=x86_64-unknown-linux-musl ;;
Linux-aarch64 | Linux-arm64) target=aarch64-unknown-linux-musl ;;
Darwin-arm64) target=aarch64-apple-darwin ;;
Darwin-x86_64) target=x86_64-apple-darwin ;;
*)
    echo "there is no program for $(uname -s) on $(uname -m); with Rust: cargo install phaselink" >&2
    exit 1
    ;;
esac
name=phaselink-$version-$target
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
for file in "$name.tar.gz" SHA256SUMS; do
    curl -fsSL -o "$folder/$file" "$repository/releases/download/v$version/$file"
done
(cd "$folder" && grep " $name.tar.gz\$" SHA256SUMS | if command -v sha256sum > /dev/null; then sha256sum -c -; else shasum -a 256 -c -; fi) > /dev/null
tar -C "$folder" -xzf "$folder/$name.tar.gz"
mkdir -p "$prefix/bin" "$prefix/share/man/man1" "$prefix/share/bash-completion/completions"
cp "$folder/$name/phaselink" "$prefix/bin"
cp "$folder/$name"/man/*.1 "$prefix/share/man/man1"
cp "$folder/$name/completions/phaselink.bash" "$prefix/share/bash-completion/completions/phaselink"
echo "$prefix/bin/phaselink: $("$prefix/bin/phaselink" --version)"
