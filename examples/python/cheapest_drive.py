"""The cheapest drive that serves 600,000 random reads a second with a p99 below 80 us: exact, and with few runs."""

import phaselink

# Prices are anybody's own: for each unit of a key, or for each of its values.
PRICES = {
    "link.lanes": 1.5,
    "link.generation": {2: 0, 3: 4, 4: 9},
    "media.channels": 6.0,
    "media.banks_per_channel": 1.0,
}
AXES = {
    "link.lanes": [1, 2, 4, 8, 16],
    "link.generation": [2, 3, 4],
    "media.channels": [1, 2, 4],
    "media.banks_per_channel": [1, 2, 4, 8, 16],
}

found = phaselink.optimize(
    "nvme-polled",
    AXES,
    meet={"iops": (600_000, None), "p99_ns": (None, 80_000)},
    cost=PRICES,
    bs="4k",
    iodepth=8,
    numjobs=4,
    number_ios=2000,
    set={"media.read_ns": 2000},
)
print(found)
for row in found.rows()[-5:]:
    print({name: value for name, value in row.items()})
assert found.best and found.runs <= found.points / 10
