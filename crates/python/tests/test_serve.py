"""A drive that this process serves itself."""

import os
import sys
import time

import pytest

import phaselink

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="drives are served on Linux")


def test_what_is_written_is_read_back_and_nothing_is_left_behind():
    with phaselink.serve("dc-express", timing=False, wait="block") as served:
        assert served.running and os.path.exists(served.path)
        queue = served.connect().queue()
        queue.write(4096, b"x" * 512)
        assert queue.read(4096, 512) == b"x" * 512
        path = served.path
    assert not served.running and not os.path.exists(path)
    document = served.to_dict()
    assert document["phaselink"]["verb"] == "serve" and document["phaselink"]["timing"] is False
    assert document["phaselink"]["errors"] == 0
    assert "read" in str(served)
    served.stop()


def test_with_timing_requests_take_what_the_model_says():
    drive = phaselink.load("dc-express", media={"read_ns": 2_000_000})
    with phaselink.serve(drive, wait="block") as served:
        queue = served.connect().queue()
        started = time.perf_counter()
        queue.read(0, 512)
        took_s = time.perf_counter() - started
    assert took_s >= 0.002
    own = served.to_dict()["phaselink"]
    assert own["timing"] is True and own["lag"]["count"] == 1 and own["lag"]["tolerance_ns"] == 10_000


def test_bytes_stay_in_a_store(tmp_path):
    store = tmp_path / "bytes.store"
    for data in (b"a" * 512, b"b" * 512):
        with phaselink.serve("nvme", shm=tmp_path / "drive.sock", store=store, timing=False, wait="block") as served:
            queue = served.connect().queue()
            assert data == b"a" * 512 or queue.read(0, 512) == b"a" * 512
            queue.write(0, data)


def test_other_front_ends_have_addresses(tmp_path):
    socket = tmp_path / "nbd.sock"
    with phaselink.serve("nvme", nbd=f"nbd+unix:///?socket={socket}", timing=False, wait="block") as served:
        assert served.addresses == [f"nbd+unix:///?socket={socket}"] and served.path is None
        with pytest.raises(ValueError, match="not served in shared memory"):
            served.connect()


def test_what_is_wrong_is_told(tmp_path):
    with pytest.raises(phaselink.InputError, match="adaptive, spin, block"):
        phaselink.serve("nvme", wait="long")
    with pytest.raises(phaselink.InputError):
        phaselink.serve("nvme", set=["faults=[{ action = \"reset\", from_us = 1 }]"])
    with pytest.raises(phaselink.InputError):
        phaselink.serve("nvme", nbd="nbd://192.0.2.1/")
    with pytest.raises(phaselink.InputError):
        phaselink.serve("nvme", shm=tmp_path / "no" / "such" / "folder")
