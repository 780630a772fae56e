"""Sweeps: engines, shards, stores, and what ends them early."""

from __future__ import annotations

import hashlib
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import pytest
from conftest import SHORT, foo

import knee
from knee import ExperimentError
from knee._store import Folder, Url, place, stored_names
from knee._sweep import Batch, Metrics, Threads, _cause

HERE = Path(__file__).parent
LONG = SHORT.replace("20 kB", "2 MB").replace("20 ms", "2 s").replace("repeat = 2", "repeat = 30")
"""60 runs of some 10 ms."""


class Counted(Threads):
    """The engine of this process, which counts runs."""

    def __init__(self) -> None:
        self.runs = 0

    def map(
        self, work: Callable[[Batch], Metrics], batches: Iterable[Batch]
    ) -> Iterator[tuple[Batch, Metrics]]:
        for batch, metrics in super().map(work, batches):
            self.runs += 0 if metrics.was_there else metrics.runs
            yield batch, metrics


class Stops(Threads):
    """Ctrl-C after so many batches."""

    def __init__(self, after: int) -> None:
        self.after = after

    def map(
        self, work: Callable[[Batch], Metrics], batches: Iterable[Batch]
    ) -> Iterator[tuple[Batch, Metrics]]:
        for number, batch in enumerate(batches):
            if number == self.after:
                raise KeyboardInterrupt
            yield batch, work(batch)


def hashes(store: Path) -> dict[str, str]:
    """What identifies the runs of a store."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in store.iterdir()
        if file.suffix in (".part", ".names")
    }


def tables(out: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in out.glob("*.csv")}


def count(store: Path) -> int:
    return len(stored_names(Folder(store))) // 16


@pytest.fixture
def long() -> knee.Experiment:
    return knee.Experiment.from_toml(LONG, name="long")


@pytest.fixture
def whole(long: knee.Experiment, tmp_path: Path) -> Path:
    """Where it was carried out at once."""
    knee.sweep(long, tmp_path / "whole", progress=False)
    return tmp_path / "whole"


def same(out: Path, whole: Path) -> bool:
    return hashes(out / "store") == hashes(whole / "store") and tables(out) == tables(whole)


def child(code: str, *before: str, **more: object) -> subprocess.Popen[str]:
    """A process of its own."""
    return subprocess.Popen(
        [*before, sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=HERE,
    )


CHILD = """
    import os, signal, sys
    import knee, test_sweep
    signal.signal(signal.SIGINT, signal.default_int_handler)
    exp = knee.Experiment.from_toml(test_sweep.LONG, name="long").with_(repeat={repeat})
    res = knee.sweep(exp, {out!r}, store={store!r}, batch_cpu_s=0.05, threads=1, progress=False)
    print(res.interrupted, len(res.runs))
"""


def test_a_sweep_has_the_tables_of_a_run(long: knee.Experiment, whole: Path) -> None:
    swept = knee.read(whole)
    run = long.run(progress=False)
    assert swept.runs.to_dict() == run.runs.to_dict()
    assert swept.flows.to_dict() == run.flows.to_dict()
    # Again, nothing is carried out, and more repeats are.
    before = hashes(whole / "store")
    knee.sweep(long, whole, progress=False)
    assert hashes(whole / "store") == before
    knee.sweep(long.with_(repeat=31), whole, progress=False)
    assert count(whole / "store") == 62


def test_shards_make_the_same_bytes(long: knee.Experiment, whole: Path, tmp_path: Path) -> None:
    for store in (None, tmp_path / "shared"):
        done = 0
        for number in (3, 1, 2):
            # Machines that have nothing else in common.
            out = tmp_path / f"machine-{number}" if store else tmp_path / "own"
            one = knee.sweep(long, out, shard=(number, 3), store=store, progress=False)
            assert isinstance(one, knee.Shard)
            assert 10 <= one.runs_done <= 30, store
            assert (one.runs_earlier, one.interrupted, one.failed) == (0, False, [])
            done += one.runs_done
        assert done == 60
        again = knee.sweep(long, out, shard="2/3", store=store, progress=False)
        assert isinstance(again, knee.Shard)
        assert again.runs_earlier == again.runs_done == one.runs_done
        assert count(store or tmp_path / "own/store") == 60
    counted = Counted()
    knee.sweep(long, tmp_path / "own", progress=False)
    knee.sweep(long, tmp_path / "out", store=store, engine=counted, progress=False)
    assert counted.runs == 0
    assert same(tmp_path / "own", whole)
    assert same(tmp_path / "out", whole)


def test_a_folder_elsewhere(long: knee.Experiment, whole: Path, tmp_path: Path) -> None:
    store, out = tmp_path / "runs", tmp_path / "out"
    counted = Counted()
    args = {"store": store, "engine": counted, "batch_cpu_s": 0.1, "progress": False}
    knee.sweep(long, out, **args)  # type: ignore[arg-type]
    assert counted.runs == 60
    assert same(out, whole)
    assert hashes(store) == hashes(whole / "store")
    # Another machine has nothing of its own.
    knee.sweep(long, tmp_path / "other", **args)  # type: ignore[arg-type]
    knee.sweep(long, tmp_path / "url", **args | {"store": store.as_uri()})  # type: ignore[arg-type]
    assert counted.runs == 60
    assert same(tmp_path / "other", whole)
    assert same(tmp_path / "url", whole)


def test_batches_are_by_content(long: knee.Experiment) -> None:
    whole = [(numbers, names) for numbers, names in long._core.missing(None, b"", 1e4)[0]]
    batches = [Batch(numbers, bytes(names)) for numbers, names in whole]
    assert len(batches) > 2
    assert sorted(number for batch in batches for number in batch.numbers) == list(range(60))
    assert all(len(batch.names) == 16 * len(batch.numbers) for batch in batches)
    assert len({batch.part for batch in batches}) == len(batches)
    stored = b"".join(batch.names for batch in batches[1:])
    left, runs = long._core.missing(None, stored, 1e12)
    assert ([bytes(names) for _, names in left], runs) == ([batches[0].names], 60)


@pytest.mark.parametrize("has_store", [False, True])
def test_a_killed_sweep_goes_on(
    has_store: bool,
    long: knee.Experiment,
    whole: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What it leaves there ends with the test.
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    chance = random.Random(51)
    out = tmp_path / "out"
    store = str(tmp_path / "runs") if has_store else None
    for _ in range(3):
        one = child(CHILD.format(out=str(out), store=store, repeat=30))
        time.sleep(chance.uniform(0.2, 1.2))
        one.kill()
        one.communicate()
    place = Path(store) if store else out / "store"
    stored = count(place) if place.exists() else 0
    counted = Counted()
    engine = counted if store else "threads"
    knee.sweep(long, out, store=store, engine=engine, batch_cpu_s=0.05, progress=False)
    assert same(out, whole)
    if store:
        assert counted.runs == 60 - stored
        assert hashes(Path(store)) == hashes(whole / "store")


@pytest.mark.parametrize("has_store", [False, True])
def test_ctrl_c_keeps_what_has_finished(
    has_store: bool, long: knee.Experiment, whole: Path, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    store = str(tmp_path / "runs") if has_store else None
    # Many more runs than finish.
    one = child(CHILD.format(out=str(out), store=store, repeat=2000))
    place = Path(store) if store else out / "store"
    until = time.monotonic() + 60
    while not list(place.glob("*.names")) and time.monotonic() < until:
        time.sleep(0.02)
    one.send_signal(signal.SIGINT)
    told, err = one.communicate(timeout=60)
    assert one.returncode == 0, err
    is_interrupted, rows = told.split()
    assert is_interrupted == "True"
    assert 0 < int(rows) < 4000
    assert count(place) >= int(rows)
    knee.sweep(long.with_(repeat=2000), out, store=store, progress=False, shard=(1, 4000))
    res = knee.read(out)
    assert len(res.runs) == int(rows)


def test_ctrl_c_before_anything_is_raised(long: knee.Experiment, tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        knee.sweep(long, tmp_path / "out", engine=Stops(0), store=tmp_path / "s", progress=False)
    args = {"store": tmp_path / "s", "batch_cpu_s": 0.05, "progress": False}
    res = knee.sweep(long, tmp_path / "out", engine=Stops(1), **args)  # type: ignore[arg-type]
    assert isinstance(res, knee.Result)
    assert res.interrupted
    assert 0 < len(res.runs) < 60


def test_two_sweeps_into_one_directory(long: knee.Experiment, tmp_path: Path) -> None:
    exp = long.with_(repeat=3000)
    one = child(CHILD.format(out=str(tmp_path / "out"), store=None, repeat=3000))
    try:
        until = time.monotonic() + 60
        while not (tmp_path / "out/store/sweep.json").exists() and time.monotonic() < until:
            time.sleep(0.02)
        time.sleep(0.3)
        with pytest.raises(ExperimentError, match="other processes run this sweep"):
            knee.sweep(exp, tmp_path / "out", progress=False)
    finally:
        one.kill()
        one.communicate()


def test_two_sweeps_into_one_store(long: knee.Experiment, whole: Path, tmp_path: Path) -> None:
    store = tmp_path / "runs"
    words = [CHILD.format(out=str(tmp_path / name), store=str(store), repeat=30) for name in "abc"]
    for one in [child(code) for code in words]:
        told, err = one.communicate(timeout=120)
        assert one.returncode == 0, err
        assert told.split() == ["False", "60"]
    assert all(same(tmp_path / name, whole) for name in "abc")
    knee.sweep(long, tmp_path / "a", store=store, progress=False)
    assert hashes(store) == hashes(whole / "store")


def test_a_changed_file_is_refused(short: knee.Experiment, tmp_path: Path) -> None:
    path = tmp_path / "foo.c"
    path.write_text(foo(window=2))
    exp = short.cc(path)
    for store in (None, tmp_path / "runs"):
        out = tmp_path / ("own" if store is None else "other")
        path.write_text(foo(window=2))
        knee.sweep(exp, out, store=store, progress=False)
        before = hashes(store or out / "store")
        path.write_text(foo(window=3))
        with pytest.raises(ExperimentError, match="cannot go on, because .*foo"):
            knee.sweep(exp, out, store=store, progress=False)
        assert hashes(store or out / "store") == before
        assert set(knee.read(out).flows.to_dict()["cwnd_pkts"]) == {2}
        path.write_text(foo(window=2))
        knee.sweep(exp, out, store=store, progress=False)


def test_files_travel_with_the_work(short: knee.Experiment, tmp_path: Path) -> None:
    import pickle

    class Travels(Threads):
        """Work that arrives where no file of it is."""

        def map(
            self, work: Callable[[Batch], Metrics], batches: Iterable[Batch]
        ) -> Iterator[tuple[Batch, Metrics]]:
            content = pickle.dumps(work)
            folder.rename(tmp_path / "elsewhere")
            try:
                yield from super().map(pickle.loads(content), batches)
            finally:
                (tmp_path / "elsewhere").rename(folder)

    folder = tmp_path / "lib"
    (folder / "cc").mkdir(parents=True)
    (folder / "cc/window.h").write_text("#define WINDOW 7\n")
    body = foo().replace("#ifndef", '#include "window.h"\n#ifndef', 1)
    (folder / "cc/foo.c").write_text(body)
    exp = short.cc(folder / "cc/foo.c")
    store, engine = tmp_path / "runs", Travels()
    res = knee.sweep(exp, tmp_path / "out", store=store, engine=engine, progress=False)
    assert isinstance(res, knee.Result)
    assert set(res.flows.to_dict()["cwnd_pkts"]) == {7}
    assert count(store) == 2
    # Another header makes other runs.
    (folder / "cc/window.h").write_text("#define WINDOW 8\n")
    res = knee.sweep(exp, tmp_path / "out", store=store, engine=engine, progress=False)
    assert isinstance(res, knee.Result)
    assert set(res.flows.to_dict()["cwnd_pkts"]) == {8}
    assert count(store) == 4


def test_runs_of_a_module_that_crashes(short: knee.Experiment, tmp_path: Path) -> None:
    path = tmp_path / "foo.c"
    path.write_text(foo(body="*(volatile int *)8 = 1;"))
    exp = short.cc(path, "dctcp")
    res = knee.sweep(exp, tmp_path / "out", store=tmp_path / "runs", progress=False)
    assert isinstance(res, knee.Result)
    assert res.failed
    assert set(res.runs.to_dict()["case"]) == {"dctcp"}


FULL = """
    import resource, sys
    import knee, test_sweep
    resource.setrlimit(resource.RLIMIT_FSIZE, ({most}, {most}))
    exp = knee.Experiment.from_toml(test_sweep.LONG, name="long")
    try:
        knee.sweep(exp, {out!r}, store={store!r}, batch_cpu_s=0.2, threads=1, progress=False)
    except knee.ExperimentError as why:
        print(why)
"""


@pytest.mark.parametrize("has_store", [False, True])
@pytest.mark.parametrize("how", ["tmpfs", "limit"])
def test_a_full_store(
    how: str, has_store: bool, long: knee.Experiment, whole: Path, tmp_path: Path
) -> None:
    if how == "tmpfs" and (os.geteuid() != 0 or not shutil.which("unshare")):
        pytest.skip("only root may mount a small tmpfs")
    full, kept = tmp_path / "full", tmp_path / "kept"
    full.mkdir()
    out, store = (tmp_path / "out", str(full)) if has_store else (full, None)
    most = resource.RLIM_INFINITY
    before: list[str] = []
    if how == "tmpfs":
        # Some parts fit. What is there is kept beyond the mount.
        script = f'mount -t tmpfs -o size=64k none "$0" || exit 77; "$@"; c=$?; cp -r "$0" {kept}; exit $c'
        before = ["unshare", "--mount", "sh", "-c", script, str(full)]
    else:
        most = 20_000
    one = child(FULL.format(most=most, out=str(out), store=store), *before)
    told, err = one.communicate(timeout=60)
    if one.returncode == 77:
        pytest.skip("a tmpfs cannot be mounted here")
    assert one.returncode == 0, err
    assert len(told.splitlines()) == 1, told
    assert "cannot write" in told
    # A limit meets the folder of a batch first.
    assert how == "limit" or str(full) in told
    # What was stored is whole, and the same call goes on once there is room.
    if how == "tmpfs":
        shutil.copytree(kept, full, dirs_exist_ok=True)
    place = full if has_store else full / "store"
    assert count(place) < 60
    knee.sweep(long, out, store=store, progress=False)
    assert same(out, whole)


def test_a_damaged_store(long: knee.Experiment, tmp_path: Path) -> None:
    store = tmp_path / "runs"
    knee.sweep(long, tmp_path / "out", store=store, progress=False)
    # A list without runs counts for nothing.
    (store / "0123.names").write_bytes(b"half")
    knee.sweep(long, tmp_path / "out", store=store, progress=False)
    (store / "0123.names").write_bytes(b"half")
    (store / "0123.part").write_bytes(b"")
    with pytest.raises(ExperimentError, match=r"0123\.names is damaged: remove it"):
        knee.sweep(long, tmp_path / "out", store=store, progress=False)
    (store / "0123.names").unlink()
    (store / "0123.part").unlink()
    (store / "sweep.json").write_text("{")
    with pytest.raises(ExperimentError, match=r"sweep\.json is damaged"):
        knee.sweep(long, tmp_path / "out", store=store, progress=False)


def test_until_adds_repeats(short: knee.Experiment, tmp_path: Path) -> None:
    args = {"until": "mean of short within 20 %", "progress": False}
    res = knee.sweep(short, tmp_path / "out", most_repeats=7, **args)  # type: ignore[arg-type]
    assert isinstance(res, knee.Result)
    assert 10 <= len(res.runs) <= 14
    other = knee.sweep(
        short,
        tmp_path / "other",
        store=tmp_path / "runs",
        engine=Counted(),
        most_repeats=7,
        **args,  # type: ignore[arg-type]
    )
    assert isinstance(other, knee.Result)
    assert other.runs.to_dict() == res.runs.to_dict()
    assert hashes(tmp_path / "out/store") == hashes(tmp_path / "runs")


@pytest.mark.parametrize(
    ("args", "sentence"),
    [
        ({"engine": "cloud"}, 'engine = \'cloud\': must be "threads", "ray" or an engine'),
        ({"shard": "4/3"}, "shard"),
        ({"shard": "0/3"}, "shard"),
        ({"shard": "x"}, "shard"),
        ({"until": "mean of short within 5 %", "shard": "1/3"}, "without shard"),
        ({"until": "p99 of nothing within 5 %"}, "until"),
        ({"until": "soon"}, "must be as"),
        ({"until": "soon", "store": "runs", "engine": Counted()}, "must be as"),
    ],
)
def test_errors(
    args: dict[str, object],
    sentence: str,
    short: knee.Experiment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ExperimentError, match=sentence) as raised:
        knee.sweep(short, tmp_path / "out", progress=False, **args)  # type: ignore[arg-type]
    assert len(str(raised.value).splitlines()) == 1
    # Nothing was carried out.
    assert not list(tmp_path.rglob("*.part"))


def test_an_engine_has_a_map(short: knee.Experiment, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="must have a method map"):
        knee.sweep(short, tmp_path / "out", engine=object())  # type: ignore[arg-type]


def test_secrets_are_in_no_sentence() -> None:
    for url in (
        "s3://user:word@bucket/sweep",
        "s3://bucket/sweep?token=word",
        "https://a:word@b/c",
    ):
        with pytest.raises(
            ExperimentError, match="credentials come from the environment"
        ) as raised:
            place(url)
        assert "word" not in str(raised.value)
    with pytest.raises(ExperimentError, match="is no URL"):
        place("s3://[bad")
    assert str(place("file:///a%20b")) == "/a b"
    assert isinstance(place("s3://bucket/sweep"), Url)


def test_designs_fill_their_ranges(short: knee.Experiment) -> None:
    ranges = {
        "network.bottleneck.queue.k": ("10 pkts", "90 pkts", "log"),
        "network.bottleneck.rate": ("1 Gbps", "4 Gbps"),
        "traffic.short.size": ["10 kB", "20 kB"],
    }
    for kind in ("random", "latin"):
        one = short.design(ranges, 16, kind=kind, seed=3)
        assert one.runs == 16 * short.runs
        assert one == short.design(ranges, 16, kind=kind, seed=3)
        assert one != short.design(ranges, 16, kind=kind, seed=4)
    rates = [float(point.split(" / ")[1].removesuffix(" Gbps")) for point in one.axes["design"]]
    # A value in each sixteenth of the range.
    assert sorted(int((rate - 1) / 3 * 16) for rate in rates) == list(range(16))
    for wrong, points, why in (
        ({}, 4, "needs a dict"),
        ({"network.bottleneck.queue.k": ("10 pkts", "1 kB")}, 4, "must have one unit"),
        ({"network.bottleneck.queue.k": ("10 pkts", "12 pkts")}, 6, "at most"),
        (ranges, 2.5, "must be a whole number"),
        (ranges, 4, "must be one of"),
    ):
        with pytest.raises(ExperimentError, match=why):
            short.design(wrong, points, kind="grid" if why == "must be one of" else "latin")  # type: ignore[arg-type]


# Ray.


def test_an_unreachable_cluster(short: knee.Experiment, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    for address in ("127.0.0.1:9", "ray://127.0.0.1:9"):
        begun = time.monotonic()
        with pytest.raises(ExperimentError, match="nothing answers at") as raised:
            knee.sweep(short, tmp_path / "out", engine=knee.Ray(address), progress=False)
        assert len(str(raised.value).splitlines()) == 1
        assert time.monotonic() - begun < 10


def test_what_a_task_raised_is_a_sentence() -> None:
    class FailedError(Exception):
        cause: BaseException | None = None

    why = FailedError("a trace\nof many lines")
    assert str(_cause(why)).startswith("engine = ray: a task failed: FailedError: a trace; what is")
    why.cause = OSError("no room\nleft")
    assert "a task failed: OSError: no room; what is stored stays" in str(_cause(why))
    why.cause = ExperimentError("as it was", "store")
    assert _cause(why) is why.cause


def test_ray_is_named_where_it_is_missing(
    short: knee.Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ExperimentError, match="pip install ray"):
        knee.sweep(short, tmp_path / "out", engine="ray", progress=False)


def test_obstore_is_named_where_it_is_missing(
    short: knee.Experiment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "obstore", None)
    monkeypatch.setitem(sys.modules, "obstore.store", None)
    with pytest.raises(ExperimentError, match="pip install obstore"):
        knee.sweep(short, tmp_path / "out", store="s3://bucket/sweep", progress=False)


RAY = """
    import knee, sys, test_sweep
    exp = knee.Experiment.from_toml(test_sweep.LONG, name="long")
    engine = knee.Ray("local", num_cpus=2, object_store_memory=100 << 20, include_dashboard=False)
    res = knee.sweep(exp, {out!r}, store={store!r}, engine=engine, batch_cpu_s=0.1, progress=False)
    print(len(res.runs))
"""


def test_ray_makes_the_same_bytes(long: knee.Experiment, whole: Path, tmp_path: Path) -> None:
    pytest.importorskip("ray")
    out, store = tmp_path / "out", tmp_path / "runs"
    one = child(RAY.format(out=str(out), store=str(store)))
    told, err = one.communicate(timeout=180)
    assert one.returncode == 0, err
    assert told.split()[-1] == "60"
    assert same(out, whole)
    assert hashes(store) == hashes(whole / "store")


# S3.


@pytest.fixture
def bucket(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """An S3 server of this process."""
    pytest.importorskip("obstore")
    server = pytest.importorskip("moto.server")
    one = server.ThreadedMotoServer(ip_address="127.0.0.1", port=0)
    one.start()
    host, port = one.get_host_and_port()
    for name, value in {
        "AWS_ENDPOINT_URL": f"http://{host}:{port}",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }.items():
        monkeypatch.setenv(name, value)
    import urllib.request

    request = urllib.request.Request(f"http://{host}:{port}/sweeps", method="PUT")
    urllib.request.urlopen(request).close()
    yield "s3://sweeps/one"
    one.stop()


KEY, SECRET = "AKIAKNEEKNEEKNEEKNEE", "a-secret-that-is-nowhere-else"


def test_a_store_at_a_url(bucket: str, long: knee.Experiment, whole: Path, tmp_path: Path) -> None:
    args = {"store": bucket, "batch_cpu_s": 0.01, "progress": False}
    res = knee.sweep(long, tmp_path / "out", engine=Stops(2), **args)  # type: ignore[arg-type]
    assert isinstance(res, knee.Result)
    assert res.interrupted
    stored = len(stored_names(Url(bucket))) // 16
    assert 0 < stored < 60
    counted = Counted()
    knee.sweep(long, tmp_path / "out", engine=counted, **args)  # type: ignore[arg-type]
    assert counted.runs == 60 - stored
    assert same(tmp_path / "out", whole)
    there = Url(bucket)
    found = {name: hashlib.sha256(there.get(name)).hexdigest() for name in there.files()}
    del found["sweep.json"]
    assert found == hashes(whole / "store")
    # One that is there stays.
    assert not there.put("sweep.json", b"other")
    assert there.get("sweep.json") != b"other"
    with pytest.raises(ExperimentError, match="cannot go on, because seed was"):
        knee.sweep(long.with_(seed=7), tmp_path / "other", **args)  # type: ignore[arg-type]
    for file in tmp_path.rglob("*"):
        if file.is_file():
            content = file.read_bytes()
            assert KEY.encode() not in content, file
            assert SECRET.encode() not in content, file


def test_a_bucket_that_is_not_there(bucket: str, short: knee.Experiment, tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match=r"store = s3://nowhere/one: .*goes on$") as raised:
        knee.sweep(short, tmp_path / "out", store="s3://nowhere/one", progress=False)
    assert len(str(raised.value).splitlines()) == 1
    assert SECRET not in str(raised.value)
