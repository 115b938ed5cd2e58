#!/bin/sh
# Make the book: the pages as they stand, with the front page, and links to files that are no pages turned to the repository.
#
#   book.sh    target/book/html; mdBook is installed into target/tools where it is missing
set -eu
cd "$(dirname "$0")/../../.."
target=${CARGO_TARGET_DIR:-$PWD/target}
version=0.5
export PATH="$target/tools/bin:$PATH"
if ! mdbook --version > /dev/null 2>&1; then
    echo 'mdbook is not installed: installing it, some minutes'
    cargo install --quiet --locked --root "$target/tools" "mdbook@^$version" || {
        echo 'mdbook cannot be installed: the book is not made'
        test "${CI:-}" != true
        exit
    }
fi
repository=$(sed -n 's/^git-repository-url = "\(.*\)"/\1/p' book.toml)
rm -rf "$target/book"
mkdir -p "$target/book/src"
cp book.toml "$target/book"
sed -i.kept 's/^src = .*/src = "src"/' "$target/book/book.toml"
cp -r crates/cli/docs/*.md crates/cli/docs/images "$target/book/src"
# The front page names pages as crates/cli/docs/NAME.md, and pages name it as ../../../README.md; @ stands for what is right already.
sed 's,](crates/cli/docs/SUMMARY\.md,](@tutorial.md,g; s,](crates/cli/docs/,](@,g; s,](http,](@http,g
    s,](\([A-Za-z]\),](../../../\1,g; s,](@,](,g' README.md > "$target/book/src/front-page.md"
for page in "$target"/book/src/*.md; do
    sed -i.kept "s,](\(\.\./\)\{3\}README\.md,](front-page.md,g
        s,](\(\.\./\)\{3\}\([^)]*\)),]($repository/blob/main/\2),g
        s,](\.\./\.\./\([^)]*\)),]($repository/blob/main/crates/\1),g
        s,](\.\./\([^)]*\)),]($repository/blob/main/crates/cli/\1),g" "$page"
done
rm -f "$target"/book/src/*.kept "$target/book/book.toml.kept"
mdbook build "$target/book" --dest-dir "$target/book/html"
# A page that is linked to and not there, as mdBook itself does not look.
broken=$(cd "$target/book/html" && for page in *.html; do
    grep -o 'href="[^"#:]*\.html' "$page" | cut -c7- | sort -u | while read -r link; do
        test -e "$link" || echo "$page: $link"
    done
done)
test -z "$broken" || { echo "$broken"; exit 1; }
echo "$target/book/html/index.html"
