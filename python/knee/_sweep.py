"""Sweeps: many runs, on one machine, in shards or on a cluster."""

from __future__ import annotations

import hashlib
import json
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol

from knee import _knee
from knee._errors import ExperimentError
from knee._experiment import Experiment, _Changes, _threads
from knee._progress import Bar
from knee._result import Result
from knee._store import HEAD, Folder, Url, contents, place, single_names, stored_names

_BATCH_CPU_S = 3.0
"""CPU time of a batch, seconds: what the death of a worker costs, and enough to forget what a task costs."""
_BETWEEN_LOOKS_S = 10.0
"""How often the size of a cluster is asked for. While its GCS is dead, the answer does not come."""
_MOST_BATCH_CPU_S = 86_400
_MOST_REPEATS = 100
_LEAST_REPEATS = 5


@dataclass(frozen=True)
class Batch:
    """Some runs that one worker carries out.

    Attributes:
        numbers: their numbers in the experiment.
        names: their names, 16 bytes each, sorted.
    """

    numbers: list[int]
    names: bytes

    @property
    def part(self) -> str:
        """Name of the part that they become: the hash of their names."""
        return hashlib.sha256(self.names).hexdigest()[:32]


@dataclass(frozen=True)
class Metrics:
    """What a batch has taken.

    Attributes:
        runs: number of its runs that are stored now.
        cpu_s: CPU time in seconds.
        wall_s: time in seconds.
        failed: runs that an algorithm's code ended, a sentence each.
        was_there: whether the part was there already: nothing was carried out.
    """

    runs: int
    cpu_s: float = 0.0
    wall_s: float = 0.0
    failed: list[str] = field(default_factory=list)
    was_there: bool = False


class Engine(Protocol):
    """Carries batches out, wherever. This is all that an engine is: the results go to the store."""

    def map(
        self, work: Callable[[Batch], Metrics], batches: Iterable[Batch]
    ) -> Iterator[tuple[Batch, Metrics]]:
        """Calls ``work`` for each batch, and yields what it returns, in any order."""


class Threads:
    """The engine of this process: one batch at a time, on its cores."""

    def map(
        self, work: Callable[[Batch], Metrics], batches: Iterable[Batch]
    ) -> Iterator[tuple[Batch, Metrics]]:
        for batch in batches:
            yield batch, work(batch)


class Ray:
    """The engine of a Ray cluster: a task per batch. A task whose worker dies is given to another one.

    Args:
        address: ``"auto"`` for the cluster of this node, ``"HOST:PORT"``, ``"ray://..."``, or ``"local"`` for one that begins and ends
            here.
        in_flight_per_core: tasks that wait or run, for each core of the cluster.
        ships: whether this package travels to the workers. Otherwise it must be installed there.
        options: further arguments of ``ray.init``.
    """

    def __init__(
        self,
        address: str = "auto",
        *,
        in_flight_per_core: int = 3,
        ships: bool = True,
        **options: Any,
    ) -> None:
        self._address = address
        self._in_flight = in_flight_per_core
        self._ships = ships
        self._options = options

    def map(
        self, work: Callable[[Batch], Metrics], batches: Iterable[Batch]
    ) -> Iterator[tuple[Batch, Metrics]]:
        ray = self._begin()
        try:
            yield from self._tasks(ray, work, batches)
        finally:
            ray.shutdown()

    def _begin(self) -> Any:
        try:
            import ray
        except ImportError:
            raise ExperimentError("engine = ray: needs Ray: pip install ray", "engine") from None
        _check_reachable(self._address)
        environment: dict[str, Any] = dict(self._options.get("runtime_env") or {})
        if self._ships:
            # The package as it is here, so that all compute the same.
            environment["py_modules"] = [
                *environment.get("py_modules", []),
                str(Path(__file__).parent),
            ]
        try:
            ray.init(
                address=self._address,
                runtime_env=environment,
                log_to_driver=False,
                logging_level=logging.ERROR,
                configure_logging=False,
                **{name: value for name, value in self._options.items() if name != "runtime_env"},
            )
        except Exception as why:
            lines = [line for line in str(why).splitlines() if line.strip()]
            said = lines[0][:300] if lines else type(why).__name__
            if "Failed to connect" in said and not os.environ.get("RAY_AUTH_MODE"):
                said += " (a cluster with a token needs RAY_AUTH_MODE=token and RAY_AUTH_TOKEN_PATH here, too)"
            raise ExperimentError(
                f"engine = ray: the cluster at {self._address} cannot be used: {said}; nothing was carried out",
                "engine",
            ) from None
        return ray

    def _tasks(
        self, ray: Any, work: Callable[[Batch], Metrics], batches: Iterable[Batch]
    ) -> Iterator[tuple[Batch, Metrics]]:
        threads = max(1, getattr(work, "threads", 1))
        task = ray.remote(_call).options(max_retries=-1, num_cpus=threads)
        shared = ray.put(work)
        going: dict[Any, Batch] = {}
        left = iter(batches)
        is_over = False
        most, asked_at = 0, -_BETWEEN_LOOKS_S
        while True:
            if time.monotonic() - asked_at >= _BETWEEN_LOOKS_S:
                asked_at = time.monotonic()
                most = max(
                    1, self._in_flight * int(ray.cluster_resources().get("CPU", 1)) // threads
                )
            while not is_over and len(going) < most:
                batch = next(left, None)
                if batch is None:
                    is_over = True
                    break
                going[task.remote(shared, batch)] = batch
            if not going:
                return
            # Now and then, so that Ctrl-C is seen and new nodes get work.
            done, _ = ray.wait(list(going), num_returns=1, timeout=1.0)
            if done:
                # All that have ended: each look costs as much as there are tasks.
                done, _ = ray.wait(list(going), num_returns=len(going), timeout=0)
            for one in done:
                try:
                    metrics = ray.get(one)
                except ray.exceptions.RayError as why:
                    raise _cause(why) from None
                yield going.pop(one), metrics


def _call(work: Callable[[Batch], Metrics], batch: Batch) -> Metrics:
    return work(batch)


def _cause(why: BaseException) -> ExperimentError:
    """What a task raised, or what became of it."""
    cause = getattr(why, "cause", None)
    if isinstance(cause, ExperimentError):
        return cause
    of = cause or why
    lines = [line.strip() for line in str(of).splitlines() if line.strip()]
    said = f"{type(of).__name__}: {lines[0][:300]}" if lines else type(of).__name__
    return ExperimentError(
        f"engine = ray: a task failed: {said}; what is stored stays, and the same call goes on",
        "engine",
    )


def _check_reachable(address: str) -> None:
    """Refuses what nobody listens at, before Ray waits for it."""
    import socket

    host, colon, port = address.removeprefix("ray://").rpartition(":")
    if not colon or not port.isdecimal():
        return
    try:
        socket.create_connection((host, int(port)), timeout=3).close()
    except OSError as why:
        raise ExperimentError(
            f"engine = ray: nothing answers at {address} ({why.strerror or why}): start it with ray start --head, "
            "or give the address that it prints",
            "engine",
        ) from None


@dataclass(frozen=True)
class _Work:
    """The work of a batch, for whichever process: carries its runs out and puts them into the store."""

    text: str
    path: str
    changes: _Changes
    files: tuple[tuple[str, bytes], ...]
    head: str
    place: Folder | Url
    threads: int

    def __call__(self, batch: Batch) -> Metrics:
        part = batch.part
        # The worker before this one may have died behind its last word.
        if self.place.has(f"{part}.names"):
            return Metrics(len(batch.numbers), was_there=True)
        core = _loaded(self)
        with _folder("knee-batch-") as folder:
            told = json.loads(
                core.sweep(str(folder), None, batch.numbers, False, None, self.threads, None)
            )
            store = folder / "store"
            # Those that failed are not there.
            if not single_names(stored_names(Folder(store))) <= single_names(batch.names):
                # Otherwise the sweep would carry them out once more, alone.
                why = f"{self.path}: runs have other names on {os.uname().nodename} than where the sweep began"
                raise ExperimentError(why)
            _move(store, self.place)
        return Metrics(told["runs_done"], told["cpu_s"], told["wall_s"], told["failed"])


@contextmanager
def _folder(prefix: str) -> Iterator[Path]:
    """A folder for a while. What failed or was stopped may still write its last run, and then goes too."""
    folder = Path(tempfile.mkdtemp(prefix=prefix))
    try:
        yield folder
    finally:
        for _ in range(100):
            shutil.rmtree(folder, ignore_errors=True)
            if not folder.exists():
                break
            time.sleep(0.05)


def _move(store: Path, to: Folder | Url) -> None:
    """Puts the parts of a store elsewhere, the list of names after the runs."""
    for ending in (".part", ".names"):
        for file in sorted(store.glob(f"*{ending}")):
            to.put(file.name, file.read_bytes())


_KNOWN: dict[str, tuple[_knee.Experiment, Any]] = {}
"""The experiment that this process has loaded last: a worker carries out many batches of it."""


def _loaded(work: _Work) -> _knee.Experiment:
    """The experiment of a worker, from text and files that travelled with it."""
    key = hashlib.sha256(
        repr((work.text, work.path, work.changes, work.files, work.head)).encode()
    ).hexdigest()
    if key in _KNOWN:
        return _KNOWN[key][0]
    holds = None
    path, changes = work.path, work.changes
    if work.files:
        holds = tempfile.TemporaryDirectory(prefix="knee-files-", ignore_cleanup_errors=True)
        root = Path(holds.name)
        for name, content in work.files:
            file = root / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        path = str(root / path)
        changes = replace(
            changes,
            cc=tuple(str(root / word) if "/" in word else word for word in changes.cc),
            include=tuple(str(root / word) for word in changes.include),
        )
    core = _knee.Experiment(path, work.text, changes)
    # Another version of knee, or of what it computes, has no part in this sweep.
    core.check_store_head(work.path, work.head)
    _KNOWN.clear()
    _KNOWN[key] = (core, holds)
    return core


def _work_of(exp: Experiment, to: Folder | Url, head: str, threads: int) -> _Work:
    """What travels to workers: the text and the files that it reads, all below one folder."""
    path, text, changes = exp._path, exp._text, exp._changes
    files = [Path(os.path.abspath(file)) for file in exp._core.files()]
    if not files:
        return _Work(text, Path(path).name, changes, (), head, to, threads)
    home = Path(os.path.abspath(path))
    words = [Path(os.path.abspath(word)) for word in changes.cc if "/" in word]
    includes = [Path(os.path.abspath(word)) for word in changes.include]
    root = Path(os.path.commonpath([home.parent, *(file.parent for file in files), *includes]))
    relative = {str(word): str(word.relative_to(root)) for word in (*words, *includes)}
    changes = replace(
        changes,
        cc=tuple(relative[os.path.abspath(word)] if "/" in word else word for word in changes.cc),
        include=tuple(relative[os.path.abspath(word)] for word in changes.include),
    )
    content = tuple(
        (str(file.relative_to(root)), file.read_bytes()) for file in dict.fromkeys(files)
    )
    return _Work(text, str(home.relative_to(root)), changes, content, head, to, threads)


@dataclass(frozen=True)
class Shard:
    """What became of a shard.

    Attributes:
        runs_done: number of its runs that are stored.
        runs_earlier: how many of them were there before.
        interrupted: whether it was stopped before all had finished.
        failed: runs that an algorithm's code ended, a sentence each.
        cpu_s: CPU time in seconds.
    """

    runs_done: int
    runs_earlier: int
    interrupted: bool
    failed: list[str]
    cpu_s: float


def sweep(
    exp: Experiment,
    out: str | os.PathLike[str],
    *,
    engine: str | Engine = "threads",
    store: str | os.PathLike[str] | None = None,
    shard: str | tuple[int, int] | None = None,
    until: str | None = None,
    most_repeats: int = _MOST_REPEATS,
    threads: int | None = None,
    batch_cpu_s: float = _BATCH_CPU_S,
    progress: bool | None = None,
) -> Result | Shard:
    """Carries out many runs, and goes on where an earlier call ended, however it ended. It is ``knee sweep``.

    A run is a function of its name: its values, the contents of its files, its seed, and the version of what knee computes. Finished
    runs go to a store in parts, and are never carried out again. The tables are the same bytes whatever ran where.

    Args:
        exp: the experiment.
        out: directory of the tables. The store is its ``store``, unless another one is given.
        engine: ``"threads"`` for the cores of this machine, ``"ray"`` for the cluster of this node, or an engine as
            ``knee.Ray("10.0.0.1:6379")``.
        store: a folder that all workers reach, or a URL that obstore takes, as ``"s3://bucket/sweep"``.
        shard: ``"3/100"`` or ``(3, 100)``: carries out one of a hundred shards, which differ by one run at most. When all are done,
            a call without it makes the tables.
        until: adds repeats until a figure is known well enough in every row, as ``"p99 of short within 5 %"``.
        most_repeats: most repeats with ``until``.
        threads: number of threads of this process, or of a task; ``None``: one per core here, one in a task.
        batch_cpu_s: CPU time of a batch in seconds, as predicted.
        progress: whether to show a bar; ``None``: in a terminal and a notebook.

    Returns:
        The results, or with ``shard`` a :class:`Shard`.

    Raises:
        ExperimentError: it cannot be run, the store is of another experiment or cannot be reached, or the cluster cannot be used.
        KeyboardInterrupt: Ctrl-C before anything had finished.
    """
    if until is not None and shard is not None:
        raise ExperimentError(
            "knee.sweep: until needs the runs of all shards: call it without shard when these are done",
            "until",
        )
    if until is not None:
        exp = exp.with_(
            repeat=max(min(_LEAST_REPEATS, most_repeats), min(exp.repeat, most_repeats))
        )
    is_number = hasattr(batch_cpu_s, "__float__") and not isinstance(batch_cpu_s, bool)
    if not is_number or not 0 < float(batch_cpu_s) <= _MOST_BATCH_CPU_S:
        allowed = f"a number of seconds above 0, at most {_MOST_BATCH_CPU_S}"
        why = f"knee.sweep: batch_cpu_s = {batch_cpu_s!r}: must be {allowed}"
        raise ExperimentError(why, "batch_cpu_s", None, allowed)
    made = _engine(engine)
    words = None if shard is None else _shard_words(shard)
    while True:
        one = exp._fresh()
        told = _once(
            one, Path(out), made, store, words, until, most_repeats, threads, batch_cpu_s, progress
        )
        if words is not None:
            return Shard(
                told["runs_done"],
                told["runs_earlier"],
                told["interrupted"],
                told["failed"],
                told["cpu_s"],
            )
        if told.get("wanted_repeat") is None or told["interrupted"]:
            return Result(Path(out), None, dict(exp._aliases))
        exp = exp.with_(repeat=told["wanted_repeat"])


def _engine(engine: str | Engine) -> Engine:
    if isinstance(engine, str):
        if engine == "threads":
            return Threads()
        if engine == "ray":
            return Ray()
        allowed = '"threads", "ray" or an engine'
        raise ExperimentError(f"engine = {engine!r}: must be {allowed}", "engine", None, allowed)
    if not hasattr(engine, "map"):
        raise TypeError(f"engine: must have a method map, and {type(engine).__name__} has none")
    return engine


def _shard_words(shard: str | tuple[int, int]) -> str:
    return shard if isinstance(shard, str) else "/".join(str(number) for number in shard)


def _once(
    one: Experiment,
    out: Path,
    engine: Engine,
    store: str | os.PathLike[str] | None,
    shard: str | None,
    until: str | None,
    most_repeats: int,
    threads: int | None,
    batch_cpu_s: float,
    progress: bool | None,
) -> dict[str, Any]:
    """All runs at their repeats."""
    core = one._core
    own = out / "store"
    to = place(own if store is None else store)
    is_own = isinstance(to, Folder) and str(to) == str(own.absolute())
    asked = None if until is None else (until, most_repeats)
    bar = Bar(one.name, one.runs, progress is True)
    wanted = None if progress is False else bar
    try:
        if is_own and isinstance(engine, Threads):
            return dict(
                json.loads(core.sweep(out, shard, None, False, asked, _threads(threads), wanted))
            )
        if asked is not None:
            # What it cannot use is said before runs are carried out.
            with _folder("knee-until-") as folder:
                core.sweep(folder, None, [], False, asked, 1, None)
        in_task = 1 if threads is None and not isinstance(engine, Threads) else _threads(threads)
        filled = _fill(one, to, engine, shard, in_task, batch_cpu_s, bar)
    finally:
        bar.close()
    if shard is not None:
        return filled
    fetched = set() if is_own else _fetch(to, Folder(own))
    told = dict(
        json.loads(
            core.sweep(out, None, None, filled["interrupted"], asked, _threads(threads), None)
        )
    )
    if not is_own and not told["interrupted"]:
        _put_back(Folder(own), to, fetched)
    told["interrupted"] = told["interrupted"] or filled["interrupted"]
    return told


def _fill(
    one: Experiment,
    to: Folder | Url,
    engine: Engine,
    shard: str | None,
    threads: int,
    batch_cpu_s: float,
    bar: Bar,
) -> dict[str, Any]:
    """Carries out by an engine what a store lacks."""
    core = one._core
    head = core.store_head()
    if not to.put(HEAD, head.encode()):
        core.check_store_head(str(to), to.get(HEAD).decode())
    stored = stored_names(to)
    packets = _packets_of(one, batch_cpu_s)
    missing, in_share = core.missing(shard, stored, packets)
    batches = [Batch(numbers, bytes(names)) for numbers, names in missing]
    all_runs = sum(len(batch.numbers) for batch in batches)
    # With those that are the same as others.
    earlier = in_share - all_runs
    work = _work_of(one, to, head, threads)
    filled: dict[str, Any] = {
        "runs_done": earlier,
        "runs_earlier": earlier,
        "interrupted": False,
        "failed": [],
        "cpu_s": 0.0,
    }
    if not batches:
        return filled
    begun, done = time.monotonic(), 0
    try:
        for batch, metrics in engine.map(work, batches):
            done += len(batch.numbers)
            filled["runs_done"] += metrics.runs
            filled["cpu_s"] += metrics.cpu_s
            filled["failed"].extend(metrics.failed)
            left_s = (time.monotonic() - begun) / done * (all_runs - done)
            bar(in_share - all_runs + done, left_s)
    except KeyboardInterrupt:
        # The last batch may be stored, and its end not be told.
        if filled["runs_done"] == 0 and not stored_names(to):
            raise
        filled["interrupted"] = True
    return filled


def _packets_of(one: Experiment, cpu_s: float) -> float:
    """The packets that take so much CPU time, by a trial of the first run."""
    cost = one.cost(trial_s=1.0)
    if not cost.cpu_s or not cost.packets:
        return 1e6 * cpu_s
    return cpu_s * cost.packets / cost.cpu_s


def _fetch(source: Folder | Url, to: Folder) -> set[str]:
    """Copies what a store has and another one lacks, the lists of names after the runs. Returns the names that it had."""
    there = set(to.files())
    had: set[str] = set()
    if HEAD not in there:
        to.put(HEAD, source.get(HEAD))
    while True:
        files = source.files()
        had.update(files)
        names = [name for name in files if name not in there]
        found = 0
        for ending in (".part", ".names"):
            wanted = [name for name in names if name.endswith(ending)]
            for name, content in contents(source, wanted):
                to.put(name, content)
                there.add(name)
                found += 1
            found -= len(wanted)
        if found == 0:
            return had


def _put_back(compacted: Folder, to: Folder | Url, fetched: set[str]) -> None:
    """Replaces the parts that were fetched by the sorted ones. Every run is there at any time, and what others put since stays."""
    new = set(compacted.files())
    there = set(to.files())
    for ending in (".part", ".names"):
        for name in sorted(new - there):
            if name.endswith(ending):
                to.put(name, compacted.get(name))
    for ending in (".names", ".part"):
        to.delete(sorted(name for name in (there & fetched) - new if name.endswith(ending)))
