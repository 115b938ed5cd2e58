"""What people expect of any package: copies, equality, progress, texts, errors in its own words, pictures, a command."""

import copy
import pickle
import subprocess
import sys
import types
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

import phaselink

SMALL = {"bs": "4k", "iodepth": 4, "number_ios": 2000}


@pytest.fixture(scope="module")
def result():
    return phaselink.run("nvme", rw="randrw", **SMALL)


def test_copied_result_answers_as_the_first_one(result):
    copied = pickle.loads(pickle.dumps(result))
    assert copied == result and hash(copied) == hash(result)
    assert copied.drive == result.drive and str(copied) == str(result) and copied.to_html() == result.to_html()
    assert all(getattr(copied, name) == getattr(result, name) for name in phaselink.figures())
    for kind in ("total", "submission", "completion"):
        for direction in (None, "read", "write"):
            assert copied._native.histogram(kind, direction) == result._native.histogram(kind, direction)
            for percent in (1, 50, 99, 99.9, 99.99):
                assert copied.percentile(percent, kind, direction) == result.percentile(percent, kind, direction)
    assert copy.deepcopy(copied).rows() == result.rows()
    with pytest.raises(ValueError):
        copied.percentile(50, "latency")
    with pytest.raises(ValueError):
        copied.requests()


def test_all_results_can_be_copied_and_equal_their_copies():
    axes = {"link.lanes": [4, 8]}
    for other in (
        phaselink.compare(["nvme", "dc-express"], numjobs=1, ios=300),
        phaselink.predict("nvme", bs="4k"),
        phaselink.trace("nvme"),
        phaselink.dma(size=64, transfers=200),
        phaselink.breakeven(bs="4k"),
        phaselink.endurance("tlc-gen4"),
        phaselink.ecc(trials=10, inject=10),
        phaselink.knee("nvme", rates=["50k", "100k"], ios=400),
        phaselink.export("nvme", bs="4k", iodepth=1, rwmixread=100, ios=1000),
        phaselink.kvcache("optane-p5800x", duration=20, host_memory=0, windows=2),
        phaselink.sweep("dc-express", axes, number_ios=200),
    ):
        copied = pickle.loads(pickle.dumps(other))
        assert copied == other and str(copied) == str(other) and copied is not other
        assert pickle.loads(pickle.dumps(copied)) == other


def test_results_of_other_seeds_differ(result):
    assert result == phaselink.run("nvme", rw="randrw", **SMALL)
    assert result != phaselink.run("nvme", rw="randrw", seed=2, **SMALL)
    assert result != result.rows()


def test_process_pool_runs_drives(result):
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        submitted = [pool.submit(phaselink.run, "nvme", rw="randrw", **SMALL) for _ in range(2)]
        assert [future.result() for future in submitted] == [result, result]


def test_progress_rises_to_one():
    for call in (
        lambda told: phaselink.run("nvme", bs="4k", number_ios=100_000, progress=told),
        lambda told: phaselink.compare(["nvme", "dc-express"], numjobs=1, ios=2000, progress=told),
        lambda told: phaselink.sweep("dc-express", {"link.lanes": [1, 2, 4]}, number_ios=500, progress=told),
    ):
        shares = []
        call(shares.append)
        assert shares[-1] == 1.0 and shares == sorted(shares) and shares[0] >= 0


def test_exception_of_the_progress_ends_the_call():
    def refuse(share):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        phaselink.run("nvme", number_ios=100_000, progress=refuse)
    with pytest.raises(RuntimeError, match="enough"):
        phaselink.sweep("dc-express", {"link.lanes": [1, 2]}, number_ios=200, progress=refuse)
    with pytest.raises(TypeError, match="progress is True"):
        phaselink.run("nvme", number_ios=100, progress="bar")


def test_progress_needs_no_other_package(capfd, monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm.auto", None)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True, raising=False)
    phaselink.run("nvme", number_ios=1000, progress=True)
    assert "nvme: 100%" in capfd.readouterr().err


def test_progress_is_the_bar_of_tqdm_where_it_is_installed(monkeypatch):
    shares, closed = [], []

    class Bar:
        def __init__(self, total, desc, **_):
            assert total == 1.0
            self.n = 0.0
            self.desc = desc

        def update(self, more):
            self.n += more
            shares.append((self.desc, self.n))

        def close(self):
            closed.append(self.desc)

    module = types.ModuleType("tqdm.auto")
    module.tqdm = Bar
    monkeypatch.setitem(sys.modules, "tqdm.auto", module)
    monkeypatch.setitem(sys.modules, "tqdm", types.ModuleType("tqdm"))
    phaselink.run("nvme", bs="4k", number_ios=100_000, progress=True)
    phaselink.sweep("dc-express", {"link.lanes": [1, 2, 4]}, number_ios=500, progress=True)
    assert closed == list(dict.fromkeys(desc for desc, _ in shares)) and len(closed) == 2
    for name in closed:
        told = [share for desc, share in shares if desc == name]
        assert told == sorted(told) and told[-1] == pytest.approx(1.0)


def test_bar_of_tqdm_itself_is_drawn_and_erased(capfd):
    pytest.importorskip("tqdm")
    phaselink.run("nvme", bs="4k", number_ios=100_000, progress=True)
    assert "nvme:" in capfd.readouterr().err


def test_texts_say_what_was_found_and_show_the_table(result):
    compared = phaselink.compare(["nvme", "dc-express"], bs="4k", numjobs=1, ios=500)
    text = str(compared)
    assert all(finding["sentence"] in text for finding in compared.findings)
    assert "drive" in text and "mean_ns" in text and len(text.splitlines()) >= 4
    assert result.findings and str(result).startswith(result.findings[0]) and "media" in str(result)
    assert str(phaselink.dma(size=64, transfers=200)).splitlines()[0].split()[0] == "bytes"


def test_sections_of_the_drive_are_keywords_of_every_call():
    lanes, fast = {"lanes": 2}, "dram"
    drive = phaselink.load("nvme", link=lanes, media=fast)
    assert phaselink.run("nvme", link=lanes, media=fast, **SMALL) == phaselink.run(drive, **SMALL)
    assert phaselink.predict("nvme", link=lanes, media=fast, bs="4k") == phaselink.predict(drive, bs="4k")
    assert phaselink.trace("nvme", link=lanes, media=fast) == phaselink.trace(drive)
    changed = phaselink.compare(["nvme"], link=lanes, media=fast, bs="4k", numjobs=1, ios=300).rows()
    assert changed == phaselink.compare([drive], bs="4k", numjobs=1, ios=300).rows()
    axes = {"job.iodepth": [1, 2]}
    columns = [phaselink.sweep(*call, axes, number_ios=200, **more).rows() for call, more in [
        (("nvme",), {"link": lanes, "media": fast}),
        ((drive,), {}),
    ]]
    assert [row["iops"] for row in columns[0]] == [row["iops"] for row in columns[1]]


def test_errors_speak_of_arguments_and_not_of_a_command_line():
    for call in (
        lambda: phaselink.load("nvme", media={"read": 3}),
        lambda: phaselink.run("nvme", iodpeth=3),
        lambda: phaselink.run("no-such-drive"),
        lambda: phaselink.compare(["nvme"], bs=["512"] * 3000, numjobs=list(range(1, 200))),
        lambda: phaselink.reproduce("no-such-paper"),
    ):
        with pytest.raises(phaselink.InputError) as raised:
            call()
        assert "command line" not in str(raised.value) and "--" not in str(raised.value), str(raised.value)


def test_pictures_have_the_values_of_the_result(result):
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    bars = result.plot()
    widths = sum(patch.get_width() for patch in bars.patches) * 1e3
    assert widths == pytest.approx(sum(stage["mean_ns"] for stage in result.stages))
    assert len(result.plot("latency").lines) == 1
    compared = phaselink.compare(["nvme", "dc-express"], bs=["512", "4k"], numjobs=1, ios=300)
    assert {patch.get_height() for patch in compared.plot().patches} == {row["mean_ns"] for row in compared.rows()}
    swept = phaselink.sweep("dc-express", {"link.lanes": [2, 4], "job.bs": ["512", "4k"]}, number_ios=200)
    assert [line.get_label() for line in swept.plot().lines] == ["job.bs 512", "job.bs 4k"]
    with pytest.raises(ValueError, match="stages"):
        result.plot("ladder")


def test_module_is_the_program(program):
    words = ["predict", "nvme", "--bs", "4k", "--json"]
    ran = subprocess.run([sys.executable, "-m", "phaselink", *words], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0 and ran.stdout == program(*words)
    wrong = subprocess.run([sys.executable, "-m", "phaselink", "run", "no-such"], capture_output=True, text=True, timeout=60)
    assert wrong.returncode == 2 and "there is no drive" in wrong.stderr
    helped = subprocess.run([sys.executable, "-m", "phaselink", "--help"], capture_output=True, text=True, timeout=60)
    assert helped.returncode == 0 and helped.stdout.startswith("Simulate and serve")


def test_colours_are_those_of_the_pages():
    from pathlib import Path

    from phaselink._plot import COLOURS

    style = (Path(__file__).resolve().parents[3] / "crates/studies/src/report/html/page.css").read_text()
    for place, colour in enumerate(COLOURS):
        assert f"--series-{place + 1}: {colour}" in style


def test_a_sweep_shows_no_hash_and_keeps_it():
    swept = phaselink.sweep("nvme", {"link.lanes": [4, 8]}, bs="4k", number_ios=200)
    assert "hash" not in str(swept) and "hash" not in swept._repr_html_()
    assert "hash" in swept.columns() and swept.rows()[0]["hash"]
