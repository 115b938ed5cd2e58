import pytest

import phaselink

AXES = {"link.lanes": [1, 2, 4, 8], "media.banks_per_channel": [1, 2, 4, 8], "media.channels": [1, 2]}
PRICES = {"link.lanes": 2.0, "media.banks_per_channel": 1.0, "media.channels": {1: 0, 2: 5}}
JOB = {"bs": "4k", "iodepth": 16, "number_ios": 1000}
MEET = {"iops": (300_000, None), "p99_ns": (None, 80_000)}


def cheapest_of_the_grid():
    rows = [row for row in phaselink.sweep("nvme-polled", AXES, columns=list(MEET), **JOB)]
    meeting = [row for row in rows if row["iops"] >= 300_000 and row["p99_ns"] <= 80_000]
    costs = [sum(PRICES[key][row[key]] if key == "media.channels" else PRICES[key] * row[key] for key in AXES) for row in meeting]
    assert 0 < len(meeting) < len(rows)
    return min(costs)


def test_the_cheapest_point_is_found_with_few_runs():
    found = phaselink.optimize("nvme-polled", AXES, meet=MEET, cost=PRICES, **JOB)
    assert found.cost == cheapest_of_the_grid()
    assert found.points == 32 and found.runs + found.ruled_out < 32
    assert found.best["meets"] and found.drive.link.lanes == found.best["link.lanes"]
    costs = [row["cost"] for row in found.rows()]
    assert costs == sorted(costs)


def test_a_cost_can_be_a_function_of_the_drive():
    def cost(drive):
        return sum(PRICES[key][drive[key]] if key == "media.channels" else PRICES[key] * drive[key] for key in AXES)

    by_function = phaselink.optimize("nvme-polled", AXES, meet=MEET, cost=cost, **JOB)
    assert by_function.rows() == phaselink.optimize("nvme-polled", AXES, meet=MEET, cost=PRICES, **JOB).rows()


def test_what_nothing_meets_is_found_out_and_mostly_without_a_run():
    found = phaselink.optimize("nvme-polled", AXES, meet={"iops": (10**9, None)}, cost=PRICES, **JOB)
    assert found.best is None and found.drive is None and found.cost is None
    assert found.ruled_out == 32 and found.runs == 0


def test_what_a_target_asks_for_is_checked():
    with pytest.raises(phaselink.InputError, match="no figure `iop`"):
        phaselink.optimize("nvme", AXES, meet={"iop": (1, None)}, cost=PRICES, **JOB)
    with pytest.raises(ValueError, match="is to meet nothing"):
        phaselink.optimize("nvme", AXES, meet={"iops": (None, None)}, cost=PRICES, **JOB)
