#!/usr/bin/env bash
# The pictures of README.md, docs/reports.md, docs/flash-as-memory.md and docs/python.md: drawings of the program's reports, whole and without pixels, which
# follow the light or dark scheme of whoever shows them. `make screenshots` runs this; look at what has changed.
#
#   screenshots.sh PROGRAM
set -eu
program=$(realpath "$1")
cd "$(dirname "$0")/../../.."
images=$PWD/crates/cli/docs/images
pages=$(realpath "${CARGO_TARGET_DIR:-target}")/screenshots

# drawing NAME DRAWING COMMAND...: one drawing of the page that a command writes, as the SVG file beside it. A result that is off is
# drawn, too.
drawing() {
    name=$1 drawing=$2
    shift 2
    rm -rf "${pages:?}/$name"
    "$program" "$@" --report "$pages/$name" > /dev/null || test $? -eq 1
    cp "$pages/$name"/$drawing "$images/$name.svg"
    echo "docs/images/$name.svg: $(wc -c < "$images/$name.svg") bytes"
}

mkdir -p "$images" "$pages"
drawing drives-of-2026 '1-*.svg' compare 2026 --bs 4k --iodepth 1 --numjobs 1
drawing one-request '*-packets.svg' run nvme --bs 4k --number-ios 100
drawing run '*-stages-of-job-read.svg' run nvme --iodepth 8 --number-ios 20000
drawing compare '1-*.svg' compare nvme nvme-polled dc-express --bs 512,1k,2k,4k,8k,16k --iodepth 1 --ios 2000
drawing sweep '1-*.svg' sweep examples/lanes-and-latency.sweep.toml --state "$pages/sweep.state.jsonl"
drawing vector-search '1-*.svg' sweep examples/vector-search.sweep.toml --state "$pages/search.state.jsonl"
drawing break-even '2-*.svg' breakeven slc-cpu
drawing inference '1-*.svg' kvcache tlc-gen5 optane-p5800x --drives-per-host 4 --duration 600 --host-memory 256g --windows 4
drawing what-if '1-*.svg' whatif --trace examples/recordings/sqlite.iolog.gz --recorded-on instant
drawing gpu-storage '1-*.svg' sweep examples/gpu-storage.sweep.toml --state "$pages/gpu-storage.state.jsonl"
drawing flash-as-memory '1-*.svg' sweep examples/cxl-cache.sweep.toml --state "$pages/flash-as-memory.state.jsonl"
drawing dma '1-*.svg' dma --transfers 2000
drawing reproduce '*-published-ones.svg' reproduce dc-express-fast14

# The picture of docs/python.md, by matplotlib, in colours that can be read on light and on dark pages.
python=$(realpath "${CARGO_TARGET_DIR:-target}")/python-wheel/bin/python
if "$python" -c 'import matplotlib, phaselink' 2> /dev/null; then
    {
        for key in text.color axes.labelcolor axes.edgecolor xtick.color ytick.color legend.labelcolor; do echo "$key: 868d94"; done
        printf '%s\n' 'legend.framealpha: 0' 'savefig.transparent: True' 'svg.fonttype: none' 'svg.hashsalt: phaselink'
    } > "$pages/matplotlibrc"
    MATPLOTLIBRC=$pages/matplotlibrc MPLBACKEND=agg SOURCE_DATE_EPOCH=0 "$python" examples/python/study.py "$images/python-study.svg" > /dev/null
    echo "docs/images/python-study.svg: $(wc -c < "$images/python-study.svg") bytes"
else
    echo 'docs/images/python-study.svg: NOT renewed, for there is no package with matplotlib (make python)'
fi
