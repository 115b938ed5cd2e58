#!/usr/bin/env bash
# The explorer: the simulator and its page in one file.
#
#   explorer.sh build   write target/explorer.html
#   explorer.sh test    compare the figures of the module with the program's, in node; and the page in Chromium, if it is there
#   explorer.sh quick   the same with a program that is not optimised
#
# What is missing for it is said; with CI=true that is a failure.
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}
page=crates/wasm/page
triple=wasm32-unknown-unknown

missing() {
    echo "$1: the explorer is NOT $2"
    test "${CI:-}" != true
    exit
}

has_target() {
    test -d "$(rustc --print sysroot)/lib/rustlib/$triple"
}

# Largest size of the page on its way to a browser.
bytes_max=1000000

# The linker pads places of functions and data to five bytes unless it is told not to: 6 % of the module.
export CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUSTFLAGS='-C link-arg=--compress-relocations'

module() {
    cargo build --profile explorer -p phaselink-wasm --target "$triple"
    cp "$target/$triple/explorer/phaselink_wasm.wasm" "$target/explorer.wasm"
}

# A line `@include FILE` stands for the file, and `@module` for the module.
page() {
    gzip --best --no-name --stdout "$target/explorer.wasm" | base64 | tr -d '\n' > "$target/explorer.base64"
    awk -v page="$page" -v module="$target/explorer.base64" '
        function paste(file,    line) { while ((getline line < file) > 0) print line; close(file) }
        $1 == "@include" { paste(page "/" $2); next }
        $1 == "@module" { paste(module); next }
        { print }' "$page/index.html" > "$target/explorer.html"
    bytes=$(gzip -9c "$target/explorer.html" | wc -c)
    echo "$target/explorer.html: $(wc -c < "$target/explorer.html") bytes, $bytes compressed"
    test "$bytes" -le "$bytes_max" || { echo "the explorer has more than $bytes_max bytes compressed" >&2; exit 1; }
}

case ${1:-} in
build)
    has_target || { echo "the target $triple is not installed: rustup target add $triple" >&2; exit 1; }
    module
    page
    ;;
test | quick)
    has_target || missing "the target $triple is not installed (rustup target add $triple)" tested
    node --version > /dev/null 2>&1 || missing 'node is not installed' tested
    module
    page
    case $1 in
    test) cargo build --release -p phaselink && program=$target/release/phaselink ;;
    # As tests build it: with `cargo build`, dependencies have other features, and all crates are compiled anew.
    quick) cargo test --workspace --test program --no-run && program=$target/debug/phaselink ;;
    esac
    node crates/wasm/tests/figures.mjs "$target/explorer.wasm" "$program"
    node crates/wasm/tests/browser.mjs "$target/explorer.html" "$target/explorer.wasm" ${SCREENSHOTS:+"$SCREENSHOTS"}
    ;;
*)
    echo 'build, test or quick' >&2
    exit 2
    ;;
esac
