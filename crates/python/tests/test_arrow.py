"""Tables by Arrow's PyCapsule interface."""

import ctypes

import pytest

import phaselink
from phaselink import _native


def is_stream(capsule):
    valid = ctypes.pythonapi.PyCapsule_IsValid
    valid.argtypes, valid.restype = [ctypes.py_object, ctypes.c_char_p], ctypes.c_int
    return bool(valid(capsule, b"arrow_array_stream"))


def columns_of(table):
    """The columns that another library reads from a table, which has come as a stream."""
    nanoarrow = pytest.importorskip("nanoarrow")
    batches = nanoarrow.ArrayStream(table).read_all()
    columns = {field.name: batches.child(place).to_pylist() for place, field in enumerate(batches.schema.fields)}
    return columns, batches


@pytest.fixture(scope="module")
def swept():
    return phaselink.sweep("dc-express", {"link.lanes": [4, 8], "job.bs": ["512", "4k"]}, number_ios=100)


def test_a_table_is_a_stream_without_any_library(swept):
    capsule = swept.__arrow_c_stream__()
    assert is_stream(capsule)
    # One that nobody has taken is released with its capsule.
    del capsule
    assert is_stream(phaselink.run("nvme", number_ios=100).__arrow_c_stream__())


def test_columns_have_the_narrowest_type_that_holds_them():
    columns = [("a", [1, None]), ("b", [1, 2.5]), ("c", ["x", None]), ("d", [True, None]), ("e", [None, None])]
    assert is_stream(_native.Arrow(columns).stream())
    with pytest.raises(ValueError, match="the column f has texts beside numbers"):
        _native.Arrow([("f", ["x", 1])])
    with pytest.raises(ValueError):
        _native.Arrow([("a", [1]), ("b", [1, 2])])

    class Columns:
        def __arrow_c_stream__(self, requested_schema=None):
            return _native.Arrow(columns).stream()

    read, batches = columns_of(Columns())
    assert read == {name: values for name, values in columns}
    assert [field.type.name for field in batches.schema.fields] == ["INT64", "DOUBLE", "STRING", "BOOL", "DOUBLE"]
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table(Columns())
    table.validate(full=True)
    assert [str(kind) for kind in table.schema.types] == ["int64", "double", "string", "bool", "double"]
    assert table.to_pydict() == {name: values for name, values in columns}


def test_long_columns_keep_their_gaps_and_outlive_the_table():
    cells = {"number": [None if row % 3 == 0 else row for row in range(1000)], "text": [f"{row:x}" for row in range(1000)]}
    table = _native.Arrow(list(cells.items()))

    class Columns:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.stream()

    read, batches = columns_of(Columns())
    del table
    assert read == cells
    assert [row["number"] for row in batches.iter_py()] == cells["number"]


def test_libraries_read_the_rows_of_every_result(swept):
    rows = swept.rows()
    assert columns_of(swept)[0] == {name: [row[name] for row in rows] for name in rows[0]}
    pyarrow = pytest.importorskip("pyarrow")
    compared = phaselink.compare(["nvme", "dc-express"], bs="4k", numjobs=1, ios=100)
    transfers = phaselink.dma(size=[64, 128], transfers=100)
    for table in (swept, compared, transfers, phaselink.trace("nvme"), phaselink.run("nvme", number_ios=100)):
        assert pyarrow.table(table).to_pylist() == table.rows()
        assert table.to_arrow().num_rows == len(table)


def test_single_requests_are_those_of_the_figures_and_go_into_parquet(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    options = dict(rw="randrw", bs="4k", iodepth=4, number_ios=20_000)
    result = phaselink.run("nvme", requests=True, **options)
    requests = result.requests()
    parquet.write_table(pyarrow.table(requests), tmp_path / "requests.parquet")
    table = parquet.read_table(tmp_path / "requests.parquet")
    assert table.column_names == requests.columns()
    assert table.num_rows == len(requests) == result.ios and requests.left_out == 0
    columns = {name: table[name].to_pylist() for name in table.column_names}
    assert sorted(columns["number"]) == list(range(1, 20_001))
    assert sum(columns["latency_ns"]) / len(requests) == pytest.approx(result.mean_ns, rel=1e-9)
    assert set(columns["direction"]) == {"read", "write"} and set(columns["bytes"]) == {4096}
    stages = [columns[name] for name in columns if name.startswith("stage.")]
    assert all(sum(parts) == pytest.approx(whole) for *parts, whole in zip(*stages, columns["latency_ns"]))
    batches = list(pyarrow.RecordBatchReader.from_stream(requests))
    assert [batch.num_rows for batch in batches] == [16_384, 20_000 - 16_384]
    assert pyarrow.Table.from_batches(batches) == table.cast(batches[0].schema)
    assert result.to_dict() == phaselink.run("nvme", **options).to_dict()


def test_single_requests_come_in_batches_without_gaps():
    result = phaselink.run("nvme", requests=True, rw="randrw", bs="4k", iodepth=4, number_ios=20_000)
    columns, batches = columns_of(result.requests())
    assert [len(batch) for batch in batches.iter_chunks()] == [16_384, 20_000 - 16_384]
    assert list(columns) == result.requests().columns()
    assert sorted(columns["number"]) == list(range(1, 20_001))
    assert sum(columns["latency_ns"]) / 20_000 == pytest.approx(result.mean_ns, rel=1e-9)
    assert set(columns["direction"]) == {"read", "write"} and set(columns["bytes"]) == {4096}


def test_requests_beyond_the_limit_are_counted_and_none_are_kept_unasked():
    requests = phaselink.run("dc-express", number_ios=100, requests=30).requests()
    assert (len(requests), requests.left_out) == (30, 70)
    assert is_stream(requests.__arrow_c_stream__())
    with pytest.raises(ValueError, match="requests=True"):
        phaselink.run("nvme", number_ios=10).requests()
    with pytest.raises(ValueError, match="how many"):
        phaselink.run("nvme", number_ios=10, requests=0)


def test_polars_takes_the_same_memory(swept):
    polars = pytest.importorskip("polars")
    assert polars.DataFrame(swept).to_dicts() == swept.rows()
