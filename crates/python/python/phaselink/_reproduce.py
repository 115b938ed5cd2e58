"""Published results beside simulated ones."""

import json

from . import _native
from ._show import Table


class Reproduction(Table):
    """A row for each published result: ``paper``, ``id``, ``quantity``, ``unit``, ``published``, ``simulated``,
    ``error_pct``, ``tolerance_pct``, ``kind``, ``verdict`` and the rest of what ``phaselink reproduce --json`` prints.
    """

    def __init__(self, text):
        self._text = text

    def to_dict(self):
        """The document that ``phaselink reproduce --json`` prints."""
        return json.loads(self._text)

    def rows(self):
        return self.to_dict()["rows"]

    def _content(self):
        return self._text

    def to_list(self):
        """Return the rows, as :meth:`rows` does."""
        return self.rows()

    def __repr__(self):
        verdicts = [row["verdict"] for row in self.rows()]
        counts = ", ".join(f"{verdicts.count(verdict)} {verdict}" for verdict in dict.fromkeys(verdicts))
        return f"<{len(verdicts)} published results: {counts}>"


def papers():
    """The names of all papers."""
    return _native.papers()


def reproduce(*which):
    """Run the experiments of published papers, all of them if none is named, on all processors.

    Raises :class:`InputError` for a name that no paper has.
    """
    return Reproduction(_native.reproduce(list(which) or papers()))
