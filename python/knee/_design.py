"""Designs: points at which an experiment is run."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from typing import Any

from knee._errors import ExperimentError

KINDS = ("random", "latin", "sobol")
_MOST_POINTS = 100_000
_QUANTITY = re.compile(r"\s*([0-9.]+(?:e[+-]?[0-9]+)?)\s*(.*?)\s*", re.IGNORECASE)
_WHOLE_UNITS = ("pkts", "pkt", "segs", "B")


def design_points(
    ranges: object, points: object, kind: str, seed: int
) -> dict[str, list[str | int | float]]:
    """Returns so many values of each key, which belong together."""
    if kind not in KINDS:
        allowed = ", ".join(KINDS)
        raise ExperimentError(
            f"exp.design: kind = {kind!r}: must be one of {allowed}", "kind", None, allowed
        )
    count = points if isinstance(points, int) and not isinstance(points, bool) else 0
    if not 1 <= count <= _MOST_POINTS:
        allowed = f"a whole number from 1 to {_MOST_POINTS}"
        raise ExperimentError(
            f"exp.design: points = {points!r}: must be {allowed}", "points", None, allowed
        )
    if not isinstance(ranges, Mapping) or not ranges:
        raise ExperimentError("exp.design: needs a dict of keys with their ranges", "ranges")
    axes = {key: _Axis(key, given) for key, given in ranges.items()}
    columns = _unit_cube(len(axes), count, kind, seed)
    values = {
        key: [axis.value(place) for place in column]
        for (key, axis), column in zip(axes.items(), columns, strict=True)
    }
    different = len(set(zip(*map(map_text, values.values()), strict=True)))
    if different < count:
        allowed = f"at most {different}: whole numbers and lists give some points twice"
        raise ExperimentError(
            f"exp.design: points = {count}: must be {allowed}", "points", None, allowed
        )
    return values


def map_text(values: list[Any]) -> list[str]:
    """Values as texts, which can be compared."""
    return [str(value) for value in values]


def _unit_cube(axes: int, count: int, kind: str, seed: int) -> list[list[float]]:
    """Places in [0, 1) by axis."""
    if kind == "sobol":
        try:
            from scipy.stats import qmc
        except ImportError:
            why = "exp.design: kind = 'sobol': needs SciPy: pip install scipy, or take latin"
            raise ExperimentError(why, "kind") from None
        sobol = qmc.Sobol(axes, scramble=True, rng=seed)
        # A power of two, as the balance of the sequence wants it; the first of them.
        exponent = max(0, math.ceil(math.log2(count)))
        drawn = sobol.random_base2(exponent)[:count]
        return [[float(point[axis]) for point in drawn] for axis in range(axes)]
    chance = random.Random(seed)
    if kind == "random":
        return [[chance.random() for _ in range(count)] for _ in range(axes)]
    columns = []
    for _ in range(axes):
        strata = list(range(count))
        chance.shuffle(strata)
        columns.append([(stratum + chance.random()) / count for stratum in strata])
    return columns


class _Axis:
    """A key's range: two ends, perhaps by logarithms, or values to choose from."""

    def __init__(self, key: str, given: Any) -> None:
        self._values: list[Any] | None = None
        if isinstance(given, list):
            if not given:
                raise ExperimentError(f"exp.design: {key}: needs a value", key)
            self._values = given
            return
        allowed = 'a pair of ends, as ("1 Gbps", "100 Gbps"), with "log" behind them by logarithms, or a list of values'
        wrong = ExperimentError(
            f"exp.design: {key} = {given!r}: must be {allowed}", key, None, allowed
        )
        if isinstance(given, str) or not isinstance(given, Sequence) or len(given) not in (2, 3):
            raise wrong
        if len(given) == 3 and given[2] != "log":
            raise wrong
        self._is_log = len(given) == 3
        ends = [_quantity(end) for end in given[:2]]
        if ends[0] is None or ends[1] is None:
            raise wrong
        (low, unit), (high, other) = ends[0], ends[1]
        if unit != other:
            raise ExperimentError(
                f"exp.design: {key}: both ends must have one unit, and not {unit or 'none'} and {other or 'none'}",
                key,
            )
        if not low < high or (self._is_log and low <= 0):
            more = " above 0" if self._is_log else ""
            raise ExperimentError(
                f"exp.design: {key}: the first end must be below the second{more}", key
            )
        self._low, self._high, self._unit = low, high, unit
        is_whole = all(isinstance(end, int) for end in given[:2])
        self._is_whole = is_whole or unit in _WHOLE_UNITS

    def value(self, place: float) -> Any:
        if self._values is not None:
            return self._values[int(place * len(self._values))]
        if self._is_whole:
            # Each whole number has an equal share of the range, the ends too.
            low, high = self._low - 0.5, self._high + 0.5
            low = max(low, 0.5) if self._is_log else low
        else:
            low, high = self._low, self._high
        is_log = self._is_log
        number = low * (high / low) ** place if is_log else low + (high - low) * place
        if self._is_whole:
            whole = min(max(round(number), round(self._low)), round(self._high))
            return f"{whole} {self._unit}" if self._unit else whole
        shown = float(f"{number:.5g}")
        return f"{shown:g} {self._unit}" if self._unit else shown


def _quantity(end: Any) -> tuple[float, str] | None:
    if isinstance(end, bool):
        return None
    if isinstance(end, int | float):
        return float(end), ""
    found = _QUANTITY.fullmatch(end) if isinstance(end, str) else None
    try:
        return None if found is None else (float(found[1]), found[2])
    except ValueError:
        return None
