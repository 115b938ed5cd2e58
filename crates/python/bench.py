"""Operations a second of embedded drives in Python: random reads of 4 KiB at depth 32 without bytes, in batches of 1,000.

    test.sh bench

The package has to reach half a million a second of processor time, the conversion of arguments and results included.
"""

import sys
import time

import phaselink

DRIVE = "nvme"
DEPTH = 32
BATCH = 1000
ROUNDS = 15
LEAST = 0.5e6


def batches(count):
    """Offsets of the reads, as a program would have them: an array for each batch."""
    offsets = [((place * 0x9E3779B97F4A7C15) % 2**64 >> 48) * 4096 for place in range(count)]
    try:
        import numpy

        offsets = numpy.array(offsets, dtype="u8")
    except ImportError:
        pass
    return [offsets[first : first + BATCH] for first in range(0, count, BATCH)]


def seconds(work, drive):
    start = time.process_time()
    for offsets in work:
        drive.batch("read", offsets, 4096, depth=DEPTH)
    return time.process_time() - start


def main():
    work = batches(200 * BATCH)
    drive = phaselink.embed(DRIVE, data=False)
    seconds(work[:20], drive)
    # Other programs on the machine make some rounds slow, and none fast.
    rate = len(work) * BATCH / min(seconds(work, drive) for _ in range(ROUNDS))
    print(f"Python: {rate / 1e3:.0f} k operations a second in batches of {BATCH} (at least {LEAST / 1e3:.0f} k)")
    sys.exit(rate < LEAST)


main()
