"""Pages of 8 KiB with checksums, updated in place: what a database does that trusts its drive to write a page whole.

    pages.py make FILE [--double-write]      all pages, of generation 0
    pages.py write FILE [--double-write]     update pages in turn; each is flushed, then reported on standard output
    pages.py check FILE PRINTED              after a power cut: every page is whole, and as new as was reported

With --double-write, a page is first written to a place of its own, and flushed there: one of both is always whole.
"""

import os
import sys
import zlib

PAGE_BYTES = 8192
PAGES = 8
UPDATES = 40
# The second place of each page, behind all pages.
SECOND = PAGES * PAGE_BYTES


def page(number, generation):
    body = b"%d %d " % (number, generation)
    body = (body * PAGE_BYTES)[: PAGE_BYTES - 4]
    return body + zlib.crc32(body).to_bytes(4, "little")


def generation(number, data):
    """The generation of a page that is whole, or None."""
    body, checksum = data[:-4], int.from_bytes(data[-4:], "little")
    words = body.split(b" ", 2)
    is_whole = zlib.crc32(body) == checksum and words[0] == b"%d" % number
    return int(words[1]) if is_whole else None


def write(file, number, generation, double_write):
    if double_write:
        os.pwrite(file, page(number, generation), SECOND + number * PAGE_BYTES)
        os.fsync(file)
    os.pwrite(file, page(number, generation), number * PAGE_BYTES)
    os.fsync(file)


def check(file, printed):
    reported = {}
    for line in printed:
        number, newest = line.split()
        reported[int(number)] = int(newest)
    for number in range(PAGES):
        places = number * PAGE_BYTES, SECOND + number * PAGE_BYTES
        found = [generation(number, os.pread(file, PAGE_BYTES, place)) for place in places]
        # Recovery: what is torn in its place is taken from the other.
        newest = found[0] if found[0] is not None else found[1]
        if newest is None:
            sys.exit(f"page {number} is torn")
        if newest < reported.get(number, 0):
            sys.exit(f"page {number} has generation {newest}, and {reported[number]} was reported")


def main(action, path, *rest):
    file = os.open(path, os.O_RDWR)
    double_write = "--double-write" in rest
    if action == "make":
        for number in range(PAGES):
            write(file, number, 0, double_write)
    elif action == "write":
        for update in range(UPDATES):
            number, newest = update % PAGES, 1 + update // PAGES
            write(file, number, newest, double_write)
            print(number, newest, flush=True)
    elif action == "check":
        with open(rest[0]) as printed:
            check(file, printed)
    else:
        sys.exit(__doc__)


main(*sys.argv[1:])
