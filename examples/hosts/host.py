#!/usr/bin/env python3
"""A host of an NVMe/TCP target: reads, writes, reserves, and looks at its path. Needs nothing but Python.

    host.py ADDRESS HOST COMMAND ...         ADDRESS is IP:PORT or nvme-tcp://IP:PORT, HOST a number from 1 to 255

    read BLOCK                               text at the start of a block of 512 bytes
    write BLOCK TEXT
    register KEY | unregister KEY            reservations of namespace 1; keys and types are numbers
    acquire KEY TYPE | preempt KEY OTHER TYPE | abort KEY OTHER TYPE
    release KEY TYPE | clear KEY
    report                                   registrants and reservation
    notice                                   the oldest notice about reservations
    path                                     the state of the path to each namespace

A command that the target refuses prints its status and ends with 1. Several commands may follow each other with `--`
between them: one host executes all of them over one connection, and ends with the status of the last.
"""

import socket
import struct
import sys

SUBSYSTEM_OF_DISCOVERY = "nqn.2014-08.org.nvmexpress.discovery"
STATUSES = {
    0x002: "Invalid Field",
    0x01B: "Aborted by Preempt and Abort",
    0x080: "LBA Out of Range",
    0x083: "Reservation Conflict",
    0x301: "Path Lost",
    0x302: "Path Inaccessible",
    0x303: "Path Changing",
}
TYPES = {
    1: "write exclusive",
    2: "exclusive access",
    3: "write exclusive, registrants only",
    4: "exclusive access, registrants only",
    5: "write exclusive, all registrants",
    6: "exclusive access, all registrants",
}
NOTICES = {1: "registration preempted", 2: "reservation released", 3: "reservation preempted"}
PATHS = {1: "optimized", 2: "non-optimized", 3: "inaccessible", 4: "lost", 15: "changing"}


class Refused(Exception):
    """The target has refused a command with this status."""

    def __init__(self, status):
        super().__init__(STATUSES.get(status, f"status {status:#05x}"))


class Queue:
    """Connection of one queue of a controller."""

    def __init__(self, address, number, controller, subsystem, host):
        self.socket = socket.create_connection(address)
        self.socket.sendall(struct.pack("<BBBBIHBBI", 0, 0, 128, 0, 128, 0, 0, 0, 0) + bytes(112))
        self.receive()
        data = bytes([host]) * 16 + struct.pack("<H", controller) + bytes(238)
        for name in (subsystem, f"nqn.2014-08.org.nvmexpress:uuid:00000000-0000-0000-0000-{host:012x}"):
            data += name.encode().ljust(256, b"\0")
        # Connect, a command of Fabrics: queue, entries less 1, no flow control, no keep-alive timeout.
        connect = struct.pack("<I", 1) + bytes(16) + self.capsule_data(1024)
        connect += struct.pack("<HHHBBI", 0, number, 31, 4, 0, 0)
        self.controller, _ = self.execute(0x7F, connect, data.ljust(1024, b"\0"))

    def receive(self):
        """Returns type, header and data of the next PDU."""
        common = self.exactly(8)
        kind, _, header_bytes, data_offset, total = struct.unpack("<BBBBI", common)
        header = common + self.exactly(header_bytes - 8)
        data_offset = max(data_offset, header_bytes)
        rest = self.exactly(total - header_bytes)
        return kind, header, rest[data_offset - header_bytes :]

    def exactly(self, count):
        data = b""
        while len(data) < count:
            more = self.socket.recv(count - len(data))
            if not more:
                raise SystemExit("host.py: the target has closed the connection")
            data += more
        return data

    @staticmethod
    def capsule_data(length):
        """SGL descriptor of data in the capsule."""
        return struct.pack("<QIBBBB", 0, length, 0, 0, 0, 0x01)

    @staticmethod
    def received_data(length):
        """SGL descriptor of data that the target sends."""
        return struct.pack("<QIBBBB", 0, length, 0, 0, 0, 0x5A)

    def execute(self, opcode, rest, data=b""):
        """Executes a command, whose entry goes on with `rest` behind its identifier. Returns result and data."""
        entry = (struct.pack("<BBH", opcode, 0x40, 1) + rest).ljust(64, b"\0")
        offset = 72 if data else 0
        self.socket.sendall(struct.pack("<BBBBI", 4, 0, 72, offset, 72 + len(data)) + entry + data)
        received = b""
        while True:
            kind, header, more = self.receive()
            if kind == 7:  # data to the host
                received += more
                if header[1] & 0b1000:  # the last data, and success
                    return 0, received
            elif kind == 5:  # response
                result, _, _, status = struct.unpack("<QIHH", header[8:24])
                if status >> 1 & 0x7FF:
                    raise Refused(status >> 1 & 0x7FF)
                return result & 0xFFFFFFFF, received
            else:
                raise SystemExit(f"host.py: the target ends the connection with a PDU of type {kind}")


def fields(namespace, descriptor, *dwords):
    """Entry of a command behind its identifier: namespace, data and dwords 10 to 15."""
    words = list(dwords) + [0] * (6 - len(dwords))
    return struct.pack("<I", namespace) + bytes(16) + descriptor + struct.pack("<6I", *words)


class Host:
    """Host with a controller of the target and one I/O queue."""

    def __init__(self, address, number):
        host, _, port = address.removeprefix("nvme-tcp://").rpartition(":")
        place = (host.strip("[]"), int(port))
        subsystem = self.discover(place, number)
        self.admin = Queue(place, 0, 0xFFFF, subsystem, number)
        self.enable(self.admin)
        # Number of Queues: one of each kind.
        self.admin.execute(0x09, fields(0, Queue.capsule_data(0), 7, 0))
        self.queue = Queue(place, 1, self.admin.controller & 0xFFFF, subsystem, number)

    @staticmethod
    def enable(admin):
        """Sets CC.EN and waits until CSTS.RDY is set."""
        value = 1 | 6 << 16 | 4 << 20
        admin.execute(0x7F, struct.pack("<I", 0) + bytes(32) + struct.pack("<IIQ", 0, 0x14, value))
        while not admin.execute(0x7F, struct.pack("<I", 4) + bytes(32) + struct.pack("<II", 0, 0x1C))[0] & 1:
            pass

    def discover(self, place, number):
        """Returns the name of the first NVM subsystem that the discovery controller lists at this port."""
        admin = Queue(place, 0, 0xFFFF, SUBSYSTEM_OF_DISCOVERY, number)
        self.enable(admin)
        _, log = admin.execute(0x02, fields(0, Queue.received_data(4096), 0x70 | 1023 << 16))
        admin.socket.close()
        for record in range(min(struct.unpack("<Q", log[8:16])[0], 3)):
            entry = log[1024 * (record + 1) :][:1024]
            if entry[2] == 2:
                return entry[256:512].rstrip(b"\0").decode()
        raise SystemExit("host.py: the discovery controller lists no NVM subsystem")

    def log(self, page, length):
        return self.admin.execute(0x02, fields(0xFFFFFFFF, Queue.received_data(length), page | (length // 4 - 1) << 16))[1]

    def reserve(self, opcode, dword, *keys):
        data = struct.pack(f"<{len(keys)}Q", *keys)
        self.queue.execute(opcode, fields(1, Queue.capsule_data(len(data)), dword), data)

    def run(self, command, *values):
        if command == "read":
            _, block = self.queue.execute(0x02, fields(1, Queue.received_data(512), int(values[0])))
            print(block.rstrip(b"\0").decode(errors="replace"))
        elif command == "write":
            block = values[1].encode()[:512].ljust(512, b"\0")
            self.queue.execute(0x01, fields(1, Queue.capsule_data(512), int(values[0])), block)
        elif command == "report":
            self.report()
        elif command == "notice":
            page = self.log(0x80, 64)
            print(NOTICES.get(page[8], "no notice"))
        elif command == "path":
            page = self.log(0x0C, 4096)
            for group in range(page[8]):
                entry = page[16 + 36 * group :]
                print(f"namespace {entry[0]}: {PATHS[entry[16]]}")
        else:
            self.change(command, [int(value, 0) for value in values])

    def change(self, command, numbers):
        if command == "register":
            self.reserve(0x0D, 0, 0, numbers[0])
        elif command == "unregister":
            self.reserve(0x0D, 1, numbers[0], 0)
        elif command == "acquire":
            self.reserve(0x11, numbers[1] << 8, numbers[0], 0)
        elif command in ("preempt", "abort"):
            self.reserve(0x11, (1 if command == "preempt" else 2) | numbers[2] << 8, numbers[0], numbers[1])
        elif command == "release":
            self.reserve(0x15, numbers[1] << 8, numbers[0])
        elif command == "clear":
            self.reserve(0x15, 1, numbers[0])
        else:
            raise SystemExit(f"host.py: no command {command}\n\n{__doc__}")

    def report(self):
        _, report = self.queue.execute(0x0E, fields(1, Queue.received_data(1024), 255, 1))
        generation, kind, count = struct.unpack("<IBH", report[:7])
        print(f"{TYPES.get(kind, 'not reserved')}, {count} registrants, {generation} changes")
        for registrant in range(min(count, 15)):
            entry = report[64 * (registrant + 1) :][:64]
            holds = ", holds the reservation" if entry[2] & 1 else ""
            print(f"host {entry[16]} with key {struct.unpack('<Q', entry[8:16])[0]:#x}{holds}")


def main():
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    address, number, *words = sys.argv[1:]
    host, status = Host(address, int(number)), 0
    while words:
        end = words.index("--") if "--" in words else len(words)
        command, words = words[:end], words[end + 1 :]
        try:
            host.run(*command)
            status = 0
        except Refused as refused:
            print(f"{command[0]}: {refused}")
            status = 1
        except (IndexError, ValueError) as wrong:
            sys.exit(f"host.py: {' '.join(command)}: {wrong}\n\n{__doc__}")
    sys.exit(status)


if __name__ == "__main__":
    main()
