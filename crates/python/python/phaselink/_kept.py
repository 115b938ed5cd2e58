"""What stands for a part that is not Python once a result has been copied to another process or read from a file."""

from bisect import bisect_left
from itertools import accumulate, product

#: Kinds and directions of latencies.
_DISTRIBUTIONS = tuple(product(("total", "submission", "completion"), (None, "read", "write")))
#: Share of a per cent to which percentiles are told apart: 7 decimals, as in the program.
_PARTS = 10**7


class Kept:
    """Attributes and answers of a native object. Methods are functions of their arguments, so that answers suffice."""

    def __init__(self, values, answers):
        self._values = values
        self._answers = answers

    @classmethod
    def of(cls, native, values, calls):
        """Ask a native object everything that its result may be asked later: attributes, and calls with arguments."""
        answers = {(name, *arguments): getattr(native, name)(*arguments) for name, *arguments in calls}
        return cls({name: getattr(native, name) for name in values}, answers)

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)
        if name in self._values:
            return self._values[name]
        return lambda *arguments: self._answers[(name, *arguments)]

    def __reduce__(self):
        return type(self), (self._values, self._answers)


class KeptRun(Kept):
    """A finished run, without the single requests that it may have kept."""

    @classmethod
    def of_run(cls, native, figures):
        """Keep what a run was asked for, and what it may be asked."""
        calls = [("figure", name) for name in figures] + [("histogram", *which) for which in _DISTRIBUTIONS]
        calls += [("stages",), ("findings",), ("json",), ("summary",), ("html",)]
        return cls.of(native, ("seed", "finished", "elapsed_ns", "events"), calls)

    def requests(self):
        return None

    def histogram(self, kind, direction):
        if (kind, direction) not in _DISTRIBUTIONS:
            raise ValueError("kind is total, submission or completion, and direction read, write or None")
        return self._answers["histogram", kind, direction]

    def percentile(self, percent, kind, direction):
        longest_ns, counts = (memoryview(part) for part in self.histogram(kind, direction))
        longest_ns, counts = longest_ns.cast("d"), counts.cast("Q")
        total = sum(counts)
        beyond = total * round((100 - min(max(percent, 0), 100)) * _PARTS) // (100 * _PARTS)
        # Without a request beyond, a percentile is the maximum under another name.
        if not beyond:
            return None
        rank = max(total - beyond, 1)
        return longest_ns[bisect_left(list(accumulate(counts)), rank)]
