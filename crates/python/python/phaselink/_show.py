"""Display of results in notebooks, and conversion to tables of other libraries."""

import html
import json

from . import _native

#: Rows that a notebook shows.
ROWS_MAX = 60


def escaped(text):
    return html.escape(str(text))


def number(value):
    """A number as a table shows it: four significant digits."""
    if value is None or value != value:
        return ""
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)


def _cell(value):
    """Return the value for a column of plain values: texts stand for lists and dicts."""
    return value if value is None or isinstance(value, (bool, int, float, str)) else json.dumps(value)


def aligned(rows, columns):
    """Rows as aligned columns of text: numbers to the right, texts to the left, unknown figures blank."""
    cells = [[number(row.get(name)) for name in columns] for row in rows]
    widths = [max(len(name), *(len(line[place]) for line in cells), 0) for place, name in enumerate(columns)]
    is_text = [any(isinstance(row.get(name), str) for row in rows) for name in columns]

    def line(words):
        padded = (word.ljust(width) if text else word.rjust(width) for word, width, text in zip(words, widths, is_text))
        return "  ".join(padded).rstrip()

    shown = [line(columns), *(line(words) for words in cells[:ROWS_MAX])]
    more = [f"and {len(rows) - ROWS_MAX:,} more rows"] if len(rows) > ROWS_MAX else []
    return "\n".join(shown + more)


class Table:
    """Rows with named columns, which results offer to other libraries.

    Subclasses have :meth:`rows`, a list of dicts with the same keys.
    """

    def rows(self):
        """A list of dicts with the same keys, one for each row."""
        raise NotImplementedError

    def columns(self):
        """The names of the columns."""
        rows = self.rows()
        return list(rows[0]) if rows else []

    def _shown(self):
        """The columns that people see."""
        return self.columns()

    def to_pandas(self):
        """A ``pandas.DataFrame``, a line for each row; unknown figures are NaN."""
        import pandas

        return pandas.DataFrame(self.rows(), columns=self.columns())

    def to_polars(self):
        """A ``polars.DataFrame``, a line for each row; unknown figures are null."""
        import polars

        return polars.DataFrame(self.rows(), schema=self.columns(), infer_schema_length=None, strict=False)

    def to_arrow(self):
        """A ``pyarrow.Table``, a line for each row; unknown figures are null."""
        import pyarrow

        return pyarrow.table(self)

    def __arrow_c_stream__(self, requested_schema=None):
        """Arrow's PyCapsule interface: what takes such tables (pyarrow, polars, DuckDB, ...) takes this one, and has the memory
        of its columns without a copy. A wish for another schema is not granted, as the interface allows.
        """
        rows = self.rows()
        columns = [(name, [_cell(row[name]) for row in rows]) for name in self.columns()]
        return _native.Arrow(columns).stream()

    def _content(self):
        """Everything that makes two results equal: a text or a tuple of such."""
        return json.dumps(self.rows())

    def __eq__(self, other):
        return self._content() == other._content() if type(self) is type(other) else NotImplemented

    def __hash__(self):
        return hash((type(self), self._content()))

    def __str__(self):
        """The rows as aligned columns of text."""
        return aligned(self.rows(), self._shown())

    def __len__(self):
        return len(self.rows())

    def __iter__(self):
        return iter(self.rows())

    def __getitem__(self, place):
        return self.rows()[place]

    def _repr_html_(self):
        rows, columns = self.rows(), self._shown()
        head = "".join(f"<th>{escaped(name)}</th>" for name in columns)
        lines = ["".join(f"<td>{escaped(number(row[name]))}</td>" for name in columns) for row in rows[:ROWS_MAX]]
        body = "".join(f"<tr>{line}</tr>" for line in lines)
        more = f"<p>and {len(rows) - ROWS_MAX:,} more rows</p>" if len(rows) > ROWS_MAX else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"
