#!/bin/sh
# Long fuzzing with coverage as the guide: fuzz.sh [SECONDS [TARGET...]], each target for so long (60 s).
#
# Inputs that reach new code are kept in fuzz/found/, crashes in fuzz/crashes/. Neither belongs in the repository: a
# crash becomes a test or an input in fuzz/corpus/, and `fuzz.sh keep` copies there the few short inputs that together
# reach what all reach, or most of it where that takes more than a few.
#
# Stable Rust counts coverage; AddressSanitizer, which also sees what `unsafe` code does to memory, needs a nightly
# toolchain, and is used when there is one. A C++ compiler builds libFuzzer.
set -eu
cd "$(dirname "$0")"

KEPT_BYTES_MAX=1024
KEPT_FILES_MAX=30

coverage="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 --cfg fuzzing"
host=$(rustc -vV | sed -n 's/^host: //p')
built=${CARGO_TARGET_DIR:-../target}/fuzz

if cargo +nightly --version > /dev/null 2>&1; then
    toolchain=+nightly
    coverage="$coverage -Zsanitizer=address"
    echo 'with AddressSanitizer'
else
    toolchain=
    echo 'without AddressSanitizer: no nightly toolchain is installed'
fi
# Named, the host is a target like any other, and build scripts stay without these flags.
RUSTFLAGS=$coverage cargo $toolchain build --release --quiet --manifest-path libfuzzer/Cargo.toml --target "$host" --target-dir "$built"
program=$(cd "$built" && pwd)/$host/release/phaselink-libfuzzer

targets() {
    # shellcheck disable=SC2046 # names have no blanks
    [ $# -gt 0 ] && echo "$@" || cargo run --quiet -p phaselink-fuzz -- --list
}

fuzz() {
    seconds=$1 target=$2
    mkdir -p "found/$target" "corpus/$target" crashes
    cargo run --quiet -p phaselink-fuzz -- --seeds "found/$target" "$target"
    TARGET=$target "$program" -max_total_time="$seconds" -runs="${RUNS:--1}" -max_len=32768 -timeout=10 -rss_limit_mb=4096 \
        -artifact_prefix="crashes/$target-" -print_final_stats=1 "found/$target" "corpus/$target" 2> "found/$target.log" ||
        { tail -n 40 "found/$target.log"; return 1; }
    echo "$target: $(sed -n 's/^stat::number_of_executed_units: *//p' "found/$target.log") inputs," \
        "$(grep -o 'cov: [0-9]*' "found/$target.log" | tail -n 1)"
}

keep() {
    target=$1
    rm -rf "found/$target.kept"
    mkdir -p "found/$target.short" "found/$target.kept" "corpus/$target"
    find "found/$target" "corpus/$target" -type f -size -$((KEPT_BYTES_MAX + 1))c -exec cp {} "found/$target.short" \;
    TARGET=$target "$program" -set_cover_merge=1 -use_counters=0 -max_len=$KEPT_BYTES_MAX "found/$target.kept" "found/$target.short" \
        2> "found/$target.log"
    # The longest reach most.
    (cd "found/$target.kept" && ls -S | tail -n +$((KEPT_FILES_MAX + 1)) | xargs -r rm)
    rm -rf "found/$target.short" "corpus/$target"
    mv "found/$target.kept" "corpus/$target"
    echo "$target: $(ls "corpus/$target" | wc -l) inputs kept"
}

failed=0
if [ "${1:-}" = keep ]; then
    shift
    for target in $(targets "$@"); do keep "$target"; done
else
    seconds=${1:-60}
    [ $# -eq 0 ] || shift
    for target in $(targets "$@"); do fuzz "$seconds" "$target" || failed=1; done
fi
exit $failed
