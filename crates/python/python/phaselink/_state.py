"""Finished runs of a sweep: in memory, and in the file that ``phaselink sweep`` keeps them in."""

import json
import os

from . import _native

try:
    import fcntl
except ImportError:  # Not on this system: nobody keeps two sweeps from one file.
    fcntl = None

#: First line of every state file.
HEADER = _native.STATE_HEADER


class State:
    """Lines of finished runs by their hash; with a path, also in that file, which nobody else may write meanwhile."""

    def __init__(self, path=None):
        self._lines = {}
        self._file = None
        if path is not None:
            self._file = self._open(os.fspath(path))

    def _open(self, path):
        def refuse(found, allowed="another state file"):
            file.close()
            raise _native.InputError(f"{path}: {found}; allowed: {allowed}")

        file = open(path, "a+", encoding="utf-8", newline="\n")
        if fcntl:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                refuse("another sweep is writing this file")
        file.seek(0)
        text = file.read()
        # A last line without an end was being written when a sweep was stopped.
        whole = text[: text.rfind("\n") + 1]
        if not whole and HEADER.startswith(text):
            whole = ""
        elif not whole.startswith(HEADER):
            refuse(_native.state_refusal(text.partition("\n")[0] + "\n"))
        for number, line in enumerate(whole[len(HEADER) :].splitlines(), 2):
            if not _native.is_run(line):
                refuse(f"no finished run in line {number}")
            self._keep(line)
        file.truncate(len(whole.encode()))
        if not whole:
            file.write(HEADER)
            file.flush()
        return file

    def _keep(self, line):
        self._lines[json.loads(line)["hash"]] = line

    def add(self, lines):
        """Keep runs."""
        for line in lines:
            self._keep(line)
        if self._file:
            self._file.write("".join(lines))
            self._file.flush()

    def __len__(self):
        return len(self._lines)

    def __contains__(self, hash):
        return hash in self._lines

    def __getitem__(self, hash):
        return self._lines[hash]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        if self._file:
            self._file.close()
