"""How deep a queue has to be until a drive gives all it has: closed forms beside simulated points."""

import phaselink

DEPTHS = [1, 2, 4, 8, 16, 32]

predicted = phaselink.predict("nvme", bs="4k", iodepth=DEPTHS[-1])
print(f"closed form: {predicted.bottleneck} limit at {predicted.iops_max:,.0f} a second, from depth "
      f"{predicted.saturation_depth:.1f} on")

swept = phaselink.sweep("nvme", {"job.iodepth": DEPTHS}, number_ios=4000)
for row in swept:
    share = row["iops"] / predicted.iops_max
    print(f"depth {row['job.iodepth']:>2}: {row['iops']:>9,.0f} a second, p99 {row['p99_ns'] / 1e3:>6.1f} us  {'#' * round(40 * share)}")
    assert row["iops"] <= 1.0001 * predicted.iops_max
