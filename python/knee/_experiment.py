"""Experiments as values."""

from __future__ import annotations

import base64
import html
import json
import os
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Unpack

from knee import _design, _knee, _toml
from knee._errors import ExperimentError
from knee._keys import ExperimentKeys
from knee._progress import Bar
from knee._result import Result, Run, StreamedRun, matching

_MOST_TRIAL_S = 60

Value = Any
"""A value of a key: a str with its unit, as ``"10 Gbps"``, a number, a bool, a list or a dict."""


@dataclass(frozen=True)
class Key:
    """A key of an experiment.

    Attributes:
        name: its path, as ``network.bottleneck.queue.k``.
        type: what it takes, in words.
        unit: kind of its unit: ``size``, ``rate`` or ``time``; ``None`` if it has none.
        default: its default in words; ``None`` if it has none.
        is_needed: whether it must be written.
        says: what it means, in a sentence.
        value: its value here, in the first case; ``None`` if it is not set.
    """

    name: str
    type: str
    unit: str | None
    default: str | None
    is_needed: bool
    says: str
    value: Any


@dataclass(frozen=True)
class Cost:
    """What the runs of an experiment take, before they begin.

    Attributes:
        runs: number of runs.
        rows: number of cases times varied values.
        packets: data packets of all runs, estimated from sizes and rates.
        cpu_s: CPU time of all runs in seconds, from a trial of the first one on this machine; ``None`` without a trial.
            An upper bound if runs end before their duration.
        sample_bytes: memory of a run's samples, bytes, in the row with most of them.
        most_bytes: memory that a run may take, bytes.
    """

    runs: int
    rows: int
    packets: float
    cpu_s: float | None
    sample_bytes: int
    most_bytes: int

    def __str__(self) -> str:
        cpu = "" if self.cpu_s is None else f", about {_seconds(self.cpu_s)} of CPU"
        samples = self.sample_bytes / 1e6
        return (
            f"{self.runs} runs of {self.rows} rows, {self.packets:.3g} data packets{cpu}; "
            f"samples take {samples:.1f} MB per run, a run at most {self.most_bytes / 1e9:.1f} GB"
        )


def _seconds(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


@dataclass(frozen=True)
class _Changes:
    """Changes to a text, as the core reads them."""

    cc: tuple[str, ...] = ()
    pairs: tuple[tuple[str, str], ...] = ()
    axes: tuple[tuple[str, str], ...] = ()
    repeat: int | None = None
    seed: int | None = None
    scale: float = 1.0
    quick: bool = False
    stats: tuple[str, ...] = ()
    memory: str | None = None
    define: tuple[str, ...] = ()
    include: tuple[str, ...] = ()
    linux: str | None = None
    api: str | None = None

    @property
    def set(self) -> list[str]:
        return [f"{key}={value}" for key, value in self.pairs]

    @property
    def vary(self) -> list[str]:
        return [f"{key}={value}" for key, value in self.axes]


class Experiment:
    """An experiment: a question to a network, its traffic and its algorithms. It never changes: each method returns a new one.

    It is checked when it is made, so an error appears where its cause is. What must change together goes into one call.

    Build one from a built-in name or a file (:func:`knee.experiment`), from TOML (:meth:`from_toml`), or from values whose names are
    the keys of TOML::

        knee.Experiment(
            cc=["dctcp", "cubic"],
            network={"topology": "many-to-one", "senders": 2, "access": {"rate": "10 Gbps"}, ...},
            traffic=[{"name": "both", "kind": "bulk", "from": "s1..s2", "to": "r"}],
            run={"duration": "400 ms", "repeat": 3},
        )

    Raises:
        ExperimentError: a key or a value is not allowed.
    """

    __slots__ = ("_about", "_aliases", "_changes", "_core", "_path", "_text")

    _path: str
    _text: str
    _changes: _Changes
    _aliases: tuple[tuple[str, str], ...]
    _core: _knee.Experiment
    _about: dict[str, Any]

    def __init__(self, *, name: str = "experiment", **tables: Unpack[ExperimentKeys]) -> None:
        text = _toml.document({key: _toml.plain(value, key) for key, value in tables.items()})
        _check_name(name)
        self._fill(f"{name}.toml", text, _Changes(), ())

    def _fill(
        self, path: str, text: str, changes: _Changes, aliases: tuple[tuple[str, str], ...]
    ) -> None:
        core = _knee.Experiment(path, text, changes)
        for slot, value in (
            ("_path", path),
            ("_text", text),
            ("_changes", changes),
            ("_aliases", aliases),
            ("_core", core),
            ("_about", json.loads(core.about())),
        ):
            object.__setattr__(self, slot, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(
            f"an experiment never changes: exp.set, exp.with_ and exp.vary return a new one, and {name} stays"
        )

    def __delattr__(self, name: str) -> None:
        raise AttributeError("an experiment never changes")

    @classmethod
    def _of(
        cls,
        path: str,
        text: str,
        changes: _Changes | None = None,
        aliases: tuple[tuple[str, str], ...] = (),
    ) -> Experiment:
        one = object.__new__(cls)
        one._fill(path, text, changes or _Changes(), aliases)
        return one

    @classmethod
    def from_toml(
        cls, text: str, *, name: str = "experiment", folder: str | os.PathLike[str] = "."
    ) -> Experiment:
        """Makes an experiment from the text of a file.

        Args:
            text: TOML, as in the files of ``knee run``.
            name: name of the experiment, for messages and results.
            folder: where files that the text names are looked for.
        """
        if not isinstance(text, str):
            raise TypeError(f"from_toml takes the text as str, and not {type(text).__name__}")
        _check_name(name)
        return cls._of(str(Path(folder) / f"{name}.toml"), text)

    def __reduce__(self) -> tuple[Any, ...]:
        return Experiment._of, (self._path, self._text, self._changes, self._aliases)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Experiment):
            return NotImplemented
        return (self._path, self._text, self._changes) == (other._path, other._text, other._changes)

    def __hash__(self) -> int:
        return hash((self._path, self._text, self._changes))

    # ---- what it is ----

    @property
    def name(self) -> str:
        """Its name: that of the file without extension."""
        return str(self._about["name"])

    @property
    def question(self) -> str:
        """The question that it asks."""
        return str(self._about["question"])

    @property
    def cases(self) -> list[str]:
        """Names of the cases that it compares."""
        return list(self._about["cases"])

    @property
    def axes(self) -> dict[str, list[str]]:
        """Paths of varied keys with their values, as written."""
        return {axis["path"]: list(axis["values"]) for axis in self._about["axes"]}

    @property
    def runs(self) -> int:
        """Number of runs: cases times varied values times repeats."""
        return int(self._about["runs"])

    @property
    def repeat(self) -> int:
        """Runs of each row, each with its own seed."""
        return int(self._about["repeat"])

    @property
    def seed(self) -> int:
        """Seed of all random numbers: the same seed gives the same results."""
        return int(self._about["seed"])

    @property
    def remarks(self) -> list[str]:
        """What its figures are for, and what they are not, one remark each."""
        return list(self._about["remarks"])

    def resolved(self) -> dict[str, dict[str, Any]]:
        """Returns every key with its value by case, defaults included, at the first of the varied values."""
        return dict(json.loads(self._core.resolved()))

    def keys(self, prefix: str = "") -> list[Key]:
        """Returns the keys below a path, as ``network.bottleneck.queue``; of a key, itself.

        Entries of a list go by their names: ``traffic.short``. Where a word chooses the keys, as ``kind`` of a queue, they are those
        of the word that is set.
        """
        found = json.loads(self._core.keys(prefix))
        return [_key(one) for one in found]

    def run_names(self) -> list[str]:
        """Returns the name of each run: equal for runs that compute the same."""
        return self._core.run_names()

    # ---- changes ----

    def _with(
        self, aliases: tuple[tuple[str, str], ...] | None = None, **fields: Any
    ) -> Experiment:
        changes = replace(self._changes, **fields)
        return Experiment._of(
            self._path, self._text, changes, self._aliases if aliases is None else aliases
        )

    def set(self, values: Mapping[str, Value]) -> Experiment:
        """Sets keys, by path: ``exp.set({"network.bottleneck.rate": "10 Gbps"})``. They apply after everything in the text.

        A varied key takes a value or a list. ``params.NAME`` applies to every algorithm that has this parameter.
        """
        pairs, axes = dict(self._changes.pairs), dict(self._changes.axes)
        for key, value in _pairs(values, "exp.set"):
            if key in axes:
                axes[key] = _toml.inline(value if isinstance(value, list) else [value])
                continue
            pairs.pop(key, None)
            pairs[key] = _toml.inline(value)
        return self._with(pairs=tuple(pairs.items()), axes=tuple(axes.items()))

    def vary(
        self,
        values: Mapping[str, Value] | None = None,
        /,
        *,
        at: str | None = None,
        **named: Value,
    ) -> Experiment:
        """Varies keys: each value with each case and each other value.

        ``exp.vary({"network.bottleneck.queue.k": ["20 pkts", "65 pkts"]})``, or with a short name for filters,
        ``exp.vary(k=["20 pkts", "65 pkts"], at="network.bottleneck.queue.k")``. A range is a str: ``"2..64 times 2 pkts"``.

        Args:
            values: lists or ranges by path.
            at: the path of the one named key.
        """
        aliases = dict(self._aliases)
        given = dict(_pairs(values or {}, "exp.vary"))
        if named:
            if len(named) != 1 or at is None or values:
                raise TypeError("exp.vary takes a dict of paths, or one name with at=PATH")
            ((alias, one),) = named.items()
            if alias in _TAKEN:
                why = f"exp.vary: {alias}: is an argument of exp.run_one and res.table: choose another name"
                raise ExperimentError(why, alias)
            given = dict(_pairs({at: one}, "exp.vary"))
            aliases[alias] = at
        elif at is not None:
            raise TypeError("exp.vary: at=PATH needs a name with its values, as k=[...]")
        axes = dict(self._changes.axes)
        for key, value in given.items():
            axes[key] = _toml.inline(value)
        pairs = tuple(pair for pair in self._changes.pairs if pair[0] not in given)
        return self._with(axes=tuple(axes.items()), pairs=pairs, aliases=tuple(aliases.items()))

    def design(
        self,
        ranges: Mapping[str, Any],
        points: int,
        *,
        kind: str = "latin",
        seed: int = 0,
        name: str = "design",
    ) -> Experiment:
        """Varies keys together, at points that fill their ranges. Each case runs at each point, with the same seeds::

            exp.design({"network.bottleneck.queue.k": ("10 pkts", "400 pkts", "log"), "params.shift_g": [3, 4, 5]}, points=64)

        Args:
            ranges: by path, two ends with the same unit, ``"log"`` behind them if it is by logarithms; or a list of values to choose from.
            points: number of points. Sobol's are balanced at powers of two.
            kind: ``"random"``, ``"latin"`` (a Latin hypercube) or ``"sobol"``, which needs SciPy.
            seed: seed of the points: the same gives the same points.
            name: name of the axis.

        Raises:
            ExperimentError: a key or a range is wrong.
        """
        return self.vary({name: _design.design_points(ranges, points, kind, seed)})

    def cc(self, *names: str | os.PathLike[str]) -> Experiment:
        """Compares these cases or algorithms instead of all cases. A path, as ``./foo.c``, is compiled."""
        if not names:
            raise TypeError("exp.cc takes names of cases or algorithms, or paths")
        return self._with(cc=tuple(os.fspath(name) for name in names))

    def with_(
        self,
        *,
        repeat: int | None = None,
        seed: int | None = None,
        scale: float | None = None,
        quick: bool | None = None,
        stats: str | Sequence[str] | None = None,
        memory: str | None = None,
        module: Mapping[str, Any] | None = None,
    ) -> Experiment:
        """Changes how it is run. What is left out stays.

        Args:
            repeat: runs of each row, from 1.
            seed: seed of the experiment, from 0.
            scale: slows it down: rates times this, times by it; above 0, at most 1.
            quick: whether to take the ``[quick]`` set of the text.
            stats: statistics of tables, as ``["mean", "p99"]``, or one.
            memory: memory that a run may take, as ``"8 GiB"``.
            module: how algorithm files are compiled: ``define`` and ``include`` (lists), ``linux`` (a release, as ``"6.1"``) and
                ``api``. Those that are not named stay; ``None`` takes one back.
        """
        fields: dict[str, Any] = {}
        for name, value, most in (("repeat", repeat, 10_000_000), ("seed", seed, 2**64 - 1)):
            if value is None:
                continue
            least = 1 if name == "repeat" else 0
            allowed = f"a whole number from {least} to {most}"
            if (
                isinstance(value, bool)
                or not hasattr(value, "__index__")
                or not least <= value <= most
            ):
                raise ExperimentError(
                    f"exp.with_: {name} = {value!r}: must be {allowed}",
                    f"run.{name}",
                    None,
                    allowed,
                )
            fields[name] = int(value)
        if scale is not None:
            if isinstance(scale, bool | str) or not hasattr(scale, "__float__"):
                allowed = "a number above 0, at most 1"
                raise ExperimentError(
                    f"exp.with_: scale = {scale!r}: must be {allowed}", "scale", None, allowed
                )
            fields["scale"] = float(scale)
        if quick is not None:
            if not isinstance(quick, bool):
                allowed = "True or False"
                raise ExperimentError(
                    f"exp.with_: quick = {quick!r}: must be {allowed}", "quick", None, allowed
                )
            fields["quick"] = quick
        if stats is not None:
            is_one = isinstance(stats, str) or not isinstance(stats, Iterable)
            several = (stats,) if is_one else tuple(stats)
            fields["stats"] = tuple(_text(stat, "exp.with_: stats", "p99") for stat in several)
        if memory is not None:
            fields["memory"] = str(memory)
        if module is not None:
            known = {"define", "include", "linux", "api"}
            unknown = sorted(set(module) - known)
            if unknown:
                allowed = ", ".join(sorted(known))
                raise ExperimentError(
                    f"exp.with_: module.{unknown[0]}: must be one of {allowed}",
                    f"module.{unknown[0]}",
                    None,
                    allowed,
                )
            for name, value in module.items():
                fields[name] = _of_module(name, value)
        return self._with(**fields)

    # ---- TOML ----

    def to_toml(self) -> str:
        """Returns it as the text of a file, with all changes in it: ``Experiment.from_toml(exp.to_toml())`` has the same runs.

        Without changes it is the text as it was. With changes, comments are gone, and so are ``[quick]`` and the claims, published
        figures and charts of cases or values that it no longer has.

        The text has neither the name nor the folder: :meth:`from_toml` takes them, and looks there for files that the text names.
        Nor has it the short names that :meth:`vary` gave: the last part of a path is always one.

        Raises:
            ExperimentError: ``scale`` and ``memory`` of :meth:`with_` have no key.
        """
        from knee._merged import merged

        return merged(self)

    # ---- runs ----

    def cost(self, trial_s: float = 0.1) -> Cost:
        """Returns what its runs take.

        Args:
            trial_s: for so many seconds, at most 60, the first run is carried out to learn the speed of this machine; 0: not at all.

        Raises:
            ExperimentError: the first run takes more memory than it may, or ``trial_s`` is out of range.
        """
        is_number = hasattr(trial_s, "__float__") and not isinstance(trial_s, bool)
        # Not a number is not in it, either.
        if not is_number or not 0 <= float(trial_s) <= _MOST_TRIAL_S:
            allowed = f"a number of seconds from 0 to {_MOST_TRIAL_S}"
            why = f"exp.cost: trial_s = {trial_s!r}: must be {allowed}"
            raise ExperimentError(why, "trial_s", None, allowed)
        return Cost(**json.loads(self._core.cost(float(trial_s))))

    def _fresh(self) -> Experiment:
        """The same, read again if it reads files: they may have changed."""
        if not self._about["reads_files"]:
            return self
        return Experiment._of(self._path, self._text, self._changes, self._aliases)

    def run(
        self,
        *,
        threads: int | None = None,
        progress: bool | Callable[[int, int], None] | None = None,
        out: str | os.PathLike[str] | None = None,
        captures: bool = False,
        go_on: bool = False,
    ) -> Result:
        """Carries out all runs on all cores.

        Ctrl-C stops it: runs that have finished are kept, and ``res.interrupted`` is true. If none has, or all have, KeyboardInterrupt
        is raised; all are in ``out`` then, if it was given. Other threads of Python go on meanwhile.

        Args:
            threads: number of threads; ``None``: one per core. Results do not depend on it.
            progress: ``True`` or ``False``: with or without a bar; ``None``: a bar in a terminal or a notebook. A function is called
                with the numbers of finished and of all runs.
            out: a directory for the results, as of ``knee run -o``; ``None``: a temporary one, which goes with the result.
            captures: whether to capture the packets of each host, in the first run of each row.
            go_on: goes on with what a stopped run of this experiment left in ``out``, as ``knee run --continue``: runs that are there
                are not carried out again. With a larger ``repeat`` it adds repeats. If nothing is there, it begins.

        Raises:
            ExperimentError: it cannot be run.
        """
        if go_on and (out is None or captures):
            with_what = "needs out=DIR" if out is None else "and captures exclude each other"
            raise ExperimentError(f"exp.run: go_on {with_what}", "go_on")
        return self._run(Result, threads, progress, out, captures, None, go_on)

    def run_one(
        self,
        *,
        case: str | None = None,
        trace: str | None = None,
        captures: bool = False,
        **axes: Value,
    ) -> Run:
        """Carries out the first run of one row.

        Args:
            case: name of the case; it may be left out if there is only one.
            trace: name of the traffic entry whose algorithm is recorded, for :meth:`Run.calls`.
            captures: whether to capture the packets of each host.
            axes: one value of a varied key, by its short name or the last part of its path. A key that is left out is at its first
                value; ``run.values`` has them all.

        Raises:
            ExperimentError: it cannot be run, or the case is missing, or a value is wrong.
        """
        if case is None and len(self.cases) > 1:
            allowed = ", ".join(self.cases)
            raise ExperimentError(
                f"exp.run_one: case: must be one of {allowed}", "case", None, allowed
            )
        chosen = {}
        for axis, values in matching(axes, self._about["axes"], dict(self._aliases), "exp.run_one"):
            if len(values) != 1 or axis["path"] in chosen:
                allowed = "one value of " + ", ".join(axis["values"])
                raise ExperimentError(
                    f"exp.run_one: {axis['path']}: must be {allowed}", axis["path"], None, allowed
                )
            chosen[axis["path"]] = values[0]
        for axis in self._about["axes"]:
            chosen.setdefault(axis["path"], axis["values"][0])
        # All at once: each experiment is checked whole.
        changes = replace(self._changes, repeat=1)
        if case is not None and self.cases != [case]:
            changes = replace(changes, cc=(self._word_of(case),))
        for path, label in chosen.items():
            changes = _at(changes, path, label)
        one = Experiment._of(self._path, self._text, changes, self._aliases)
        result = one._run(Run, None, False, None, captures, trace, False)
        assert isinstance(result, Run)
        return result

    def _word_of(self, case: str) -> str:
        """What :meth:`cc` takes for a case: the path of a file, and not the name that it has."""
        words = self._changes.cc
        is_given = case in self.cases and len(words) == len(self.cases)
        return words[self.cases.index(case)] if is_given else case

    def stream(self, *, threads: int | None = None) -> Iterator[StreamedRun]:
        """Iterates over finished runs in bounded memory: in the order of rows, then of repeats. Those that were taken are not kept.

        Ctrl-C raises KeyboardInterrupt. When the iteration is left, its threads end.

        Args:
            threads: number of threads; ``None``: one per core.

        Raises:
            ExperimentError: it cannot be run, or a run failed.
        """
        # Here, so that what is wrong is said before the first run is asked for.
        return _streamed(self._fresh()._core.stream(_threads(threads)))

    def _run(
        self,
        made: type[Result],
        threads: int | None,
        progress: bool | Callable[[int, int], None] | None,
        out: str | os.PathLike[str] | None,
        captures: bool,
        trace: str | None,
        go_on: bool,
    ) -> Result:
        if out is not None and not os.fspath(out):
            allowed = "the path of a directory, or None"
            raise ExperimentError(f"exp.run: out is empty: must be {allowed}", "out", None, allowed)
        one = self._fresh()
        holds = None
        if out is None:
            # It is removed with the last reference to its results.
            holds = tempfile.TemporaryDirectory(prefix="knee-", ignore_cleanup_errors=True)
            # Not by the experiment's name, which may be any text.
            place = Path(holds.name) / "results"
        else:
            place = Path(os.fspath(out))
        if progress is not None and not isinstance(progress, bool) and not callable(progress):
            allowed = "True, False, None or a function"
            raise ExperimentError(
                f"exp.run: progress = {progress!r}: must be {allowed}", "progress", None, allowed
            )
        told = progress if callable(progress) else None
        bar = Bar(self.name, one.runs, progress is True)

        def show(done: int, left_s: float | None) -> None:
            if told is not None:
                told(done, one.runs)
            else:
                bar(done, left_s)

        wanted = None if progress is False else show
        try:
            one._core.run(
                place, holds is not None, go_on, _threads(threads), trace, captures, wanted
            )
        finally:
            bar.close()
        return made(place, holds, dict(self._aliases))

    # ---- shown ----

    def __repr__(self) -> str:
        about = self._about
        cases = ", ".join(self.cases)
        axes = "".join(f"; {path}: {', '.join(values)}" for path, values in self.axes.items())
        return f"<knee.Experiment {about['name']}: {cases}{axes}; {about['runs']} runs, seed {about['seed']}>"

    def _repr_html_(self) -> str:
        about = self._about
        rows = [
            (
                "cases",
                "<br>".join(
                    html.escape(f"{case}: {', '.join(words)}" if words else case)
                    for case, words in zip(about["cases"], about["case_words"], strict=True)
                ),
            ),
            *(
                (html.escape(path), html.escape(", ".join(values)))
                for path, values in self.axes.items()
            ),
            (
                "runs",
                f"{about['runs']} ({about['rows']} rows, {about['repeat']} of each), seed {about['seed']}",
            ),
        ]
        table = "".join(
            f"<tr><th style='text-align:left'>{head}</th><td style='text-align:left'>{cell}</td></tr>"
            for head, cell in rows
        )
        notes = "".join(f"<li>{html.escape(remark)}</li>" for remark in about["remarks"])
        svg = self._core.network()
        picture = ""
        if svg is not None:
            data = base64.b64encode(svg.encode()).decode()
            picture = f"<img alt='The network' src='data:image/svg+xml;base64,{data}' style='max-width:100%'>"
        return (
            f"<div><b>{html.escape(about['name'])}</b>: {html.escape(about['question'])}"
            f"<table>{table}</table>{picture}{f'<ul>{notes}</ul>' if notes else ''}</div>"
        )


def _check_name(name: str) -> None:
    """Refuses what cannot be the name of a file."""
    if not isinstance(name, str):
        raise TypeError(f"name: must be a str, and not {type(name).__name__}")
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        allowed = "a name of a file without its folder, as bulk-mix"
        raise ExperimentError(f"name = {name!r}: must be {allowed}", "name", None, allowed)


def _text(value: object, what: str, example: str) -> str:
    if not isinstance(value, str):
        allowed = f'a str, as "{example}"'
        raise ExperimentError(
            f"{what} = {value!r}: must be {allowed}", what.split(": ")[-1], None, allowed
        )
    return str.__str__(value)


def _of_module(name: str, value: Any) -> Any:
    """A checked option of ``module``."""
    what = f"exp.with_: module.{name}"
    if name in ("linux", "api"):
        return None if value is None else _text(value, what, "6.1" if name == "linux" else "v3")
    several = [value] if isinstance(value, str) or hasattr(value, "__fspath__") else value
    if several is None:
        return ()
    if not isinstance(several, Sequence) or isinstance(several, bytes):
        allowed = "a str or a list"
        raise ExperimentError(
            f"{what} = {value!r}: must be {allowed}", f"module.{name}", None, allowed
        )
    example = "ALPHA=3" if name == "define" else "include"
    return tuple(
        _text(os.fspath(one) if hasattr(one, "__fspath__") else one, what, example)
        for one in several
    )


def _at(changes: _Changes, path: str, label: str) -> _Changes:
    """Changes to one value of a varied key, which stays a varied one."""
    axes = dict(changes.axes)
    if path not in axes:
        # As `--set` has it: what is no TOML is text.
        return replace(changes, pairs=(*changes.pairs, (path, label)))
    values = tomllib.loads(f"values = {axes[path]}")["values"]
    several = values if isinstance(values, list) else []
    # Those of a range are not among them, and are what they look like.
    same = [one for one in several if label == (one if isinstance(one, str) else _toml.inline(one))]
    axes[path] = _toml.inline(same[:1]) if same else label
    return replace(changes, axes=tuple(axes.items()))


_TAKEN = frozenset(
    ("at", "captures", "case", "column", "file", "log", "name", "of", "trace", "where", "width")
)
"""Names of arguments beside which short names of varied keys stand."""


def _threads(threads: int | None) -> int:
    """Their number; 0: one per core."""
    if threads is None:
        return 0
    if isinstance(threads, bool) or not hasattr(threads, "__index__") or not 1 <= threads <= 1024:
        allowed = "a whole number from 1 to 1024"
        raise ExperimentError(f"threads = {threads!r}: must be {allowed}", "threads", None, allowed)
    return int(threads)


def _streamed(core: _knee.Stream) -> Iterator[StreamedRun]:
    try:
        for run in core:
            yield StreamedRun(run)
    finally:
        core.close()


def _key(one: dict[str, Any]) -> Key:
    words = one["type"]
    unit = next(
        (
            kind
            for kind in ("size", "rate", "time")
            if words == kind or f"{kind}, " in words or words.startswith(f"{kind} ")
        ),
        None,
    )
    fields = {name: one[name] for name in ("name", "type", "default", "is_needed", "says", "value")}
    return Key(unit=unit, **fields)


def _pairs(values: Mapping[str, Value], method: str) -> Iterable[tuple[str, Value]]:
    if not isinstance(values, Mapping):
        raise TypeError(
            f"{method} takes a dict of paths and values, and not {type(values).__name__}"
        )
    for key, value in values.items():
        if not isinstance(key, str):
            raise TypeError(f"{method}: the path {key!r} must be a str")
        if "=" in key or not key.strip():
            raise ExperimentError(
                f"{method} {key!r}: must be a path, as network.bottleneck.rate", key
            )
        yield key, _toml.plain(value, key, f"{method} ")
