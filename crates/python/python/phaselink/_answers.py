"""Answers of verbs: a table with the document, the text and the page that the program prints."""

import json
import os

from . import _native, _text
from ._drive import read
from ._show import Table


class Answer(Table):
    """Answer of a verb, as text (``str``), as a table and as the program's document."""

    #: Key of the document whose list has the rows of the table.
    _ROWS = "rows"

    def __init__(self, renderings):
        self._renderings = renderings

    def to_dict(self):
        """The document that the program prints with ``--json``."""
        return json.loads(self._renderings[0])

    def rows(self):
        return self.to_dict()[self._ROWS]

    def _content(self):
        return self._renderings[0]

    def __str__(self):
        """The text that the program prints, without the end of its last line."""
        return self._renderings[1].rstrip("\n")

    def __repr__(self):
        return f"<{type(self).__name__}: {len(self)} rows>"


class PagedAnswer(Answer):
    """Answer of a verb that has a page, too."""

    def to_html(self):
        """The page that the program writes with ``--report``."""
        return self._renderings[2]


class BreakEven(PagedAnswer):
    """Times without an access after which a block costs less on a drive than in memory: a row for each block size.

    Rows have ``block_bytes``, ``break_even_s``, its ``parts_s``, ``drive_iops``, ``limit`` (what limits the drive), ``used_iops`` and
    ``tail_ns``. :meth:`to_dict` has also the effect of each input and the prices and rates.
    """

    _ROWS = "times"


def breakeven(
    description="slc-cpu",
    *,
    bs=None,
    utilisation=None,
    host_iops=None,
    drives=None,
    sensitivity=False,
    history=False,
):
    """Compute the time between accesses from which on a block costs less on a drive than in memory: a :class:`BreakEven`.

    ``description`` has the prices and rates of drive, memory and host: the name of one that comes with the package, or the
    path of a file (``docs/break-even.md``). ``bs`` is one block size or several (512, 1k, 2k and 4k). ``utilisation`` is the share
    of the drive's largest rate that is used; ``host_iops`` is the largest number of operations a second of the host, over all
    ``drives``. These three replace values of the description. With ``sensitivity`` the text shows the effect of each input, and
    with ``history`` the published versions of the five-minute rule.

    Raises :class:`InputError` with everything that makes no sense.

    >>> round(breakeven(bs="4k").rows()[0]["break_even_s"])
    11
    """
    name, text = _described(description)
    asked = {"description": name, "text": text, "utilisation": utilisation, "host_iops": host_iops, "drives": drives}
    asked |= {"bs": _text.listed(bs) or None, "sensitivity": sensitivity, "history": history}
    return BreakEven(_native.breakeven(_question(asked)))


def _described(description):
    """The name or the path of a description, and its text if it is a file."""
    word = os.fspath(description)
    return (word, read(word)) if word.endswith(".toml") or os.sep in word else (word, None)


def _question(values):
    """A question as JSON, without what was not given."""
    return json.dumps({key: _text.plain(value) for key, value in values.items() if value is not None})
