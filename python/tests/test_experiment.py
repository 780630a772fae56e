"""Experiments as values, and what is refused."""

from __future__ import annotations

import enum
import pickle
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from conftest import SHORT

import knee
from knee import ExperimentError, _toml


def test_each_change_is_a_new_value(short: knee.Experiment) -> None:
    faster = short.set({"network.bottleneck.rate": "10 Gbps"})
    assert faster != short
    assert short.resolved()["dctcp"]["network.bottleneck.rate"] == "1 Gbps"
    assert faster.resolved()["dctcp"]["network.bottleneck.rate"] == "10 Gbps"
    with pytest.raises(AttributeError, match="never changes"):
        short.seed = 3  # type: ignore[misc]
    assert short == knee.Experiment.from_toml(SHORT, name="short")
    assert len({short, faster, pickle.loads(pickle.dumps(short))}) == 2


def test_with_changes_how_it_is_run(short: knee.Experiment) -> None:
    more = short.with_(repeat=10, seed=7)
    assert (more.repeat, more.seed, more.runs) == (10, 7, 20)
    assert more.with_(seed=8).repeat == 10
    assert short.with_(stats="p99") == short.with_(stats=["p99"])


def test_options_of_modules_that_are_not_named_stay(short: knee.Experiment) -> None:
    first = short.with_(module={"define": ["A=1"], "linux": "6.1"})
    both = short.with_(module={"define": "A=1", "linux": "6.1", "include": ["/usr/include"]})
    assert first.with_(module={"include": ["/usr/include"]}) == both
    assert both.with_(module={"include": None}) == first
    assert first.with_(module={"linux": "5.4"}) == short.with_(
        module={"define": ["A=1"], "linux": "5.4"}
    )


def test_varied_keys_cross_with_cases(short: knee.Experiment) -> None:
    varied = short.vary(k=["20 pkts", "65 pkts"], at="network.bottleneck.queue.k")
    varied = varied.vary({"traffic.short.size": "10 kB..40 kB times 2"})
    assert varied.runs == 2 * 2 * 3 * 2
    assert varied.axes["traffic.short.size"] == ["10 kB", "20 kB", "40 kB"]
    # One value again.
    assert varied.set({"network.bottleneck.queue.k": "30 pkts"}).runs == 2 * 3 * 2


def test_values_of_python_are_those_of_toml() -> None:
    built = knee.Experiment(
        name="short",
        question="How long do transfers take beside others?",
        network={
            "topology": "many-to-one",
            "senders": 4,
            "access": {"rate": "10 Gbps", "delay": "5 us"},
            "bottleneck": {
                "rate": "1 Gbps",
                "queue": {"kind": "step", "limit": "100 pkts", "k": "20 pkts"},
            },
        },
        traffic=[
            {
                "name": "short",
                "kind": "bulk",
                "from": "s1..s4",
                "to": "r",
                "size": "20 kB",
                "start_jitter": "100 us",
            }
        ],
        run={"duration": "20 ms", "repeat": 2},
        case=[{"name": "cubic", "cc": "cubic"}, {"name": "dctcp", "cc": "dctcp"}],
    )
    assert built.run_names() == knee.Experiment.from_toml(SHORT).run_names()


class OddFloat(float):
    """As numpy.float64: a float that is shown otherwise."""

    def __repr__(self) -> str:
        """As NumPy 2 has it: no number of TOML."""
        return f"odd.float({float(self)})"

    __str__ = __repr__


class Hz(enum.IntEnum):
    """A whole number with a name."""

    SLOW = 250


class Word(enum.StrEnum):
    """A text with a name."""

    RATE = "2 Gbps"


def test_subclasses_of_numbers_and_texts_are_written_as_these(short: knee.Experiment) -> None:
    odd = {"a": OddFloat(0.5), "b": [Hz.SLOW], "c": Word.RATE}
    assert _toml.inline(_toml.plain(odd, "x")) == '{ a = 0.5, b = [250], c = "2 Gbps" }'
    assert _toml.inline([OddFloat(1e300), Hz.SLOW]) == "[1e+300, 250]"
    changed = short.set({"hosts.hz": Hz.SLOW, "network.bottleneck.rate": Word.RATE})
    assert changed == short.set({"hosts.hz": 250, "network.bottleneck.rate": "2 Gbps"})


def test_numbers_of_numpy_are_written_as_these() -> None:
    numpy = pytest.importorskip("numpy")
    values = [numpy.float64(0.1), numpy.int64(3), numpy.bool_(True), numpy.str_("x")]
    assert _toml.inline(_toml.plain(values, "x")) == '[0.1, 3, true, "x"]'
    assert _toml.inline(_toml.plain(numpy.array([1.5, 2.5]), "x")) == "[1.5, 2.5]"


CHANGES: list[Any] = [
    lambda exp: exp,
    lambda exp: exp.with_(repeat=3, seed=9),
    lambda exp: exp.cc("dctcp"),
    lambda exp: exp.cc("reno", "dctcp"),
    lambda exp: exp.set({"network.bottleneck.rate": "2 Gbps", "params.shift_g": 5}),
    lambda exp: exp.set({"traffic.short.size": "10 kB"}),
    lambda exp: exp.vary({"traffic.short.size": ["10 kB", "30 kB"]}).set({"hosts.hz": 250}),
    lambda exp: exp.vary({"traffic.short.size": ["10 kB", "30 kB"]}).set(
        {"traffic.short.size": "30 kB"}
    ),
]


@pytest.mark.parametrize("change", CHANGES)
def test_its_text_has_the_same_runs(short: knee.Experiment, change: Any) -> None:
    changed = change(short)
    again = knee.Experiment.from_toml(changed.to_toml())
    assert again.run_names() == changed.run_names()
    assert again.cases == changed.cases


@pytest.mark.parametrize("name", sorted(knee.experiments()))
def test_texts_of_built_in_experiments_have_the_same_runs(name: str) -> None:
    exp = knee.experiment(name)
    if knee.experiments()[name] == "hosts" or exp.runs > 2000:
        pytest.skip("takes long to read, and has nothing of its own")
    changed = exp.with_(seed=3, repeat=1)
    assert (
        knee.Experiment.from_toml(changed.to_toml(), name=exp.name).run_names()
        == changed.run_names()
    )


def test_quick_sets_are_merged() -> None:
    quick = knee.experiment("bulk-mix").with_(quick=True)
    assert knee.Experiment.from_toml(quick.to_toml()).run_names() == quick.run_names()


def test_what_has_no_key_is_refused(short: knee.Experiment) -> None:
    with pytest.raises(ExperimentError, match="scale: has no key"):
        short.with_(scale=0.5).to_toml()


def test_keys_say_what_they_are(short: knee.Experiment) -> None:
    keys = {key.name: key for key in short.keys("network.bottleneck.queue")}
    k = keys["network.bottleneck.queue.k"]
    assert (k.value, k.is_needed) == ("20 pkts", True)
    assert k.says
    # Keys of other kinds of queues are not among them.
    assert "network.bottleneck.queue.target" not in keys
    (size,) = short.keys("traffic.short.size")
    assert size.unit == "size"
    with pytest.raises(ExperimentError, match="did you mean"):
        short.keys("network.bottleneck.quue")
    assert len(short.keys()) > 100


def test_it_shows_its_network_and_its_cases(short: knee.Experiment) -> None:
    assert "cubic, dctcp" in repr(short)
    html = short._repr_html_()
    assert "data:image/svg+xml;base64," in html
    assert "How long do transfers take" in html


def test_cost_is_known_before_anything_starts(short: knee.Experiment) -> None:
    cost = short.cost()
    assert (cost.runs, cost.rows) == (4, 2)
    assert cost.cpu_s is not None
    assert 0 < cost.cpu_s < 10
    assert short.cost(trial_s=0).cpu_s is None
    assert "4 runs" in str(cost)


# ---- what is refused ----

NAN = float("nan")
WRONG: list[Any] = [
    (lambda exp: exp.set({"network.botleneck.rate": "1 Gbps"}), "bottleneck", "network.botleneck"),
    (
        lambda exp: exp.set({"network.bottleneck.rate": "fast"}),
        "exp.set",
        "network.bottleneck.rate",
    ),
    (lambda exp: exp.set({"network.bottleneck.rate": 5}), "rate", "network.bottleneck.rate"),
    (lambda exp: exp.set({"network.senders": NAN}), "finite number", None),
    (lambda exp: exp.set({"network.senders": object()}), "must be a str, a number", None),
    (lambda exp: exp.set({"network.senders": 2**70}), "64 bits", None),
    (lambda exp: exp.set({"a=b": 1}), "must be a path", None),
    (lambda exp: exp.vary({"network.senders": []}), "at least one value", "network.senders"),
    (lambda exp: exp.vary({"network.senders": [2, NAN]}), "finite number", None),
    (lambda exp: exp.cc("dctpc"), "dctcp", None),
    (lambda exp: exp.cc("./missing.c"), "missing.c", None),
    (lambda exp: exp.with_(repeat=0), "from 1", None),
    (lambda exp: exp.with_(repeat=1.5), "whole number", None),
    (lambda exp: exp.with_(seed=-1), "from 0", None),
    (lambda exp: exp.with_(scale=NAN), "scale", None),
    (lambda exp: exp.with_(scale=2), "scale", None),
    (lambda exp: exp.with_(stats=["p98"]), "p99", None),
    (lambda exp: exp.with_(memory="much"), "memory", None),
    (lambda exp: exp.with_(module={"defines": []}), "define", None),
    (lambda exp: exp.with_(module={"linux": "six"}), "linux", None),
    (lambda exp: exp.with_(quick=True), "has no \\[quick\\]", None),
    (lambda exp: exp.run_one(), "case: must be one of cubic, dctcp", None),
    (lambda exp: exp.run_one(case="dctcp", k=65), "is no varied key", None),
    (lambda exp: exp.run_one(case="dctcp", trace="bulk"), "short", None),
    (lambda exp: exp.run(threads=0), "threads", None),
    (lambda exp: exp.set({"network.senders": {2, 3}}), "order of a set", "network.senders"),
    (lambda exp: exp.vary({"network.senders": frozenset([2, 3])}), "order of a set", None),
    (lambda exp: exp.with_(stats=99), 'must be a str, as "p99"', None),
    (lambda exp: exp.with_(stats=[99]), 'must be a str, as "p99"', None),
    (lambda exp: exp.with_(module={"linux": 6.1}), 'must be a str, as "6.1"', "module.linux"),
    (lambda exp: exp.with_(module={"define": 3}), "must be a str or a list", "module.define"),
    (lambda exp: exp.with_(module={"include": [3]}), "must be a str", "module.include"),
    (
        lambda exp: exp.vary({"network.senders": [4, 5]}).run_one(case="cubic", senders=[4, 5]),
        "must be one value of 4, 5",
        "network.senders",
    ),
    (lambda exp: exp.run(out=""), "out is empty", "out"),
    (lambda exp: exp.run(progress=0), "True, False, None or a function", "progress"),
    (lambda exp: exp.with_(quick="no"), "True or False", "quick"),
    (lambda exp: exp.with_(scale="half"), "a number above 0", "scale"),
    (
        lambda exp: exp.vary(case=["2", "3"], at="network.senders"),
        "is an argument of exp.run_one",
        "case",
    ),
    (lambda exp: exp.run(go_on=True), "needs out=DIR", "go_on"),
    (lambda exp: exp.run(go_on=True, out="x", captures=True), "captures exclude", "go_on"),
    (lambda exp: exp.cost(trial_s=NAN), "from 0 to 60", "trial_s"),
    (lambda exp: exp.cost(trial_s=-1), "from 0 to 60", "trial_s"),
    (lambda exp: exp.cost(trial_s=61), "from 0 to 60", "trial_s"),
    (lambda exp: exp.cost(trial_s="long"), "from 0 to 60", "trial_s"),
    *(
        (lambda exp, name=name: exp.from_toml(SHORT, name=name), "a name of a file", "name")
        for name in ("", ".", "..", "a/b", "../x", "a\0b")
    ),
    (lambda exp: knee.Experiment(name="../x"), "a name of a file", "name"),
]


@pytest.mark.parametrize(("change", "sentence", "key"), WRONG)
def test_what_is_wrong_is_said(
    short: knee.Experiment, change: Any, sentence: str, key: str | None
) -> None:
    with pytest.raises(ExperimentError, match=sentence) as raised:
        change(short)
    if key is not None:
        assert raised.value.key is not None
        assert raised.value.key.startswith(key)
    # It survives a process pool.
    again = pickle.loads(pickle.dumps(raised.value))
    assert (str(again), again.key) == (str(raised.value), raised.value.key)


def test_errors_in_a_text_have_their_line() -> None:
    with pytest.raises(ExperimentError) as raised:
        knee.Experiment.from_toml(SHORT.replace("delay =", "dealy ="), name="short")
    assert raised.value.line == 6
    assert raised.value.key == "network.access.dealy"
    assert "did you mean" in str(raised.value)
    with pytest.raises(ExperimentError) as raised:
        knee.Experiment.from_toml(SHORT.replace('"step"', '"stepp"'))
    assert raised.value.allowed is not None
    assert "step" in raised.value.allowed.split(", ")


def test_wrong_types_of_arguments_are_type_errors(short: knee.Experiment) -> None:
    all_wrong: list[Callable[[], object]] = [
        lambda: short.set([("network.senders", 3)]),  # type: ignore[arg-type]
        lambda: short.set({3: 3}),  # type: ignore[dict-item]
        lambda: short.vary(k=[1, 2]),
        lambda: short.cc(),
        lambda: knee.Experiment.from_toml(b""),  # type: ignore[arg-type]
        lambda: knee.Experiment.from_toml(SHORT, name=3),  # type: ignore[arg-type]
    ]
    for wrong in all_wrong:
        with pytest.raises(TypeError):
            wrong()


def test_names_that_are_none_are_said() -> None:
    with pytest.raises(ExperimentError, match="bulk-mix"):
        knee.experiment("bulk-mx")
    with pytest.raises(ExperimentError, match="nowhere"):
        knee.read("/nowhere/at/all")


def test_a_million_flows_are_refused_in_a_sentence(short: knee.Experiment) -> None:
    with pytest.raises(ExperimentError):
        short.set({"network.senders": 10_000_000}).run()


@dataclass
class Series:
    """What a data frame has for a column."""

    values: list[Any]

    def to_list(self) -> list[Any]:
        """Values of Python."""
        return self.values


def test_a_varied_key_is_set_as_one_of_the_text() -> None:
    short = knee.Experiment.from_toml(SHORT)
    varied = short.vary(n=Series([4, 5, 6]), at="network.senders")  # type: ignore[arg-type]
    assert varied.axes["network.senders"] == ["4", "5", "6"]
    assert varied.set({"network.senders": [5, 6]}).axes["network.senders"] == ["5", "6"]
    one = varied.set({"network.senders": 7})
    assert one.axes["network.senders"] == ["7"]
    assert one.run_one(case="cubic", n=7).values["network.senders"] == "7"


def test_rows_that_stand_for_all_meet_every_value_of_each_key() -> None:
    short = knee.Experiment.from_toml(SHORT).cc("dctcp")
    sizes, ks = ["10 kB", "10 MB"], [f"{k} pkts" for k in range(1, 65)]
    size, k = "traffic.short.size", "network.bottleneck.queue.k"
    packets = [
        short.vary({first: values, second: others}).cost(trial_s=0).packets
        for first, values, second, others in ((size, sizes, k, ks), (k, ks, size, sizes))
    ]
    assert 0.8 < packets[0] / packets[1] < 1.25, packets
