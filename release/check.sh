#!/usr/bin/env bash
# Rehearse a release: everything up to the commands that publish. One line for each artefact says what it is, how large, and how it was
# tried. What is missing on this machine is said as `not checked`, and counts as such.
#
#   check.sh            all of it: some minutes more than a build of each target
#   check.sh PART...    only these: crates sdist wheel wheels binaries installer image targets workflows site wasm
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
out=$target/release-check
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -1)
parts=${*:-crates sdist wheel wheels binaries installer image targets workflows site wasm}
# Packages that are not published: two are parts of other artefacts.
private=(--exclude phaselink-python --exclude phaselink-wasm --exclude phaselink-house --exclude phaselink-fuzz)
first_table=(compare 2026 --bs 4k --iodepth 1 --numjobs 1)
# Largest program, without symbols.
bytes_max=12000000
log=$out/log.txt
mkdir -p "$out"
: > "$log"
unchecked=0

line() { printf '%-40s %12s  %s\n' "$1" "$2" "$3"; }
grouped() { sed ':again; s/\B[0-9]\{3\}\>/,&/; t again'; }
size() { if test -e "$1"; then stat -c %s "$1" | grouped; else echo -; fi; }
not_checked() { unchecked=$((unchecked + 1)) && line "$1" - "not checked: $2"; }
has() { command -v "$1" > /dev/null 2>&1; }
has_target() { test -d "$(rustc --print sysroot)/lib/rustlib/$1"; }
failed() { tail -30 "$log" >&2 && echo "$1: failed ($log has all)" >&2 && exit 1; }
quietly() { "$@" >> "$log" 2>&1 || failed "$*"; }

# timed COMMAND...: seconds until the first table is there, in `seconds`.
timed() {
    local began
    began=$(date +%s%N)
    "$@" > "$out/table.txt" 2>> "$log" || failed "$*"
    grep -q optane-p5800x "$out/table.txt" || failed "$*: no table"
    seconds=$(printf '%d.%03d' $((($(date +%s%N) - began) / 1000000000)) $((($(date +%s%N) - began) / 1000000 % 1000)))
}

# A workspace of the unpacked crates, outside the repository.
crates() {
    local folder=$out/crates name
    quietly cargo package --workspace "${private[@]}" --no-verify --allow-dirty
    rm -rf "$folder" && mkdir -p "$folder"
    for name in phaselink-ring phaselink-client phaselink-core phaselink-studies phaselink-embed phaselink-embed-c phaselink-serve phaselink-cli phaselink; do
        tar -C "$folder" -xzf "$target/package/$name-$version.crate"
        line "crate $name" "$(size "$target/package/$name-$version.crate")" 'cargo package'
    done
    {
        echo "[workspace]" && echo 'resolver = "3"' && echo 'members = ["*"]' && echo '[patch.crates-io]'
        for name in ring client core studies embed embed-c serve cli; do echo "phaselink-$name = { path = \"phaselink-$name-$version\" }"; done
        # The profiles of the repository, so that dependencies are compiled once.
        sed -n '/^\[profile/,$p' Cargo.toml | grep -v '^phaselink-\(python\|wasm\)'
    } > "$folder/Cargo.toml"
    cp Cargo.lock "$folder"
    if cargo publish --workspace "${private[@]}" --no-verify --dry-run --allow-dirty >> "$log" 2>&1; then
        line 'crates' - 'cargo publish --dry-run'
    elif test "${CI:-}" = true; then
        failed 'cargo publish --dry-run'
    else
        not_checked 'cargo publish' 'the registry cannot be reached'
    fi
    (cd "$folder" && CARGO_TARGET_DIR=$target quietly cargo check --offline --workspace --all-targets)
    line 'crates, unpacked' - 'cargo check --all-targets outside the repository'
    if test "${CI:-}" = true; then
        # Tables that tests compare are sought from the top of the workspace, which is not that of the repository.
        (cd "$folder" && CARGO_WORKSPACE_DIR=$folder CARGO_TARGET_DIR=$target quietly cargo test --offline --workspace)
        line 'crates, unpacked' - 'their tests pass'
        (cd "$folder" && quietly cargo install --offline --debug --path "phaselink-$version" --root "$out/installed")
        timed "$out/installed/bin/phaselink" "${first_table[@]}"
        line 'crate phaselink, installed' "$(size "$out/installed/bin/phaselink")" "first table in $seconds s"
    fi
}

# python_tool NAME PACKAGE: a tool of the package index, in an environment whose programs come first.
PATH=$out/tools/bin:$PATH
python_tool() {
    has "$1" && return
    test -x "$out/tools/bin/python3" || python3 -m venv "$out/tools" >> "$log" 2>&1
    "$out/tools/bin/pip" install --quiet "$2" >> "$log" 2>&1
}

sdist() {
    python_tool maturin 'maturin>=1.8,<2' || { not_checked sdist 'maturin cannot be had' && return; }
    rm -f "$out"/sdist/*
    quietly maturin sdist --out "$out/sdist"
    local file=$out/sdist/phaselink-$version.tar.gz folder
    folder=$(mktemp -d)
    tar -C "$folder" -xzf "$file"
    # Metadata need every manifest and every path that they name.
    (cd "$folder/phaselink-$version" && cargo metadata --offline --format-version 1 > /dev/null 2>> "$log" || failed "the sdist does not resolve")
    line "sdist phaselink-$version.tar.gz" "$(size "$file")" 'unpacked; all manifests resolve'
    if test "${CI:-}" = true; then
        (cd "$folder/phaselink-$version" && CARGO_TARGET_DIR=$target quietly maturin build --offline --out "$out/from-sdist")
        line 'wheel from the sdist' "$(size "$(ls "$out"/from-sdist/*.whl)")" 'built outside the repository'
    fi
    rm -rf "$folder"
}

wheel() {
    python_tool maturin 'maturin>=1.8,<2' || { not_checked wheel 'maturin cannot be had' && return; }
    rm -f "$out"/wheels/*
    local zig=() file
    python_tool cargo-zigbuild cargo-zigbuild || true
    if python3 -m ziglang version >> "$log" 2>&1; then
        zig=(--zig --compatibility manylinux2014)
    fi
    quietly maturin build --release --out "$out/wheels" "${zig[@]}"
    file=$(ls "$out"/wheels/*.whl)
    rm -rf "$out/fresh"
    quietly python3 -m venv "$out/fresh"
    local began
    began=$(date +%s)
    quietly "$out/fresh/bin/pip" install --no-index --no-deps "$file"
    timed "$out/fresh/bin/phaselink" "${first_table[@]}"
    "$out/fresh/bin/python" -m phaselink --version | grep -q "$version" || failed 'python -m phaselink'
    test $(($(date +%s) - began)) -le 10 || failed 'more than ten seconds from the wheel to the first table'
    line "wheel $(basename "$file" .whl | cut -d- -f3-)" "$(size "$file")" "fresh environment, first table in $seconds s, $(($(date +%s) - began)) s with pip"
    test ${#zig[@]} -gt 0 || not_checked 'wheel manylinux2014' 'ziglang is not installed (pip install ziglang)'
    by_uvx "$file"
}

# by_uvx WHEEL: the command of the wheel as `uvx phaselink` runs it, with nothing in the cache and nothing from the network.
by_uvx() {
    python_tool uvx uv || { not_checked 'wheel by uvx' 'uv is not installed (pip install uv)' && return; }
    rm -rf "$out/uv-cache"
    local python
    python=$(python3 -c 'import sys; print(sys.executable)')
    UV_CACHE_DIR=$out/uv-cache timed uvx --quiet --offline --no-config --python "$python" --from "$1" phaselink "${first_table[@]}"
    line 'wheel by uvx' "$(size "$1")" "uvx --from WHEEL phaselink compare, empty cache: first table in $seconds s"
}

# wheels: those of other systems, which are built here and whose tags are audited, but which this machine's Python cannot load.
wheels() {
    if ! python_tool maturin 'maturin>=1.8,<2' || ! python3 -m ziglang version >> "$log" 2>&1; then
        not_checked 'wheels of other systems' 'maturin and ziglang are not installed (pip install maturin ziglang)'
        return
    fi
    rm -f "$out"/wheels-of-others/*
    other_wheel x86_64-unknown-linux-musl musllinux_1_2
    other_wheel aarch64-unknown-linux-musl musllinux_1_2
    other_wheel aarch64-unknown-linux-gnu manylinux2014
    # An interpreter without the global lock takes no wheel of the stable interface.
    if has python3.14t; then
        other_wheel x86_64-unknown-linux-gnu manylinux2014 python3.14t
    else
        other_wheel x86_64-unknown-linux-musl musllinux_1_2 python3.14t
    fi
}

# other_wheel TARGET COMPATIBILITY [INTERPRETER]
other_wheel() {
    local triple=$1 tag=$2 interpreter=${3:-} name file folder=$out/wheels-of-others/$1${3:-}
    name="wheel ${interpreter:-abi3} $tag ${triple%%-*}"
    has_target "$triple" || { not_checked "$name" "rustup target add $triple" && return; }
    rm -rf "$folder"
    quietly maturin build --release --zig --target "$triple" --compatibility "$tag" --out "$folder" ${interpreter:+--interpreter "$interpreter"}
    file=$(ls "$folder"/*.whl)
    unzip -l "$file" > "$out/table.txt" 2>> "$log" || python3 -m zipfile -l "$file" > "$out/table.txt"
    grep -q '_native.*\.so' "$out/table.txt" || failed "$file: no module"
    line "wheel $(basename "$file" .whl | cut -d- -f3-)" "$(size "$file")" 'built and audited, not run'
}

# binary TARGET RUNNER...: the static program and its archive.
binary() {
    local triple=$1 program part
    shift
    has_target "$triple" || { not_checked "program $triple" "rustup target add $triple" && return; }
    if python_tool cargo-zigbuild cargo-zigbuild; then
        quietly cargo zigbuild --profile dist -p phaselink --target "$triple"
    elif test "$triple" = x86_64-unknown-linux-musl && has musl-gcc; then
        quietly cargo build --profile dist -p phaselink --target "$triple"
    else
        not_checked "program $triple" 'cargo-zigbuild is not installed (pip install cargo-zigbuild ziglang)'
        return
    fi
    program=$out/bin/$triple/phaselink
    mkdir -p "$out/bin/$triple"
    cp "$target/$triple/dist/phaselink" "$program"
    file "$program" 2>> "$log" | grep -q 'statically linked\|static-pie' || ! has file || failed "$triple: not static"
    test "$(stat -c %s "$program")" -le "$bytes_max" || failed "$triple: more than $bytes_max bytes"
    if test $# -gt 0 && ! has "$1"; then
        not_checked "program $triple" "$1 is not installed: built, not run; $(size "$program") bytes"
        return
    fi
    timed "$@" "$program" "${first_table[@]}"
    line "program $triple" "$(size "$program")" "first table in $seconds s${1:+ by $1}"
    quietly release/archive.sh "$triple" "$out/bin/$triple" "$out/archives" "$@"
    local archive=$out/archives/phaselink-$version-$triple.tar.gz
    tar -tzf "$archive" > "$out/table.txt"
    for part in man/phaselink-compare.1 completions/phaselink.bash LICENSE; do grep -q "$part" "$out/table.txt" || failed "$archive: $part"; done
    line "archive $triple" "$(size "$archive")" "man pages, completions: $(wc -l < "$out/table.txt") files"
}

binaries() {
    binary x86_64-unknown-linux-musl
    binary aarch64-unknown-linux-musl qemu-aarch64-static
}

# The installer with the archives that were built, from a server that answers as the host of releases does.
installer() {
    local triple served=$out/served port server archive
    triple=$(uname -m)-unknown-linux-musl
    archive=$out/archives/phaselink-$version-$triple.tar.gz
    test -e "$archive" || { not_checked installer "there is no archive for $triple" && return; }
    has curl || { not_checked installer 'curl is not installed' && return; }
    rm -rf "$served" "${out:?}/home"
    mkdir -p "$served/releases/download/v$version" "$out/home"
    cp "$archive" "$served/releases/download/v$version"
    (cd "$served/releases/download/v$version" && sha256sum -- *.tar.gz > SHA256SUMS)
    python3 release/served.py "$served" "v$version" > "$out/port.txt" 2>> "$log" &
    server=$!
    # shellcheck disable=SC2064 # The server of now.
    trap "kill $server 2> /dev/null || true" EXIT
    for _ in $(seq 100); do if test -s "$out/port.txt"; then break; fi; sleep 0.1; done
    port=$(cat "$out/port.txt")
    quietly env -u VERSION REPOSITORY="http://127.0.0.1:$port" PREFIX="$out/home" sh release/install.sh
    for part in bin/phaselink share/man/man1/phaselink-compare.1 share/bash-completion/completions/phaselink; do
        test -e "$out/home/$part" || failed "release/install.sh: no $part"
    done
    timed "$out/home/bin/phaselink" "${first_table[@]}"
    # An archive that is not what the checksums say is refused, and nothing is installed.
    echo >> "$served/releases/download/v$version/$(basename "$archive")"
    rm -rf "${out:?}/home"
    if REPOSITORY="http://127.0.0.1:$port" PREFIX="$out/home" sh release/install.sh >> "$log" 2>&1; then failed 'a wrong checksum is accepted'; fi
    test ! -e "$out/home/bin/phaselink" || failed 'a program with a wrong checksum is installed'
    kill "$server"
    trap - EXIT
    line installer "$(size release/install.sh)" "newest release from a local server, checksum, first table in $seconds s"
}

image() {
    has buildah || { not_checked 'container image' 'buildah is not installed' && return; }
    test -e "$out/archives/phaselink-$version-x86_64-unknown-linux-musl.tar.gz" || { not_checked 'container image' 'there is no static program' && return; }
    if ! release/image.sh "$out/archives" localhost/phaselink "$version" >> "$log" 2>&1; then
        not_checked 'container image' 'buildah may not build here'
        return
    fi
    local container
    container=$(buildah from --pull-never "localhost/phaselink:$version" 2>> "$log") || { not_checked 'container image' 'built; buildah may not run it here' && return; }
    if ! buildah run "$container" /phaselink --version >> "$log" 2>&1; then
        # Without a runtime of containers, the same root without one.
        export BUILDAH_ISOLATION=chroot
    fi
    if ! buildah run "$container" /phaselink --version >> "$log" 2>&1; then
        buildah rm "$container" >> "$log"
        not_checked 'container image' 'built; buildah may not run it here'
        return
    fi
    timed buildah run "$container" /phaselink "${first_table[@]}"
    buildah rm "$container" >> "$log"
    line 'container image' "$(size "$out/bin/x86_64-unknown-linux-musl/phaselink")" "from scratch, first table in $seconds s"
}

targets() {
    local triple
    for triple in aarch64-apple-darwin x86_64-apple-darwin x86_64-pc-windows-gnu x86_64-unknown-linux-musl aarch64-unknown-linux-musl; do
        has_target "$triple" || { not_checked "check of $triple" "rustup target add $triple" && continue; }
        quietly cargo check -p phaselink --target "$triple"
        line "check of $triple" - 'cargo check of the program'
    done
    for triple in aarch64-apple-darwin x86_64-pc-windows-gnu; do
        has_target "$triple" || { not_checked "check of the Python package, $triple" "rustup target add $triple" && continue; }
        PYO3_CROSS_PYTHON_VERSION=3.10 quietly cargo check -p phaselink-python --target "$triple"
        line "check of the package, $triple" - 'cargo check of the Python package'
    done
}

workflows() {
    has actionlint || { not_checked workflows 'actionlint is not installed' && return; }
    quietly actionlint .github/workflows/*.yml
    line workflows - "actionlint: $(find .github/workflows -name "*.yml" | wc -l) files"
}

site() {
    # The program of the archives is the fastest that there is, if this call has built it.
    local program
    program=$out/bin/$(uname -m)-unknown-linux-musl/phaselink
    if [[ " $parts " != *" binaries "* ]] || ! test -x "$program"; then
        quietly cargo build -p phaselink
        program=$target/debug/phaselink
    fi
    quietly release/site.sh "$program" "$target/site"
    grep -q '](http' "$target/site/llms.txt" || failed 'llms.txt'
    catalogue "$target/site/schemas/catalog.json"
    local part missing=
    for part in book explorer reports; do test -d "$target/site/$part" || missing="$missing $part"; done
    line site "$(du -sb "$target/site" | cut -f1 | grouped)" "$(find "$target/site" -type f | wc -l) files"
    test -z "$missing" || not_checked "site:$missing" 'cannot be made here'
}

# catalogue FILE: each entry has what SchemaStore's schema of catalogues requires, and the address of a schema beside it.
catalogue() {
    quietly python3 - "$1" <<'PYTHON'
import json, pathlib, sys
path = pathlib.Path(sys.argv[1])
catalogue = json.loads(path.read_text())
assert set(catalogue) == {"$schema", "version", "schemas"} and catalogue["schemas"], catalogue
patterns = []
for entry in catalogue["schemas"]:
    assert set(entry) == {"name", "description", "fileMatch", "url"}, entry
    assert entry["url"].startswith("https://"), entry
    assert json.loads((path.parent / entry["url"].rsplit("/", 1)[1]).read_text())["$id"] == entry["url"], entry
    patterns += entry["fileMatch"]
assert sorted(patterns) == ["*.drive.toml", "*.sweep.toml"], patterns
PYTHON
    line 'schema catalogue' "$(size "$1")" "in SchemaStore's form, each address that of a schema"
}

# The module may import nothing: then it reads no clock, no file and no random number of its surroundings.
wasm() {
    has node || { not_checked 'wasm module' 'node is not installed' && return; }
    has_target wasm32-unknown-unknown || { not_checked 'wasm module' 'rustup target add wasm32-unknown-unknown' && return; }
    quietly crates/wasm/explorer.sh build
    local imports
    imports=$(node -e 'const m = new WebAssembly.Module(require("fs").readFileSync(process.argv[1])); console.log(WebAssembly.Module.imports(m).length)' "$target/explorer.wasm")
    test "$imports" = 0 || failed "the module has $imports imports"
    line 'wasm module' "$(size "$target/explorer.wasm")" 'no imports'
}

cd "$root"
for part in $parts; do $part; done
echo
echo "release $version: everything that could be tried has passed; $unchecked not checked"
