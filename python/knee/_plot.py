"""Plots for papers, with Matplotlib and the colours of reports."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from knee import _knee
from knee._errors import ExperimentError

if TYPE_CHECKING:
    from knee._result import Result

_RATIO = 0.62
_STATS = ("mean", "sd", "min", "p50", "p95", "p99", "p999", "max")
_MARKS = "os^Dv<>P"
# As in reports: text of a figure of 3.4 inches is as large as a caption.
_STYLE: Any = {
    "font.size": 7.5,
    "axes.linewidth": 0.6,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e3e3e8",
    "grid.linewidth": 0.5,
    "axes.axisbelow": True,
    "lines.linewidth": 1.1,
    "lines.markersize": 3.0,
    "legend.frameon": False,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    # Text stays text in PDF.
    "pdf.fonttype": 42,
}

Figure = Any
"""A figure of Matplotlib."""


class Plots:
    """Plots of results. Each returns the figure of Matplotlib, to change or to save, and writes a file if one is named.

    All take these arguments:

    - ``width``: width in inches; 3.4 is a column of most papers.
    - ``file``: where to write it, as ``"fct.pdf"``; the ending names the format.
    - ``case``, and short names of varied keys: only these, as in :meth:`knee.Result.table`.
    """

    def __init__(self, result: Result) -> None:
        self._result = result
        self._looks = {case: (colour, dashes) for case, colour, dashes in _knee.styles(result.dir)}

    def cdf(
        self,
        of: str,
        metric: str = "completion",
        *,
        log: bool = True,
        width: float = 3.4,
        file: str | os.PathLike[str] | None = None,
        case: str | None = None,
        **axes: Any,
    ) -> Figure:
        """Draws the cumulative distribution of a metric over all runs, a curve for each case and varied values.

        Args:
            of: name of the traffic entry.
            metric: name of the metric, as ``"completion"``, ``"latency"`` or ``"slowdown"``.
            log: whether the axis of values is logarithmic.
        """
        rows = self._rows("distributions", of, metric, case, axes)
        figure, plot = _begin(width)
        factor, unit = _scale(rows[0]["unit"], max(row["below"] for row in rows))
        for nth, (label, name, group) in enumerate(self._groups(rows)):
            group.sort(key=lambda row: row["from"])
            # Values that the end of a run cut off are above all others, and count.
            all_of = sum(row["count"] + (row["cut_off"] or 0) for row in group)
            x: list[float] = []
            y: list[float] = []
            sum_of = 0.0
            for row in group:
                if not x:
                    x.append(row["from"] * factor)
                    y.append(0.0)
                sum_of += row["count"]
                x.append(row["below"] * factor)
                y.append(sum_of / all_of)
            plot.plot(x, y, label=label, **self._look(name, nth, marks=False))
        if log:
            plot.set_xscale("log")
        plot.set_xlabel(f"{metric} of {of}, {unit}" if unit else f"{metric} of {of}")
        plot.set_ylabel("share of values")
        plot.set_ylim(0, 1.02)
        return _end(figure, plot, file)

    def time(
        self,
        column: str,
        of: str = "queues",
        *,
        repeat: int = 0,
        where: dict[str, Any] | None = None,
        width: float = 3.4,
        file: str | os.PathLike[str] | None = None,
        case: str | None = None,
        **axes: Any,
    ) -> Figure:
        """Draws samples over time, a curve for each case, varied values, and link or flow.

        Args:
            column: column of the samples, as ``"len_pkts"`` or ``"cwnd_pkts"``.
            of: ``"queues"``, ``"flows"``, ``"goodput"`` or ``"links"``.
            repeat: which run of each row, from 0.
            where: only rows with these cells, as ``{"flow": 3}`` or ``{"link": "switch-r"}``.
        """
        samples = self._result.samples(of, case=case, **axes)
        wanted = dict(where or {})
        if column not in samples.columns:
            allowed = ", ".join(samples.columns)
            raise ExperimentError(f"time: {column}: must be one of {allowed}", None, None, allowed)
        for name in wanted:
            if name not in samples.columns:
                allowed = ", ".join(samples.columns)
                why = f"time: where: {name}: must be one of {allowed}"
                raise ExperimentError(why, None, None, allowed)
        runs = {row["run"]: row for row in self._result.runs if row["repeat"] == repeat}
        thing = "link" if of in ("queues", "links") else "flow"
        curves: dict[tuple[int, Any], tuple[list[float], list[float]]] = {}
        lists = samples.to_dict()
        for at in range(len(lists["run"])):
            run, value = lists["run"][at], lists[column][at]
            if run not in runs or any(lists[name][at] != one for name, one in wanted.items()):
                continue
            curve = (run, lists[thing][at])
            if value is None and curve not in curves:
                continue
            x, y = curves.setdefault(curve, ([], []))
            x.append(lists["at_s"][at])
            # A line has a gap where nothing is known.
            y.append(math.nan if value is None else value)
        if not curves:
            raise ExperimentError(f"time: there are no samples of {column} in these runs")
        figure, plot = _begin(width)
        several = len({name for _, name in curves}) > 1
        for nth, ((run, name), (x, y)) in enumerate(curves.items()):
            label = self._label(runs[run]) + (f", {thing} {name}" if several else "")
            plot.plot(x, y, label=label, **self._look(runs[run]["case"], nth, marks=False))
        plot.set_xlabel("time, s")
        plot.set_ylabel(column.replace("_", " "))
        if not any(value < 0 for _, y in curves.values() for value in y):
            plot.set_ylim(bottom=0)
        return _end(figure, plot, file)

    def tradeoff(
        self,
        x: tuple[str, str, str],
        y: tuple[str, str, str],
        *,
        width: float = 3.4,
        file: str | os.PathLike[str] | None = None,
        case: str | None = None,
        **axes: Any,
    ) -> Figure:
        """Draws a figure against another, a curve for each case along the varied values, with 95 % intervals where they are known.

        Args:
            x: subject, metric and statistic, as ``("short", "latency", "p99")``.
            y: the same of the other axis.
        """
        sides_given: list[tuple[str, Any]] = [("x", x), ("y", y)]
        for name, side in sides_given:
            is_words = isinstance(side, tuple | list) and all(isinstance(one, str) for one in side)
            if not is_words or len(side) != 3:
                allowed = 'subject, metric and statistic, as ("short", "latency", "p99")'
                raise ExperimentError(
                    f"tradeoff: {name} = {side!r}: must be {allowed}", None, None, allowed
                )
        figure, plot = _begin(width)
        sides = []
        for subject, metric, stat in (x, y):
            rows = self._rows("summary", subject, metric, case, axes)
            stats = [one for one in _STATS if one in rows[0]]
            if stat not in stats:
                allowed = ", ".join(stats)
                raise ExperimentError(
                    f"tradeoff: {stat}: must be one of {allowed}", None, None, allowed
                )
            largest = max((row[stat] for row in rows if row[stat] is not None), default=0.0)
            factor, unit = _scale(rows[0]["unit"], largest)
            half = "ci95" if stat == "mean" else f"{stat}_ci95"
            found = {
                self._place(row): (row[stat] * factor, _known(row.get(half)) * factor)
                for row in rows
                if row[stat] is not None
            }
            sides.append(
                (found, f"{stat} of {metric} of {subject}" + (f", {unit}" if unit else ""))
            )
        (of_x, x_label), (of_y, y_label) = sides
        cases: dict[str, list[tuple[float, float, float, float]]] = {}
        for place, (x_at, x_half) in of_x.items():
            if place in of_y:
                cases.setdefault(place[0], []).append((x_at, x_half, *of_y[place]))
        if not cases:
            raise ExperimentError("tradeoff: no row has both figures")
        for nth, (name, points) in enumerate(cases.items()):
            xs, x_halves, ys, y_halves = zip(*points, strict=True)
            plot.errorbar(
                xs,
                ys,
                xerr=x_halves,
                yerr=y_halves,
                elinewidth=0.6,
                label=name,
                **self._look(name, nth, marks=True),
            )
        plot.set_xlabel(x_label)
        plot.set_ylabel(y_label)
        return _end(figure, plot, file)

    def _rows(
        self, table: str, of: str, metric: str, case: str | None, axes: dict[str, Any]
    ) -> list[dict[str, Any]]:
        all_rows = list(self._result.table(table, case=case, **axes))
        rows = [row for row in all_rows if row["subject"] == of and row["metric"] == metric]
        if not rows:
            there = sorted({f"{row['metric']} of {row['subject']}" for row in all_rows})
            allowed = ", ".join(there) or "nothing"
            raise ExperimentError(
                f"{metric} of {of}: must be one of {allowed}", None, None, allowed
            )
        return rows

    def _columns(self) -> list[tuple[str, str]]:
        axes = self._result.manifest["axes"]
        varied = [axis for axis in axes if len(axis["values"]) > 1]
        return [
            (axis.get("column") or axis["path"], axis["path"].split(".")[-1]) for axis in varied
        ]

    def _place(self, row: dict[str, Any]) -> tuple[Any, ...]:
        return row["case"], *(row[column] for column, _ in self._columns())

    def _label(self, row: dict[str, Any]) -> str:
        values = (
            f"{name} {row[column]:g}" if isinstance(row[column], float) else f"{name} {row[column]}"
            for column, name in self._columns()
        )
        return ", ".join([row["case"], *values])

    def _groups(
        self, rows: list[dict[str, Any]]
    ) -> Iterable[tuple[str, str, list[dict[str, Any]]]]:
        groups: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
        for row in rows:
            groups.setdefault(self._place(row), []).append(row)
        for group in groups.values():
            yield self._label(group[0]), group[0]["case"], group

    def _look(self, case: str, nth: int, *, marks: bool) -> dict[str, Any]:
        colour, dashes = self._looks.get(case, ("#303038", []))
        look: dict[str, Any] = {"color": colour}
        if dashes:
            # Pixels of the report's page, in widths of a line.
            look["linestyle"] = (0, tuple(dashes))
        if marks:
            look["marker"] = _MARKS[nth % len(_MARKS)]
        return look


def _known(number: float | None) -> float:
    """A number that Matplotlib does not draw if it is not known."""
    return math.nan if number is None else number


def _begin(width: float) -> tuple[Any, Any]:
    try:
        from matplotlib import rc_context
        from matplotlib.figure import Figure as Made
    except ImportError as why:
        raise ImportError("plots need Matplotlib: pip install matplotlib") from why
    if not 0.5 <= width <= 50:
        raise ExperimentError(
            f"width = {width}: must be from 0.5 to 50 inches", None, None, "0.5 to 50"
        )
    with rc_context(_STYLE):
        # Without pyplot: no window, and nothing that must be closed.
        figure = Made(figsize=(width, width * _RATIO), layout="constrained")
        return figure, figure.subplots()


def _end(figure: Any, plot: Any, file: str | os.PathLike[str] | None) -> Figure:
    from matplotlib import rc_context

    with rc_context(_STYLE):
        plot.legend(fontsize=6.5)
        if file is not None:
            # Same inputs, same bytes.
            is_pdf = os.fspath(file).endswith(".pdf")
            figure.savefig(file, metadata={"CreationDate": None} if is_pdf else None)
    return figure


def _scale(unit: str | None, largest: float) -> tuple[float, str]:
    """A factor, and the unit of what is multiplied by it."""
    if unit == "s":
        for factor, name in ((1.0, "s"), (1e3, "ms"), (1e6, "µs")):
            if largest * factor >= 1.0:
                return factor, name
        return 1e6, "µs"
    if unit == "bps":
        for divisor, name in ((1e9, "Gbps"), (1e6, "Mbps"), (1e3, "kbps")):
            if largest >= divisor:
                return 1.0 / divisor, name
    return 1.0, unit or ""
