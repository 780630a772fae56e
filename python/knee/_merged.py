"""An experiment with its changes as one text."""

from __future__ import annotations

import os
import tomllib
from typing import TYPE_CHECKING, Any

from knee import _toml
from knee._errors import ExperimentError

if TYPE_CHECKING:
    from knee._experiment import Experiment

_SEPARATOR = " / "
# What refers to cases and varied values, which may be gone.
_ABOUT_CASES = ("claim", "published", "chart")

Document = dict[str, Any]


def merged(one: Experiment) -> str:
    """Returns the text with all changes in it."""
    changes = one._changes
    if changes == type(changes)():
        return one._text
    for name, value in (("scale", changes.scale != 1.0), ("memory", changes.memory)):
        if value:
            why = (
                f"exp.to_toml: {name}: has no key in a file: leave it out, and give it when it runs"
            )
            raise ExperimentError(why, name)
    root: Document = tomllib.loads(one._text)
    quick: Document = root.pop("quick", {}) if changes.quick else {}
    root.pop("quick", None)
    varied = {path: _value(text) for path, text in changes.axes}
    pairs: Document = dict(quick.get("set", {}))
    pairs |= {path: value for path, value in quick.get("vary", {}).items() if path not in varied}
    pairs |= {path: _value(text) for path, text in changes.pairs}
    _vary(root, varied, pairs)
    _cases(root, one, list(changes.cc or quick.get("case", [])))
    _set(root, one, pairs)
    run = root.setdefault("run", {})
    for name, number in (("repeat", changes.repeat or quick.get("repeat")), ("seed", changes.seed)):
        if number is not None:
            run[name] = number
    if changes.stats:
        root.setdefault("output", {})["stats"] = list(changes.stats)
    _module(root, one)
    return _with_what_fits(root, one)


def _value(text: str) -> Any:
    return tomllib.loads(f"value = {text}")["value"]


def _vary(root: Document, varied: Document, pairs: Document) -> None:
    """Moves values of varied keys into ``[vary]``."""
    axes: Document = root.setdefault("vary", {})
    axes.update(varied)
    for path in list(pairs):
        if path not in axes:
            continue
        wanted = pairs.pop(path)
        several = wanted if isinstance(wanted, list) else [wanted]
        axis = axes[path]
        if isinstance(axis, dict) and not isinstance(wanted, dict):
            # Keys that vary together: some of their combinations.
            labels = [
                _SEPARATOR.join(map(_label, cells)) for cells in zip(*axis.values(), strict=True)
            ]
            chosen = [labels.index(_label(label)) for label in several]
            axes[path] = {key: [values[at] for at in chosen] for key, values in axis.items()}
        else:
            axes[path] = wanted if isinstance(wanted, dict) else several
    if not axes:
        del root["vary"]


def _label(value: Any) -> str:
    return value if isinstance(value, str) else _toml.inline(value)


def _cases(root: Document, one: Experiment, names: list[str]) -> None:
    """Leaves the cases that are compared."""
    if not names:
        return
    own = {case["name"]: case for case in root.pop("case", [])}
    from_list = {_stem(word): word for word in root.pop("cc", [])}
    cases: list[Document] = []
    for name in names:
        known = own.get(name) or (
            {"name": name, "cc": from_list[name]} if name in from_list else None
        )
        # A path from Python is relative to the process.
        word = os.path.abspath(name) if "/" in name else name
        case = known or {"name": _stem(name), "cc": word}
        if all(case["name"] != prior["name"] for prior in cases):
            cases.append(dict(case))
    # Names of algorithms from files are the core's.
    for case, shown in zip(cases, one.cases, strict=True):
        case["name"] = shown
    root["case"] = cases


def _stem(word: str) -> str:
    return os.path.splitext(os.path.basename(word))[0] if "/" in word else word


def _set(root: Document, one: Experiment, pairs: Document) -> None:
    """Puts values at their places, also where cases have others."""
    resolved = one.resolved()
    for path, value in pairs.items():
        if path.startswith("params."):
            name = path.removeprefix("params.")
            for case, shown in zip(_case_tables(root), one.cases, strict=True):
                if f"case.params.{name}" in resolved.get(shown, {}):
                    case.setdefault("params", {})[name] = value
            continue
        _put(root, path.split("."), value)
        for case in root.get("case", []):
            changed: Document = case.get("set", {})
            for key in list(changed):
                if key == path or key.startswith(f"{path}."):
                    del changed[key]
                elif path.startswith(f"{key}.") and isinstance(changed[key], dict):
                    _put(changed[key], path.removeprefix(f"{key}.").split("."), value)


def _case_tables(root: Document) -> list[Document]:
    """The cases as tables: a list of algorithms becomes them."""
    if "case" not in root and "cc" in root:
        root["case"] = [{"name": _stem(word), "cc": word} for word in root.pop("cc")]
    cases: list[Document] = root.get("case", [])
    return cases


def _put(place: Any, path: list[str], value: Any) -> None:
    """Sets a value below a table, or in the table of a list that has this name; ``*``: in each."""
    first, *rest = path
    if isinstance(place, list):
        for one in place:
            if first == "*" or one.get("name") == first:
                _put(one, rest, value)
    elif rest:
        if not isinstance(place.get(first), dict | list):
            place[first] = {}
        _put(place[first], rest, value)
    else:
        place[first] = value


def _module(root: Document, one: Experiment) -> None:
    changes = one._changes
    given: Document = {
        "define": list(changes.define),
        "include": [os.path.abspath(folder) for folder in changes.include],
    }
    module: Document = dict(root.get("module", {}))
    for name, more in given.items():
        if more:
            module[name] = [*module.get(name, []), *more]
    for name, word in (("linux", changes.linux), ("api", changes.api)):
        if word is not None:
            module[name] = word
    if module:
        root["module"] = module


def _with_what_fits(root: Document, one: Experiment) -> str:
    """Leaves claims, published figures and charts that the cases and values still have."""
    entries = {name: root.pop(name) for name in _ABOUT_CASES if name in root}

    def is_fit(document: Document) -> bool:
        try:
            type(one)._of(one._path, _toml.document(document))
        except ExperimentError:
            return False
        return True

    for name, several in entries.items():
        kept = [entry for entry in several if is_fit({**root, name: [entry]})]
        if kept:
            root[name] = kept
    return _toml.document(root)
