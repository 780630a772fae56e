"""Running: threads, signals, crashes, files that change."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import pytest
from conftest import SHORT, foo

import knee
from knee import ExperimentError, _progress

HERE = Path(__file__).parent


def python(code: str, **more: object) -> subprocess.Popen[str]:
    """A process of its own."""
    return subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=HERE,
    )


def test_other_threads_go_on(endless: knee.Experiment) -> None:
    turns = 0
    is_over = threading.Event()

    def count() -> None:
        nonlocal turns
        while not is_over.is_set():
            turns += 1
            time.sleep(0.001)

    other = threading.Thread(target=count)
    other.start()
    seen: list[int] = []

    def stop(done: int, _: int) -> None:
        seen.append(turns)
        if len(seen) == 3:
            raise RuntimeError("enough")

    # An exception of the progress function ends it, and is raised.
    with pytest.raises(RuntimeError, match="enough"):
        endless.run(progress=stop)
    is_over.set()
    other.join()
    assert seen[2] > seen[0]


INTERRUPTED = """
    import conftest, knee, os, signal, sys, threading, time
    exp = knee.Experiment.from_toml({text}, name="endless").cc("dctcp").with_(repeat=400)
    at = []
    def told(done, runs):
        if done >= {least} and not at:
            at.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
    before = signal.getsignal(signal.SIGINT)
    try:
        res = exp.run(progress=told)
        taken = time.monotonic() - at[0]
        assert res.interrupted, res
        rows = len(res.runs)
        assert 0 < rows < 400, rows
        print("kept", taken)
    except KeyboardInterrupt:
        print("nothing", time.monotonic() - at[0])
    assert signal.getsignal(signal.SIGINT) is before
    # The core is free: no thread goes on.
    begun = time.process_time()
    time.sleep(0.3)
    print(time.process_time() - begun)
"""


@pytest.mark.parametrize(
    ("text", "least", "word"), [("conftest.SHORT", 3, "kept"), ("conftest.ENDLESS", 0, "nothing")]
)
def test_ctrl_c_frees_the_core_and_keeps_what_has_finished(
    text: str, least: int, word: str
) -> None:
    code = INTERRUPTED.format(text=text, least=least)
    if word == "kept":
        code = code.replace(
            "conftest.SHORT", "conftest.SHORT.replace('20 kB', '2 MB').replace('20 ms', '2 s')"
        )
    done = python(code)
    out, err = done.communicate(timeout=120)
    assert done.returncode == 0, err
    first, second = out.splitlines()
    assert first.split()[0] == word
    assert float(second) < 0.1


def test_ctrl_c_after_the_last_run_is_raised(short: knee.Experiment, tmp_path: Path) -> None:
    def told(done: int, runs: int) -> None:
        if done == runs:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        short.run(progress=told, out=tmp_path / "all")
    # A loop over many ends, and what has finished is there.
    res = knee.read(tmp_path / "all")
    assert (len(res.runs), res.interrupted) == (4, False)


def test_ctrl_c_ends_a_trial() -> None:
    done = python("""
        import conftest, knee, os, signal, threading, time
        exp = knee.Experiment.from_toml(conftest.ENDLESS)
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
        begun = time.monotonic()
        try:
            exp.cost(trial_s=60)
        except KeyboardInterrupt:
            print(time.monotonic() - begun)
    """)
    out, err = done.communicate(timeout=120)
    assert done.returncode == 0, err
    assert float(out) < 30


def test_a_stopped_run_goes_on(tmp_path: Path) -> None:
    text = SHORT.replace("20 kB", "2 MB").replace("20 ms", "2 s")
    exp = knee.Experiment.from_toml(text, name="short").with_(repeat=20)
    folder = tmp_path / "parts"

    def stop(done: int, _: int) -> None:
        if done >= 3:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        exp.run(progress=stop, out=folder)
    with pytest.raises(ExperimentError, match="go_on=True carries out the others"):
        exp.run(progress=False, out=folder)
    res = exp.run(out=folder, go_on=True, progress=False)
    whole = exp.run(progress=False)
    assert not res.interrupted
    assert res.runs.to_dict() == whole.runs.to_dict()
    assert res.flows.to_dict() == whole.flows.to_dict()
    # Nothing is missing; then more repeats are.
    assert len(exp.run(out=folder, go_on=True, progress=False).runs) == 40
    assert len(exp.with_(repeat=21).run(out=folder, go_on=True, progress=False).runs) == 42
    with pytest.raises(ExperimentError, match="seed was"):
        exp.with_(seed=5).run(out=folder, go_on=True, progress=False)


def test_numbers_of_calls_have_64_bits(short: knee.Experiment, tmp_path: Path) -> None:
    path = tmp_path / "foo.c"
    path.write_text(foo(body="sk->sk_pacing_rate = ~0UL;"))
    calls = short.cc(path).run_one(trace="short").calls("short").to_dict()
    rates = [cells for name, cells in calls.items() if "sk_pacing_rate" in name]
    known = [cell for cells in rates for cell in cells if cell is not None]
    assert max(known) == 2**64 - 1
    assert min(known) >= 0


@pytest.mark.parametrize("has_tqdm", [False, True])
def test_a_bar_shows_the_time_that_is_left(
    has_tqdm: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_progress, "_QUIET_S", 0.0)
    if has_tqdm:
        pytest.importorskip("tqdm")
    else:
        monkeypatch.setattr(_progress, "_tqdm", lambda _name, _runs: None)
    bar = _progress.Bar("short", 40, always=True)
    bar(3, None)
    assert "left" not in capsys.readouterr().err
    bar(4, 12.4)
    assert "12 s left" in capsys.readouterr().err
    bar.close()


def test_signals_and_faulthandler_are_as_before(tmp_path: Path) -> None:
    (tmp_path / "foo.c").write_text(foo())
    done = python(f"""
        import conftest, faulthandler, knee, signal, sys
        faulthandler.enable()
        def handlers():
            lines = open("/proc/self/status").read().splitlines()
            masks = [line.split() for line in lines if line.startswith(("SigIgn", "SigCgt", "SigBlk"))]
            # The C library takes 32 and 33 for its threads.
            return [(name, int(mask, 16) & ~(3 << 31)) for name, mask in masks]
        before = handlers(), faulthandler.is_enabled(), [signal.getsignal(n) for n in (2, 15)]
        knee.Experiment.from_toml(conftest.SHORT).cc({str(tmp_path / "foo.c")!r}, "dctcp").run()
        after = handlers(), faulthandler.is_enabled(), [signal.getsignal(n) for n in (2, 15)]
        assert before == after, (before, after)
        faulthandler._sigsegv()
    """)
    _, err = done.communicate(timeout=120)
    assert done.returncode == -signal.SIGSEGV, err
    assert "Fatal Python error: Segmentation fault" in err


def test_a_crash_of_a_module_leaves_the_interpreter_alive(
    short: knee.Experiment, tmp_path: Path
) -> None:
    path = tmp_path / "foo.c"
    path.write_text(foo(body="*(volatile int *)8 = 1;"))
    with pytest.raises(ExperimentError, match=r"foo\.c"):
        short.cc(path).run(progress=False)
    # Others beside it finish.
    res = short.cc(path, "dctcp").run(progress=False)
    assert res.failed
    assert set(res.runs.to_dict()["case"]) == {"dctcp"}
    # And so do later ones.
    assert len(short.run(progress=False).flows) == 16


def test_an_edited_file_is_read_again(short: knee.Experiment, tmp_path: Path) -> None:
    path = tmp_path / "foo.c"
    path.write_text(foo(window=2))
    exp = short.cc(path)
    slow = exp.run(progress=False).flows.to_dict()["cwnd_pkts"]
    path.write_text(foo(window=9))
    fast = exp.run(progress=False).flows.to_dict()["cwnd_pkts"]
    one = short.cc("dctcp", path).run_one(case="foo", trace="short")
    assert set(one.flows.to_dict()["cwnd_pkts"]) == {9}
    assert len(one.calls("short")) > 10
    assert set(slow) == {2}
    assert set(fast) == {9}
    path.write_text(foo(window=3) + "\nthis is no C\n")
    with pytest.raises(ExperimentError, match=r"foo\.c"):
        exp.run(progress=False)


def test_two_experiments_with_other_options_at_once(short: knee.Experiment, tmp_path: Path) -> None:
    path = tmp_path / "foo.c"
    path.write_text(foo())
    found: dict[int, set[int]] = {}

    def run(window: int) -> None:
        exp = short.cc(path).with_(module={"define": [f"WINDOW={window}"]}, repeat=20)
        found[window] = set(exp.run(progress=False).flows.to_dict()["cwnd_pkts"])

    threads = [threading.Thread(target=run, args=(window,)) for window in (3, 8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {3: {3}, 8: {8}}


def test_progress_is_told(short: knee.Experiment) -> None:
    told: list[tuple[int, int]] = []
    short.with_(repeat=50).run(progress=lambda done, runs: told.append((done, runs)))
    assert all(runs == 100 for _, runs in told)
    assert told == sorted(told)


def test_streams_give_one_run_at_a_time(short: knee.Experiment) -> None:
    exp = short.with_(repeat=3)
    whole = exp.run(progress=False).flows.to_dict()
    streamed = [run.flows.to_dict() for run in exp.stream()]
    assert len(streamed) == 6
    assert [one for flows in streamed for one in flows["completion_s"]] == whole["completion_s"]
    # One that is left ends its threads.
    for _ in exp.with_(repeat=1000).stream():
        break
    cases = [(run.case, run.repeat) for run in exp.stream(threads=2)]
    assert cases == [
        ("cubic", 0),
        ("cubic", 1),
        ("cubic", 2),
        ("dctcp", 0),
        ("dctcp", 1),
        ("dctcp", 2),
    ]


def test_a_panic_is_an_exception() -> None:
    from knee import _knee

    with pytest.raises(RuntimeError, match="this is a bug"):
        _knee.panic()
