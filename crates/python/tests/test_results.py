import os
import signal
import subprocess
import sys
import threading
import time

import pytest

import phaselink

SMALL = {"bs": "4k", "iodepth": 4, "number_ios": 2000}


@pytest.fixture(scope="module")
def result():
    return phaselink.run("nvme", rw="randrw", **SMALL)


def test_figures_are_attributes_with_units_in_their_names(result):
    assert result.ios == 2000 and result.finished and result.seed == 1
    assert result.iops == pytest.approx(result.read_iops + result.write_iops)
    assert result.min_ns <= result.p50_ns <= result.p99_ns <= result.max_ns
    assert result.p99_99_ns is None
    for name in phaselink.figures():
        assert getattr(type(result), name).__doc__, f"{name} is explained"


def test_stages_sum_to_the_mean_latency(result):
    rows = {row["direction"]: row for row in result.rows()}
    for direction in ("read", "write"):
        sum_ns = sum(stage["mean_ns"] for stage in result.stages if stage["direction"] == direction)
        assert sum_ns == pytest.approx(rows[direction]["mean_ns"], rel=1e-12)


def test_histograms_are_arrays_that_hold_every_request(result):
    numpy = pytest.importorskip("numpy")
    longest_ns, count = result.histogram()
    assert longest_ns.dtype == numpy.float64 and count.dtype == numpy.uint64
    assert count.sum() == 2000 and (numpy.diff(longest_ns) > 0).all()
    assert longest_ns[-1] == result.max_ns
    reads, writes = (result.histogram(direction=direction)[1].sum() for direction in ("read", "write"))
    assert reads + writes == 2000
    assert result.percentile(50) == result.p50_ns
    with pytest.raises(ValueError):
        result.histogram("latency")
    with pytest.raises(ValueError):
        result.histogram(direction="both")


def test_results_become_tables_of_other_libraries(result):
    tables = [result, phaselink.compare(["nvme"], **{**SMALL, "bs": ["512", "4k"]}), phaselink.trace("nvme")]
    for table in tables:
        assert len(table) == len(table.rows()) > 0 and table[0] == next(iter(table))
        assert "<table>" in table._repr_html_() or "<pre>" in table._repr_html_()
        for library in ("pandas", "polars"):
            pytest.importorskip(library)
            frame = getattr(table, f"to_{library}")()
            assert list(frame.columns) == table.columns() and len(frame) == len(table)


def test_every_result_shows_itself_in_a_notebook(result):
    shown = [result, result.drive, phaselink.predict("nvme"), phaselink.trace("nvme"), phaselink.compare(ios=50)]
    for value in shown:
        html = value._repr_html_()
        assert html.startswith("<") and repr(value) and "object at" not in repr(value)


def test_the_page_with_plots_is_that_of_a_report(result):
    assert result.to_html().startswith("<!DOCTYPE html>")


def test_what_is_wrong_with_a_job_is_told_at_once():
    with pytest.raises(phaselink.InputError) as told:
        phaselink.run("nvme", iodpth=3, bs="x")
    assert len(told.value.problems) == 2 and "did you mean iodepth?" in str(told.value)
    with pytest.raises(phaselink.InputError, match="precision is 3"):
        phaselink.run("nvme", precision=3)
    with pytest.raises(phaselink.InputError, match="no such|cannot be read"):
        phaselink.run("nvme", read_iolog="missing.log")
    with pytest.raises(TypeError, match="not both"):
        phaselink.run("nvme", jobs="[a]\nbs=4k", bs="4k")


def test_other_threads_go_on_while_a_run_runs():
    done = threading.Event()

    def simulate():
        phaselink.run("nvme", number_ios=300_000)
        done.set()

    thread = threading.Thread(target=simulate)
    thread.start()
    longest_s, last = 0.0, time.perf_counter()
    while not done.is_set():
        now = time.perf_counter()
        longest_s, last = max(longest_s, now - last), now
    thread.join()
    # Held all the time, the interpreter would be away for as long as the run takes: a second or so.
    assert longest_s < 0.25


INTERRUPTED = """
import phaselink
try:
    {call}
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.skipif(os.name != "posix", reason="signals of POSIX")
@pytest.mark.parametrize(
    "call",
    [
        "print('ready', flush=True); phaselink.run('nvme', number_ios=10**9)",
        "print('ready', flush=True); phaselink.run('nvme', precision='0.01%', number_ios=10**9)",
        "print('ready', flush=True); phaselink.compare(['nvme'], ios=10**9)",
        "print('ready', flush=True); phaselink.sweep('nvme', {'link.lanes': [4, 8]}, number_ios=10**9)",
    ],
)
def test_ctrl_c_ends_what_runs_soon(call):
    # Whoever starts the tests in the background may have it ignored, and Python then leaves it so.
    listening = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    code = listening + INTERRUPTED.format(call=call)
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as python:
        try:
            assert python.stdout.readline() == "ready\n"
            time.sleep(0.5)
            python.send_signal(signal.SIGINT)
            assert python.communicate(timeout=30)[0] == "interrupted\n"
        finally:
            python.kill()
