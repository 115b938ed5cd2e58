"""Answers of verbs: a table with the document, the text and the page that the program prints."""

import json
import os

from . import _native, _text
from ._drive import load, read
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


class Endurance(Answer):
    """Lifetimes of the memory of a drive.

    Of flash, a row for each write pattern and size has ``workload``, ``block_bytes``, ``write_amplification``, ``written_bytes``,
    ``drive_writes_per_day``, ``bytes_per_s``, ``years``, ``bytes_per_day`` and ``years_at_bytes_per_day``. Of other memories, a row for
    each write pattern and wear levelling has ``workload``, ``wear_levelling``, ``line_writes``, ``ideal_share``, ``line_writes_per_s``
    and ``years``.
    """

    _ROWS = "lifetimes"


class ErrorCorrection(Answer):
    """Error rates of the code of a sector: a row for each raw bit error rate, from formulas and from decoded sectors.

    :meth:`to_dict` has also the outcomes of decoding sectors by the kind of damage (``injected``) and the endurance of cells
    that the code allows.
    """

    _ROWS = "rates"


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


def endurance(drive="nvme", *, workload=None, bs=None, per_day=None, seed=None, set=None, **sections):
    """Compute the lifetime of a drive's memory: an :class:`Endurance`.

    ``drive``, ``set`` and sections are those of :func:`run`. ``workload`` is one write pattern or several: ``"sequential"`` and
    ``"random"`` for flash behind a translation layer, ``"uniform"``, ``"hot-range"``, ``"zipf"`` and ``"hammer"`` for other memories;
    all of them without it. For flash, ``bs`` is one size of writes or several, and ``per_day`` a number of bytes written a day
    (``"500g"``), for which the lifetime is computed, too. For other memories, ``seed`` is that of the random order of lines in
    randomised Start-Gap wear levelling.

    Raises :class:`InputError` with everything that does not suit the drive.

    >>> endurance("tlc-gen4").rows()[0]["workload"]
    'sequential'
    """
    drive = load(drive, set=set, **sections)
    asked = {"workload": _text.listed(workload) or None, "bs": _text.listed(bs) or None, "seed": seed}
    asked["per_day"] = None if per_day is None else _text.option(per_day)
    return Endurance(_native.endurance(drive._native, _question(asked)))


def ecc(*, trials=None, inject=None, seed=None):
    """Measure the error rates of the code of a sector in nine chips (``docs/ecc.md``): an :class:`ErrorCorrection`.

    ``trials`` sectors with random bit errors are decoded for each of eight raw bit error rates, and ``inject`` damaged sectors for
    each of eight kinds of damage (2,000 each), on all processors. ``seed`` is that of data and damage (1).

    Raises :class:`InputError` for numbers below 1 or above a billion, and ``KeyboardInterrupt`` soon after Ctrl-C.

    >>> ecc(trials=10, inject=10).to_dict()["injected"][0]["corrected"]
    10
    """
    return ErrorCorrection(_native.ecc(_question({"trials": trials, "inject": inject, "seed": seed})))


def _described(description):
    """The name or the path of a description, and its text if it is a file."""
    word = os.fspath(description)
    return (word, read(word)) if word.endswith(".toml") or os.sep in word else (word, None)


def _question(values):
    """A question as JSON, without what was not given."""
    return json.dumps({key: _text.plain(value) for key, value in values.items() if value is not None})
