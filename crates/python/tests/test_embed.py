"""Embedded drives: modelled drives in the caller's time."""

import csv
import struct
import zlib
from pathlib import Path

import pytest
import simpy

import phaselink

ARRIVALS = Path(__file__).resolve().parents[2] / "embed" / "tests" / "library" / "arrivals.csv"


def arrivals():
    drives = {}
    with ARRIVALS.open(newline="") as file:
        for row in csv.DictReader(file, delimiter=";"):
            drives.setdefault((row.pop("drive"), row.pop("setting")), []).append(row)
    return drives


@pytest.mark.parametrize("named", arrivals(), ids=lambda named: named[0])
def test_recorded_arrivals_complete_at_the_same_picosecond(named):
    name, setting = named
    rows = arrivals()[named]
    drive = phaselink.embed(name, set=[setting] if setting else None, data=False)
    tickets = {}
    for row in rows:
        queue = int(row["queue"]) % drive.queues
        ticket = drive.submit(int(row["submitted_ps"]), row["operation"], int(row["offset"]), int(row["bytes"]), queue=queue)
        tickets[ticket] = int(row["completed_ps"])
    assert [drive.wait(ticket).at_ps for ticket in tickets] == list(tickets.values())


def test_read_returns_what_was_written_with_its_stages():
    drive = phaselink.embed("tlc-gen4", stages=True)
    data = bytes(range(256)) * 16
    written = drive.wait(drive.submit(0, "write", 4096, data=data))
    assert written.status == "success" and sum(written.stages.values()) == written.latency_ps
    assert drive.wait(drive.submit(drive.now_ps, "read", 4096, 4096)).data == data
    assert [row.kind for row in drive.summary()] == ["read", "write"]


def test_events_come_in_the_order_of_time():
    drive = phaselink.embed("optane-p5800x", data=False)
    for block in range(8):
        drive.submit(0, "read", block * 4096, 4096)
    ends = []
    while (next_ps := drive.next_at_ps) is not None:
        drive.advance(next_ps)
        ends += [done.at_ps for done in drive.completions()]
    assert len(ends) == 8 and ends == sorted(ends) and drive.in_flight == 0


def test_batch_does_what_single_operations_do():
    offsets = [block * 7919 % 4096 * 4096 for block in range(200)]
    drive = phaselink.embed("nvme", data=False)
    submitted, completed, status = drive.batch("read", offsets, 4096, depth=1)
    assert list(status) == [0] * 200
    other = phaselink.embed("nvme", data=False)
    singles = [other.wait(other.submit(other.now_ps, "read", offset, 4096)).at_ps for offset in offsets]
    assert list(completed) == singles and submitted[0] == 0
    third = phaselink.embed("nvme", data=False)
    again, ends, _ = third.batch("read", offsets, 4096, at_ps=submitted)
    assert list(again) == list(submitted) and list(ends) == singles


def test_batch_with_a_wrong_operation_submits_none():
    drive = phaselink.embed("nvme", data=False)
    drive.advance(1000)
    for wrong in [
        dict(offsets=[0, 4096, 3]),
        dict(offsets=[0, 4096, drive.capacity_bytes]),
        dict(offsets=[0, 0, 0], at_ps=[2000, 3000, 2999]),
        dict(offsets=[0], at_ps=[999]),
        dict(offsets=[0], queue=9999),
    ]:
        with pytest.raises(phaselink.MisuseError):
            drive.batch("read", bytes=4096, **wrong)
        assert (drive.in_flight, drive.now_ps) == (0, 1000), wrong
    with pytest.raises(ValueError, match="there is no operation"):
        drive.batch(["read", "fetch"], [0, 0], 4096)
    with pytest.raises(ValueError, match="depth=0"):
        drive.batch("read", [0], 4096, depth=0)
    assert drive.in_flight == 0


def test_batch_tells_failed_operations_by_their_places():
    drive = phaselink.embed("nvme", data=False)
    drive.inject_fault('action = "error", operation = "read", first = 3, every = 5')
    result = drive.batch("read", range(0, 4096 * 20, 4096), 4096, depth=4)
    assert result.failures == {place: "media error" for place in (2, 7, 12, 17)}
    assert all(start < end for start, end in zip(result.submitted_ps, result.completed_ps))
    late = phaselink.embed("nvme", data=False)
    late.advance(2**63 - 2)
    result = late.batch("read", [0, 4096, 8192], 4096, depth=2)
    assert list(result.failures.values()) == ["never completes"] * 2 + ["not submitted"]


def test_snapshot_of_another_drive_is_refused():
    drive, other = phaselink.embed("nvme"), phaselink.embed("tlc-gen4")
    with pytest.raises(phaselink.MisuseError, match="one of nvme; this is tlc-gen4") as raised:
        other.restore(drive.snapshot())
    assert raised.value.code == 16
    assert other.wait(other.submit(0, "read", 0, 4096)).status == "success"


def test_misuse_raises_with_its_reason_and_the_drive_stays_usable():
    drive = phaselink.embed("nvme")
    drive.advance(1000)
    with pytest.raises(phaselink.MisuseError, match="time never runs backwards") as raised:
        drive.advance(999)
    assert raised.value.code == 1
    with pytest.raises(phaselink.MisuseError, match="multiples of the drive's block"):
        drive.submit(drive.now_ps, "read", 3, 4096)
    with pytest.raises(ValueError, match="there is no operation"):
        drive.submit(drive.now_ps, "fetch", 0, 4096)
    with pytest.raises(phaselink.MisuseError, match="open it with power cuts"):
        drive.cut_power()
    ticket = drive.submit(drive.now_ps, "read", 0, 4096)
    assert drive.wait(ticket).status == "success"
    with pytest.raises(phaselink.MisuseError, match="names no operation"):
        drive.wait(ticket)
    with pytest.raises(phaselink.InputError, match="did you mean"):
        phaselink.embed("tlc-gen44")


def test_power_cut_keeps_what_was_flushed():
    found = set()
    for seed in range(40):
        drive = phaselink.embed("tlc-gen4", power_cuts=True)
        drive.wait(drive.submit(0, "write", 0, data=b"a" * 4096))
        drive.wait(drive.submit(drive.now_ps, "flush"))
        drive.wait(drive.submit(drive.now_ps, "write", 4096, data=b"b" * 4096))
        drive.cut_power(seed=seed)
        assert drive.peek(0, 1) == b"a"
        found.add(drive.peek(4096, 1))
    assert found == {b"b", b"\0"}


def test_images_explain_themselves_and_become_the_drive():
    drive = phaselink.embed("tlc-gen4", power_cuts=True, seed=3)
    drive.wait(drive.submit(0, "write", 0, data=b"a" * 4096))
    images = drive.images(1000)
    assert {image.read(0, 1) for image in images} == {b"a", b"\0"}
    lost = next(image for image in images if any("is missing" in line for line in image.explanation))
    assert "Flush command" in lost.explanation[0] and "seed 3" in lost.explanation[-1] and lost.name in lost.explanation[-1]
    with pytest.raises(phaselink.MisuseError, match="end beyond the drive"):
        lost.read(2**64 - 1, 1)
    drive.cut_power(survives=drive.image(lost.name))
    assert drive.peek(0, 1) == b"\0"
    with pytest.raises(phaselink.MisuseError, match="another state"):
        drive.cut_power(survives=lost)


def recording(path):
    """Write a recording of one write of two blocks in flight."""
    header = b"phaselink crash\x01" + struct.pack("<QIIBQ", 4096, 512, 512, 0, 0)
    body = header + struct.pack("<BQIB", 1, 0, 1024, 0) + b"a" * 1024 + b"\0"
    path.write_bytes(body + struct.pack("<I", zlib.crc32(body)))
    return path


def test_images_of_a_recording_explain_themselves_and_become_a_drive(tmp_path):
    path = recording(tmp_path / "app.recording")
    images = phaselink.recording_images(path)
    assert {image.read(0, 513)[::512] for image in images} == {b"aa", b"a\0", b"\0a", b"\0\0"}
    torn = next(image for image in images if image.read(0, 513)[::512] == b"\0a")
    assert "in flight (NVM Express" in torn.explanation[0] and str(path) in torn.explanation[-1]
    (again,) = phaselink.recording_images(path, name=torn.name)
    drive = phaselink.embed("tlc-gen4", power_cuts=True)
    drive.load_image(again)
    assert drive.peek(0, 1024) == bytes(512) + b"a" * 512
    drive.submit(0, "flush")
    with pytest.raises(phaselink.MisuseError, match="in flight") as misuse:
        drive.load_image(again)
    assert misuse.value.code == 19
    with pytest.raises(phaselink.InputError, match="had not arrived"):
        phaselink.recording_images(path, name="cut=1,missing=2")
    with pytest.raises(phaselink.InputError, match="no recording"):
        phaselink.recording_images(__file__)


def test_drawn_image_is_what_the_cut_leaves():
    drive = phaselink.embed("tlc-gen4", power_cuts=True)
    drive.wait(drive.submit(0, "write", 0, data=b"a" * 4096))
    for seed in range(10):
        image, before = drive.drawn_image(seed), drive.snapshot()
        drive.cut_power(seed=seed)
        assert drive.peek(0, 4096) == image.read(0, 4096)
        drive.restore(before)


def test_restored_drive_does_the_same_again():
    drive = phaselink.embed("tlc-gen4")
    ticket = drive.submit(0, "write", 0, data=bytes(4096))
    snapshot = drive.snapshot()
    first = drive.wait(ticket)
    drive.restore(snapshot)
    assert drive.wait(ticket) == first


def test_simpy_resource_takes_as_long_as_the_drive():
    env = simpy.Environment()
    drive = phaselink.SimPyDrive(env, phaselink.embed("tlc-gen4"))
    seen = []

    def application():
        yield env.timeout(1e-3)
        done = yield drive.write(0, bytes(4096))
        seen.append((env.now, done))
        done = yield drive.flush()
        seen.append((env.now, done))

    env.process(application())
    env.run()
    assert len(seen) == 2
    for now, done in seen:
        assert done.status == "success" and now == pytest.approx(done.at_ps * 1e-12, rel=1e-9)
    assert seen[1][1].latency_ps > 100_000_000
