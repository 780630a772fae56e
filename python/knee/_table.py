"""Tables."""

from __future__ import annotations

import html
from collections.abc import Iterator
from typing import Any

from knee import _knee
from knee._errors import ExperimentError

_ALL_ROWS = 2**62
_SHOWN_ROWS = 10
_SHOWN_COLUMNS = 12


class Table:
    """Rows of results. Any reader of Arrow takes them: ``polars.DataFrame(table)``, ``pyarrow.table(table)``,
    ``pandas.DataFrame.from_arrow(table)``, ``duckdb.from_arrow(table)``.

    Each column is an int, a float, a bool or a str. Units stand in names: times are in seconds, those of captures in nanoseconds.
    What was not measured or never happened is null. Rows are read when they are asked for, some 65,000 at a time, so a table takes no
    memory by itself.
    """

    __slots__ = ("_core", "_keeps")

    def __init__(self, core: _knee.Table, keeps: object) -> None:
        self._core = core
        # Files are there as long as something refers to them.
        self._keeps = keeps

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The Arrow PyCapsule interface: a stream of all rows."""
        return self._core.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self) -> object:
        """The Arrow PyCapsule interface: names and types of columns."""
        return self._core.__arrow_c_schema__()

    @property
    def columns(self) -> dict[str, str]:
        """Names of columns with their types: ``int``, ``float``, ``bool`` or ``str``."""
        return dict(self._core.columns())

    def __len__(self) -> int:
        """Number of rows. They are read for it."""
        return self._core.count()

    def __bool__(self) -> bool:
        """Whether it has a row."""
        return any(self.to_dict(1).values())

    def to_dict(self, rows: int | None = None) -> dict[str, list[Any]]:
        """Returns columns as lists: all rows, or the first so many. Without any other package.

        Raises:
            ExperimentError: ``rows`` is no number of rows.
        """
        if rows is None:
            return self._core.lists(_ALL_ROWS)
        if isinstance(rows, bool) or not hasattr(rows, "__index__") or rows < 0:
            allowed = "a whole number from 0, or None for all"
            raise ExperimentError(
                f"to_dict: rows = {rows!r}: must be {allowed}", None, None, allowed
            )
        return self._core.lists(min(int(rows), _ALL_ROWS))

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Iterates over rows as dicts. All rows are in memory meanwhile."""
        lists = self.to_dict()
        for cells in zip(*lists.values(), strict=True):
            yield dict(zip(lists, cells, strict=True))

    def __repr__(self) -> str:
        columns = ", ".join(f"{name}: {of}" for name, of in self.columns.items())
        return f"knee.Table({columns})"

    def _repr_html_(self) -> str:
        lists = self.to_dict(_SHOWN_ROWS + 1)
        names = list(lists)[:_SHOWN_COLUMNS]
        more = ["<th>…</th>"] if len(lists) > len(names) else []
        head = "".join([f"<th>{html.escape(name)}</th>" for name in names] + more)
        rows: list[str] = []
        for cells in zip(*(lists[name] for name in names), strict=True):
            shown = ("" if cell is None else html.escape(str(cell)) for cell in cells)
            rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in shown) + "</tr>")
        said = f"the first {_SHOWN_ROWS} rows" if len(rows) > _SHOWN_ROWS else ""
        rows = rows[:_SHOWN_ROWS]
        return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table><p>{said}</p>"
