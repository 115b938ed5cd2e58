"""Exported tables as other programs read them: pandas, and a simulation of SimPy."""

import importlib.util

import pytest

import phaselink

CONDITION = {"bs": "4k", "iodepth": [1, 4, 8, 16], "rwmixread": 100}


@pytest.fixture(scope="module")
def table():
    return phaselink.export("tlc-gen4", ios=20_000, **CONDITION)


@pytest.fixture(scope="module")
def module(table, tmp_path_factory):
    folder = tmp_path_factory.mktemp("table")
    assert [path.name for path in table.write(folder)] == list(table.files)
    spec = importlib.util.spec_from_file_location("phaselink_latency", folder / "phaselink_latency.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_pandas_reads_the_quantiles_of_the_document(table, tmp_path):
    pandas = pytest.importorskip("pandas")
    table.write(tmp_path)
    read = pandas.read_csv(tmp_path / "latency.csv")
    document = table.to_dict()
    row = read[(read.in_flight == 4) & (read.direction == "read")].iloc[0]
    names = [f"p{percent:g}_ns" for percent in document["percents"]]
    assert row[names].tolist() == document["conditions"][1]["reads"]["ns"]
    assert len(read[read.load_percent.notna()]) == len(document["loads"]) == 6


def percentiles(latencies, percents):
    latencies = sorted(latencies)
    return [latencies[int(percent / 100 * (len(latencies) - 1))] for percent in percents]


# Between conditions, steps of the distribution (kinds of flash pages) become slopes.
@pytest.mark.parametrize("in_flight, error", [(4, 0.05), (12, 0.1)])
def test_a_drive_of_simpy_has_the_latencies_of_another_run(module, in_flight, error):
    simpy = pytest.importorskip("simpy")
    env = simpy.Environment()
    drive, latencies = module.SimPyDrive(env, 100, seed=3, second=1e9), []

    def thread():
        for _ in range(20_000 // in_flight):
            start = env.now
            yield drive.read(4096)
            latencies.append(env.now - start)

    for _ in range(in_flight):
        env.process(thread())
    env.run()
    run = phaselink.run("tlc-gen4", rw="randread", bs="4k", iodepth=in_flight, number_ios=20_000, seed=99)
    simulated = [run.p50_ns, run.p90_ns, run.p99_ns]
    for drawn, known in zip(percentiles(latencies, [50, 90, 99]), simulated, strict=True):
        assert drawn == pytest.approx(known, rel=error)


def test_nothing_is_answered_outside_the_conditions(module):
    latency = module.Latency(100)
    for wrong in (("read", 4097, 4, 0.5), ("read", 4096, 17, 0.5), ("write", 4096, 4, 0.5), ("read", 4096, 4, 1.1)):
        with pytest.raises(ValueError):
            latency.ns(*wrong)
    with pytest.raises(ValueError, match="read_percent is 50; the table has"):
        module.Latency(50)
    with pytest.raises(phaselink.InputError, match="ios 10"):
        phaselink.export("nvme", ios=10)
