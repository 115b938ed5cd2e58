"""Latencies of @DRIVE@, by phaselink export.

Median errors beside the simulated drive, for requests at random times:
by the load @BY_LOAD@; by the requests in flight @BY_IN_FLIGHT@.
"""

from bisect import bisect_left
from random import Random

@DATA@

def _between(name, values, value):
    """Return the places of a value's neighbours in a rising list, and the weight of the higher one."""
    if not values[0] <= value <= values[-1]:
        raise ValueError(f"{name} is {value}; the table has {values[0]} to {values[-1]}")
    high = bisect_left(values, value)
    if values[high] == value:
        return high, high, 0.0
    return high - 1, high, (value - values[high - 1]) / (values[high] - values[high - 1])


def _line(neighbours, at):
    """Return the value on the line between two neighbours."""
    low, high, weight = neighbours
    return at(low) if low == high else at(low) * (1 - weight) + at(high) * weight


class Latency:
    """Latencies of a drive at one share of reads, which is one of ``READ_PERCENTS``."""

    def __init__(self, read_percent):
        if read_percent not in READ_PERCENTS:
            raise ValueError(f"read_percent is {read_percent}; the table has {READ_PERCENTS}")
        self._mix = READ_PERCENTS.index(read_percent)

    def ns(self, direction, bytes, in_flight, share):
        """Return the latency in ns that a share of requests (0 to 1) does not exceed.

        ``direction`` is ``"read"`` or ``"write"``; ``in_flight`` counts the requests in flight, this one included.

        Raises :class:`ValueError` outside the conditions of the table.
        """
        return self._look_up(NS, _between("in_flight", IN_FLIGHT, in_flight), direction, bytes, share)

    def ns_at_load(self, direction, bytes, load_percent, share):
        """Return the latency in ns at a load in per cent of :meth:`iops_max`; otherwise as :meth:`ns`."""
        return self._look_up(LOAD_NS, _between("load_percent", LOAD_PERCENTS, load_percent), direction, bytes, share)

    def iops_max(self, bytes):
        """Return the largest throughput in requests a second at a size."""
        return _line(_between("bytes", BYTES, bytes), IOPS_MAX[self._mix].__getitem__)

    def _look_up(self, table, level, direction, bytes, share):
        cells = table[self._mix][("read", "write").index(direction)]
        if cells is None:
            raise ValueError(f"the table has no {direction}s at this share of reads")
        size, quantile = _between("bytes", BYTES, bytes), _between("share in per cent", PERCENTS, 100.0 * share)
        return _line(size, lambda i: _line(level, lambda j: _line(quantile, cells[i][j].__getitem__)))


class SimPyDrive:
    """Drive of a SimPy simulation: ``yield drive.read(4096)`` waits for the completion of a request.

    ``second`` is the length of a second in the time of the environment. With ``iops``, the requests a second that the simulation plans,
    latencies are those of this load; without it, those of the requests in flight, of which at most ``IN_FLIGHT[-1]`` run at once.
    """

    def __init__(self, env, read_percent=READ_PERCENTS[0], *, iops=None, seed=1, second=1.0):
        from simpy import Resource

        self.env, self._latency, self._random, self._second = env, Latency(read_percent), Random(seed), second
        self._iops, self._slots = iops, Resource(env, capacity=int(IN_FLIGHT[-1]))

    def read(self, bytes):
        """Return the event that ends a read."""
        return self.env.process(self._request("read", bytes))

    def write(self, bytes):
        """Return the event that ends a write."""
        return self.env.process(self._request("write", bytes))

    def _request(self, direction, bytes):
        share = self._random.random()
        if self._iops is not None:
            load_percent = 100.0 * self._iops / self._latency.iops_max(bytes)
            ns = self._latency.ns_at_load(direction, bytes, load_percent, share)
            yield self.env.timeout(ns * 1e-9 * self._second)
            return
        with self._slots.request() as slot:
            yield slot
            ns = self._latency.ns(direction, bytes, max(self._slots.count, IN_FLIGHT[0]), share)
            yield self.env.timeout(ns * 1e-9 * self._second)
