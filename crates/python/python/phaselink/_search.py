"""The cheapest description that meets a target."""

import itertools
import os
from collections.abc import Mapping

from . import _native, _sweep, _text
from ._drive import load
from ._show import Table
from ._verbs import predict

#: Figures that a closed form bounds: from above, or from below.
_AT_MOST = {"iops": "iops_max", "bytes_per_s": "bytes_per_s_max"}
_AT_LEAST = {"mean_ns": "mean_ns_min"}


class Optimum(Table):
    """The cheapest point of a grid that meets a target, and the cost of the search.

    Rows are the points that ran, the cheapest first: ``cost``, the axes, the figures of the target, and ``meets``.
    """

    def __init__(self, rows, points, ruled_out, drive):
        self._rows = rows
        #: Points of the grid.
        self.points = points
        #: Points that closed forms ruled out, without a run.
        self.ruled_out = ruled_out
        #: The drive of the cheapest point that meets the target; ``None`` if none does.
        self.drive = drive

    @property
    def best(self):
        """The row of the cheapest point that meets the target; ``None`` if none does."""
        return next((row for row in self._rows if row["meets"]), None)

    @property
    def cost(self):
        """Cost of the cheapest point; ``None`` if no point meets the target."""
        return self.best and self.best["cost"]

    @property
    def runs(self):
        """Points that were simulated."""
        return len(self._rows)

    def rows(self):
        return [dict(row) for row in self._rows]

    def __repr__(self):
        found = f"cost {self.cost:g}" if self.best else "nothing meets the target"
        return f"<{found}: {self.points:,} points, {self.ruled_out:,} ruled out by closed forms, {self.runs:,} runs>"


def optimize(drive, axes, *, meet, cost, seed=1, set=None, **job):
    """Find the cheapest of all combinations of the values of some axes that meets a target.

    ``drive``, ``axes``, ``seed``, ``set`` and the job's options are those of :func:`sweep`. ``meet`` holds figures
    (:func:`figures`) with the least and the most that will do: ``{"iops": (500_000, None), "p99_ns": (None, 20_000)}``.
    ``cost`` is a dict of keys with a price for each unit (``{"link.lanes": 2.5}``) or for each value (``{"media.preset":
    {"dram": 30, "pcm-p5q": 12}}``), which are summed, or a function that takes a :class:`Drive`.

    The answer is exact: points run in the order of their costs, as many at a time as there are processors, until one
    meets the target. Those of which a closed form already says that they cannot (:func:`predict` bounds throughput from
    above and the mean latency from below) do not run at all. Points that cannot run are left out.

    Raises what :func:`sweep` raises.

    >>> prices = {"link.lanes": 2.0, "media.banks_per_channel": 1.0}
    >>> axes = {"link.lanes": [1, 2, 4, 8], "media.banks_per_channel": [1, 2, 4, 8]}
    >>> found = optimize("dc-express", axes, meet={"iops": (600_000, None)}, cost=prices, bs=512, number_ios=500)
    >>> found.best["link.lanes"], found.runs < found.points
    (4, True)
    """
    bounds = {name: _ends(name, ends) for name, ends in meet.items()}
    keys = [key if isinstance(key, tuple) else (key,) for key in axes]
    values = [[value if isinstance(key, tuple) else (value,) for value in axes[key]] for key in axes]
    native = _native.Plan(*_sweep._payload(drive, axes, list(bounds), seed, set, job))
    runnable = [point for point, _ in native.check(True)[0]]
    grid = [_flat(keys, choice) for choice in itertools.product(*values)]
    priced, ruled_out = [], 0
    for point in runnable:
        described, options = _described(drive, grid[point], set, job)
        if _is_ruled_out(predict(described, **options), bounds):
            ruled_out += 1
        else:
            priced.append((_cost(cost, described, grid[point]), point, described))
    priced.sort(key=lambda entry: entry[:2])
    rows, best = _searched(native, priced, grid, bounds)
    return Optimum(rows, len(grid), ruled_out, best)


def _searched(native, priced, grid, bounds):
    """Run points in the order of their costs until one meets the target; the rows, and the drive of the cheapest."""
    rows = []
    for wave in _sweep._parts(priced, os.cpu_count() or 1):
        points = [point for _, point, _ in wave]
        ran = native.rows(points, native.run(points, True))
        for (price, point, _), row in zip(wave, _sweep.Sweep(ran).rows()):
            figures = {name: row[name] for name in bounds}
            meets = all(_is_within(figures[name], bounds[name]) for name in bounds)
            rows.append({"cost": price, **grid[point], **figures, "meets": meets})
        met = [described for row, (_, _, described) in zip(rows[-len(wave) :], wave) if row["meets"]]
        if met:
            return rows, met[0]
    return rows, None


def _ends(name, ends):
    least, most = ends
    known = [name for name, _, _ in _native.figures()]
    if name not in known:
        raise _native.InputError(f"there is no figure `{name}`; allowed: {', '.join(known)}")
    if least is None and most is None:
        raise ValueError(f"{name} is to meet nothing: give the least or the most that will do")
    return least, most


def _flat(keys, choice):
    return {key: value for names, values in zip(keys, choice) for key, value in zip(names, values)}


def _described(drive, point, set, job):
    """The drive of a point, and the options of its job."""
    options = dict(job)
    options.update({key[4:]: value for key, value in point.items() if key.startswith("job.")})
    overrides = {key: value for key, value in point.items() if key != "drive" and not key.startswith("job.")}
    named = load(point.get("drive", drive), set=_text.overrides(set, {}))
    return (named.set(overrides) if overrides else named), options


def _cost(cost, drive, point):
    if callable(cost):
        return cost(drive)
    total = 0.0
    for key, price in cost.items():
        value = point[key] if key in point else drive[key]
        total += price[value] if isinstance(price, Mapping) else price * value
    return total


def _is_ruled_out(prediction, bounds):
    loaded = [job["loaded"] for job in prediction.jobs]
    if len(loaded) != 1:
        return False
    for name, (least, most) in bounds.items():
        bound = loaded[0].get(_AT_MOST.get(name) or _AT_LEAST.get(name) or "")
        # A run varies by chance around its closed form: a hundredth is allowed for that.
        if bound is not None and least is not None and name in _AT_MOST and bound * 1.01 < least:
            return True
        if bound is not None and most is not None and name in _AT_LEAST and bound * 0.99 > most:
            return True
    return False


def _is_within(value, ends):
    least, most = ends
    return value is not None and (least is None or value >= least) and (most is None or value <= most)
