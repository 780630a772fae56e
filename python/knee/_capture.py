"""Captures."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

from knee import _knee
from knee._errors import ExperimentError
from knee._table import Table


class Capture:
    """Captures of one path, analysed (``docs/pcap.md``). Times of tables are in nanoseconds, as their names say."""

    def __init__(self, files: list[Path]) -> None:
        self._files = files
        self._stamps = _stamps(files)
        self._holds = tempfile.TemporaryDirectory(prefix="knee-", ignore_cleanup_errors=True)
        self._dir = Path(self._holds.name)
        _knee.analyse([os.fspath(file) for file in files], self._dir, [])
        self._findings: list[dict[str, Any]] = json.loads(
            (self._dir / "findings.json").read_text(encoding="utf-8")
        )["findings"]

    @property
    def flows(self) -> Table:
        """A row for each direction of each flow, as each capture saw it."""
        return self._table("flows")

    @property
    def rounds(self) -> Table:
        """A row for each round trip of each flow."""
        return self._table("rounds")

    @property
    def events(self) -> Table:
        """A row for each retransmission, stall, reduced window and so on."""
        return self._table("events")

    @property
    def findings(self) -> list[dict[str, Any]]:
        """What is wrong, and why: a dict for each finding, the gravest first."""
        return [dict(finding) for finding in self._findings]

    def packets(self, *flows: int) -> Table:
        """Returns a row for each packet of these flows. The files are read again.

        Args:
            flows: numbers of flows, from 1, as in the column ``flow`` of other tables.

        Raises:
            ExperimentError: there is no such flow, or a file changed since it was read.
        """
        if not flows:
            raise TypeError("packets takes numbers of flows, as packets(1)")
        known = set(self.flows.to_dict()["flow"])
        for flow in flows:
            if flow not in known:
                allowed = f"from 1 to {max(known)}" if known else "nothing: there are no flows"
                raise ExperimentError(f"flow {flow!r}: must be {allowed}", None, None, allowed)
        if _stamps(self._files) != self._stamps:
            raise ExperimentError(
                f"{self._files[0]}: changed after it was read: call knee.pcap again"
            )
        holds = tempfile.TemporaryDirectory(prefix="knee-", ignore_cleanup_errors=True)
        _knee.analyse([os.fspath(file) for file in self._files], holds.name, list(flows))
        return Table(_knee.capture_table(holds.name, "packets"), holds)

    def _table(self, name: str) -> Table:
        return Table(_knee.capture_table(self._dir, name), self._holds)

    def __repr__(self) -> str:
        words = [str(finding["kind"]) for finding in self._findings]
        found = "; ".join(words) if words else "nothing found"
        return f"<knee.Capture {', '.join(map(str, self._files))}: {found}>"


def _stamps(files: list[Path]) -> list[tuple[int, int]]:
    try:
        return [(stat.st_size, stat.st_mtime_ns) for stat in (file.stat() for file in files)]
    except OSError as why:
        raise ExperimentError(f"{why.filename}: {why.strerror}") from why


def pcap(*files: str | os.PathLike[str]) -> Capture:
    """Analyses captures: pcap or pcapng, plain or compressed with gzip, zstd or xz. Several are ends or hops of one path.

    Raises:
        ExperimentError: a file cannot be read, or is no capture.
    """
    if not files:
        raise TypeError("knee.pcap takes paths of captures")
    return Capture([Path(file) for file in files])
