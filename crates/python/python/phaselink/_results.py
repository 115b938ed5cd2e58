"""Results of runs, comparisons, predictions and traces."""

import json

from . import _native, _plot
from ._drive import Drive
from ._kept import Kept, KeptRun
from ._plot import COLOURS
from ._show import Table, aligned, escaped, number


class Figures:
    """A figure of all requests of a run together as an attribute each, reads and writes; ``None`` is unknown.

    :func:`figures` lists them.
    """


def _figure(name, about):
    def read(self):
        return self._native.figure(name)

    read.__doc__ = about
    return property(read)


for _name, _, _about in _native.figures():
    setattr(Figures, _name, _figure(_name, _about))


class Requests:
    """Single requests of a run, in the order in which they were done: a table of Arrow's, which pyarrow, polars and DuckDB take.

    Columns are ``number`` (in the order of issue, from 1), ``job``, ``direction`` (``read`` or ``write``), ``offset`` and ``bytes`` on
    the device, ``issued_ns`` (simulated time at which the application wanted it), ``latency_ns`` from then on, and
    ``stage.NAME_ns`` for each stage in which any of them spent time; stages sum to the latency. Requests of a ramp and those
    that have failed are not there, as they are in no figure.
    """

    def __init__(self, native):
        self._native = native

    @property
    def left_out(self):
        """Number of requests after the last that was kept."""
        return self._native.left_out

    def columns(self):
        """The names of the columns."""
        return self._native.columns()

    def to_arrow(self):
        """A ``pyarrow.Table``, a line for each request."""
        import pyarrow

        return pyarrow.table(self)

    def __arrow_c_stream__(self, requested_schema=None):
        """Arrow's PyCapsule interface. Batches of 16,384 requests are made as they are asked for."""
        return self._native.stream()

    def __len__(self):
        return len(self._native)

    def __repr__(self):
        return f"<{len(self):,} requests; {self.left_out:,} left out>"


class Result(Figures, Table):
    """Result of one run. Figures are those of all its requests together, reads and writes; ``None`` is unknown.

    As a table, it has a row for each job and direction.
    """

    def __init__(self, drive, native):
        self._native = native
        #: The drive that was run.
        self.drive: Drive = drive

    @property
    def seed(self):
        """Seed of everything random."""
        return self._native.seed

    @property
    def findings(self):
        """What was found, in sentences: the resource that limits the drive, and by how much."""
        return self._native.findings()

    @property
    def finished(self):
        """True if the jobs ended, or the requested precision was reached."""
        return self._native.finished

    @property
    def elapsed_ns(self):
        """Simulated time of the run, in ns."""
        return self._native.elapsed_ns

    @property
    def events(self):
        """Events simulated."""
        return self._native.events

    @property
    def stages(self):
        """Mean time in each stage: a list of dicts with ``job``, ``direction``, ``stage`` and ``mean_ns``.

        The means of a job and direction sum to its mean latency.
        """
        names = ("job", "direction", "stage", "mean_ns")
        return [dict(zip(names, stage)) for stage in self._native.stages()]

    @property
    def intervals(self):
        """Prediction interval of each figure from uncertain constants, if the run had ``intervals``.

        A dict by figure: ``value``, ``low`` and ``high`` (the ends of the middle 90 % of ``draws``), and ``contributions``, the
        constants that contribute most.
        """
        return self.to_dict()["phaselink"].get("intervals", {})

    @property
    def tails(self):
        """Percentiles of latency from p99 on, by name of the figure: a dict of dicts (``docs/tails.md``).

        Each has ``value_ns`` with the ends ``low_ns`` and ``high_ns`` of its 95 % interval, or ``None`` with ``needed_ios`` and
        ``why_unknown`` if the run has too few requests for it.
        """
        return self.to_dict()["phaselink"]["tails"]

    def requests(self):
        """The single requests of a run with ``requests=True``: a :class:`Requests`. Raises ``ValueError`` without."""
        kept = self._native.requests()
        if kept is None:
            raise ValueError("no requests were kept: run(..., requests=True) does, or the number of them that are wanted")
        return Requests(kept)

    def percentile(self, percent, kind="total", direction=None):
        """The latency in ns that ``percent`` of all requests do not exceed, to three digits; ``None`` if no request lies
        beyond it. ``kind`` and ``direction`` as in :meth:`histogram`.
        """
        return self._native.percentile(percent, kind, direction)

    def histogram(self, kind="total", direction=None):
        """The distribution of latencies: two NumPy arrays of equal length, ``(longest_ns, count)``.

        ``longest_ns`` (float64) rises; it is the longest latency of a class whose latencies agree to three digits.
        ``count`` (uint64) is how many requests are in it. ``kind`` is ``"total"`` (from when the application wants a
        request to its completion), ``"submission"`` (until its command is handed to the device) or ``"completion"``
        (from there on); ``direction`` is ``"read"``, ``"write"``, or ``None`` for both.
        """
        import numpy

        longest_ns, count = self._native.histogram(kind, direction)
        return numpy.frombuffer(longest_ns, dtype=numpy.float64), numpy.frombuffer(count, dtype=numpy.uint64)

    def to_dict(self):
        """The document that ``phaselink run --json`` prints, in fio's own shape."""
        return json.loads(self._native.json())

    def to_json(self):
        """:meth:`to_dict` as text."""
        return self._native.json()

    def to_html(self):
        """The page with plots that ``phaselink run --report`` writes."""
        return self._native.html()

    def rows(self):
        """A dict for each job and direction."""
        document = self.to_dict()
        rows = []
        for fio, own in zip(document["jobs"], document["phaselink"]["jobs"]):
            for direction in ("read", "write"):
                if own[direction]["ios"]:
                    rows.append(_row(own["name"], direction, fio[direction], own[direction]))
        return rows

    def plot(self, kind="stages", ax=None):
        """Draw the result by matplotlib, and return the axes.

        ``kind`` is ``"stages"`` (bars of the mean time in each stage) or ``"latency"`` (the share of requests that take longer
        than a latency). Without ``ax``, the axes are those of a new figure.
        """
        kinds = {"stages": _plot.stages, "latency": _plot.distribution}
        if kind not in kinds:
            raise ValueError(f"kind is {kind!r}; allowed: {', '.join(map(repr, kinds))}")
        return kinds[kind](self, ax)

    def _content(self):
        return self.drive.to_toml(), self.to_json()

    def __reduce__(self):
        # Single requests that were kept stay behind: their table goes through Arrow.
        native = self._native
        kept = native if isinstance(native, KeptRun) else KeptRun.of_run(native, [name for name, _, _ in _native.figures()])
        return Result, (self.drive, kept)

    def __str__(self):
        """What was found, and the tables that ``phaselink run`` prints."""
        return "\n".join([*self.findings, "", self._native.summary()])

    def __repr__(self):
        mean = "unknown" if self.mean_ns is None else f"{self.mean_ns / 1e3:.4g} us"
        return f"<{self.drive.name}: {self.ios:,.0f} requests, {self.iops:,.0f} a second, mean {mean}>"

    def _repr_html_(self):
        stages = [stage for stage in self.stages if stage["mean_ns"] > 0]
        head = f"<p>{escaped(repr(self)[1:-1])}</p>"
        return head + super()._repr_html_() + _stages(stages)


def _row(job, direction, fio, own):
    latency = own["latency_ns"]
    return {
        "job": job,
        "direction": direction,
        "ios": own["ios"],
        "iops": fio["iops"],
        # fio's unit is the kibibyte, a power of two: nothing is lost on the way back.
        "bytes_per_s": fio["bw_mean"] * 1024,
        "min_ns": latency["min"],
        "mean_ns": latency["mean"],
        **{f"{name}_ns": value for name, value in latency["percentile"].items()},
        "max_ns": latency["max"],
    }


def _stages(stages):
    """Bars of the time in each stage, each in the colour that it has in :meth:`Result.plot`."""
    most = max((stage["mean_ns"] for stage in stages), default=1.0)
    names = list(dict.fromkeys(stage["stage"] for stage in stages if stage["mean_ns"] > 0))
    lines = []
    for stage in stages:
        colour = COLOURS[names.index(stage["stage"]) % len(COLOURS)] if stage["stage"] in names else "none"
        lines.append(
            f"<tr><td>{escaped(stage['direction'])}</td><td>{escaped(stage['stage'])}</td>"
            f"<td style='text-align:right'>{number(stage['mean_ns'])} ns</td>"
            f"<td><div style='background:{colour};height:0.8em;width:{200 * stage['mean_ns'] / most:.0f}px'></div></td></tr>"
        )
    return f"<table>{''.join(lines)}</table>"


class Comparison(Table):
    """Results of several drives under the same work: a row for each line and drive.

    Rows have ``drive``, ``bs``, ``numjobs``, ``iodepth``, ``rw`` and the figures; a drive whose queues are too short for
    a line has ``None`` for them. :meth:`to_dict` also has stages, uses of resources and descriptions.
    """

    _NESTED = ("stages", "usage", "precision", "intervals", "measured", "tails")
    _SHOWN = ("drive", "rw", "bs", "numjobs", "iodepth", "iops", "bytes_per_s", "mean_ns", "p50_ns", "p99_ns")

    def __init__(self, text):
        self._text = text
        self._document = json.loads(text)

    def to_dict(self):
        """The document that ``phaselink compare --json`` prints."""
        return json.loads(self._text)

    @property
    def findings(self):
        """Findings, the most general first: a list of dicts with ``kind``, ``at``, ``parts`` and ``sentence``.

        ``parts`` are the amounts that the sentence is made of, with their ``drives`` and ``cause``.
        """
        return self._document["findings"]

    def plot(self, figure="mean_ns", ax=None):
        """Draw bars of a figure (:func:`figures`) by matplotlib, and return the axes.

        There is a group for each line and a bar for each drive. Without ``ax``, the axes are those of a new figure.
        """
        return _plot.bars(self.rows(), self._line, figure, figure, ax)

    def _line(self, row):
        """Return what tells the line of a row from other lines."""
        names = ("rw", "bs", "numjobs", "iodepth")
        several = [name for name in names if len({str(other.get(name)) for other in self._document["cells"]}) > 1]
        return ", ".join(f"{name} {row.get(name)}" for name in several or ("bs",))

    def _content(self):
        return self._text

    def __str__(self):
        """What was found, and the table."""
        every = self.columns()
        columns = [name for name in self._SHOWN if name in every]
        return "\n".join([*(finding["sentence"] for finding in self.findings), "", aligned(self.rows(), columns)])

    def columns(self):
        names = {}
        for cell in self._document["cells"]:
            names.update(dict.fromkeys(cell))
        return [name for name in names if name not in self._NESTED]

    def rows(self):
        columns = self.columns()
        return [{name: cell.get(name) for name in columns} for cell in self._document["cells"]]

    def __repr__(self):
        drives = ", ".join(dict.fromkeys(cell["drive"] for cell in self._document["cells"]))
        return f"<comparison of {drives}: {len(self)} rows>"

    def _repr_html_(self):
        findings = "".join(f"<li>{escaped(finding['sentence'])}</li>" for finding in self.findings)
        return f"<ul>{findings}</ul>{super()._repr_html_()}"


class Prediction:
    """Closed forms of a drive, without a simulation. ``None`` is what has no closed form.

    Latency of a lone request by stage is exact where ``certainty`` says so; the limits of resources follow from the
    utilisation law, and what follows from both from Little's law and balanced job bounds.
    """

    def __init__(self, document, text):
        self._document = document
        self._text = text
        self._job = self.jobs[0]

    @property
    def alone_ns(self):
        """Latency of a lone request of the first job, in ns."""
        return self._job["alone_ns"]

    @property
    def iops_max(self):
        """Requests a second that the first job cannot exceed."""
        return self._job["loaded"]["iops_max"]

    @property
    def bytes_per_s_max(self):
        """User data of the first job, at most, in bytes a second."""
        return self._job["loaded"]["bytes_per_s_max"]

    @property
    def bottleneck(self):
        """The resource that limits the first job."""
        return self._job["bottleneck"]

    @property
    def saturation_depth(self):
        """Number of requests in flight from which on the bottleneck is saturated."""
        return self._job["saturation_depth"]

    @property
    def intervals(self):
        """As :attr:`Result.intervals`, of ``alone_ns``, ``iops_max``, the limit of each resource and so on."""
        return self._drive().get("intervals", {})

    @property
    def jobs(self):
        """Every figure of each job, as in the program's JSON."""
        return self._drive()["jobs"]

    def _drive(self):
        return self.to_dict()["drives"][0]

    def to_dict(self):
        """The document that ``phaselink predict --json`` prints of the drive."""
        return json.loads(self._document)

    def __eq__(self, other):
        return self._document == other._document if isinstance(other, Prediction) else NotImplemented

    def __hash__(self):
        return hash(self._document)

    def __str__(self):
        """The text that ``phaselink predict`` prints."""
        return self._text

    def __repr__(self):
        alone = "unknown" if self.alone_ns is None else f"{self.alone_ns:,.0f} ns"
        return f"<prediction: {alone} alone, at most {self.iops_max:,.0f} a second, {self.bottleneck}>"

    def _repr_html_(self):
        return f"<pre>{escaped(self._text)}</pre>"


class Steps(Table):
    """Every step of one request: a row for each packet burst and activity, in the order in which they begin.

    Rows have ``request`` (``None`` for what no request owns), ``from_ns`` and ``to_ns`` (simulated time), ``where``
    (``host``, ``device``, ``media``, ``wire to host``, ``wire to device``), ``what``, and for packets ``packets`` and
    ``wire_bytes``. Software takes its mean time.
    """

    _COLUMNS = ("request", "from_ns", "to_ns", "where", "what", "packets", "wire_bytes")

    def __init__(self, native):
        self._native = native

    @property
    def ladder(self):
        """The packets with time running down: what ``phaselink trace`` prints."""
        return self._native.ladder()

    def to_perfetto(self):
        """A timeline of all recorded requests for Perfetto's viewer, as JSON text."""
        return self._native.perfetto()

    def columns(self):
        return list(self._COLUMNS)

    def rows(self):
        return [dict(zip(self._COLUMNS, row)) for row in self._native.rows()]

    def _content(self):
        return self.ladder, self.to_perfetto()

    def __reduce__(self):
        calls = (("ladder",), ("perfetto",), ("rows",))
        return Steps, (Kept.of(self._native, (), calls),)

    def __str__(self):
        return self.ladder

    def __repr__(self):
        return f"<{len(self)} steps of one request>"

    def _repr_html_(self):
        return f"<pre>{escaped(self.ladder)}</pre>"


class Transfers(Table):
    """Times in which a device reads and writes host memory: a row for each size and direction.

    Rows have ``bytes``, ``direction``, the latencies ``mean_ns``, ``p50_ns``, ``p99_ns``, ``p99_9_ns`` and ``max_ns`` of
    transfers one at a time, and ``bytes_per_s`` and ``transfers_per_s`` of many at a time.
    """

    def __init__(self, text):
        self._text = text
        self._document = json.loads(text)

    def to_dict(self):
        """The document that ``phaselink dma --json`` prints."""
        return json.loads(self._text)

    def _content(self):
        return self._text

    def rows(self):
        """A dict for each size and direction."""
        return [dict(row) for row in self._document["rows"]]

    def __repr__(self):
        return f"<transfers of {self._document['device']}: {len(self)} rows>"
