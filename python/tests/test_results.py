"""Results: tables, comparisons, files."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest

import knee
from knee import ExperimentError
from knee._result import matching


@pytest.fixture(scope="module")
def varied() -> knee.Result:
    """Two cases at two thresholds, six runs of each."""
    from conftest import SHORT

    exp = knee.Experiment.from_toml(SHORT, name="short").with_(repeat=6)
    exp = exp.vary(k=["20 pkts", "65 pkts"], at="network.bottleneck.queue.k")
    return exp.run(progress=False)


def test_tables_are_columns_with_types(varied: knee.Result) -> None:
    columns = varied.flows.columns
    assert (columns["case"], columns["flow"], columns["completion_s"]) == ("str", "int", "float")
    assert len(varied.runs) == 24
    lists = varied.runs.to_dict()
    assert set(lists["case"]) == {"cubic", "dctcp"}
    assert set(lists["network.bottleneck.queue.k_pkts"]) == {20.0, 65.0}
    # Seeds have 64 bits.
    assert max(lists["seed"]) > 2**53


def test_any_reader_of_arrow_takes_them(varied: knee.Result) -> None:
    import duckdb
    import pandas as pd
    import polars as pl
    import pyarrow as pa

    by_pyarrow = pa.table(varied.flows)
    by_polars = pl.DataFrame(varied.flows)
    by_pandas = pd.DataFrame.from_arrow(varied.flows)
    flows = pa.table(varied.flows)
    counted = duckdb.sql("select count(*), avg(completion_s) from flows").fetchall()[0]
    assert by_pyarrow.num_rows == by_polars.height == len(by_pandas) == counted[0] == 96
    mean = sum(varied.flows.to_dict()["completion_s"]) / 96
    for found in (by_polars["completion_s"].mean(), by_pandas["completion_s"].mean(), counted[1]):
        assert found == pytest.approx(mean)
    # What did not happen is null, and no number.
    assert (
        by_polars["stopped_at_s"].null_count()
        == by_pandas["stopped_at_s"].isna().sum()
        == flows["stopped_at_s"].null_count
    )


def test_filters_take_values_as_people_say_them(varied: knee.Result) -> None:
    for k in (65, 65.0, "65 pkts"):
        rows = varied.table("runs", case="dctcp", k=k)
        assert len(rows) == 6
    assert len(varied.table("flows", k=[20, 65])) == 96
    # Samples have the run alone, and go by its case.
    runs = set(varied.table("runs", case="dctcp", k=65).to_dict()["run"])
    samples = varied.table("measures", case="dctcp", k=65).to_dict()
    assert set(samples["run"]) == runs
    for wrong in ({"k": 66}, {"case": "reno"}, {"size": 1}):
        with pytest.raises(ExperimentError, match="must be one of|is no varied key"):
            varied.table("runs", **wrong)
    with pytest.raises(ExperimentError, match="is no table"):
        varied.table("flow")


def test_a_number_that_names_several_values_is_refused() -> None:
    def chosen(values: list[str], numbers: list[float], wanted: object) -> list[str]:
        axis = {"path": "traffic.short.size", "values": values, "numbers": numbers}
        ((_, found),) = matching({"size": wanted}, [axis], {}, "table")
        return found

    sizes, cells = ["1 kB", "1000 kB"], [1e3, 1e6]
    # The word of one, and the cell of the other.
    with pytest.raises(ExperimentError, match="names several values: .* '1 kB', '1000 kB'"):
        chosen(sizes, cells, 1000)
    with pytest.raises(ExperimentError, match="names several values"):
        chosen(["1 kB", "1 MB"], [1e3, 1e6], 1)
    assert chosen(sizes, cells, 1) == ["1 kB"]
    assert chosen(sizes, cells, 1e6) == ["1000 kB"]
    assert chosen(sizes, cells, ["1 kB", 1e6]) == sizes
    assert chosen(["20 pkts", "65 pkts"], [20.0, 65.0], 65) == ["65 pkts"]
    assert chosen(["4", "5"], [], 5) == ["5"]


def test_what_algorithms_tell_has_64_bits_with_or_without_sign(
    varied: knee.Result, tmp_path: Path
) -> None:
    saved = varied.save(tmp_path / "saved")
    with (saved / "flows.csv").open(newline="") as file:
        head, *rows = csv.reader(file)
    own = [[str(2**64 - 1 - nth), str(-nth)] for nth in range(len(rows))]
    with (saved / "flows.csv").open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(
            [
                [*head, "ca_large", "ca_signed"],
                *([*row, *more] for row, more in zip(rows, own, strict=True)),
            ]
        )
    flows = knee.read(saved).flows
    assert (flows.columns["ca_large"], flows.columns["ca_signed"]) == ("int", "int")
    lists = flows.to_dict(3)
    assert lists["ca_large"] == [2**64 - 1, 2**64 - 2, 2**64 - 3]
    assert lists["ca_signed"] == [0, -1, -2]


def test_numbers_of_rows_are_checked(varied: knee.Result) -> None:
    assert len(varied.runs.to_dict(0)["run"]) == 0
    assert len(varied.runs.to_dict(10**30)["run"]) == 24
    for wrong in (-1, 1.5, True):
        with pytest.raises(ExperimentError, match="whole number from 0"):
            varied.runs.to_dict(wrong)  # type: ignore[arg-type]


def test_rows_are_dicts(varied: knee.Result) -> None:
    row = next(iter(varied.summary))
    assert row["subject"] == "short"
    assert "<table>" in varied.summary._repr_html_()
    assert repr(varied) == "<knee.Result short: 24 of 24 runs>"


def test_cases_are_compared_with_an_interval(varied: knee.Result) -> None:
    found = varied.compare("dctcp", "cubic")
    figure = next(
        one for one in found.figures if one["metric"] == "completion" and one["stat"] == "mean"
    )
    assert figure["case"] == "dctcp"
    assert figure["is_paired"] in (True, False)
    assert "difference" in figure
    assert "cubic" in str(found)
    with pytest.raises(ExperimentError, match="must be one of"):
        varied.compare("dctcp", "reno")


def test_results_are_kept_where_the_command_finds_them(varied: knee.Result, tmp_path: Path) -> None:
    saved = varied.save(tmp_path / "saved")
    again = knee.read(saved)
    assert again.summary.to_dict() == varied.summary.to_dict()
    same = knee.compare(varied, again)
    assert not [one for one in same.figures if one.get("verdict") == "differs"]
    with pytest.raises(FileExistsError):
        varied.save(saved)
    with pytest.raises(ExperimentError, match="within"):
        knee.compare(varied, again, within=2.0)


def test_temporary_results_last_as_long_as_their_tables() -> None:
    from conftest import SHORT

    flows = knee.Experiment.from_toml(SHORT).run(progress=False).flows
    assert len(flows) == 16
    code = "import knee, conftest; print(knee.Experiment.from_toml(conftest.SHORT).run().dir)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=Path(__file__).parent,
    )
    assert not Path(done.stdout.strip()).exists()


def test_a_directory_that_is_taken_is_refused(short: knee.Experiment, tmp_path: Path) -> None:
    res = short.run(out=tmp_path / "one", progress=False)
    assert res.dir == tmp_path / "one"
    with pytest.raises(ExperimentError, match="one"):
        short.run(out=tmp_path / "one", progress=False)


def test_threads_change_nothing(short: knee.Experiment) -> None:
    one, two = (short.run(threads=threads, progress=False) for threads in (1, 2))
    assert one.flows.to_dict() == two.flows.to_dict()
    assert one.summary.to_dict() == two.summary.to_dict()


def test_one_run_has_its_calls(short: knee.Experiment) -> None:
    varied = short.vary({"traffic.short.size": ["10 kB", "20 kB"]})
    run = varied.run_one(case="dctcp", size="20 kB", trace="short")
    assert run.case == "dctcp"
    calls = run.calls("short").to_dict()
    assert len(calls["operation"]) > 20
    assert "ssthresh" in calls["operation"] or "in_ack_event" in calls["operation"]
    assert any("snd_cwnd" in name for name in calls)
    with pytest.raises(ExperimentError, match="recorded are short"):
        run.calls("long")
    same = varied.run(progress=False).table("flows", case="dctcp", size="20 kB").to_dict()
    first = [at for at, repeat in enumerate(same["repeat"]) if repeat == 0]
    assert [same["completion_s"][at] for at in first] == run.flows.to_dict()["completion_s"]


def test_one_run_is_at_values_of_any_type(short: knee.Experiment) -> None:
    varied = short.vary({"network.senders": [4, 5], "traffic.short.size": "10 kB..40 kB times 2"})
    varied = varied.vary(k=["20 pkts", "65 pkts"], at="network.bottleneck.queue.k")
    run = varied.run_one(case="cubic", senders=5, size="20 kB", k=65)
    assert run.values == {
        "network.senders": "5",
        "traffic.short.size": "20 kB",
        "network.bottleneck.queue.k": "65 pkts",
    }
    # Keys that the text varies.
    again = knee.Experiment.from_toml(varied.to_toml())
    other = again.run_one(case="cubic", senders=5, size="20 kB", k="65 pkts")
    assert other.values == run.values
    assert other.flows.to_dict() == run.flows.to_dict()


def test_plots_are_for_papers(varied: knee.Result, tmp_path: Path) -> None:
    drawn = varied.plot.cdf("short", width=3.4, file=tmp_path / "cdf.pdf")
    assert drawn.get_size_inches()[0] == pytest.approx(3.4)
    again = tmp_path / "again.pdf"
    varied.plot.cdf("short", width=3.4, file=again)
    assert (tmp_path / "cdf.pdf").read_bytes() == again.read_bytes()
    drawn = varied.plot.tradeoff(("short", "completion", "mean"), ("short", "goodput", "mean"))
    labels = [text.get_text() for text in drawn.axes[0].get_legend().get_texts()]
    assert labels == ["cubic", "dctcp"]
    with pytest.raises(ExperimentError, match="completion of short"):
        varied.plot.cdf("long")
    mean = ("short", "completion", "mean")
    for wrong in (("short", "completion"), "p99", 3, (1, 2, 3)):
        with pytest.raises(ExperimentError, match="y = .*: must be subject, metric and statistic"):
            varied.plot.tradeoff(mean, wrong)  # type: ignore[arg-type]
    with pytest.raises(ExperimentError, match="must be one of mean, sd"):
        varied.plot.tradeoff(mean, ("short", "completion", "unit"))


def test_samples_are_drawn_over_time(short: knee.Experiment) -> None:
    res = short.set({"sample.queues": "100 us"}).run(progress=False)
    drawn = res.plot.time("len_pkts", "queues", case="dctcp")
    assert drawn.axes[0].get_xlabel() == "time, s"
    with pytest.raises(ExperimentError, match="where: x: must be one of run"):
        res.plot.time("len_pkts", "queues", where={"x": 1})
