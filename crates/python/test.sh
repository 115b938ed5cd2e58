#!/usr/bin/env bash
# The Python package and its tests.
#
#   test.sh wheel   build and install it as a user does, into a fresh environment, and test it there: `make python`
#   test.sh quick   test the extension LIBRARY against the program PHASELINK, both built by cargo: part of `cargo test`
#   test.sh bench   operations a second of embedded drives, in an optimised build: part of `make bench-model`
#
# What is missing for it (Python 3.9, a package index) is said; with CI=true that is a failure.
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-$PWD/target}

missing() {
    echo "$1: the Python package is not tested"
    test "${CI:-}" != true
    exit
}

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2> /dev/null || missing 'Python 3.9 or later is not installed'
environment=$target/python-$1
fresh() { "$python" -m venv "$environment" 2> /dev/null || missing 'Python has no venv'; }

case $1 in
wheel)
    fresh
    cargo build --release
    "$environment/bin/pip" install --quiet --force-reinstall '.[test]' ||
        missing 'the package or what its tests need cannot be installed'
    export PHASELINK=$target/release/phaselink
    ;;
quick)
    if ! "$environment/bin/python" -c 'import jsonschema, nanoarrow, numpy, pandas, pytest, simpy' 2> /dev/null; then
        fresh
        # What is not imported need not be compiled: in half the time.
        "$environment/bin/pip" install --quiet --no-compile pytest numpy pandas nanoarrow jsonschema simpy ||
            missing 'what the tests need cannot be installed'
    fi
    # Where only this crate is tested, nobody has built the program, or not since its sources have changed.
    if ! test -x "$PHASELINK" || test -n "$(find crates/core crates/studies crates/cli crates/phaselink -name '*.rs' -newer "$PHASELINK")"; then
        cargo build --quiet -p phaselink
    fi
    export PYTHONPATH=$environment/package
    rm -rf "$PYTHONPATH"
    mkdir -p "$PYTHONPATH"
    cp -r crates/python/python/phaselink "$PYTHONPATH"
    cp "$LIBRARY" "$PYTHONPATH/phaselink/_native.abi3.so"
    ;;
bench)
    cargo build --quiet --release -p phaselink-python
    export PYTHONPATH=$target/python-bench
    rm -rf "$PYTHONPATH"
    mkdir -p "$PYTHONPATH"
    cp -r crates/python/python/phaselink "$PYTHONPATH"
    cp "$target/release/lib_native.so" "$PYTHONPATH/phaselink/_native.abi3.so"
    exec "$python" crates/python/bench.py
    ;;
*)
    echo 'wheel, quick or bench' >&2
    exit 2
    ;;
esac
# Compiled once, beside the environment and not in the sources.
PYTHONDONTWRITEBYTECODE='' PYTHONPYCACHEPREFIX=$environment/bytecode "$environment/bin/python" -m pytest --quiet -p no:cacheprovider crates/python/tests
