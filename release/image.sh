#!/usr/bin/env bash
# The container image, from the static programs of the archives, for each processor that has one.
#
#   image.sh ARCHIVES NAME VERSION          build NAME:VERSION
#   image.sh ARCHIVES NAME VERSION push     and push it
set -eu
archives=$(realpath "$1") name=$2 version=$3 what=${4:-build}
here=$(realpath "$(dirname "$0")")
buildah manifest rm "$name:$version" > /dev/null 2>&1 || true
buildah manifest create "$name:$version" > /dev/null
for pair in x86_64:amd64 aarch64:arm64; do
    archive=$archives/phaselink-$version-${pair%:*}-unknown-linux-musl.tar.gz
    test -e "$archive" || continue
    folder=$(mktemp -d)
    tar -C "$folder" --strip-components=1 -xzf "$archive"
    buildah build --quiet --platform "linux/${pair#*:}" --manifest "$name:$version" -f "$here/Containerfile" "$folder" > /dev/null
    rm -rf "$folder"
done
test "$what" != push || buildah manifest push --all "$name:$version" "docker://$name:$version"
