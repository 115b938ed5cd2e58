#!/usr/bin/env bash
# The Python package and its tests.
#
#   test.sh wheel   build and install it as a user does, into a fresh environment, and test it there: `make python`
#   test.sh quick   lay out what `cargo build` has built, and test that: part of `make test`
#
# What is missing for it (Python 3.9, a package index) is said; with CI=true that is a failure.
set -eu
cd "$(dirname "$0")/../.."
target=${CARGO_TARGET_DIR:-target}

missing() {
    echo "$1: the Python package is not tested"
    test "${CI:-}" != true
    exit
}

python=${PYTHON:-python3}
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 9))' 2> /dev/null || missing 'Python 3.9 or later is not installed'
environment=$target/python-$1
"$python" -m venv "$environment" 2> /dev/null || missing 'Python has no venv'
bin=$environment/bin

case $1 in
wheel)
    cargo build --release
    "$bin/pip" install --quiet --force-reinstall '.[test]' || missing 'the package or what its tests need cannot be installed'
    program=$target/release/phaselink
    ;;
quick)
    "$bin/pip" install --quiet pytest numpy pandas || missing 'what the tests need cannot be installed'
    cargo build -p phaselink -p phaselink-python
    rm -rf "$environment/package"
    mkdir -p "$environment/package"
    cp -r crates/python/python/phaselink "$environment/package"
    for library in "$target"/debug/lib_native.so "$target"/debug/lib_native.dylib; do
        test ! -e "$library" || cp "$library" "$environment/package/phaselink/_native.abi3.so"
    done
    export PYTHONPATH=$PWD/$environment/package
    case $environment in /*) PYTHONPATH=$environment/package ;; esac
    program=$target/debug/phaselink
    ;;
*)
    echo 'wheel or quick' >&2
    exit 2
    ;;
esac
PHASELINK=$program PYTHONDONTWRITEBYTECODE=1 "$bin/python" -m pytest --quiet -p no:cacheprovider crates/python/tests
