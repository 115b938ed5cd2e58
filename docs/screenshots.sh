#!/usr/bin/env bash
# The pictures of docs/reports.md: each page made by the program, and taken by Chromium. `make screenshots` runs this; look at
# what has changed.
#
#   screenshots.sh PROGRAM
#
# What is missing for it is said; with CI=true that is a failure.
set -eu
program=$(realpath "$1")
cd "$(dirname "$0")/.."
images=$PWD/docs/images
pages=$(realpath "${CARGO_TARGET_DIR:-target}")/screenshots
chromium=${CHROMIUM:-chromium}

if ! "$chromium" --version > /dev/null 2>&1; then
    echo 'Chromium is not installed: the pictures are NOT renewed'
    test "${CI:-}" != true
    exit
fi
mkdir -p "$images" "$pages"

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
