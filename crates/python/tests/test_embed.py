"""Embedded drives: modelled drives in the caller's time."""

import csv
from pathlib import Path

import pytest

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
    submitted, completed = drive.batch("read", offsets, 4096, depth=1)
    other = phaselink.embed("nvme", data=False)
    singles = [other.wait(other.submit(other.now_ps, "read", offset, 4096)).at_ps for offset in offsets]
    assert list(completed) == singles and submitted[0] == 0
    third = phaselink.embed("nvme", data=False)
    again, ends = third.batch("read", offsets, 4096, at_ps=submitted)
    assert list(again) == list(submitted) and list(ends) == singles


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


def test_restored_drive_does_the_same_again():
    drive = phaselink.embed("tlc-gen4")
    ticket = drive.submit(0, "write", 0, data=bytes(4096))
    snapshot = drive.snapshot()
    first = drive.wait(ticket)
    drive.restore(snapshot)
    assert drive.wait(ticket) == first


def test_simpy_resource_takes_as_long_as_the_drive():
    simpy = pytest.importorskip("simpy")
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
