#!/usr/bin/env python3
"""Stores values by their keys in an NVMe drive that `phaselink serve` offers over vfio-user, without a driver in a kernel.

    key_value.py SOCKET store KEY VALUE [new | existing]    store a value, if its key is new, or exists
    key_value.py SOCKET retrieve KEY                        print the value
    key_value.py SOCKET exist KEY                           print the length of the value
    key_value.py SOCKET delete KEY                          delete the key and its value
    key_value.py SOCKET list [KEY]                          print the keys, or those from one on
    key_value.py SOCKET info                                print the limits of the namespace and the bytes in use

The exit code is 0, or 1 with a message. As a module, `KeyValueDrive` does the same.
"""

import mmap
import os
import socket
import struct
import sys
import time

PAGE = 4096
# Addresses of the host's memory for the drive: queues of the administration and of commands, a list of pages, and data.
ADMIN_QUEUE, ADMIN_COMPLETIONS, QUEUE, COMPLETIONS, PAGE_LIST, DATA = (page * PAGE for page in (1, 2, 3, 4, 5, 16))
DATA_BYTES = 2 << 20
ENTRIES = 16
TIMEOUT_S = 20

# vfio-user: numbers of messages (QEMU, docs/interop/vfio-user.rst).
VERSION, DMA_MAP, REGION_READ, REGION_WRITE = 1, 2, 9, 10
# NVMe: registers, doorbells, opcodes of the administration (Base Specification 2.0).
CAP, CC, CSTS, AQA, ASQ, ACQ, DOORBELLS = 0x00, 0x14, 0x1C, 0x24, 0x28, 0x30, 0x1000
CREATE_SUBMISSION_QUEUE, CREATE_COMPLETION_QUEUE, IDENTIFY = 0x01, 0x05, 0x06
# Key Value Command Set Specification 1.0: opcodes, options of Store, statuses, command set identifier.
STORE, RETRIEVE, LIST, DELETE, EXIST = 0x01, 0x02, 0x06, 0x10, 0x14
OPTIONS = {"": 0, "existing": 1 << 8, "new": 1 << 9}
STATUSES = {
    0x02: "Invalid Field in Command",
    0x81: "Capacity Exceeded",
    0x85: "Invalid Value Size",
    0x86: "Invalid Key Size",
    0x87: "KV Key Does Not Exist",
    0x89: "Key Exists",
}
KEY_VALUE_SET = 1
FURTHER_SETS = 1 << 43


class DriveError(Exception):
    """A command that the drive has refused, or a drive that cannot be used."""


class Queue:
    """A pair of queues in the host's memory."""

    def __init__(self, number, commands, completions):
        self.number, self.commands, self.completions = number, commands, completions
        self.tail, self.head, self.phase = 0, 0, 1


class KeyValueDrive:
    """A drive behind a socket of vfio-user. Use it in a `with` statement, which closes the connection."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(TIMEOUT_S)
        self.socket.connect(path)
        descriptor = os.memfd_create("host", os.MFD_CLOEXEC)
        os.ftruncate(descriptor, DATA + DATA_BYTES)
        self.memory = mmap.mmap(descriptor, DATA + DATA_BYTES)
        self._ask(VERSION, struct.pack("<HH", 0, 1))
        self._ask(DMA_MAP, struct.pack("<IIQQQ", 32, 3, 0, 0, DATA + DATA_BYTES), [descriptor])
        os.close(descriptor)
        self.admin, self.io = Queue(0, ADMIN_QUEUE, ADMIN_COMPLETIONS), Queue(1, QUEUE, COMPLETIONS)
        self._enable()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def store(self, key, value, condition=""):
        """Stores a value; `condition` is "new" or "existing" if the key has to be."""
        if len(value) > DATA_BYTES:
            raise DriveError(f"a value of {len(value)} bytes; the most that a command moves is {DATA_BYTES}")
        self.memory[DATA : DATA + len(value)] = value
        self._command(STORE, key, len(value), OPTIONS[condition])

    def retrieve(self, key):
        """Returns the value of a key."""
        length = self.exist(key)
        found = self._command(RETRIEVE, key, length)
        return self.memory[DATA : DATA + min(found, length)]

    def exist(self, key):
        """Returns the length of the value of a key."""
        return self._command(EXIST, key)

    def delete(self, key):
        """Deletes a key and its value."""
        self._command(DELETE, key)

    def keys(self, first=b""):
        """Yields all keys from one on, in the order of the drive, as many as fit a page at a time."""
        previous = None
        while True:
            self._command(LIST, first, PAGE)
            (count,), at = struct.unpack_from("<I", self.memory, DATA), DATA + 4
            listed = []
            for _ in range(count):
                (length,) = struct.unpack_from("<H", self.memory, at)
                listed.append(self.memory[at + 2 : at + 2 + length])
                at += (2 + length + 3) // 4 * 4
            # A list begins with the last key of the one before, if that still exists.
            fresh = [key for key in listed if key != previous]
            yield from fresh
            if not fresh:
                return
            first = previous = fresh[-1]

    def info(self):
        """Returns the limits of the namespace and the bytes in use, by name."""
        self._submit(self.admin, IDENTIFY, DATA, (0x05, KEY_VALUE_SET << 24), namespace=1)
        size, _, used = struct.unpack_from("<QQQ", self.memory, DATA)
        key_bytes, _, value_bytes, keys = struct.unpack_from("<HHII", self.memory, DATA + 72)
        return {"size": size, "used": used, "longest key": key_bytes, "largest value": value_bytes, "most keys": keys}

    def _enable(self):
        """Starts the controller, and creates a pair of queues."""
        command_sets = self._command_sets()
        self._set_register(CC, 0)
        self._wait_until_ready(0)
        self._set_register(AQA, (ENTRIES - 1) | (ENTRIES - 1) << 16)
        for register, address in ((ASQ, ADMIN_QUEUE), (ACQ, ADMIN_COMPLETIONS)):
            self._set_register(register, address)
            self._set_register(register + 4, 0)
        self._set_register(CC, 1 | command_sets << 4 | 6 << 16 | 4 << 20)
        self._wait_until_ready(1)
        size = (ENTRIES - 1) << 16 | 1
        self._submit(self.admin, CREATE_COMPLETION_QUEUE, COMPLETIONS, (size, 1))
        self._submit(self.admin, CREATE_SUBMISSION_QUEUE, QUEUE, (size, 1 | 1 << 16))

    def _command_sets(self):
        """Returns the value of CC.CSS with which the controller starts: that of all command sets."""
        if not self._register(CAP, 8) & FURTHER_SETS:
            raise DriveError("the drive has logical blocks alone; serve one with [key_value]")
        return 0b110

    def _command(self, opcode, key, data_bytes=0, options=0):
        """Has the drive execute a command for a key. Returns dword 0 of its completion."""
        if len(key) > 16:
            raise DriveError(f"a key of {len(key)} bytes; a command has room for 16")
        padded = key.ljust(16, b"\0")
        dwords = (data_bytes, options | len(key), 0, 0) + struct.unpack("<II", padded[8:])
        return self._submit(self.io, opcode, DATA, dwords, 1, padded[:8], data_bytes)

    def _submit(self, queue, opcode, address, dwords, namespace=0, key=bytes(8), data_bytes=0):
        """Submits a command, and waits for its completion, whose dword 0 it returns."""
        pages = (data_bytes + PAGE - 1) // PAGE
        second = address + PAGE
        if pages > 2:
            second = PAGE_LIST
            listed = [address + page * PAGE for page in range(1, pages)]
            struct.pack_into(f"<{len(listed)}Q", self.memory, PAGE_LIST, *listed)
        entry = struct.pack("<BBHI8sQQQ", opcode, 0, queue.tail, namespace, key, 0, address, second if pages > 1 else 0)
        entry += struct.pack("<6I", *(dwords + (0,) * (6 - len(dwords))))
        at = queue.commands + queue.tail * 64
        self.memory[at : at + 64] = entry
        queue.tail = (queue.tail + 1) % ENTRIES
        self._set_register(DOORBELLS + queue.number * 8, queue.tail)
        return self._completion(queue)

    def _completion(self, queue):
        at, until = queue.completions + queue.head * 16, time.monotonic() + TIMEOUT_S
        while struct.unpack_from("<H", self.memory, at + 14)[0] & 1 != queue.phase:
            if time.monotonic() > until:
                raise DriveError("the drive does not complete a command")
            time.sleep(0)
        (result,), (status,) = struct.unpack_from("<I", self.memory, at), struct.unpack_from("<H", self.memory, at + 14)
        queue.head = (queue.head + 1) % ENTRIES
        queue.phase ^= queue.head == 0
        self._set_register(DOORBELLS + queue.number * 8 + 4, queue.head)
        # The phase is below the status; type and code are its lowest 11 bits.
        status = status >> 1 & 0x7FF
        if status:
            raise DriveError(STATUSES.get(status, f"status {status:#x}"))
        return result

    def _wait_until_ready(self, is_ready):
        until = time.monotonic() + TIMEOUT_S
        while self._register(CSTS, 4) & 3 != is_ready:
            if time.monotonic() > until:
                raise DriveError("the controller does not start")

    def _register(self, offset, length):
        answer = self._ask(REGION_READ, struct.pack("<QII", offset, 0, length))
        return int.from_bytes(answer[16:], "little")

    def _set_register(self, offset, value):
        self._ask(REGION_WRITE, struct.pack("<QIII", offset, 0, 4, value))

    def _ask(self, command, payload, descriptors=()):
        """Sends a message, and returns the payload of its reply."""
        message = struct.pack("<HHIII", 0, command, 16 + len(payload), 0, 0) + payload
        socket.send_fds(self.socket, [message], list(descriptors))
        _, _, length, _, error = struct.unpack("<HHIII", self._receive(16))
        answer = self._receive(length - 16)
        if error:
            raise DriveError(f"the server refuses message {command}: {os.strerror(error)}")
        return answer

    def _receive(self, length):
        received = b""
        while len(received) < length:
            part = self.socket.recv(length - len(received))
            if not part:
                raise DriveError("the server has closed the connection")
            received += part
        return received


def run(path, verb, *arguments):
    """Runs one command of the command line."""
    words = [argument.encode() for argument in arguments]
    with KeyValueDrive(path) as drive:
        if verb == "store" and len(words) in (2, 3):
            drive.store(words[0], words[1], *arguments[2:])
        elif verb == "retrieve" and len(words) == 1:
            sys.stdout.buffer.write(drive.retrieve(words[0]) + b"\n")
        elif verb == "exist" and len(words) == 1:
            print(drive.exist(words[0]), "bytes")
        elif verb == "delete" and len(words) == 1:
            drive.delete(words[0])
        elif verb == "list" and len(words) < 2:
            for key in drive.keys(*words):
                print(key.decode(errors="backslashreplace"))
        elif verb == "info" and not words:
            for name, value in drive.info().items():
                print(f"{name}: {value}")
        else:
            raise DriveError(__doc__)


if __name__ == "__main__":
    try:
        run(*sys.argv[1:])
    except (DriveError, OSError, KeyError, TypeError) as error:
        sys.exit(__doc__ if isinstance(error, (KeyError, TypeError)) else f"key_value.py: {error}")
