"""A file that is replaced by another with rename, and whether it is whole after a power cut.

    rename.py make FOLDER                 version 0
    rename.py replace FOLDER [--fsync]    versions 1, 2, ...; each is reported on standard output once it is in its place
    rename.py check FOLDER PRINTED        the file is there and whole, and with --fsync as new as was reported

Without --fsync, the name may reach the drive before the bytes do.
"""

import os
import sys
import zlib

VERSIONS = 20
BYTES = 10_000


def content(version):
    body = (b"version %d\n" % version) * (BYTES // 10)
    return b"%d\n" % zlib.crc32(body) + body


def replace(folder, version, fsync):
    path = os.path.join(folder, "settings")
    with open(path + ".new", "wb") as file:
        file.write(content(version))
        file.flush()
        if fsync:
            os.fsync(file.fileno())
    os.rename(path + ".new", path)
    if fsync:
        directory = os.open(folder, os.O_RDONLY)
        os.fsync(directory)
        os.close(directory)


def check(folder, printed):
    with open(printed) as lines:
        reported = max((int(line) for line in lines), default=0)
    try:
        with open(os.path.join(folder, "settings"), "rb") as file:
            checksum, body = file.read().split(b"\n", 1)
    except (OSError, ValueError) as error:
        sys.exit(f"the settings are lost: {error}")
    if zlib.crc32(body) != int(b"0" + checksum.strip(b"\0")):
        sys.exit(f"the settings are damaged: {len(body)} bytes behind the checksum {checksum[:20]}")
    version = int(body.split(b"\n", 1)[0].split()[1])
    if version < reported:
        sys.exit(f"version {reported} was reported, and there is version {version}")


if len(sys.argv) < 3:
    sys.exit(__doc__)
action, folder, rest = sys.argv[1], sys.argv[2], sys.argv[3:]
if action == "make":
    replace(folder, 0, True)
elif action == "replace":
    for version in range(1, VERSIONS + 1):
        replace(folder, version, "--fsync" in rest)
        print(version, flush=True)
elif action == "check":
    check(folder, rest[0])
else:
    sys.exit(__doc__)
