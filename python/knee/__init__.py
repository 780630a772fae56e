"""TCP congestion control for data centers: the simulator of ``knee`` as a library, results as columns.

Load an experiment, change it, run it on all cores, and take the results as a data frame::

    import knee, polars as pl

    exp = knee.experiment("bulk-mix").set({"network.bottleneck.rate": "10 Gbps"}).with_(repeat=10, seed=7)
    exp = exp.vary(k=["20 pkts", "65 pkts", "200 pkts"], at="network.bottleneck.queue.k")
    print(exp.cost())
    res = exp.run()
    df = pl.DataFrame(res.summary)
    res.compare("dctcp", "cubic")

Units stand in the names of columns: times are in seconds (of captures: in nanoseconds), rates in bits per second. A figure that is not
known is null.
"""

from __future__ import annotations

import os

from knee import _knee
from knee._capture import Capture, pcap
from knee._errors import ExperimentError
from knee._experiment import Cost, Experiment, Key
from knee._result import Comparison, Result, Run, StreamedRun, compare, read
from knee._sweep import Batch, Engine, Metrics, Ray, Shard, Threads, sweep
from knee._table import Table

__all__ = [
    "Batch",
    "Capture",
    "Comparison",
    "Cost",
    "Engine",
    "Experiment",
    "ExperimentError",
    "Key",
    "Metrics",
    "Ray",
    "Result",
    "Run",
    "Shard",
    "StreamedRun",
    "Table",
    "Threads",
    "compare",
    "experiment",
    "experiments",
    "pcap",
    "read",
    "sweep",
]


def experiment(name: str | os.PathLike[str]) -> Experiment:
    """Returns an experiment: a file, or a built-in one by its name, as ``"bulk-mix"``.

    Raises:
        ExperimentError: there is neither, or the file is wrong.
    """
    path, text = _knee.built_in(os.fspath(name))
    return Experiment._of(str(path), text)


def experiments() -> dict[str, str]:
    """Returns the names of built-in experiments, each with the group that it is in: ``published``, ``examples`` or ``hosts``."""
    found: dict[str, str] = {}
    for name, group in _knee.experiments():
        found.setdefault(name, group)
    return found
