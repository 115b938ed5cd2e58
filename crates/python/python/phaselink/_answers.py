"""Answers of verbs: a table with the document, the text and the page that the program prints."""

import gzip
import json
import os
from collections.abc import Iterable
from pathlib import Path

from . import _native, _progress, _text
from ._drive import load, many, read
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


class Export(Answer):
    """Latencies of a drive for other simulators: a row for each mix, size, and number of requests in flight.

    Rows have ``read_percent``, ``bytes``, ``in_flight``, ``iops``, ``reads`` and ``writes`` (with ``ns``, the latency at each of the
    document's ``percents``). :meth:`to_dict` has also ``loads``, latencies at random times, and ``checks`` and ``left_out``, the errors of both
    tables.
    """

    _ROWS = "conditions"

    def __init__(self, rendered):
        renderings, files = rendered
        super().__init__(renderings)
        #: Text of each file that the program writes, by its name.
        self.files = dict(files)

    def write(self, folder):
        """Write all files into a folder, which is made if it is missing. Returns their paths."""
        folder = Path(folder)
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in self.files.items():
            (folder / name).write_text(text)
        return [folder / name for name in self.files]


def export(
    drive="nvme",
    *,
    rw="randrw",
    bs=(),
    iodepth=(),
    rwmixread=(),
    numjobs=1,
    ios=20_000,
    burst=False,
    seed=1,
    progress=None,
    set=None,
    **sections,
):
    """Simulate a drive at many conditions, for simulators that take latencies from a table (``docs/export.md``): an :class:`Export`.

    ``bs``, ``iodepth`` and ``rwmixread`` are lists: sizes of requests, requests in flight of each of the ``numjobs`` threads, and shares of
    reads in per cent. ``rw`` is ``"randrw"`` or ``"rw"``. ``ios`` requests are simulated at each condition, in the steady state unless
    ``burst`` is set.

    Raises :class:`InputError` with everything that makes no sense.

    >>> table = export("nvme", bs="4k", iodepth=[1, 4], rwmixread=100, ios=1000)
    >>> [(row["in_flight"], row["reads"]["requests"]) for row in table.rows()]
    [(1, 1000), (4, 1000)]
    """
    drive = load(drive, set=set, **sections)
    asked = {"rw": rw, "bs": _text.listed(bs), "iodepth": _several(iodepth), "rwmixread": _several(rwmixread)}
    asked |= {"numjobs": numjobs, "ios": ios, "burst": burst, "seed": seed}
    with _progress.shown(progress, drive.name) as told:
        return Export(_native.export(drive._native, _question(asked), told))


class Knee(PagedAnswer):
    """Latency of a job against its load: a row for each load.

    Rows have ``offered_iops``, ``iops``, ``keeps_up``, ``read_p50_ns``, ``write_p50_ns`` and ``tails`` (percentiles from p99 on by name,
    each with its 95 % interval). :meth:`to_dict` has also ``knee_iops`` and ``iops_max``.
    """

    _ROWS = "points"

    @property
    def knee_iops(self):
        """Load at the knee in requests a second; ``None`` if p99 is unknown."""
        return self.to_dict()["knee_iops"]


def knee(drive="nvme", *, rates=None, ios=40_000, numjobs=4, iodepth=64, seed=1, progress=None, set=None, **options):
    """Run a job at rising loads, and find the load at which its tail grows (``docs/tails.md``): a :class:`Knee`.

    ``drive``, ``set``, ``progress`` and keywords for sections and options of fio are those of :func:`run`. ``rates`` are loads in
    requests a second, reads and writes of all threads together: a list, or the lowest and the highest of twelve as a text
    (``"10k:200k"``); without them, 5 % to 100 % of the throughput at the queue depth. Requests arrive at random times; the
    ``numjobs`` threads keep at most ``iodepth`` requests in flight each, and make ``ios`` requests together at each load.

    Raises :class:`InputError` with everything that makes no sense.

    >>> found = knee("nvme", rates=["100k", "200k"], ios=4000)
    >>> [row["keeps_up"] for row in found.rows()]
    [True, True]
    """
    sections, options = _text.divided(options)
    drive = load(drive, set=set, **sections)
    options |= {"numjobs": numjobs, "iodepth": iodepth}
    if not {"number_ios", "size", "runtime"} & options.keys():
        options["number_ios"] = -(-ios // numjobs)
    jobs = _native.Jobs(_text.options(options), [])
    asked = {"rates": None if rates is None else ",".join(_text.listed(rates)), "seed": seed}
    with _progress.shown(progress, drive.name) as told:
        return Knee(_native.knee(drive._native, jobs, _question(asked), told))


class KvCache(PagedAnswer):
    """What drives give as the last tier of an inference server's key-value cache: a row for each drive.

    Rows have hits, computed and written blocks (each with ``blocks``, ``tokens`` and ``bytes``), ``load``, ``read_wait``,
    ``first_token`` with and without drive and cache, ``drive_writes_per_day`` and ``lifetime``. :meth:`to_dict` has also the totals
    of the requests.
    """

    _ROWS = "drives"


def kvcache(
    drives=("tlc-gen4", "tlc-gen5", "xl-flash"),
    *,
    trace=None,
    trace_format=None,
    block_tokens=None,
    mix=None,
    rate=None,
    duration=None,
    kv_model="llama-3.1-70b",
    layout="block",
    accelerator_memory="160g",
    host_memory="1t",
    drive_size=None,
    drives_per_host=1,
    replacement="lru",
    drive_writes="evicted",
    io_size="1m",
    accelerator="h100",
    accelerators=8,
    utilisation=None,
    windows=20,
    seed=1,
    progress=None,
    set=None,
):
    """Simulate drives with the key-value cache of an inference server (``docs/inference.md``): a :class:`KvCache`.

    ``drives`` are whatever :func:`load` takes, each simulated by itself as ``drives_per_host`` equal ones; ``set`` changes all of
    them. Requests come from the file ``trace`` (Mooncake, Qwen-Bailian, MLPerf Storage, oracleGeneral; also packed by gzip), or
    are generated: ``mix`` (``"conversation"`` or ``"tool-agent"``), ``rate`` a second (1), for ``duration`` seconds (3600).
    ``kv_model`` is the name of a language model or the path of a file with its dimensions. Sizes (``accelerator_memory``,
    ``host_memory``, ``drive_size``, ``io_size``) are numbers of bytes or texts; a tier of 0 is left out. ``progress`` is that of
    :func:`run`.

    Raises :class:`InputError` with everything that makes no sense.

    >>> found = kvcache("optane-p5800x", duration=20, host_memory=0, windows=2)
    >>> found.rows()[0]["drive_hits"]["blocks"]
    0
    """
    model, text = _described(kv_model)
    sizes = {"accelerator_memory": accelerator_memory, "host_memory": host_memory, "drive_size": drive_size, "io_size": io_size}
    asked = {name: _text.option(size) for name, size in sizes.items() if size is not None}
    asked |= {"trace_format": trace_format, "block_tokens": block_tokens, "mix": mix, "rate": rate, "duration": duration}
    asked |= {"kv_model": model, "kv_model_text": text, "layout": layout, "drives_per_host": drives_per_host}
    asked |= {"replacement": replacement, "drive_writes": drive_writes, "accelerator": accelerator}
    asked |= {"accelerators": accelerators, "utilisation": utilisation, "windows": windows, "seed": seed}
    natives = [load(drive, set=set)._native for drive in many(drives)]
    with _progress.shown(progress, "kvcache") as told:
        return KvCache(_native.kvcache(natives, _trace(trace), _question(asked), told))


class WhatIf(PagedAnswer):
    """Drives and software stacks on which a recorded application was replayed, the fastest first: a row for each.

    Rows have ``drive``, ``stack``, ``gain`` (times as fast as now) with the ends of its 90 % interval, ``pays`` (``"yes"``, ``"no"``,
    ``"unsure"``, or ``"now"`` for the present drive), ``elapsed_s``, ``waited_s`` and mean latencies.
    """

    _ROWS = "ranked"


def whatif(
    trace,
    drives=("tlc-gen4", "tlc-gen5", "xl-flash", "optane-p5800x", "optane-p4800x", "tlc-gen3"),
    *,
    stack=("linux-6", "user-space"),
    now=None,
    recorded_on=None,
    trace_device=None,
    trace_format=None,
    draws=20,
    requests=4000,
    seed=1,
    progress=None,
    set=None,
):
    """Replay a recorded application on other drives and software stacks (``docs/what-if.md``): a :class:`WhatIf`.

    ``trace`` is the path of a block trace, also packed by gzip. ``drives`` are whatever :func:`load` takes, and ``set`` changes all of
    them; each is tried under every ``stack``. ``now`` is the drive that the application uses now (the first of ``drives``), under
    the first stack. ``recorded_on`` is the drive of the recording (that of ``now``), or ``"instant"`` for one that took no time.
    ``draws`` is the number of draws of all uncertain constants, and ``requests`` the largest number of replayed requests.
    ``progress`` is that of :func:`run`.

    Raises :class:`InputError` with everything that makes no sense.
    """
    chosen = [load(drive, set=set) for drive in many(drives)]
    present = chosen[0] if now is None else load(now, set=set)
    natives = [drive._native for drive in [present, *(drive for drive in chosen if drive != present)]]
    instant = recorded_on is None or isinstance(recorded_on, str) and recorded_on == "instant"
    recorded = recorded_on if instant else load(recorded_on)._native
    asked = {"stack": _text.listed(stack), "draws": draws, "requests": requests, "seed": seed}
    with _progress.shown(progress, "whatif") as told:
        recording = (*_trace(trace), trace_device, trace_format)
        return WhatIf(_native.whatif(natives, recording, recorded, _question(asked), told))


class Validation(PagedAnswer):
    """Measurements of real machines, each with the value that the model predicts: a row for each.

    Rows have ``id``, ``source``, ``quantity``, ``unit``, ``measured``, ``predicted``, ``error_pct`` and more. :meth:`to_dict` has also the
    errors of each source and of all sources.
    """


def validate(*sources, data=None, worst=5, progress=None):
    """Compare measurements of real machines with the model's values (``docs/validation.md``): a :class:`Validation`.

    ``sources`` are short names such as ``"CHE"``; without one, all sources are compared, which takes a minute or more. ``data`` is
    a folder with measurements and plans of your own, in place of those that come with the package. The text lists the ``worst``
    measurements of each source. ``progress`` is that of :func:`run`.

    Raises :class:`InputError` with everything that makes no sense.
    """
    if data is None:
        table, folder = ("measurements.csv", gzip.decompress(_native.packed_measurements()).decode()), None
    else:
        table, folder = _measurements(Path(data))
    with _progress.shown(progress, "validate") as told:
        return Validation(_native.validate(table, folder, _question({"sources": sources, "worst": worst}), told))


def _measurements(folder):
    """The table of measurements of a folder, and the texts of its plans and folds, each with its name."""
    packed, folds = folder / "measurements.csv.gz", folder / "folds.toml"
    path = packed if packed.exists() else folder / "measurements.csv"
    name, content = _trace(path)
    try:
        table = name, content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise _native.InputError(f"{name}: no text in UTF-8") from error
    plans = [(str(plan), read(plan)) for plan in sorted(folder.glob("*.toml")) if plan != folds]
    return table, (str(folder), plans, (str(folds), read(folds)) if folds.exists() else None)


def _trace(path):
    """The name of a trace and its bytes, unpacked if gzip has packed them."""
    if path is None:
        return None
    try:
        content = Path(path).read_bytes()
        return os.fspath(path), gzip.decompress(content) if content.startswith(b"\x1f\x8b") else content
    except (OSError, EOFError) as error:
        raise _native.InputError(f"{os.fspath(path)}: cannot be read: {error}") from error


def _described(description):
    """The name or the path of a description, and its text if it is a file."""
    word = os.fspath(description)
    return (word, read(word)) if word.endswith(".toml") or os.sep in word else (word, None)


def _several(value):
    """A list of numbers from one number or several of them."""
    value = _text.plain(value)
    return list(value) if isinstance(value, Iterable) else [value]


def _question(values):
    """A question as JSON, without what was not given."""
    return json.dumps({key: _text.plain(value) for key, value in values.items() if value is not None})
