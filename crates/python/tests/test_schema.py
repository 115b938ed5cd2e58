"""Documents of the command line against the published schemas, by a validator that others have written."""

import copy
import json

import jsonschema
import pytest

JOB = ["--number-ios", 300]

TRACE = "10000,hm,0,Read,4096,4096,0\n20000,hm,0,Write,0,512,0\n"
PLAN = """
drive = "dc-express"
job = { number_ios = 200 }
columns = ["iops", "p99_ns", "read_p99_ns"]
[[axis]]
key = "link.lanes"
values = [4, 8]
"""
DRIVE = 'preset = "nvme"\n[link]\nlanes = 8\n'

COMMANDS = {
    "run": ["run", "nvme", *JOB],
    "run, mixed": ["run", "nvme", *JOB, "--rw", "randrw", "--iodepth", 4],
    "run, known": ["run", "dc-express", "--precision", "20%"],
    "run, short": ["run", "dc-express", *JOB, "--precision", "5%", "--intervals=20"],
    "compare": ["compare", "nvme", "cxl", "--ios", 200],
    "compare, in doubt": ["compare", "nvme", "--ios", 200, "--bs", "4k", "--intervals=20", "--precision", "50%"],
    "compare, short queues": ["compare", "nvme", "dc-express", "--ios", 2000, "--bs", "4k", "--numjobs", 1, "--iodepth", 100],
    "crash": ["crash", "--run", "true", "--check", "true"],
    "predict": ["predict", "nvme", "cxl", "capi"],
    "predict, in doubt": ["predict", "dc-express", "--iodepth", 8, "--rw", "randrw", "--intervals=20"],
    "sweep": ["sweep", "plan.toml"],
    "sweep, in doubt": ["sweep", "plan.toml", "--intervals=20"],
    "search": ["sweep", "plan.toml", "--target", "iops>200k", "--minimise", "link.lanes"],
    "search, none": ["sweep", "plan.toml", "--target", "iops>1G", "--minimise", "link.lanes"],
    "dma": ["dma", "--size", "8,64", "--op", "both", "--transfers", 200],
    "breakeven": ["breakeven", "tlc-cpu", "--host-iops", "40e6"],
    "endurance, flash": ["endurance", "tlc-gen4", "--per-day", "1g"],
    "endurance, lines": ["endurance", "dc-express", "--workload", "hammer"],
    "ecc": ["ecc", "--trials", 10, "--inject", 10],
    "knee": ["knee", "nvme", "--rates", "50k,100k", "--ios", 2000, "--rw", "randrw"],
    "export": ["export", "nvme", "--bs", "4k", "--iodepth", "1,2,4", "--rwmixread", 70, "--ios", 1000],
    "compare, at a load": ["compare", "nvme", "pss", "--at", "iops=100k", "--ios", 2000],
    "kvcache": ["kvcache", "tlc-gen4", "dc-express", "--drives-per-host", 2, "--duration", 60, "--host-memory", "1g", "--windows", 2],
    "kvcache, without writes": ["kvcache", "tlc-gen4", "--duration", 20, "--windows", 2],
    "whatif": ["whatif", "tlc-gen4", "nvme", "--trace", "t.csv"],
    "validate": ["validate", "BDV"],
    "trace-info": ["trace-info", "t.csv"],
    "fit": ["fit", "result.json", "--drive", "nvme", "--keys", "nvme.parse_ns", "--number-ios", 1000],
    "reproduce": ["reproduce", "capi-pcm-openpower"],
}


@pytest.fixture(scope="module")
def folder(program, tmp_path_factory):
    here = tmp_path_factory.mktemp("schema")
    (here / "t.csv").write_text(TRACE)
    (here / "plan.toml").write_text(PLAN)
    (here / "result.json").write_text(program("run", "nvme", "--number-ios", 1000, "--json"))
    return here


@pytest.fixture(scope="module")
def results(printed):
    schema = printed("check", "--schema=results")
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def why(validator, document):
    """What is wrong, told by the definition that comes nearest."""
    best = jsonschema.exceptions.best_match(validator.iter_errors(document))
    return best and f"{list(best.absolute_path)}: {best.message[:300]}"


@pytest.mark.parametrize("name", COMMANDS)
def test_what_a_verb_prints_fits_its_definition_alone(name, results, printed, folder):
    document = printed(*COMMANDS[name], "--json", cwd=folder)
    assert results.is_valid(document), why(results, document)


def test_a_document_that_lacks_a_key_or_has_another_or_a_text_for_a_number_does_not_fit(results, printed):
    whole = printed("run", "nvme", *JOB, "--json")
    for spoil in (
        lambda it: it["phaselink"].pop("seed"),
        lambda it: it["phaselink"].update(sede=1),
        lambda it: it["phaselink"]["jobs"][0]["read"].update(ios="300"),
        lambda it: it["phaselink"].update(verb="sweep"),
    ):
        spoilt = copy.deepcopy(whole)
        spoil(spoilt)
        assert not results.is_valid(spoilt)


def test_drives_fit_the_schema_of_drive_files_and_wrong_ones_do_not(printed):
    tomllib = pytest.importorskip("tomllib")
    schema = printed("check", "--schema")
    jsonschema.Draft7Validator.check_schema(schema)
    drive = tomllib.loads(DRIVE)
    jsonschema.validate(drive, schema)
    for key, value in (("lanes", 3), ("lanse", 8)):
        wrong = json.loads(json.dumps(drive))
        wrong["link"][key] = value
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
