"""Results."""

from __future__ import annotations

import html
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from knee import _knee, _toml
from knee._errors import ExperimentError
from knee._table import Table

if TYPE_CHECKING:
    from knee._plot import Plots

_SAMPLES = {
    "flows": "series-flows",
    "queues": "series-queues",
    "goodput": "series-goodput",
    "links": "series-links",
}


class Comparison:
    """A comparison: words, and figures with their intervals.

    Attributes:
        figures: a dict for each figure; ``polars.DataFrame(comparison.figures)`` makes a table of them.
        data: all of it, as ``knee compare --json`` prints it.
    """

    def __init__(self, words: str, data: dict[str, Any]) -> None:
        self._words = words
        self.data = data
        self.figures: list[dict[str, Any]] = list(data.get("figures", data.get("lines", [])))

    def __str__(self) -> str:
        return self._words

    def __repr__(self) -> str:
        return self._words


class Result:
    """Results of an experiment: tables that are read when they are asked for.

    They are in a directory, as ``knee run`` writes it: memory does not grow with them. A temporary one goes with the last reference
    to the result and its tables; :meth:`save` keeps it.
    """

    def __init__(
        self,
        folder: Path,
        holds: object = None,
        aliases: Mapping[str, str] | None = None,
    ) -> None:
        # It stays the same when the program changes its directory.
        self._dir = Path(folder).absolute()
        self._holds = holds
        self._manifest: dict[str, Any] = json.loads(_knee.manifest(folder))
        self._aliases = dict(aliases or {})

    @property
    def dir(self) -> Path:
        """The directory. ``knee report`` and ``knee compare`` take it."""
        return self._dir

    @property
    def manifest(self) -> dict[str, Any]:
        """What was run, by what, where and when (``docs/results.md``)."""
        return self._manifest

    @property
    def interrupted(self) -> bool:
        """Whether it was stopped before all runs had finished."""
        return bool(self._manifest["interrupted"])

    @property
    def failed(self) -> list[str]:
        """Runs that an algorithm's code ended, a sentence each."""
        return list(self._manifest.get("failed", []))

    @property
    def warnings(self) -> list[str]:
        """Faults of algorithms from files."""
        return list(self._manifest.get("warnings", []))

    @property
    def cases(self) -> list[str]:
        """Names of cases."""
        return list(self._manifest["cases"])

    @property
    def axes(self) -> dict[str, list[str]]:
        """Paths of varied keys with their values, as written."""
        return {axis["path"]: list(axis["values"]) for axis in self._manifest["axes"]}

    # ---- tables ----

    def table(self, name: str, *, case: str | None = None, **axes: Any) -> Table:
        """Returns a table by the name of its file without extension, as ``"flows"`` (``docs/results.md`` lists them).

        Args:
            name: name of the table.
            case: only rows of this case.
            axes: only rows with these values of varied keys, by short name or the last part of the path: ``k=65`` or ``k="65 pkts"``,
                or a list of them.

        Raises:
            ExperimentError: there is no such table, case or value.
        """
        cells: list[tuple[str, list[str]]] = []
        if case is not None:
            if case not in self.cases:
                allowed = ", ".join(self.cases)
                raise ExperimentError(
                    f"case = {case!r}: must be one of {allowed}", "case", None, allowed
                )
            cells.append(("case", [case]))
        for axis, values in matching(axes, self._manifest["axes"], self._aliases, name):
            numbers = axis.get("numbers")
            known = axis["values"]
            shown = [_cell(numbers[known.index(value)]) if numbers else value for value in values]
            cells.append((axis.get("column") or axis["path"], shown))
        core = _knee.table(self._dir, name, cells)
        if core is None:
            why = f"{self._manifest['experiment']}: has no table {name}: it measured nothing of this, or [output] or [sample] leaves it out"
            raise ExperimentError(why)
        return Table(core, self._holds)

    @property
    def summary(self) -> Table:
        """A row for each case, varied values, subject and metric: statistics over all runs, with intervals."""
        return self.table("summary")

    @property
    def runs(self) -> Table:
        """A row for each run: its seed, its end and its work."""
        return self.table("runs")

    @property
    def flows(self) -> Table:
        """A row for each connection of each run."""
        return self.table("flows")

    @property
    def exchanges(self) -> Table:
        """A row for each exchange of a request and its response."""
        return self.table("rpcs")

    @property
    def pings(self) -> Table:
        """A row for each ping."""
        return self.table("pings")

    @property
    def queues(self) -> Table:
        """A row for each recorded link of each run."""
        return self.table("queues")

    @property
    def measures(self) -> Table:
        """A row for each metric of each traffic entry or queue in each run."""
        return self.table("measures")

    @property
    def distributions(self) -> Table:
        """A row for each bucket of values, over all runs of a row."""
        return self.table("distributions")

    def samples(self, of: str = "flows", *, case: str | None = None, **axes: Any) -> Table:
        """Returns samples over time.

        Args:
            of: ``"flows"``, ``"queues"``, ``"goodput"`` or ``"links"``; ``[sample]`` of the experiment says what is sampled.
            case: only those of this case.
            axes: only those with these values of varied keys, as in :meth:`table`.
        """
        return self.table(_samples(of), case=case, **axes)

    # ---- comparisons, plots, files ----

    def compare(self, a: str, b: str, *, within: float | None = None) -> Comparison:
        """Compares case ``a`` with case ``b``: which is better, by how much, and how sure that is.

        Args:
            within: differences below this share agree, even if chance cannot explain them; ``None``: 0.05.
        """
        return _compared([(self, a), (self, b)], within)

    @property
    def plot(self) -> Plots:
        """Plots for papers, with Matplotlib."""
        from knee._plot import Plots

        return Plots(self)

    def save(self, to: str | os.PathLike[str]) -> Path:
        """Copies the results into a new directory, for ``knee report``, ``knee compare`` and :func:`knee.read`.

        Raises:
            FileExistsError: it exists.
        """
        return Path(shutil.copytree(self._dir, to, symlinks=True))

    def __repr__(self) -> str:
        of = self._manifest
        stopped = ", interrupted" if self.interrupted else ""
        # The name is a stranger's text, perhaps with codes for a terminal.
        name = json.dumps(of["experiment"], ensure_ascii=True)[1:-1]
        return (
            f"<knee.{type(self).__name__} {name}: {of['runs_done']} of {of['runs']} runs{stopped}>"
        )

    def _repr_html_(self) -> str:
        return f"<p>{html.escape(repr(self)[1:-1])}</p>{self.summary._repr_html_()}"


class Run(Result):
    """Results of one run."""

    @property
    def case(self) -> str:
        """Name of its case."""
        return self.cases[0]

    @property
    def values(self) -> dict[str, str]:
        """Its values of varied keys, by path."""
        return {path: values[0] for path, values in self.axes.items()}

    def calls(self, entry: str) -> Table:
        """Returns every call of the algorithm of a traffic entry that ``trace`` named: a row each, with time, flow, operation, and
        every field before and after the call.
        """
        path = self.dir / f"{entry}-run-0.flight"
        if not path.is_file():
            there = [
                file.name.removesuffix("-run-0.flight") for file in self.dir.glob("*-run-0.flight")
            ]
            way = (
                f"recorded are {', '.join(there)}"
                if there
                else f"run it with exp.run_one(trace={entry!r})"
            )
            raise ExperimentError(f"{entry}: has no recording: {way}")
        return Table(_knee.calls(path), self._holds)


class StreamedRun:
    """A finished run of :meth:`knee.Experiment.stream`: its tables are in memory.

    Attributes:
        number: number of the run, from 0.
        case: name of its case.
        values: its values of varied keys, by path.
        repeat: which run of its row it is, from 0.
        seed: its seed.
    """

    def __init__(self, core: _knee.Streamed) -> None:
        self._core = core
        about = json.loads(core.about)
        self.number: int = about["number"]
        self.case: str = about["case"]
        self.values: dict[str, str] = about["values"]
        self.repeat: int = about["repeat"]
        self.seed: int = about["seed"]

    def table(self, name: str) -> Table:
        """Returns a table by its name, as :meth:`Result.table`.

        Raises:
            ExperimentError: the run has no rows of it.
        """
        core = self._core.table(name)
        if core is None:
            raise ExperimentError(f"run {self.number}: has no table {name}")
        return Table(core, None)

    @property
    def flows(self) -> Table:
        """A row for each connection."""
        return self.table("flows")

    @property
    def exchanges(self) -> Table:
        """A row for each exchange of a request and its response."""
        return self.table("rpcs")

    @property
    def queues(self) -> Table:
        """A row for each recorded link."""
        return self.table("queues")

    @property
    def measures(self) -> Table:
        """A row for each metric of each traffic entry or queue."""
        return self.table("measures")

    def samples(self, of: str = "flows") -> Table:
        """Returns samples over time: ``"flows"``, ``"queues"``, ``"goodput"`` or ``"links"``."""
        return self.table(_samples(of))

    def __repr__(self) -> str:
        values = "".join(f", {path} = {value}" for path, value in self.values.items())
        return f"<knee.StreamedRun {self.number}: {self.case}{values}, repeat {self.repeat}>"


def _samples(of: str) -> str:
    if of not in _SAMPLES:
        allowed = ", ".join(_SAMPLES)
        raise ExperimentError(f"samples of {of!r}: must be one of {allowed}", None, None, allowed)
    return _SAMPLES[of]


def _cell(number: float) -> str:
    """A number as the tables have it: without exponent, and whole if it is."""
    text = repr(float(number))
    if "e" in text:
        from decimal import Decimal

        text = format(Decimal(text), "f")
    return text.removesuffix(".0")


def matching(
    given: Mapping[str, Any],
    axes: list[dict[str, Any]],
    aliases: Mapping[str, str],
    who: str,
) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Iterates over the axes that are given, each with the chosen of its values as written."""
    for name, wanted in given.items():
        path = aliases.get(name, name)
        found = [axis for axis in axes if axis["path"] == path]
        if not found:
            found = [axis for axis in axes if axis["path"].split(".")[-1] == name]
        if len(found) != 1:
            allowed = ", ".join(axis["path"] for axis in axes) or "nothing: no key varies"
            many = "names several varied keys" if found else "is no varied key"
            raise ExperimentError(f"{who}: {name}: {many}: there is {allowed}", name, None, allowed)
        (axis,) = found
        several = _toml.plain(wanted, name, f"{who}: ")
        several = several if isinstance(several, list) else [several]
        if not several:
            raise ExperimentError(f"{who}: {name}: must be a value, or a list of some", name)
        yield axis, [_value(axis, one, name, who) for one in several]


def _value(axis: dict[str, Any], wanted: Any, name: str, who: str) -> str:
    """A value of an axis as written: ``65`` finds ``"65 pkts"`` if no other has this number, in its word or in its cell of tables."""
    values: list[str] = axis["values"]
    if isinstance(wanted, str) and wanted in values:
        return wanted
    if isinstance(wanted, bool):
        word = "true" if wanted else "false"
        if word in values:
            return word
    elif hasattr(wanted, "__float__") and not isinstance(wanted, str):
        number = float(wanted)
        cells = [*axis.get("numbers", []), *[None] * len(values)]
        found = [
            value
            for value, cell in zip(values, cells, strict=False)
            if number in (_leading(value), cell)
        ]
        if len(found) == 1:
            return found[0]
        if found:
            allowed = ", ".join(map(repr, found))
            raise ExperimentError(
                f"{who}: {name} = {wanted!r}: names several values: give one as a text: {allowed}",
                axis["path"],
                None,
                allowed,
            )
    allowed = ", ".join(values)
    raise ExperimentError(
        f"{who}: {name} = {wanted!r}: must be one of {allowed}", axis["path"], None, allowed
    )


def _leading(value: str) -> float | None:
    try:
        return float(value.split(" ")[0])
    except ValueError:
        return None


Side = Result | str | os.PathLike[str]
"""Results: a value, or their directory."""


def read(folder: str | os.PathLike[str]) -> Result:
    """Reads a results directory of ``knee run``, whatever its back end.

    Raises:
        ExperimentError: it holds no results.
    """
    return Result(Path(folder))


def compare(
    a: Side | tuple[Side, str],
    b: Side | tuple[Side, str],
    *,
    within: float | None = None,
    force: bool = False,
) -> Comparison:
    """Compares results, as simulator against lab; or a case of each: ``knee.compare((res, "dctcp"), ("results/lab", "dctcp"))``.

    Args:
        a: results, their directory, or either with the name of a case.
        b: the same.
        within: differences below this share agree, even if chance cannot explain them; ``None``: 0.05.
        force: whether to compare different experiments, by equal names.
    """
    if isinstance(a, tuple) and isinstance(b, tuple):
        if force:
            raise TypeError("knee.compare: force is for whole results, and not for cases")
        return _compared([a, b], within)
    if isinstance(a, tuple) or isinstance(b, tuple):
        raise TypeError("knee.compare takes results twice, or results with a case twice")
    words, data = _knee.compare_results(_dir(a), _dir(b), within, force)
    return Comparison(words, json.loads(data))


def _dir(side: Side) -> str:
    return os.fspath(side.dir if isinstance(side, Result) else side)


def _compared(sides: list[tuple[Side, str]], within: float | None) -> Comparison:
    # The first of the core's cases is the one that the others are compared with.
    (a, of_a), (b, of_b) = sides
    words, data = _knee.compare_cases([(_dir(b), of_b), (_dir(a), of_a)], within)
    return Comparison(words, json.loads(data))
