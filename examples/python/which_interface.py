"""What the interface adds to a memory of 50 to 400 ns, and how much of it is software."""

import phaselink

DRIVES = ["nvme", "nvme-polled", "dc-express", "cxl"]
READS_NS = [50, 100, 200, 400]

swept = phaselink.sweep(None, {"drive": DRIVES, "media.read_ns": READS_NS}, bs=512, number_ios=1000, columns=["mean_ns"])
for name in DRIVES:
    means_ns = [row["mean_ns"] for row in swept if row["drive"] == name]
    print(f"{name:12}", *(f"{mean_ns:8,.0f}" for mean_ns in means_ns), "ns")
    assert means_ns == sorted(means_ns)

result = phaselink.run("nvme", bs=512, number_ios=1000)
software_ns = sum(stage["mean_ns"] for stage in result.stages if stage["stage"] in ("fio", "system call", "block driver"))
print(f"software of nvme: {100 * software_ns / result.mean_ns:.0f} % of {result.mean_ns:,.0f} ns")
