#!/usr/bin/env python3
"""A log in the zones of a drive that `phaselink crash --vfio-user` serves: records are appended, and the oldest zone is reset.

    zone_log.py SOCKET write RECORDS [no-flush]    append so many records, and print the number of each one that is durable
    zone_log.py SOCKET check PRINTED               read the log, in which every printed record has to be

Each record has a number and a checksum. A zone begins with a record of its own; of two zones in use, one is full. With no-flush, a record
counts as durable once its append has completed, which a volatile write cache does not promise.
"""

import os
import struct
import sys
import zlib

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "key-value"))
from key_value import DATA, PAGE, DriveError, KeyValueDrive  # noqa: E402

# Zoned Namespace Command Set Specification 1.1: opcodes, actions, states, command set identifier.
FLUSH, READ, ZONE_SEND, ZONE_RECEIVE, ZONE_APPEND = 0x00, 0x02, 0x79, 0x7A, 0x7D
RESET = 4
FULL = 0xE
BLOCK, RECORD = 512, 16384
RECORD_BLOCKS = RECORD // BLOCK


class ZonedDrive(KeyValueDrive):
    """A drive with zones behind a socket of vfio-user."""

    def _command_sets(self):
        """Returns the value of CC.CSS for all command sets, which every drive with zones has."""
        return 0b110

    def zones(self):
        """Returns first block, state, number of writable blocks and number of written blocks of each zone."""
        self._submit(self.io, ZONE_RECEIVE, DATA, (0, 0, PAGE // 4 - 1, 0), 1, data_bytes=PAGE)
        (count,), found = struct.unpack_from("<Q", self.memory, DATA), []
        for number in range(min(count, PAGE // 64 - 1)):
            at = DATA + 64 + number * 64
            (state,) = struct.unpack_from("<B", self.memory, at + 1)
            capacity, start, pointer = struct.unpack_from("<QQQ", self.memory, at + 8)
            state >>= 4
            found.append((start, state, capacity, capacity if state == FULL else pointer - start))
        return found

    def append(self, start, data):
        """Appends blocks to the zone that begins with a block, and returns their place."""
        self.memory[DATA : DATA + len(data)] = data
        return self._submit(self.io, ZONE_APPEND, DATA, (start, 0, len(data) // BLOCK - 1), 1, data_bytes=len(data))

    def read(self, block, blocks):
        """Returns blocks."""
        self._submit(self.io, READ, DATA, (block, 0, blocks - 1), 1, data_bytes=blocks * BLOCK)
        return self.memory[DATA : DATA + blocks * BLOCK]

    def reset(self, start):
        """Empties the zone that begins with a block, durably."""
        self._submit(self.io, ZONE_SEND, 0, (start, 0, 0, RESET), 1)

    def flush(self):
        """Makes everything durable that has completed."""
        self._submit(self.io, FLUSH, 0, (), 1)


def record(number):
    """Returns the bytes of a record."""
    body = struct.pack("<Q", number) + bytes([number % 251]) * (RECORD - 12)
    return body + struct.pack("<I", zlib.crc32(body))


def records(drive, zone):
    """Yields the numbers of the whole records of a zone."""
    start, _, _, written = zone
    for block in range(start, start + written // RECORD_BLOCKS * RECORD_BLOCKS, RECORD_BLOCKS):
        data = drive.read(block, RECORD_BLOCKS)
        if struct.unpack("<I", data[-4:])[0] != zlib.crc32(data[:-4]):
            sys.exit(f"the record at block {block} is damaged, and the write pointer is behind it")
        yield struct.unpack("<Q", data[:8])[0]


def write(drive, count, is_flushed):
    """Appends records to two zones in turn, each of which is reset before it is filled again."""
    zones, now = drive.zones()[:2], 0
    left = zones[now][2] // RECORD_BLOCKS
    for number in range(count):
        if left == 0:
            now = 1 - now
            # The zone before is full, and durable first: the log must not lose its end while it loses its beginning.
            if is_flushed:
                drive.flush()
            drive.reset(zones[now][0])
            left = zones[now][2] // RECORD_BLOCKS
        drive.append(zones[now][0], record(number))
        left -= 1
        if is_flushed:
            drive.flush()
        print(number, flush=True)


def check(drive, printed):
    """Checks that the log has no gap, and ends no earlier than was printed."""
    found = sorted(number for zone in drive.zones()[:2] for number in records(drive, zone))
    if found and found != list(range(found[0], found[0] + len(found))):
        sys.exit(f"the log has a gap: {found}")
    with open(printed, encoding="ascii") as lines:
        last = max((int(line) for line in lines), default=-1)
    if last > (found[-1] if found else -1):
        sys.exit(f"record {last} was reported, and the log ends with {found[-1] if found else 'nothing'}")


def run(path, verb, value, *flags):
    """Runs one command of the command line."""
    with ZonedDrive(path) as drive:
        if verb == "write":
            write(drive, int(value), "no-flush" not in flags)
        else:
            check(drive, value)


if __name__ == "__main__":
    try:
        run(*sys.argv[1:])
    except (DriveError, OSError) as error:
        sys.exit(f"zone_log.py: {error}")
