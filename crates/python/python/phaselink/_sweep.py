"""Sweeps: one plan, many runs, on this machine or on any executor."""

import functools
import json
import os
import warnings
from collections import deque
from concurrent.futures import FIRST_COMPLETED, wait

from . import _native, _plot, _progress, _text
from ._drive import Drive, load, read
from ._executors import adapted, is_lost
from ._kept import Kept
from ._show import Table
from ._state import State

#: Tasks that are given out before any comes back: more than there are workers, and fewer than memory minds.
_AHEAD = 4096


class Sweep(Table):
    """The rows of a sweep, in the order of its plan: axes, seed, figures and hash of each.

    ``columns`` of the plan are those of :meth:`rows`; :meth:`column` has every figure of every row.
    """

    def __init__(self, native, skipped=()):
        self._native = native
        self._parsed = None
        #: What keeps points from running that were left out, a line for each mistake.
        self.skipped = list(skipped)

    @property
    def _document(self):
        if self._parsed is None:
            self._parsed = json.loads(self._native.json())
        return self._parsed

    def rows(self):
        return self._document["rows"]

    def columns(self):
        document = self._document
        return [*document["axes"], "seed", *document["columns"], "hash"]

    def _shown(self):
        # What names a point for programs says nothing to people.
        return [name for name in self.columns() if name != "hash"]

    def column(self, name):
        """A figure of all rows (:func:`figures`), as a float64 array of NumPy; NaN is unknown."""
        import numpy

        return numpy.frombuffer(self._native.column(list(figures()).index(name)), dtype=numpy.float64)

    def to_dict(self):
        """The document that ``phaselink sweep --json`` prints."""
        return json.loads(self._native.json())

    def to_json(self):
        """The text of the document that ``phaselink sweep --json`` prints."""
        return self._native.json()

    def to_csv(self):
        """The text that ``phaselink sweep --csv`` prints."""
        return self._native.csv()

    def plot(self, y=None, x=None, ax=None):
        """Draw a figure by matplotlib, and return the axes.

        ``y`` is a column (the first figure of the plan if it is not given), ``x`` an axis of the sweep (the first); there is a line
        for each combination of the other axes. Without ``ax``, the axes are those of a new figure.
        """
        document = self._document
        x, y = x or document["axes"][0], y or document["columns"][0]
        rows = self.rows()
        others = [name for name in document["axes"] if name != x]
        others += ["seed"] * (len({row["seed"] for row in rows}) > 1)
        return _plot.lines(rows, x, y, others, figures().get(y, y), ax)

    def _content(self):
        return self.to_json()

    def __reduce__(self):
        calls = [("json",), ("csv",), ("table",), ("heading",), *(("column", place) for place in range(len(figures())))]
        native = self._native if isinstance(self._native, Kept) else Kept.of(self._native, (), calls)
        return Sweep, (native, self.skipped)

    def __str__(self):
        """The table that ``phaselink sweep`` prints."""
        return f"{self._native.heading()}\n{self._native.table()}"

    def __repr__(self):
        return f"<sweep of {len(self):,} rows over {', '.join(self._document['axes'])}>"


def figures():
    """Figures that every row of a sweep has: a dict of names with their headings in tables."""
    return {name: heading for name, heading, _ in _native.figures()}


def sweep(
    plan,
    axes=None,
    *,
    executor=None,
    batch=None,
    retries=2,
    state=None,
    skip_invalid=False,
    columns=None,
    seed=1,
    progress=None,
    set=None,
    **job,
):
    """Run every combination of the values of some axes.

    ``plan`` is the path or the text of a plan (``docs/sweep.md``). With ``axes`` it is a drive instead, whatever
    :func:`load` takes, and ``axes`` a dict: keys of a drive (``"link.lanes"``), options of the job (``"job.bs"``) or
    ``"drive"``, with the values of each; the first varies slowest. A tuple of keys with a tuple of values for each point
    varies them together. Other keywords are then options of the job, as in :func:`run`; ``set`` and sections change the drive, as
    in :func:`load`, and ``seed`` is one or several. ``progress`` is that of :func:`run`.

    All points are checked before any runs. Those that cannot run raise :class:`InputError`, or are left out with
    ``skip_invalid`` and told in :attr:`Sweep.skipped`. ``columns`` are the figures that rows show.

    ``executor`` is nothing for the threads of this process, anything with ``submit`` that gives futures of
    ``concurrent.futures``, a Dask ``Client``, :class:`RayExecutor`, or a function that makes an executor. Points go there
    ``batch`` at a time. A batch whose worker is lost, or that fails otherwise, is given out again, up to ``retries``
    times; where the executor itself is broken, it is made again if there is a function to make it, and what is left runs
    in this process if there is none. Tables do not depend on who ran what.

    ``state`` is a file that keeps finished runs, the same that ``phaselink sweep --state`` writes: the same call goes on
    from there.

    >>> sweep("dc-express", {"link.lanes": [4, 8]}, bs="4k", number_ios=500).column("iops").shape
    (2,)
    """
    payload = _payload(plan, axes, columns, seed, set, job)
    native = _native.Plan(*payload)
    points, skipped = native.check(skip_invalid)
    hashes = dict(points)
    with State(state) as kept, _progress.shown(progress, "sweep") as told:
        pending = list({hash: point for point, hash in points if hash not in kept}.values())
        if executor is None:
            parts = _parts(pending, 1 + len(pending) // 64 if state else len(pending))
            for number, part in enumerate(parts):
                kept.add(native.run(part, True, told and _part_of(told, number, len(parts))))
        elif pending:
            before = len(kept)
            tell = told and (lambda: told((len(kept) - before) / len(pending)))
            _distribute(executor, _shipped(payload, native), pending, batch, retries, kept, native, tell)
        lines = [kept[hash] for hash in hashes.values()]
    return Sweep(native.rows(list(hashes), lines), skipped)


def _part_of(told, number, parts):
    """Tell the share of all parts while one of them runs."""
    return lambda share: told((number + share) / parts)


def _payload(plan, axes, columns, seed, set, job):
    """Parts of a plan, here and in workers: file, text, folder, drives at hand, columns."""
    names = None if columns is None else list(columns)
    if axes is not None:
        drives, text = _written(plan, axes, seed, set, job)
        return "sweep", text, "", drives, names
    if job or set is not None or seed != 1:
        raise TypeError("a plan names its own job, overrides and seed; keywords go with axes")
    if isinstance(plan, str) and "\n" in plan:
        return "plan", plan, "", [], names
    return os.fspath(plan), read(plan), os.path.dirname(os.fspath(plan)), [], names


def _written(base, axes, seed, set, job):
    """The drives and the text of the plan of a call."""
    drives = {}
    sections, job = _text.divided(job)

    def named(drive):
        """Return the name of a drive in the plan, and keep the drive as text."""
        if isinstance(drive, str) and drive in _names():
            return drive
        drive = load(drive)
        name = drive.name
        while drives.get(name, drive) != drive:
            name += "'"
        drives[name] = drive
        return name

    lines = []
    if "drive" not in axes:
        name, source = _base(base, named, drives)
        lines.append(f"drive = {_text.toml(name)}")
        overrides = source + _text.overrides(set, sections)
    else:
        overrides = _text.overrides(set, sections)
    lines.append(f"set = {_text.toml(overrides)}")
    lines.append(f"job = {_text.toml(dict(_text.options(job)))}")
    lines.append(f"seed = {_text.toml(seed)}")
    for keys, values in axes.items():
        lines.append("[[axis]]")
        if isinstance(keys, tuple):
            lines.append(f"zip = {_text.toml(_together(keys, values, named))}")
        else:
            lines.append(f"key = {_text.toml(keys)}")
            lines.append(f"values = {_text.toml([_value(keys, item, named) for item in values])}")
    at_hand = [(name, *_whole(drive)) for name, drive in drives.items()]
    return at_hand, "\n".join(lines) + "\n"


def _together(keys, points, named):
    """An axis of several keys, of which each point has a value for each."""
    columns = [[] for _ in keys]
    for point in points:
        if len(point) != len(keys):
            raise ValueError(f"an axis with {len(keys)} keys and {len(point)} value{'s' * (len(point) != 1)} at a point")
        for key, column, value in zip(keys, columns, point):
            column.append(_value(key, value, named))
    return [{"key": key, "values": column} for key, column in zip(keys, columns)]


def _base(base, named, drives):
    """The name of the drive that axes change, and its own overrides, which go before them."""
    if isinstance(base, str) and base in _names():
        return base, []
    drive = load(base)
    name = named(drive)
    file, text, overrides = drive._source
    drives[name] = Drive(file, text, [])
    return name, list(overrides)


def _whole(drive):
    """File and text of a drive, its overrides written out."""
    file, text, overrides = drive._source
    return (file, drive.to_toml()) if overrides else (file, text)


@functools.lru_cache(maxsize=None)
def _names():
    return frozenset(name for name, _, _ in _native.shipped())


def _value(key, value, named):
    return named(value) if key == "drive" else value


def _shipped(payload, native):
    """Return the plan for workers, which need not have the drive files."""
    file, text, folder, _, columns = payload
    return file, text, os.path.abspath(folder) if folder else "", tuple(native.drives()), columns and tuple(columns)


@functools.lru_cache(maxsize=4)
def _plan(payload):
    file, text, folder, drives, columns = payload
    return _native.Plan(file, text, folder, list(drives), columns and list(columns))


def run_batch(payload, points):
    """Run some points of a plan in a worker, and give a line for each."""
    return _plan(payload).run(list(points), False)


def _parts(points, size):
    return [points[at : at + size] for at in range(0, len(points), max(size, 1))]


def _batch(pending):
    """Points of a task: enough tasks for some hundred workers, and not so many points that a lost one costs much."""
    return max(1, min(64, len(pending) // 256))


def _distribute(executor, payload, pending, batch, retries, kept, native, tell=None):
    """Submit the points in batches, and keep the resulting lines."""
    make = executor if callable(executor) and not hasattr(executor, "submit") else None
    waiting = deque((part, 0) for part in _parts(pending, batch or _batch(pending)))
    while waiting:
        used = adapted(make() if make else executor)
        try:
            error = _exhaust(used, payload, waiting, retries, kept, tell)
        finally:
            if make and hasattr(used, "shutdown"):
                used.shutdown(wait=False, cancel_futures=True)
        if error and not make:
            warnings.warn(f"the executor is broken ({error}); what is left runs in this process", RuntimeWarning, 4)
            kept.add(native.run([point for part, _ in waiting for point in part], True))
            return


def _exhaust(executor, payload, waiting, retries, kept, tell):
    """Run waiting batches until none is left or the executor breaks; return the error. Unfinished batches wait again."""
    under_way = {}
    broken = None
    try:
        while waiting and not broken or under_way:
            while waiting and not broken and len(under_way) < _AHEAD:
                part, tries = waiting.popleft()
                try:
                    under_way[executor.submit(run_batch, payload, part)] = (part, tries)
                except RuntimeError as error:
                    # Broken, or shut down: `BrokenExecutor` is a RuntimeError.
                    waiting.appendleft((part, tries))
                    broken = error
            if not under_way:
                break
            for future in wait(under_way, return_when=FIRST_COMPLETED).done:
                part, tries = under_way.pop(future)
                broken = _finished(future, part, tries, retries, waiting, kept) or broken
            if tell:
                tell()
    except BaseException:
        for future in under_way:
            future.cancel()
        raise
    return broken


def _finished(future, part, tries, retries, waiting, kept):
    """Keep the lines of a batch, or let it wait again; return the error if the executor is broken."""
    try:
        kept.add(future.result())
        return None
    except _native.InputError:
        raise
    except Exception as error:
        if tries >= retries:
            raise
        waiting.append((part, tries + 1))
        return error if is_lost(error) else None
