#!/usr/bin/env bash
# The pictures of README.md and docs/reports.md: each made by the program; pages are taken by Chromium. `make screenshots` runs
# this; look at what has changed.
#
#   screenshots.sh PROGRAM
#
# What is missing for it is said; with CI=true that is a failure.
set -eu
program=$(realpath "$1")
cd "$(dirname "$0")/../../.."
images=$PWD/crates/cli/docs/images
pages=$(realpath "${CARGO_TARGET_DIR:-target}")/screenshots
chromium=${CHROMIUM:-chromium}

# drawing NAME DRAWING COMMAND...: one drawing of the page that a command writes, as the SVG file beside it.
drawing() {
    name=$1 drawing=$2
    shift 2
    "$program" "$@" --report "$pages/$name" > /dev/null
    cp "$pages/$name"/$drawing "$images/$name.svg"
    echo "docs/images/$name.svg: $(wc -c < "$images/$name.svg") bytes"
}

mkdir -p "$images" "$pages"
drawing drives-of-2026 '1-*.svg' compare 2026 --bs 4k --iodepth 1 --numjobs 1
drawing one-request '*-packets.svg' run nvme --bs 4k --number-ios 100

if ! "$chromium" --version > /dev/null 2>&1; then
    echo 'Chromium is not installed: the pictures are NOT renewed'
    test "${CI:-}" != true
    exit
fi
# picture NAME HEIGHT COMMAND...: the first so many pixels of the page that a command writes. A result that is off is drawn, too.
picture() {
    name=$1 height=$2
    shift 2
    "$program" "$@" --report "$pages/$name" > /dev/null || test $? -eq 1
    "$chromium" --headless --no-sandbox --disable-gpu --hide-scrollbars --force-color-profile=srgb \
        --window-size="1000,$height" --screenshot="$images/$name.png" "file://$pages/$name/index.html" > /dev/null 2>&1
    echo "docs/images/$name.png: $(wc -c < "$images/$name.png") bytes"
}

picture run 980 run nvme --iodepth 8 --number-ios 20000
picture compare 900 compare nvme nvme-polled dc-express --bs 512,1k,2k,4k,8k,16k --iodepth 1 --ios 2000
picture sweep 560 sweep examples/lanes-and-latency.sweep.toml --state "$pages/sweep.state.jsonl"
picture dma 560 dma --transfers 2000
picture reproduce 1080 reproduce dc-express-fast14
