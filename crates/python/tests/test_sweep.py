import os
import signal
import time
from concurrent.futures import BrokenExecutor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import suppress
from multiprocessing import active_children, get_context
from pathlib import Path

import pytest

import phaselink

ROOT = Path(__file__).resolve().parents[3]

AXES = {"link.lanes": [1, 2, 4, 8], "job.bs": ["512", "4k"], "media.read_ns": [50, 110.5]}
JOB = {"number_ios": 200}


@pytest.fixture(scope="module")
def table():
    """The table by threads of this process."""
    return phaselink.sweep("dc-express", AXES, **JOB).to_json()


@pytest.fixture(autouse=True)
def no_worker_is_left():
    """A pool that breaks while it starts a worker never ends that one, and an interpreter waits for its children."""
    yield
    for child in active_children():
        child.terminate()
        child.join()


def spawned(workers=2):
    return ProcessPoolExecutor(workers, mp_context=get_context("spawn"))


def broken():
    """A pool that has noticed that its worker was killed. A pool of several may start another while it notices, which fails."""
    executor = spawned(workers=1)
    killed = executor.submit(os.getpid).result()
    with suppress(BrokenExecutor):
        executor.submit(os.kill, killed, signal.SIGKILL).result()
    return executor


def test_the_first_axis_varies_slowest_and_figures_are_those_of_runs():
    swept = phaselink.sweep("dc-express", AXES, seed=[1, 2], **JOB)
    assert len(swept) == 32
    assert [row["seed"] for row in swept[:3]] == [1, 2, 1]
    row = swept[-1]
    drive = phaselink.load("dc-express", link={"lanes": row["link.lanes"]}, media={"read_ns": row["media.read_ns"]})
    result = phaselink.run(drive, bs=row["job.bs"], seed=row["seed"], **JOB)
    assert (row["iops"], row["p50_ns"]) == (result.iops, result.p50_ns)
    numpy = pytest.importorskip("numpy")
    assert swept.column("iops").dtype == numpy.float64 and swept.column("server_w")[-1] == result.server_w


def test_axes_give_what_a_plan_gives():
    plan = 'drive = "nvme"\njob = { number_ios = 100 }\n[[axis]]\nkey = "link.lanes"\nvalues = [4, 8]\n'
    by_plan, by_axes = phaselink.sweep(plan), phaselink.sweep("nvme", {"link.lanes": [4, 8]}, number_ios=100)
    assert by_plan.rows() == by_axes.rows()


def test_keys_that_vary_together_are_one_axis():
    together = {("media.read_ns", "media.preset"): [(50, "dram"), (110, "pcm-lpddr2-nvm")]}
    swept = phaselink.sweep("nvme", together, **JOB)
    assert [(row["media.read_ns"], row["media.preset"]) for row in swept] == [(50, "dram"), (110, "pcm-lpddr2-nvm")]
    with pytest.raises(ValueError, match="2 keys and 1 value"):
        phaselink.sweep("nvme", {("media.read_ns", "media.preset"): [(50,)]}, **JOB)


def test_drives_of_ones_own_can_be_swept_and_be_an_axis():
    mine = phaselink.load("nvme", name="mine", media={"read_ns": 300})
    swept = phaselink.sweep(mine, {"link.lanes": [4, 8]}, **JOB)
    assert swept[1]["iops"] == phaselink.run(mine.set(link={"lanes": 8}), **JOB).iops
    drives = phaselink.sweep(None, {"drive": ["nvme", mine]}, **JOB)
    assert [row["drive"] for row in drives] == ["nvme", "mine"]
    assert drives[1]["iops"] == phaselink.run(mine, **JOB).iops


@pytest.mark.parametrize("batch", [None, 1, 3, 100])
def test_threads_and_processes_give_the_same_table(table, batch):
    with ThreadPoolExecutor(2) as threads, spawned() as processes:
        for executor in (threads, processes):
            assert phaselink.sweep("dc-express", AXES, executor=executor, batch=batch, **JOB).to_json() == table


def test_a_worker_that_is_killed_costs_nothing_but_time(table):
    made = []

    def make():
        made.append(spawned() if made else broken())
        return made[-1]

    assert phaselink.sweep("dc-express", AXES, executor=make, batch=1, **JOB).to_json() == table
    assert len(made) == 2


def test_what_a_broken_executor_leaves_runs_here(table):
    with pytest.warns(RuntimeWarning, match="the executor is broken"):
        assert phaselink.sweep("dc-express", AXES, executor=broken(), batch=1, **JOB).to_json() == table


class Failing:
    """An executor whose first tasks fail."""

    def __init__(self, failures):
        self.failures = failures

    def submit(self, function, *arguments):
        future = Future()
        if self.failures:
            self.failures -= 1
            future.set_exception(OSError("the worker has gone"))
        else:
            future.set_result(function(*arguments))
        return future


def test_a_batch_that_fails_is_given_out_again_but_not_for_ever(table):
    assert phaselink.sweep("dc-express", AXES, executor=Failing(2), batch=100, **JOB).to_json() == table
    with pytest.raises(OSError, match="the worker has gone"):
        phaselink.sweep("dc-express", AXES, executor=Failing(3), batch=100, **JOB)


def test_a_sweep_goes_on_where_it_was_stopped(table, tmp_path, program):
    state = tmp_path / "runs.jsonl"
    half = {**AXES, "link.lanes": [1, 2]}
    phaselink.sweep("dc-express", half, state=state, **JOB)
    kept = state.read_text()
    state.write_text(kept + '{"hash":"cut off')
    swept = phaselink.sweep("dc-express", AXES, executor=Failing(0), state=state, **JOB)
    assert swept.to_json() == table and state.read_text().startswith(kept)
    assert len(state.read_text().splitlines()) == 1 + 16
    # The program goes on from the same file.
    plan = tmp_path / "plan.toml"
    plan.write_text(
        'drive = "dc-express"\njob = { number_ios = 200 }\n'
        '[[axis]]\nkey = "link.lanes"\nvalues = [1, 2, 4, 8]\n[[axis]]\nkey = "job.bs"\nvalues = ["512", "4k"]\n'
        '[[axis]]\nkey = "media.read_ns"\nvalues = [50, 110.5]\n'
    )
    before = state.read_text()
    program("sweep", plan, "--state", state, "--json")
    assert state.read_text() == before


def test_a_file_that_is_no_state_is_left_as_it_is(tmp_path):
    path = tmp_path / "notes.txt"
    path.write_text("remember the milk\n")
    with pytest.raises(phaselink.InputError, match="is left as it is"):
        phaselink.sweep("nvme", {"link.lanes": [4]}, state=path, **JOB)
    assert path.read_text() == "remember the milk\n"


def test_points_that_cannot_run_are_told_or_skipped():
    axes = {"job.iodepth": [1, 1_000_000]}
    with pytest.raises(phaselink.InputError, match="1000000"):
        phaselink.sweep("nvme", axes, **JOB)
    swept = phaselink.sweep("nvme", axes, skip_invalid=True, **JOB)
    assert len(swept) == 1 and len(swept.skipped) == 1
    with pytest.raises(phaselink.InputError, match="did you mean link.lanes"):
        phaselink.sweep("nvme", {"link.lane": [1]}, **JOB)
    with pytest.raises(phaselink.InputError, match="no column `iop`"):
        phaselink.sweep("nvme", {"link.lanes": [4]}, columns=["iop"], **JOB)


def test_a_plan_takes_no_options_beside_it():
    with pytest.raises(TypeError):
        phaselink.sweep(ROOT / "examples" / "lanes-and-latency.sweep.toml", bs="4k")


def test_a_task_costs_little_beside_its_runs():
    """Microseconds of this process for each task, in a sweep whose points take next to nothing."""
    axes = {"job.number_ios": list(range(1, 401))}
    with ThreadPoolExecutor(1) as threads:
        started = time.perf_counter()
        phaselink.sweep("nvme", axes, executor=threads, batch=1)
        by_tasks_s = time.perf_counter() - started
    started = time.perf_counter()
    phaselink.sweep("nvme", axes, executor=Failing(0), batch=400)
    at_once_s = time.perf_counter() - started
    task_us = (by_tasks_s - at_once_s) / 400 * 1e6
    print(f"a task costs {task_us:.0f} us")
    assert task_us < 5000
