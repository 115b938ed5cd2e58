"""Figures are those of the command line, to the last bit: documents are equal, with floats read exactly."""

import gzip
from pathlib import Path

import pytest

import phaselink

ROOT = Path(__file__).resolve().parents[3]

RUNS = [
    ("nvme", {}, {"number_ios": 2000}),
    ("dc-express", {"link": {"lanes": 8}}, {"bs": 512, "iodepth": 8, "number_ios": 2000}),
    ("moneta", {"media": "dram"}, {"rw": "randrw", "bs": "4k", "numjobs": 4, "number_ios": 500}),
    ("pss", {"set": {"media.read_ns": 1000.5}}, {"rw": "randwrite", "bs": "8k", "size": "1m"}),
    ("capi", {}, {"bssplit": "4k/60:8k/40", "runtime": "2ms"}),
]


def flags(changes, options):
    sets = [("--set", f"{section}.{key}={value}") for section, keys in changes.items() if isinstance(keys, dict) and section != "set" for key, value in keys.items()]
    sets += [("--set", f"{key}={value}") for key, value in changes.get("set", {}).items()]
    sets += [("--set", f"{section}.preset={name}") for section, name in changes.items() if isinstance(name, str)]
    return [word for pair in sets for word in pair] + [word for name, value in options.items() for word in ("-O", f"{name}={value}")]


@pytest.mark.parametrize("drive, changes, options", RUNS)
def test_a_run_is_the_programs(printed, drive, changes, options):
    result = phaselink.run(phaselink.load(drive, **changes), seed=7, **options)
    assert result.to_dict() == printed("run", drive, "--seed", 7, "--json", *flags(changes, options))


@pytest.mark.parametrize("drive, changes, options", RUNS)
def test_a_prediction_is_the_programs(printed, drive, changes, options):
    prediction = phaselink.predict(phaselink.load(drive, **changes), **options)
    assert prediction.to_dict() == printed("predict", drive, "--json", *flags(changes, options))


def test_a_job_file_gives_what_it_gives_the_program(printed):
    path = ROOT / "examples" / "mixed.fio"
    wanted = printed("run", "nvme", "--fio", path, "--json")
    assert phaselink.run("nvme", jobs=path).to_dict() == wanted
    assert phaselink.run("nvme", jobs=path.read_text()).to_dict() == wanted


def test_a_run_to_a_precision_is_the_programs(printed):
    result = phaselink.run("dc-express", bs=512, precision="5%")
    assert result.to_dict() == printed("run", "dc-express", "--bs", "512", "--precision", "5%", "--json")


def test_a_run_to_the_precision_of_a_tail_is_the_programs(printed):
    result = phaselink.run("dc-express", bs=512, precision="read p99.9=10%")
    assert result.to_dict() == printed("run", "dc-express", "--bs", "512", "--precision", "read_p99_9=10%", "--json")
    assert result.tails["p99_9_ns"]["low_ns"] <= result.p99_9_ns <= result.tails["p99_9_ns"]["high_ns"]
    with pytest.raises(phaselink.InputError, match="precision is p50=1%"):
        phaselink.run("nvme", precision="p50=1%")


def test_latency_against_load_is_the_programs(printed):
    found = phaselink.knee("nvme", rates="50k:300k", ios=4000, rw="randrw", seed=2)
    words = "knee nvme --rates 50k:300k --ios 4000 --rw randrw --seed 2 --json"
    assert found.to_dict() == printed(*words.split())
    assert len(found) == 12 and "Latency against load" in found.to_html()
    with pytest.raises(phaselink.InputError, match="a pace of its own"):
        phaselink.knee("nvme", thinktime=10)


def test_a_comparison_at_a_load_is_the_programs(printed):
    wanted = printed("compare", "nvme", "dc-express", "--at", "iops=100k", "--ios", 2000, "--json")
    assert phaselink.compare(["nvme", "dc-express"], at="iops=100k", ios=2000).to_dict() == wanted
    with pytest.raises(phaselink.InputError, match="at is fast"):
        phaselink.compare(["nvme"], at="fast")


def test_a_run_with_data_is_the_programs(printed):
    result = phaselink.run("dc-express", rw="randrw", size="1m", number_ios=500, verify=True)
    words = "run dc-express --rw randrw --size 1m --number_ios 500 --verify --json".split()
    assert result.to_dict() == printed(*[word.replace("_", "-") for word in words])


def test_a_comparison_is_the_programs(printed):
    assert phaselink.compare(ios=400).to_dict() == printed("compare", "--ios", 400, "--json")
    several = phaselink.compare(["nvme", "pss"], bs=["512", "4k"], iodepth=[1, 512], rw="randwrite", ios=300, seed=3)
    words = "compare nvme pss --bs 512,4k --iodepth 1,512 --rw randwrite --ios 300 --seed 3 --json"
    assert several.to_dict() == printed(*words.split())
    changed = phaselink.compare(["nvme"], set={"media.read_ns": 300}, bs="4k", number_ios=100, precision=0.05)
    words = "compare nvme --set media.read_ns=300 --bs 4k --number-ios 100 --precision 5% --json"
    assert changed.to_dict() == printed(*words.split())


def test_a_trace_is_the_programs(program, tmp_path):
    steps = phaselink.trace("dc-express", bs=512, iodepth=4, requests=8)
    words = f"trace dc-express --bs 512 --iodepth 4 --requests 8 --perfetto {tmp_path / 'timeline.json'}"
    assert steps.ladder == program(*words.split())
    assert steps.to_perfetto() == (tmp_path / "timeline.json").read_text()


def test_a_sweep_is_the_programs(program, printed, tmp_path):
    plan = tmp_path / "plan.toml"
    plan.write_text((ROOT / "examples" / "lanes-and-latency.sweep.toml").read_text().replace("20000", "200"))
    swept = phaselink.sweep(plan, columns=["iops", "p99_ns"])
    words = ["sweep", plan, "--columns", "iops,p99_ns", "--state", tmp_path / "state"]
    assert swept.to_dict() == printed(*words, "--json")
    assert swept.to_csv() == program(*words, "--csv")


@pytest.mark.parametrize("paper", ["capi-pcm-openpower"])
def test_a_reproduction_is_the_programs(printed, paper):
    reproduction, wanted = phaselink.reproduce(paper), printed("reproduce", paper, "--json")
    assert reproduction.to_dict() == wanted
    assert reproduction.rows() == reproduction.to_list() == wanted["rows"]


def test_drives_are_explained_and_written_as_the_program_does(program):
    for name in phaselink.drives():
        drive = phaselink.load(name)
        assert drive.explain() == program("check", name)
        assert phaselink.load(drive.to_toml()) == drive


def test_intervals_are_the_programs(printed):
    run = phaselink.run("nvme", number_ios=200, intervals=20)
    assert run.to_dict() == printed("run", "nvme", "--number-ios", 200, "--intervals=20", "--json")
    assert run.intervals["mean_ns"]["low"] < run.mean_ns < run.intervals["mean_ns"]["high"]
    assert phaselink.run("nvme", number_ios=200).intervals == {}
    compared = phaselink.compare(["nvme", "dc-express"], bs="4k", numjobs=[1, 8], ios=200, intervals=20)
    words = "compare nvme dc-express --bs 4k --numjobs 1,8 --ios 200 --intervals=20 --json"
    assert compared.to_dict() == printed(*words.split())
    assert "intervals" not in compared.columns()
    predicted = phaselink.predict("nvme", bs="4k", intervals=20)
    assert predicted.to_dict() == printed(*"predict nvme --bs 4k --intervals=20 --json".split())
    assert predicted.intervals["alone_ns"]["draws"] == 20
    with pytest.raises(ValueError):
        phaselink.run("nvme", number_ios=1, intervals="many")


def test_break_even_times_are_the_programs(printed, program, tmp_path):
    words = "breakeven slc-gpu --bs 512,4k --drives 4 --host-iops 40e6 --utilisation 0.5"
    found = phaselink.breakeven("slc-gpu", bs=[512, "4k"], drives=4, host_iops=40e6, utilisation=0.5)
    assert found.to_dict() == printed(*words.split(), "--json")
    assert str(found) == program(*words.split()).rstrip("\n")
    assert [row["block_bytes"] for row in found] == [512, 4096]
    assert "</svg>" in found.to_html()
    both = phaselink.breakeven(sensitivity=True, history=True)
    assert str(both) == program("breakeven", "--sensitivity", "--history").rstrip("\n")
    assert both.to_dict() == printed("breakeven", "--json")
    with pytest.raises(phaselink.InputError, match="a file, or .*slc-cpu"):
        phaselink.breakeven("slc")
    with pytest.raises(phaselink.InputError, match="arguments: bs: size `4x`; allowed"):
        phaselink.breakeven(bs="4x")
    with pytest.raises(phaselink.InputError, match="prices.toml: cannot be read"):
        phaselink.breakeven(tmp_path / "prices.toml")


def test_lifetimes_of_a_memory_are_the_programs(printed, program):
    words = "endurance tlc-gen4 --per-day 500g --bs 4k,16k"
    found = phaselink.endurance("tlc-gen4", per_day="500g", bs=["4k", 16384])
    assert found.to_dict() == printed(*words.split(), "--json")
    assert str(found) == program(*words.split()).rstrip("\n")
    words = "endurance nvme --media pcm-p5q-card --workload hammer,uniform --seed 3"
    found = phaselink.endurance("nvme", media="pcm-p5q-card", workload=["hammer", "uniform"], seed=3)
    assert found.to_dict() == printed(*words.split(), "--json")
    assert len(found) == 6
    with pytest.raises(phaselink.InputError, match="bs has no effect on nvme"):
        phaselink.endurance("nvme", media="pcm-p5q-card", bs="4k")
    with pytest.raises(phaselink.InputError, match="hamer.*\n.*hammr"):
        phaselink.endurance("dc-express", workload="hamer,hammr")
    with pytest.raises(phaselink.InputError, match="per_day: size `0`; allowed"):
        phaselink.endurance("tlc-gen4", per_day=0)


def test_error_rates_of_the_sector_code_are_the_programs(printed, program):
    words = "ecc --trials 50 --inject 60 --seed 3"
    found = phaselink.ecc(trials=50, inject=60, seed=3)
    assert found.to_dict() == printed(*words.split(), "--json")
    assert str(found) == program(*words.split()).rstrip("\n")
    assert len(found) == 8
    with pytest.raises(phaselink.InputError, match="trials is 0; .*\n.*inject is 10000000000"):
        phaselink.ecc(trials=0, inject=10**10)


def test_transfers_of_a_device_are_the_programs(printed, tmp_path):
    words = "dma --size 64,256 --op both --transfers 500 --outstanding 8 --seed 3 --json"
    found = phaselink.dma(size=[64, 256], op="both", transfers=500, outstanding=8, seed=3)
    assert found.to_dict() == printed(*words.split())
    words = "dma opencapi-ad9h3 --size 8..64 --transfers 500 --iommu on --set dma.requests=4 --json"
    found = phaselink.dma("opencapi-ad9h3", size="8..64", transfers=500, iommu=True, set={"dma.requests": 4})
    assert found.to_dict() == printed(*words.split())
    with pytest.raises(phaselink.InputError, match="did you mean"):
        phaselink.dma("nfp6000-gen3-x9")
    with pytest.raises(phaselink.InputError, match="allowed"):
        phaselink.dma(size=0)
    assert phaselink.dma(phaselink.load("nvme"), size=64, transfers=100).rows()[0]["bytes"] == 64


def test_a_cache_on_drives_is_the_programs(printed, program, tmp_path):
    words = "kvcache optane-p5800x --duration 20 --host-memory 0 --windows 2 --drives-per-host 2".split()
    found = phaselink.kvcache("optane-p5800x", duration=20, host_memory=0, windows=2, drives_per_host=2)
    assert found.to_dict() == printed(*words, "--json")
    assert str(found) == program(*words).rstrip("\n")
    assert [row["drive"] for row in found] == ["optane-p5800x"] and "</svg>" in found.to_html()
    trace = tmp_path / "trace.jsonl"
    program("kvcache", "--mix", "tool-agent", "--duration", 60, "--save-trace", trace)
    words = ["kvcache", "dc-express", "--trace", trace, "--host-memory", "1g", "--drives-per-host", 64, "--windows", 2, "--json"]
    read = phaselink.kvcache("dc-express", trace=trace, host_memory=1 << 30, drives_per_host=64, windows=2)
    assert read.to_dict() == printed(*words)
    packed = tmp_path / "trace.jsonl.gz"
    packed.write_bytes(gzip.compress(trace.read_bytes()))
    assert phaselink.kvcache("dc-express", trace=packed, host_memory="1g", drives_per_host=64, windows=2) == read


def test_wrong_questions_of_a_cache_are_refused_in_words_of_python(tmp_path):
    for wrong, told in [
        ({"windows": 1}, "arguments: windows 1; allowed: 2 to 1000"),
        ({"accelerator_memory": "x"}, "arguments: accelerator_memory: size `x`; allowed: a size as in 160g"),
        ({"kv_model": "lama-3.1-70b"}, "kv_model: there is no model `lama-3.1-70b`, did you mean llama-3.1-70b"),
        ({"layout": "row"}, "layout: unknown variant `row`, expected one of `block`"),
        ({"rate": 1, "trace": __file__}, "rate with trace"),
        ({"trace_format": "bailian"}, "trace_format without a file"),
        ({"trace": tmp_path}, "cannot be read"),
        ({"drive_size": "1p"}, "drive_size 1125899906842624 on"),
    ]:
        with pytest.raises(phaselink.InputError) as refused:
            phaselink.kvcache("nvme", **{"duration": None if "trace" in wrong else 20, **wrong})
        assert told in str(refused.value)


def test_a_replayed_application_is_the_programs(printed, program):
    trace = ROOT / "examples/recordings/git.iolog.gz"
    words = ["whatif", "tlc-gen4", "optane-p5800x", "dc-express", "--trace", trace, "--requests", 100, "--seed", 3]
    found = phaselink.whatif(trace, ["tlc-gen4", "optane-p5800x", "dc-express"], requests=100, seed=3)
    assert found.to_dict() == printed(*words, "--json")
    assert str(found) == program(*words).rstrip("\n")
    assert {row["pays"] for row in found} >= {"now"} and "</svg>" in found.to_html()
    words = ["whatif", "tlc-gen4", "--now", "optane-p5800x", "--stack", "user-space", "--trace", trace, "--requests", 100]
    given = {"now": "optane-p5800x", "stack": "user-space", "requests": 100}
    for recorded in ["instant", "tlc-gen3"]:
        replayed = phaselink.whatif(trace, "tlc-gen4", recorded_on=recorded, **given)
        assert replayed.to_dict() == printed(*words, "--recorded-on", recorded, "--json")
    for wrong, told in [
        ({"draws": 3}, "draws 3; allowed: 20 to 10000"),
        ({"stack": "linux-7"}, "linux-7"),
        ({"trace_format": "x"}, "there is no trace_format `x`; allowed: "),
    ]:
        with pytest.raises(phaselink.InputError, match=told):
            phaselink.whatif(trace, "tlc-gen4", **wrong)


def test_a_validation_is_the_programs(printed, program, tmp_path):
    found = phaselink.validate("BDV", worst=2)
    assert found.to_dict() == printed("validate", "BDV", "--json")
    assert str(found) == program("validate", "BDV", "--worst", 2).rstrip("\n")
    assert {row["source"] for row in found} == {"BDV"} and "</table>" in found.to_html()
    with pytest.raises(phaselink.InputError, match="there is no source `BDW`, did you mean BDV"):
        phaselink.validate("BDW")
    with pytest.raises(phaselink.InputError, match="measurements.csv: cannot be read"):
        phaselink.validate(data=tmp_path)
    (tmp_path / "measurements.csv").write_text(TABLE)
    with pytest.raises(phaselink.InputError, match="no plan; allowed: a file NAME.toml for each source"):
        phaselink.validate(data=tmp_path)
    (tmp_path / "lab.toml").write_text(PLAN)
    assert phaselink.validate(data=tmp_path).to_dict() == printed("validate", "--data", tmp_path, "--json")


TABLE = """id,source,machine,device,link,software,workload,quantity,value,unit,kind,note
LAB-1,,,,,,read 64 B,"latency, mean",600,ns,result,
"""
PLAN = """source = "LAB"
title = "a bench"
[[rule]]
when = { quantity = "latency, mean", workload = "read {size} B" }
drive = "nfp6000-gen3-x8"
set = ["transfers.op=read; transfers.size={size}", "transfers.transfers=200"]
value = "run.mean_ns"
unit = "ns"
"""
