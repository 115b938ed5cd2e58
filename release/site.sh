#!/usr/bin/env bash
# One static site that any host can serve: the book, the explorer, and reports, each with a page that says what it found.
#
#   site.sh PROGRAM OUT
#
# What is missing for a part is said; with CI=true that is a failure.
set -eu
program=$(realpath "$1") out=$(realpath -m "$2")
cd "$(dirname "$0")/.."
target=$(realpath "${CARGO_TARGET_DIR:-target}")
rm -rf "$out"
mkdir -p "$out"
left_out() {
    echo "$1: NOT part of the site"
    test "${CI:-}" != true
}
if crates/cli/docs/book.sh > /dev/null && test -e "$target/book/html/index.html"; then
    cp -r "$target/book/html" "$out/book"
else
    left_out 'the book'
fi
if crates/wasm/explorer.sh build > /dev/null; then
    mkdir -p "$out/explorer"
    cp "$target/explorer.html" "$out/explorer/index.html"
else
    left_out 'the explorer'
fi
# report NAME COMMAND...: a page; figures that are off are part of it.
report() {
    name=$1
    shift
    "$program" -q "$@" --report "$out/reports/$name" > /dev/null || test $? -eq 1
}
report compare compare 2026 --bs 4k --iodepth 1,32 --numjobs 1
report run run optane-p5800x --bs 4k --number-ios 20000
for paper in crates/studies/reproductions/*/; do
    report "$(basename "$paper")" reproduce "$(basename "$paper")"
done
report validate validate
mkdir -p "$out/schemas"
"$program" check --schema > "$out/schemas/drive.json"
"$program" check --schema=sweep > "$out/schemas/sweep.json"
"$program" check --schema=results > "$out/schemas/results.json"
# A catalogue of schemas in the form of SchemaStore's own (https://json.schemastore.org/schema-catalog.json), by which editors find a
# schema from the name of a file. Its entries go into SchemaStore's catalogue as they are: the address of a schema is its \$id.
# shellcheck disable=SC2016 # A name of a key.
entry() { # NAME DESCRIPTION PATTERN FILE
    printf '    {\n      "name": "%s",\n      "description": "%s",\n      "fileMatch": ["%s"],\n      "url": "%s"\n    }' \
        "$1" "$2" "$3" "$(sed -n 's/^  "$id": "\(.*\)",*$/\1/p' "$out/schemas/$4")"
}
# shellcheck disable=SC2016
{
    printf '{\n  "$schema": "https://json.schemastore.org/schema-catalog.json",\n  "version": 1,\n  "schemas": [\n'
    entry 'phaselink drive' 'Drive file of phaselink: a storage device with its interface, link, memory and host' '*.drive.toml' drive.json
    printf ',\n'
    entry 'phaselink sweep' 'Sweep plan of phaselink: a job, and the values that a sweep combines' '*.sweep.toml' sweep.json
    printf '\n  ]\n}\n'
} > "$out/schemas/catalog.json"
crates/cli/docs/llms.sh > "$out/llms.txt"
{
    echo '<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>phaselink</title>'
    echo '<style>body{font:1.1em/1.5 system-ui;max-width:40em;margin:3em auto;padding:0 1em}@media(prefers-color-scheme:dark){body{background:#111;color:#ddd}a{color:#8bf}}</style>'
    echo '<h1>phaselink</h1><p>Designs, simulates and serves storage devices for fast non-volatile memory over PCI Express.<ul>'
    test ! -d "$out/book" || echo '<li><a href="book/">The book</a>'
    test ! -d "$out/explorer" || echo '<li><a href="explorer/">The explorer</a>: sliders for a drive and its job, in the browser'
    for page in "$out"/reports/*/index.html; do
        name=$(basename "$(dirname "$page")")
        title=$(sed -n 's:.*<title>\(.*\)</title>.*:\1:p' "$page" | head -1)
        echo "<li><a href=\"reports/$name/\">${title:-$name}</a>"
    done
    echo '<li>JSON Schemas: <a href="schemas/drive.json">*.drive.toml</a>, <a href="schemas/sweep.json">*.sweep.toml</a>, <a href="schemas/results.json">results</a></ul>'
} > "$out/index.html"
echo "$out: $(find "$out" -type f | wc -l) files, $(du -sh "$out" | cut -f1)"
