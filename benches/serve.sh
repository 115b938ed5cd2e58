#!/bin/sh
# How fast a served drive completes requests over NBD with timing off, beside nbdkit's memory plugin, both measured by fio in
# one run, in pairs that follow each other. Both have been written whole before: memory that was never written costs no copy.
# The budget at depth 1 is 1.9 times nbdkit's rate for 512 bytes and 4 KiB, and its rate for 128 KiB. At depth 32 fio's own
# processor is busy all the time, whichever server answers. So fio keeps no map of what it has read, and no clock. Needs fio
# with its nbd engine, and nbdkit (Debian: fio, nbdkit).
# Usage: benches/serve.sh [PROGRAM] [ROUNDS]
set -eu
program=${1:-target/dist/phaselink}
rounds=${2:-5}
command -v "$program" > /dev/null || { echo "$program is not there: make build, or say where it is"; exit 1; }
here=$(mktemp -d)
trap 'rm -rf "$here"' EXIT
for needed in fio nbdkit; do
    command -v "$needed" > /dev/null || { echo "$needed is not installed: nothing measured"; exit 0; }
done

# Servers on one processor and clients on another, where there are two.
if [ "$(nproc)" -gt 1 ]; then server='taskset -c 0'; client='taskset -c 1'; else server=; client=; fi

# Requests per second of random reads or writes (fields 8 and 49 of fio's terse output): operation, block size, depth.
fio="$client fio --ioengine=nbd --size=512m --uri=\"\$uri\" --output-format=terse --terse-version=3"
load="$fio --name=fill --rw=write --bs=1m --iodepth=4 > /dev/null
$fio --name=load --rw=randOPERATION --bs=BLOCK --iodepth=DEPTH --time_based --runtime=2 --norandommap --gtod_reduce=1 |
    grep '^3;' | cut -d';' -fFIELD"

measure() { # system, operation, block size, depth, --no-sr or nothing
    case $2 in read) field=8 ;; write) field=49 ;; esac
    script=$(echo "$load" | sed "s/OPERATION/$2/; s/BLOCK/$3/; s/DEPTH/$4/; s/FIELD/$field/")
    case $1 in
        nbdkit) rm -f "$here/nbdkit.sock"; $server nbdkit $5 --unix "$here/nbdkit.sock" memory 512m --run "$script" ;;
        phaselink) $server "$program" serve nvme-polled --timing off --set media.capacity_mib=512 $5 \
            --nbd "nbd+unix:///?socket=$here/phaselink.sock" --run "$script" --json="$here/result" \
            2> /dev/null | head -1 ;;
    esac
}

median() { sort -n | awk '{ line[NR] = $1 } END { print line[int((NR + 1) / 2)] }'; }

row() { # operation, block size, depth, kind of replies, --no-sr or nothing
    : > "$here/nbdkit"; : > "$here/phaselink"; : > "$here/ratios"
    for _ in $(seq "$rounds"); do
        theirs=$(measure nbdkit "$1" "$2" "$3" "$5"); ours=$(measure phaselink "$1" "$2" "$3" "$5")
        echo "$theirs" >> "$here/nbdkit"; echo "$ours" >> "$here/phaselink"
        awk "BEGIN { printf \"%.2f\\n\", $ours / $theirs }" >> "$here/ratios"
    done
    printf '%-6s %-8s %5s  %-10s  %14s  %14s  %5s\n' "$1" "$2" "$3" "$4" \
        "$(median < "$here/nbdkit")" "$(median < "$here/phaselink")" "$(median < "$here/ratios")"
}

printf '%-6s %-8s %5s  %-10s  %14s  %14s  %5s\n' '' block depth replies 'nbdkit IOPS' 'phaselink IOPS' ratio
for block in 512 4096 131072; do
    # Reads of both systems with structured replies, which is what both do unasked, and with simple ones.
    for depth in 1 32; do
        row read $block $depth structured ''
        row read $block $depth simple --no-sr
        row write $block $depth simple ''
    done
done
