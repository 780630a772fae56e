"""A bar for runs that last."""

from __future__ import annotations

import sys
import time
from typing import Any

_QUIET_S = 0.5


class Bar:
    """A bar of tqdm if that is there, otherwise a line on standard error; in a notebook or a terminal, after half a second."""

    def __init__(self, name: str, runs: int, always: bool) -> None:
        self._name = name
        self._runs = runs
        self._begun = time.monotonic()
        self._tqdm: Any = None
        self._is_drawn = False
        self._is_wanted = always or _is_notebook() or sys.stderr.isatty()

    def __call__(self, done: int, left_s: float | None) -> None:
        """Shows the number of finished runs, and the seconds that are left, if they are known."""
        elapsed = time.monotonic() - self._begun
        if not self._is_wanted or elapsed < _QUIET_S:
            return
        if not self._is_drawn:
            self._is_drawn = True
            self._tqdm = _tqdm(self._name, self._runs)
        left = "" if left_s is None else f", {left_s:.0f} s left"
        if self._tqdm is not None:
            self._tqdm.n = done
            self._tqdm.set_postfix_str(left.removeprefix(", "), refresh=False)
            self._tqdm.refresh()
            return
        sys.stderr.write(
            f"\r\033[K{self._name}: {done} of {self._runs} runs, {elapsed:.0f} s{left}"
        )
        sys.stderr.flush()

    def close(self) -> None:
        """Ends it."""
        if self._tqdm is not None:
            self._tqdm.close()
        elif self._is_drawn:
            sys.stderr.write("\r\033[K")
            sys.stderr.flush()


def _is_notebook() -> bool:
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


def _tqdm(name: str, runs: int) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    # Its own time left counts finished runs alone, and those of before as if they had taken time.
    shape = "{l_bar}{bar}| {n_fmt}/{total_fmt} [{elapsed}{postfix}]"
    return tqdm(total=runs, desc=name, unit="run", leave=False, bar_format=shape)
