"""Progress of long calls: a function of the caller's, tqdm's bar, or a line on standard error."""

import sys
from contextlib import contextmanager


class _Bar:
    """A bar of tqdm's."""

    def __init__(self, tqdm, what):
        self._bar = tqdm(total=1.0, desc=what, leave=False, bar_format="{desc}: {percentage:3.0f}%|{bar}| {elapsed}<{remaining}")

    def __call__(self, share):
        self._bar.update(share - self._bar.n)

    def close(self):
        self._bar.close()


class _Line:
    """A line on standard error, if that is a terminal."""

    def __init__(self, what):
        self._what = what
        self._is_shown = sys.stderr.isatty()

    def __call__(self, share):
        if self._is_shown:
            print(f"\r{self._what}: {share:4.0%}", end="", file=sys.stderr, flush=True)

    def close(self):
        if self._is_shown:
            print("\r" + " " * (len(self._what) + 7) + "\r", end="", file=sys.stderr, flush=True)


@contextmanager
def shown(progress, what):
    """The function that a call tells which share of it is done, from 0 to 1; ``None`` if nobody is to be told."""
    if progress is None or progress is False:
        yield None
        return
    if progress is not True:
        if not callable(progress):
            raise TypeError("progress is True, or a function that takes the share that is done, from 0.0 to 1.0")
        yield progress
        return
    try:
        from tqdm.auto import tqdm
    except ImportError:
        bar = _Line(what)
    else:
        bar = _Bar(tqdm, what)
    try:
        yield bar
    finally:
        bar.close()
