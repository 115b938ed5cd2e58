#!/bin/sh
# How fast a served drive answers with timing off, beside nbdkit's memory plugin, both measured by fio in one run.
# The budget is twice nbdkit's rate; what fio's own processor allows is less in some rows: it is busy all the time at depth
# 32, whichever server answers. So fio keeps no map of what it has read, and no clock. Needs fio with its nbd engine, and
# nbdkit (Debian: fio, nbdkit).
# Usage: benches/serve.sh [PROGRAM] [ROUNDS]
set -eu
program=${1:-target/dist/phaselink}
rounds=${2:-3}
command -v "$program" > /dev/null || { echo "$program is not there: make build, or say where it is"; exit 1; }
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
for needed in fio nbdkit; do
    command -v "$needed" > /dev/null || { echo "$needed is not installed: nothing measured"; exit 0; }
done

# Servers on one processor and clients on another, where there are two.
if [ "$(nproc)" -gt 1 ]; then server='taskset -c 0'; client='taskset -c 1'; else server=; client=; fi

# Requests per second of random reads: address, block size, depth.
load="$client fio --name=load --ioengine=nbd --rw=randread --size=512m --time_based --runtime=2 --output-format=terse"
load="$load --norandommap --gtod_reduce=1 --terse-version=3 --uri=\"\$uri\" --bs=BLOCK --iodepth=DEPTH | grep '^3;' | cut -d';' -f8"

measure() { # system, block size, depth, --no-sr or nothing
    script=$(echo "$load" | sed "s/BLOCK/$2/; s/DEPTH/$3/")
    case $1 in
        nbdkit) rm -f "$here/nbdkit.sock"; $server nbdkit $4 --unix "$here/nbdkit.sock" memory 512m --run "$script" ;;
        phaselink) $server "$program" serve nvme-polled --timing off --set media.capacity_mib=512 $4 \
            --nbd "nbd+unix:///?socket=$here/phaselink.sock" --run "$script" --json="$here/result" \
            2> /dev/null | head -1 ;;
    esac
}

median() { sort -n | awk '{ line[NR] = $1 } END { print line[int((NR + 1) / 2)] }'; }

row() { # block size, depth, kind of replies, --no-sr or nothing
    : > "$here/nbdkit"; : > "$here/phaselink"
    for _ in $(seq "$rounds"); do
        for system in nbdkit phaselink; do measure $system "$1" "$2" "$4" >> "$here/$system"; done
    done
    theirs=$(median < "$here/nbdkit"); ours=$(median < "$here/phaselink")
    printf '%-8s %5s  %-10s  %14s  %14s  %5s\n' "$1" "$2" "$3" "$theirs" "$ours" \
        "$(awk "BEGIN { printf \"%.2f\", $ours / $theirs }")"
}

# Both systems with structured replies, which is what both do unasked, and both with simple ones.
printf '%-8s %5s  %-10s  %14s  %14s  %5s\n' block depth replies 'nbdkit IOPS' 'phaselink IOPS' ratio
for block in 512 4096; do
    for depth in 1 32; do
        row $block $depth structured ''
        row $block $depth simple --no-sr
    done
done
