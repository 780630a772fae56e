"""Values of Python as TOML, which the standard library reads but does not write."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any

from knee._errors import ExperimentError

_BARE = re.compile(r"[A-Za-z0-9_-]+\Z")
_ESCAPED = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\t": "\\t", "\r": "\\r"}
_DEEPEST = 64


def plain(value: object, key: str, who: str = "", depth: int = 0) -> Any:
    """Returns a value as TOML can hold it: numbers of NumPy as Python's, any sequence as a list.

    Raises:
        ExperimentError: TOML has no such value; the sentence begins with ``who``, as ``"exp.set "``, and the key.
    """
    if depth > _DEEPEST:
        raise ExperimentError(f"{who}{key}: lies deeper than {_DEEPEST} tables or lists", key)
    # Values of subclasses, as of enumerations and of NumPy, become Python's own: theirs are written otherwise.
    if isinstance(value, bool):
        return value
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        if not -(2**63) <= value < 2**63:
            raise ExperimentError(f"{who}{key} = {int(value)}: must fit 64 bits", key)
        return int(value)
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ExperimentError(
                f"{who}{key} = {float(value)}: must be a finite number",
                key,
                None,
                "a finite number",
            )
        return float(value)
    if isinstance(value, set | frozenset):
        allowed = "a list: the order of a set changes"
        raise ExperimentError(f"{who}{key}: must be {allowed}", key, None, allowed)
    if isinstance(value, Mapping):
        for name in value:
            if not isinstance(name, str):
                raise ExperimentError(f"{who}{key}: the key {name!r} must be a str", key)
        return {name: plain(one, f"{key}.{name}", who, depth + 1) for name, one in value.items()}
    # Arrays and scalars of NumPy, Series of data frames.
    for method in ("tolist", "to_list", "item"):
        if hasattr(value, method):
            return plain(getattr(value, method)(), key, who, depth + 1)
    if isinstance(value, Iterable) and not isinstance(value, bytes | bytearray):
        return [plain(one, key, who, depth + 1) for one in value]
    if hasattr(value, "__fspath__"):
        return str(value)
    allowed = "a str, a number, a bool, a list or a dict"
    name = type(value).__name__
    raise ExperimentError(f"{who}{key}: must be {allowed}, and not a {name}", key, None, allowed)


def quoted(text: str) -> str:
    """Returns a basic string of TOML."""
    out = ['"']
    for char in text:
        code = ord(char)
        if char in _ESCAPED:
            out.append(_ESCAPED[char])
        elif code < 0x20 or code == 0x7F:
            out.append(f"\\u{code:04x}")
        elif 0xD800 <= code < 0xE000:
            raise ExperimentError(f"{text!r}: is no text: it has half a character", None)
        else:
            out.append(char)
    out.append('"')
    return "".join(out)


def name(key: str) -> str:
    """Returns a key of TOML, in quotes if it must be."""
    return key if _BARE.match(key) else quoted(key)


def inline(value: object) -> str:
    """Returns a plain value in one line."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            return quoted(value)
        case int():
            return int.__repr__(int(value))
        case float():
            return float.__repr__(float(value))
        case Mapping():
            pairs = (f"{name(key)} = {inline(one)}" for key, one in value.items())
            return "{ " + ", ".join(pairs) + " }" if value else "{}"
        case list():
            return "[" + ", ".join(map(inline, value)) + "]"
        case _:
            # Dates and times, which no key takes: they are refused with their key when the text is read.
            return str(value)


def document(root: Mapping[str, Any]) -> str:
    """Returns a document: plain values first, then tables and lists of tables with their heads."""
    lines: list[str] = []
    _table(root, [], lines)
    return "\n".join(lines).strip("\n") + "\n"


def _is_tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(one, dict) for one in value)


def _table(table: Mapping[str, Any], path: list[str], lines: list[str]) -> None:
    # Only the first level has heads: below it, a table in a line is what people write.
    is_top = not path
    for key, value in table.items():
        if is_top and (isinstance(value, Mapping) or _is_tables(value)):
            continue
        lines.append(f"{name(key)} = {inline(value)}")
    if not is_top:
        return
    for key, value in table.items():
        tables = value if _is_tables(value) else [value]
        head = f"[[{name(key)}]]" if _is_tables(value) else f"[{name(key)}]"
        for one in tables:
            if isinstance(one, Mapping):
                lines += ["", head]
                _table(one, [key], lines)
