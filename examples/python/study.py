"""A study on one page: what each interface makes of one memory, in a sentence and in two drawings.

    python study.py [PICTURE.svg]
"""

# needs: matplotlib

import sys

from matplotlib import pyplot

import phaselink

DRIVES = ["nvme", "nvme-polled", "dc-express"]

compared = phaselink.compare(DRIVES, bs=["512", "4k"], iodepth=1, numjobs=1, ios=2000)
swept = phaselink.sweep(None, {"job.iodepth": [1, 2, 4, 8, 16, 32], "drive": DRIVES}, bs="512", number_ios=2000, columns=["iops"])
print(compared.findings[0]["sentence"])

figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), layout="constrained")
compared.plot("mean_ns", ax=left)
swept.plot("iops", ax=right)
right.set_xscale("log", base=2)
right.xaxis.set_major_formatter("{x:.0f}")
if len(sys.argv) > 1:
    figure.savefig(sys.argv[1])
