"""What a call costs beside the simulation."""

import statistics
import time

import phaselink


def median_us(call, times):
    spans = []
    for _ in range(times):
        started = time.perf_counter()
        call()
        spans.append(time.perf_counter() - started)
    return statistics.median(spans) * 1e6


def test_a_call_of_run_costs_next_to_nothing():
    drive = phaselink.load("nvme")
    # A run of one request is all overhead, set-up of the machine included: 38 us in an optimised build on an idle core, and
    # this may be neither.
    one_us = median_us(lambda: phaselink.run(drive, number_ios=1).iops, 300)
    print(f"a run of one request takes {one_us:.1f} us")
    assert one_us < 1000


def test_the_package_is_there_at_once():
    import subprocess
    import sys

    call = "import time; t = time.perf_counter(); import phaselink; phaselink.load(); print(time.perf_counter() - t)"
    took_s = float(subprocess.run([sys.executable, "-c", call], capture_output=True, text=True, check=True).stdout)
    assert took_s < 2
