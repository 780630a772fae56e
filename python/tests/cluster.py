"""A Ray cluster of two nodes in two network namespaces, what kills them, and what sweeps cost there: for scripts/test-ray."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import uuid
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import knee
from knee._progress import Bar
from knee._store import Folder, Url, stored_names
from knee._sweep import Batch, Metrics, _fill

HEAD, OTHER = "10.77.51.1", "10.77.51.2"
SPACES = {HEAD: "knee-ray-1", OTHER: "knee-ray-2"}
PORT = 6379
OBJECTS = 100 << 20
LIMIT_S = 600
MOST_STARTS = 60
NAME_BYTES = 16


def experiment(repeat: int) -> knee.Experiment:
    """Runs of some 50 ms of CPU."""
    return knee.experiment("bulk-mix").with_(repeat=repeat)


# What travels to workers.


@dataclass(frozen=True)
class Noted:
    """Work that leaves a note of each batch that it begins and ends."""

    work: Callable[[Batch], Metrics]
    notes: str

    def __call__(self, batch: Batch) -> Metrics:
        begun = time.time()
        note = Path(self.notes) / f"{batch.part}.{uuid.uuid4().hex}"
        text = {"begun": begun, "names": batch.names.hex(), "pid": os.getpid()}
        note.write_text(json.dumps(text))
        metrics = self.work(batch)
        text |= {"ended": time.time(), "was_there": metrics.was_there, "cpu_s": metrics.cpu_s}
        partial = note.with_suffix(".partial")
        partial.write_text(json.dumps(text))
        partial.rename(note)
        return metrics


class Nothing:
    """Work that is done at once."""

    def __call__(self, batch: Batch) -> Metrics:
        return Metrics(len(batch.numbers))


class OnRay(knee.Ray):
    """Ray with notes."""

    notes: str

    def map(
        self, work: Callable[[Batch], Metrics], batches: Iterable[Batch]
    ) -> Iterator[tuple[Batch, Metrics]]:
        return super().map(Noted(work, self.notes), batches)


# The cluster.


class Cluster:
    """Two nodes with one core each."""

    def __init__(self, work: Path) -> None:
        self.work = work
        self.token = work / "token"
        self.token.write_text(uuid.uuid4().hex + uuid.uuid4().hex)
        self.token.chmod(0o600)
        self.environment = dict(os.environ) | {
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.token),
            "RAY_USAGE_STATS_ENABLED": "0",
            "PYTHONSAFEPATH": "1",
            # What killed workers leave ends with all else.
            "TMPDIR": str(work),
        }
        self.starts = 0
        for space in SPACES.values():
            ip("netns", "add", space)
        ends = [f"{space}-v" for space in ("kr1", "kr2")]
        ip("link", "add", ends[0], "type", "veth", "peer", "name", ends[1])
        for end, (address, space) in zip(ends, SPACES.items(), strict=True):
            ip("link", "set", end, "netns", space)
            ip("-n", space, "address", "add", f"{address}/24", "dev", end)
            ip("-n", space, "link", "set", end, "up")
            ip("-n", space, "link", "set", "lo", "up")
        self._link = ("-n", SPACES[OTHER], "link", "set", ends[1])

    def command(self, node: str, *words: str) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{SPACES[node]}", *words]

    def begin(self) -> float:
        """Starts the nodes that are not there. Returns the seconds that it took."""
        begun = time.monotonic()
        # What is left of a head takes no other half.
        if not (self.pids("gcs_server", HEAD) and self.pids("raylet/raylet", HEAD)):
            self.end()
        for node in SPACES:
            if not self.pids("raylet/raylet", node):
                self._begin(node)
        return time.monotonic() - begun

    def _begin(self, node: str) -> None:
        self.starts += 1
        where = (
            ["--head", f"--port={PORT}", "--include-dashboard=false"]
            if node == HEAD
            else [f"--address={HEAD}:{PORT}"]
        )
        words = [
            *("ray", "start", *where, f"--node-ip-address={node}", "--num-cpus=1"),
            *(f"--object-store-memory={OBJECTS}", "--disable-usage-stats"),
            f"--temp-dir={self.work}/{node[-1]}{self.starts}",
        ]
        done = subprocess.run(
            self.command(node, "timeout", "--signal=KILL", "200", *words),
            env=self.environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode and self.starts < MOST_STARTS:
            said = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
            print(
                f"ray start on {node}: code {done.returncode}, {said[-1:]}: once more", flush=True
            )
            if node == HEAD:
                self.end()
            self._begin(node)
        elif done.returncode:
            raise SystemExit(f"ray start on {node} failed: {done.stdout}\n{done.stderr}")

    def end(self) -> None:
        """Ends all processes of both nodes."""
        for node in SPACES:
            for pid in self.pids("", node):
                kill(pid)
        while any(self.pids("", node) for node in SPACES):
            time.sleep(0.05)
        for folder in self.work.glob("[12][0-9]*"):
            shutil.rmtree(folder, ignore_errors=True)

    def pids(self, words: str, node: str | None = None) -> list[int]:
        """Processes of a node, or of both, with these words in their command."""
        spaces = [SPACES[node]] if node else list(SPACES.values())
        ids = {os.stat(f"/run/netns/{space}").st_ino for space in spaces}
        found = []
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                # A dead one that nobody has waited for has no command.
                if command and words in command and os.stat(folder / "ns/net").st_ino in ids:
                    found.append(int(folder.name))
        return found

    def link(self, state: str) -> None:
        ip(*self._link, state)


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


# A sweep, in a process of its own.


def driver(kind: str, repeat: str, batch_cpu_s: str, out: str, store: str, notes: str) -> None:
    """Carries a sweep out and says what it took."""
    exp = experiment(int(repeat))
    engine: Any = "threads"
    if kind == "ray":
        engine = OnRay("auto" if "RAY_ADDRESS" in os.environ else f"{HEAD}:{PORT}")
        engine.notes = notes
    begun, at = time.monotonic(), time.time()
    knee.sweep(
        exp,
        out,
        engine=engine,
        store=store or None,
        threads=2 if kind == "threads" else None,
        batch_cpu_s=float(batch_cpu_s),
        progress=False,
    )
    cpu_s, most_kb = used()
    print(
        json.dumps(
            {
                "runs": exp.runs,
                "begun": at,
                "wall_s": time.monotonic() - begun,
                "cpu_s": cpu_s,
                "most_kb": most_kb,
            }
        )
    )


def start(
    cluster: Cluster,
    kind: str,
    repeat: int,
    batch_cpu_s: float,
    place: Path,
    store: str | None = None,
) -> subprocess.Popen[str]:
    (place / "notes").mkdir(parents=True, exist_ok=True)
    words = [sys.executable, "-P", __file__, "driver", kind, str(repeat), str(batch_cpu_s)]
    words += [str(place / "out"), store or str(place / "store"), str(place / "notes")]
    return subprocess.Popen(
        cluster.command(HEAD, *words),
        env=cluster.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=cluster.work,
    )


def ended(one: subprocess.Popen[str], limit_s: float = LIMIT_S) -> tuple[int | None, str, str]:
    try:
        out, err = one.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        one.kill()
        out, err = one.communicate()
        return None, out, err
    return one.returncode, out, err


def hashes(store: Path) -> dict[str, str]:
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(store.iterdir())
        if file.suffix in (".part", ".names")
    }


class Seen(threading.Thread):
    """When each run was stored first."""

    def __init__(self, store: Path) -> None:
        super().__init__(daemon=True)
        self.store = store
        self.at: dict[bytes, float] = {}
        self._parts: set[str] = set()
        self._is_over = threading.Event()

    def run(self) -> None:
        while not self._is_over.wait(0.03):
            self._look()

    def _look(self) -> None:
        with contextlib.suppress(OSError):
            for file in self.store.glob("*.names"):
                if file.name not in self._parts:
                    content, at = file.read_bytes(), file.stat().st_ctime
                    self._parts.add(file.name)
                    for name in names_of(content):
                        self.at.setdefault(name, at)

    def close(self) -> None:
        self._is_over.set()
        self.join()
        self._look()


def names_of(content: bytes) -> list[bytes]:
    return [content[at : at + NAME_BYTES] for at in range(0, len(content), NAME_BYTES)]


@dataclass
class Counted:
    """What the notes of a sweep say."""

    runs: int = 0
    begun_again: int = 0
    """Runs that were begun more than once."""
    stored_again: int = 0
    """Runs that were begun although they were stored."""
    was_there: int = 0
    """Batches that were found stored."""
    ends: list[tuple[float, float]] = field(default_factory=list)
    cpu_s: float = 0.0


def count(notes: Path, at: dict[bytes, float]) -> Counted:
    counted = Counted()
    times: dict[bytes, int] = defaultdict(int)
    again = set()
    for file in notes.iterdir():
        if file.suffix == ".partial":
            continue
        note = json.loads(file.read_text() or "{}")
        if note.get("was_there"):
            counted.was_there += 1
            continue
        if "ended" in note:
            counted.ends.append((note["begun"], note["ended"]))
            counted.cpu_s += note["cpu_s"]
        for name in names_of(bytes.fromhex(note.get("names", ""))):
            times[name] += 1
            if note["begun"] > at.get(name, float("inf")):
                again.add(name)
    counted.runs = len(times)
    counted.begun_again = sum(number > 1 for number in times.values())
    counted.stored_again = len(again)
    return counted


# Kills.

KINDS = ["worker", "raylet", "driver", "gcs", "link"]


def kills(times: str = "20", seed: str = "51") -> None:
    """Kills something in each of so many sweeps, and checks what is stored."""
    chance = random.Random(int(seed))
    work = Path.cwd()
    cluster = Cluster(work)
    repeat, batch_cpu_s = 5, 0.7
    print(f"seed {seed}; cluster: {cluster.begin():.1f} s to start")
    place = work / "threads"
    code, out, err = ended(start(cluster, "threads", repeat, batch_cpu_s, place))
    assert code == 0, err
    right = hashes(place / "store")
    print(f"threads: {out.strip()}")
    place = work / "whole"
    code, out, err = ended(start(cluster, "ray", repeat, batch_cpu_s, place))
    assert code == 0, err
    assert hashes(place / "store") == right, "Ray's store differs"
    runs = json.loads(out)["runs"]
    print(f"Ray: {out.strip()}", flush=True)
    kinds = [KINDS[number % len(KINDS)] for number in range(int(times))]
    chance.shuffle(kinds)
    failed = 0
    for number, kind in enumerate(kinds, 1):
        place = work / f"kill-{number}"
        said, is_right = one_kill(cluster, kind, chance, runs, (repeat, batch_cpu_s), place, right)
        failed += not is_right
        print(f"{number:2} {kind:6} {said}{'' if is_right else '  FAILED'}", flush=True)
        shutil.rmtree(place)
        cluster.begin()
    cluster.end()
    print(f"{len(kinds)} kills, {failed} failed")
    if failed:
        raise SystemExit(1)


def one_kill(
    cluster: Cluster,
    kind: str,
    chance: random.Random,
    runs: int,
    asked: tuple[int, float],
    place: Path,
    right: dict[str, str],
) -> tuple[str, bool]:
    begun = time.monotonic()
    seen = Seen(place / "store")
    seen.start()
    one = start(cluster, "ray", *asked, place)
    # Some fall before the first task, and some after the last one.
    wanted = chance.uniform(-0.1, 1.0) * runs
    while one.poll() is None and len(seen.at) < wanted:
        time.sleep(0.05)
    time.sleep(chance.uniform(0, 2))
    after = time.monotonic() - begun
    stored = len(seen.at)
    what = strike(cluster, kind, one, chance)
    words = [f"at {after:4.1f} s, {stored:3} stored: {what};"]
    tries, is_right = 1, True
    code, _, err = ended(one)
    while code != 0 and tries < 4:
        said = [line for line in err.splitlines() if line.strip()] or ["nothing"]
        words.append(f"driver ended with {code}: {' | '.join(line[:160] for line in said[-3:])};")
        if code is None:
            cluster.end()
        cluster.begin()
        tries += 1
        code, _, err = ended(start(cluster, "ray", *asked, place))
    seen.close()
    if code != 0:
        return " ".join([*words, f"gave up: {err[-1500:]}"]), False
    same = hashes(place / "store") == right
    counted = count(place / "notes", seen.at)
    again = f"{counted.begun_again} begun twice, {counted.stored_again} stored and begun again"
    words.append(f"calls {tries}, {again}, {counted.was_there} batches found stored,")
    words.append(f"{'same' if same else 'OTHER'} bytes, {time.monotonic() - begun:.0f} s")
    is_right = same and counted.stored_again == 0
    return " ".join(words), is_right


def strike(cluster: Cluster, kind: str, one: subprocess.Popen[str], chance: random.Random) -> str:
    if kind == "link":
        for_s = chance.uniform(1, 15)
        cluster.link("down")
        time.sleep(for_s)
        cluster.link("up")
        return f"link cut for {for_s:.1f} s"
    if kind == "driver":
        pids = [one.pid]
    elif kind == "gcs":
        pids = cluster.pids("gcs_server", HEAD)
    elif kind == "raylet":
        pids = cluster.pids("raylet/raylet", chance.choice(list(SPACES)))
    else:
        pids = cluster.pids("ray::_call") or cluster.pids("ray::")
    if not pids:
        return "there was none"
    pid = chance.choice(pids)
    node = next((node for node in SPACES if pid in cluster.pids("", node)), "nowhere")
    kill(pid)
    return f"killed {kind} on {node}"


# Efficiency.


class Used(threading.Thread):
    """CPU time of all processes here. Those of Ray's workers are lost when they end, so it looks again and again."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._ticks: dict[tuple[str, str], int] = {}
        self._is_over = threading.Event()
        self._before = self._look()

    def _look(self) -> int:
        for folder in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                words = (folder / "stat").read_text().rpartition(")")[2].split()
                # utime, stime; and when it began.
                self._ticks[folder.name, words[19]] = int(words[11]) + int(words[12])
        return sum(self._ticks.values())

    def run(self) -> None:
        while not self._is_over.wait(0.4):
            self._look()

    def close(self) -> float:
        """Returns the seconds since it was made, but for those of this process."""
        self._is_over.set()
        self.join()
        return (self._look() - self._before) / os.sysconf("SC_CLK_TCK")


def pairs(times: str = "5", repeat: str = "30") -> None:
    """Local threads against two nodes, one after the other."""
    work = Path.cwd()
    cluster = Cluster(work)
    cluster.begin()
    ratios: dict[str, list[float]] = defaultdict(list)
    rows = {}
    for number in range(int(times)):
        rows = {}
        order = ["threads", "ray"] if number % 2 == 0 else ["ray", "threads"]
        for kind in order:
            place = work / f"{kind}-{number}"
            mine, watch = used()[0], Used()
            watch.start()
            code, out, err = ended(start(cluster, kind, int(repeat), 2.0, place), 900)
            all_cpu_s = watch.close() - (used()[0] - mine)
            assert code == 0, err
            told = json.loads(out)
            row = {"call_wall_s": told["wall_s"], "driver_cpu_s": told["cpu_s"]}
            row["all_cpu_s"] = all_cpu_s
            if kind == "ray":
                counted = count(place / "notes", {})
                row["work_cpu_s"] = counted.cpu_s
                row["first_task_s"] = min(begun for begun, _ in counted.ends) - told["begun"]
                row["batches"] = len(counted.ends)
            rows[kind] = row
            print(
                number,
                kind,
                told["runs"],
                {key: round(value, 2) for key, value in row.items()},
                flush=True,
            )
        assert hashes(work / f"ray-{number}/store") == hashes(work / f"threads-{number}/store")
        for kind in order:
            shutil.rmtree(work / f"{kind}-{number}")
        threads, ray = rows["threads"], rows["ray"]
        ratios["throughput of the call"].append(threads["call_wall_s"] / ray["call_wall_s"])
        after_start_s = ray["call_wall_s"] - ray["first_task_s"]
        ratios["throughput of the call from its first task"].append(
            threads["call_wall_s"] / after_start_s
        )
        ratios["CPU of the runs over that of the process of threads"].append(
            ray["work_cpu_s"] / threads["driver_cpu_s"]
        )
        ratios["CPU of all processes"].append(ray["all_cpu_s"] / threads["all_cpu_s"])
    for word, values in ratios.items():
        print(
            f"{word}: median {statistics.median(values):.3f}", [round(value, 3) for value in values]
        )
    cluster.end()


# Constants for many workers.


def tasks(number: str = "10000", in_flight: str = "3") -> None:
    """What the driver takes for tasks that do nothing, with so many at once for each of two cores."""
    cluster = Cluster(Path.cwd())
    cluster.begin()
    words = [sys.executable, "-P", __file__, "nothing", number, in_flight]
    done = subprocess.run(cluster.command(HEAD, *words), env=cluster.environment, check=False)
    cluster.end()
    if done.returncode:
        raise SystemExit(1)


def nothing(number: str, in_flight: str) -> None:
    """The driver of these tasks."""
    of_batch = 50
    batches = (
        Batch(list(range(at, at + of_batch)), os.urandom(NAME_BYTES * of_batch))
        for at in range(0, int(number) * of_batch, of_batch)
    )
    engine = knee.Ray(f"{HEAD}:{PORT}", in_flight_per_core=int(in_flight))
    begun, before = 0.0, used()
    runs = 0
    for _, metrics in engine.map(Nothing(), batches):
        if not begun:
            # Without the start of workers.
            begun, before = time.monotonic(), used()
        runs += metrics.runs
    wall_s, cpu_s = time.monotonic() - begun, used()[0] - before[0]
    print(
        f"{number} tasks of {of_batch} runs, {in_flight} at once per core: a task takes {1e3 * wall_s / int(number):.2f} ms, "
        f"{1e3 * cpu_s / int(number):.3f} ms of the driver's CPU, and {1024 * (used()[1] - before[1]) / int(number):.0f} B; "
        f"at most {used()[1] / 1024:.0f} MB"
    )


def used() -> tuple[float, int]:
    """CPU time in seconds and the largest size in kB of this process."""
    mine = resource.getrusage(resource.RUSAGE_SELF)
    return mine.ru_utime + mine.ru_stime, mine.ru_maxrss


def now_kb() -> int:
    status = Path("/proc/self/status").read_text()
    return int(status.partition("VmRSS:")[2].split()[0])


class AtOnce:
    """An engine whose workers are done before they begin."""

    def map(
        self, work: Callable[[Batch], Metrics], batches: Iterable[Batch]
    ) -> Iterator[tuple[Batch, Metrics]]:
        for batch in batches:
            yield batch, Metrics(len(batch.numbers), 3.0, 3.0)


def million(runs: str = "1000000") -> None:
    """What the driver takes for so many runs, whatever the engine."""
    exp = knee.experiment("bulk-mix")
    rows = exp.runs // exp.repeat
    exp = exp.with_(repeat=int(runs) // rows)
    print(f"{exp.runs} runs of {rows} rows")

    def took(what: str, begin: Callable[[], Any], per: int, unit: str) -> Any:
        before, begun, kb = used()[0], time.monotonic(), now_kb()
        made = begin()
        cpu_s, wall_s = used()[0] - before, time.monotonic() - begun
        print(
            f"{what}: {wall_s:.2f} s, {cpu_s:.2f} s of CPU, {1e6 * cpu_s / per:.2f} us per {unit}, "
            f"{(now_kb() - kb) / 1024:+.0f} MB stay, at most {used()[1] / 1024:.0f} MB",
            flush=True,
        )
        return made

    core = exp._core
    place = Folder("filled")
    missing = took("names and batches", lambda: core.missing(None, b"", 3e6)[0], exp.runs, "run")
    names = b"".join(bytes(one) for _, one in missing)
    batches = len(missing)
    del missing
    took(
        f"filling by an engine that is done at once, {batches} batches",
        lambda: _fill(exp, place, AtOnce(), None, 1, 3.0, Bar("", exp.runs, False)),
        batches,
        "batch",
    )
    some = len(names) // NAME_BYTES // 1000 * NAME_BYTES
    for at in range(0, 1000 * some, some):
        part = hashlib.sha256(names[at : at + some]).hexdigest()[:32]
        Path("filled", f"{part}.names").write_bytes(names[at : at + some])
    stored = took("reading names of 1000 parts", lambda: stored_names(place), exp.runs, "run")
    left = took(
        "a resume that finds all", lambda: core.missing(None, stored, 3e6)[0], exp.runs, "run"
    )
    print(f"{sum(len(numbers) for numbers, _ in left)} runs left")


def engines(repeat: str = "5000") -> None:
    """10^4 runs by threads, shards, Ray, and Ray with a store at a URL: the same bytes."""
    work = Path.cwd()
    cluster = Cluster(work)
    cluster.begin()
    found = {}
    for kind in ("threads", "shards", "ray"):
        words = [sys.executable, "-P", __file__, "many", kind, repeat, str(work / kind)]
        watch = Used()
        watch.start()
        begun = time.monotonic()
        done = subprocess.run(
            cluster.command(HEAD, *words),
            env=cluster.environment,
            check=False,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        found[kind] = hashes(work / kind / "store")
        bytes_of = sum(file.stat().st_size for file in (work / kind / "store").iterdir())
        print(
            f"{kind}: {done.stdout.strip()}, {time.monotonic() - begun:.1f} s, {watch.close():.1f} s of CPU of all, "
            f"store {bytes_of / 1e6:.1f} MB, {found[kind]}",
            flush=True,
        )
    cluster.end()
    if len({str(one) for one in found.values()}) != 1:
        raise SystemExit("the stores differ")


def many(kind: str, repeat: str, out: str) -> None:
    """The driver of these runs."""
    sys.path.insert(0, str(Path(__file__).parent))
    from conftest import SHORT

    exp = knee.Experiment.from_toml(SHORT, name="short").with_(repeat=int(repeat))
    if kind == "shards":
        for number in range(1, 5):
            knee.sweep(exp, out, shard=(number, 4), progress=False)
    engine = knee.Ray(f"{HEAD}:{PORT}") if kind == "ray" else "threads"
    knee.sweep(exp, out, engine=engine, batch_cpu_s=1.0, progress=False)
    begun = time.monotonic()
    cpu_s = used()[0]
    knee.sweep(exp, out, progress=False)
    print(
        f"{exp.runs} runs; a call that finds all: {time.monotonic() - begun:.1f} s, {used()[0] - cpu_s:.1f} s of CPU, "
        f"at most {used()[1] / 1024:.0f} MB"
    )


# S3.

KEY, SECRET = "AKIAKNEEKNEEKNEEKNEE", "a-secret-that-is-nowhere-else"


def s3(repeat: str = "4") -> None:
    """A store at an S3 server on the first node: threads, a killed Ray sweep, and the same call again."""
    work = Path.cwd()
    cluster = Cluster(work)
    cluster.environment |= {
        "AWS_ENDPOINT_URL": f"http://{HEAD}:9000",
        "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET,
        "AWS_REGION": "us-east-1",
    }
    took = cluster.begin()
    print(f"cluster: {took:.1f} s to start")
    server = subprocess.Popen(
        cluster.command(HEAD, sys.executable, "-P", "-m", "moto.server", "-H", HEAD, "-p", "9000"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(5)
    make = f"import urllib.request as u; u.urlopen(u.Request('http://{HEAD}:9000/sweeps', method='PUT'))"
    subprocess.run(cluster.command(HEAD, sys.executable, "-P", "-c", make), check=True)
    local = work / "local"
    code, out, err = ended(start(cluster, "threads", int(repeat), 0.7, local))
    assert code == 0, err
    right = hashes(local / "store")
    print(f"threads, a folder: {out.strip()}", flush=True)

    def sweep(kind: str, name: str, url: str) -> subprocess.Popen[str]:
        place = work / name
        return start(cluster, kind, int(repeat), 0.7, place, store=url)

    for kind in ("threads", "ray"):
        url = f"s3://sweeps/{kind}"
        one = sweep(kind, f"{kind}-1", url)
        if kind == "ray":
            notes = work / f"{kind}-1/notes"
            while one.poll() is None and len(list(notes.iterdir())) < 5:
                time.sleep(0.1)
            one.kill()
            ended(one)
            code, out, err = ended(sweep(kind, f"{kind}-2", url))
            place = work / f"{kind}-2"
        else:
            code, out, err = ended(one)
            place = work / f"{kind}-1"
        assert code == 0, err
        count_s3 = subprocess.run(
            cluster.command(HEAD, sys.executable, "-P", __file__, "objects", url),
            env=cluster.environment,
            check=True,
            capture_output=True,
            text=True,
        )
        same = hashes(place / "out/store") == right == json.loads(count_s3.stdout)["hashes"]
        put = json.loads(count_s3.stdout)["put"]
        print(
            f"{kind}, {url}: {out.strip()}; {'same' if same else 'OTHER'} bytes; put of what is there: {put}",
            flush=True,
        )
        if kind == "ray":
            notes = [count(work / name / "notes", {}) for name in ("ray-1", "ray-2")]
            print(
                f"killed at the fifth batch: runs begun {notes[0].runs}, and by the second call {notes[1].runs}"
            )
        assert same
    found = [
        str(file)
        for file in work.rglob("*")
        if file.is_file() and any(word.encode() in file.read_bytes() for word in (KEY, SECRET))
    ]
    print(f"files with credentials, those of Ray included: {found}")
    code, _, err = ended(sweep("ray", "nowhere", "s3://nowhere/ray"))
    last = err.strip().splitlines()[-1]
    print(f"a bucket that is not there: code {code}, {last}")
    assert SECRET not in err
    server.kill()
    cluster.end()
    if found:
        raise SystemExit(1)


def objects(url: str) -> None:
    """What a store at a URL has."""
    there = Url(url)
    names = [name for name in there.files() if name.endswith((".part", ".names"))]
    found = {name: hashlib.sha256(there.get(name)).hexdigest() for name in names}
    print(json.dumps({"hashes": found, "put": there.put("sweep.json", b"other")}))


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
