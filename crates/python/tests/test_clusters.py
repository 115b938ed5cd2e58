"""The same table through Dask and Ray, on local clusters of two worker processes, also when a worker is killed."""

import os
import signal
import threading
import time

import pytest

import phaselink

#: Some seconds of work for two workers, so that there is a middle in which one can be killed.
AXES = {"link.lanes": [1, 2, 4, 8], "job.bs": ["512", "4k"], "media.read_ns": [50, 110, 200, 400]}
JOB = {"number_ios": 20_000}
#: Points that take next to nothing: what is left is the task.
TASKS = 200


@pytest.fixture(scope="module")
def table():
    return phaselink.sweep("dc-express", AXES, **JOB).to_json()


@pytest.fixture(scope="module")
def dask():
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None, silence_logs=50
    ) as cluster, distributed.Client(cluster) as client:
        yield client


@pytest.fixture(scope="module")
def ray():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


def busy_with_a_batch():
    """Ray's workers that have a batch: they name themselves by it."""
    pids = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            with open(f"/proc/{name}/cmdline", "rb") as file:
                is_busy = file.read().startswith(b"ray::run_batch")
        except OSError:
            continue
        pids += [int(name)] * is_busy
    return pids


def killed_in_the_middle(pids):
    """Kills a worker once it has surely begun; the list tells whom."""
    killed = []

    def kill():
        time.sleep(0.5)
        for pid in pids()[:1]:
            os.kill(pid, signal.SIGKILL)
            killed.append(pid)

    thread = threading.Thread(target=kill)
    thread.start()
    return thread, killed


def test_dask_gives_the_same_table_also_when_a_worker_is_killed(table, dask):
    assert phaselink.sweep("dc-express", AXES, executor=dask, **JOB).to_json() == table
    pids = list(dask.run(os.getpid).values())
    thread, killed = killed_in_the_middle(lambda: pids)
    assert phaselink.sweep("dc-express", AXES, executor=dask, batch=1, **JOB).to_json() == table
    thread.join()
    assert killed and killed[0] not in dask.run(os.getpid).values()


def test_ray_gives_the_same_table_also_when_a_worker_is_killed(table, ray):
    executor = phaselink.RayExecutor()
    assert phaselink.sweep("dc-express", AXES, executor=executor, **JOB).to_json() == table

    thread, killed = killed_in_the_middle(busy_with_a_batch)
    assert phaselink.sweep("dc-express", AXES, executor=executor, batch=1, **JOB).to_json() == table
    thread.join()
    assert killed


def task_us(executor):
    axes = {"job.number_ios": list(range(1, TASKS + 1))}
    local_s, there_s = (clocked(lambda: phaselink.sweep("nvme", axes, executor=one, batch=1)) for one in (None, executor))
    return (there_s - local_s) / TASKS * 1e6


def clocked(call):
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def test_what_a_task_costs_is_told(dask, ray):
    costs = {"Dask": task_us(dask), "Ray": task_us(phaselink.RayExecutor())}
    print({name: f"{cost:.0f} us a task" for name, cost in costs.items()})
    assert max(costs.values()) < 100_000
