"""Places where the runs of a sweep are kept: a folder, or whatever obstore takes."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from knee import _knee
from knee._errors import ExperimentError

HEAD = "sweep.json"
_NAME_BYTES = 16
_MOST_BYTES = {".names": 16 << 20, ".part": (1 << 30) + (64 << 20), ".json": 64 << 20}
"""Largest files of a store, bytes."""
_AT_ONCE = 32
"""Files that are read at once: a bucket answers each after some tens of milliseconds."""


class Folder:
    """A folder, perhaps one that several machines share."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path).absolute()

    def __str__(self) -> str:
        return str(self._path)

    def files(self) -> list[str]:
        try:
            return sorted(os.listdir(self._path))
        except FileNotFoundError:
            return []

    def get(self, name: str) -> bytes:
        path = self._path / name
        _check_size(self, name, path.stat().st_size)
        return path.read_bytes()

    def has(self, name: str) -> bool:
        return (self._path / name).is_file()

    def put(self, name: str, content: bytes) -> bool:
        return _knee.put_into_store(self._path, name, content)

    def delete(self, names: Iterable[str]) -> None:
        for name in names:
            with contextlib.suppress(FileNotFoundError):
                (self._path / name).unlink()


class Url:
    """A bucket or whatever else obstore takes. Credentials come from the environment, and stand nowhere else."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._made: Any = None

    def __str__(self) -> str:
        return self._url

    def __getstate__(self) -> str:
        return self._url

    def __setstate__(self, url: str) -> None:
        self.__init__(url)  # type: ignore[misc]

    @property
    def _store(self) -> Any:
        if self._made is None:
            try:
                from obstore.store import from_url
            except ImportError:
                why = f"store = {self}: needs obstore: pip install obstore, or a folder"
                raise ExperimentError(why, "store") from None
            plain = self._url.startswith("http://") or bool(
                os.environ.get("AWS_ENDPOINT_URL", "").startswith("http://")
            )
            options: dict[str, Any] = {"client_options": {"allow_http": True}} if plain else {}
            try:
                self._made = from_url(self._url, **options)
            except Exception as why:
                raise ExperimentError(f"store = {self}: {_first_line(why)}", "store") from None
        return self._made

    def files(self) -> list[str]:
        with _said(self):
            pages = self._store.list(chunk_size=1000)
            return sorted(str(one["path"]) for page in pages for one in page)

    def get(self, name: str) -> bytes:
        with _said(self, lets=FileNotFoundError):
            found = self._store.get(name)
            _check_size(self, name, int(found.meta["size"]))
            return bytes(found.bytes())

    def has(self, name: str) -> bool:
        with _said(self):
            try:
                self._store.head(name)
            except FileNotFoundError:
                return False
            return True

    def put(self, name: str, content: bytes) -> bool:
        with _said(self):
            store = self._store
            from obstore.exceptions import AlreadyExistsError

            try:
                store.put(name, content, mode="create")
            except AlreadyExistsError:
                return False
            return True

    def delete(self, names: Iterable[str]) -> None:
        names = list(names)
        with _said(self):
            # Many in one request.
            with contextlib.suppress(FileNotFoundError):
                self._store.delete(names)
                return
            for name in names:
                with contextlib.suppress(FileNotFoundError):
                    self._store.delete(name)


@contextlib.contextmanager
def _said(place: Url, lets: type[Exception] | tuple[()] = ()) -> Iterator[None]:
    """Turns what a store says into a sentence, but for what its caller expects."""
    try:
        yield
    except ExperimentError:
        raise
    except lets:
        raise
    except Exception as why:
        raise ExperimentError(
            f"store = {place}: {_first_line(why)}; what is there stays, and the same call goes on",
            "store",
        ) from None


def _first_line(why: BaseException) -> str:
    lines = [line.strip() for line in str(why).splitlines() if line.strip()]
    # An answer in XML says no more than its code.
    return lines[0].partition(": <?xml")[0][:300] if lines else type(why).__name__


def place(word: str | os.PathLike[str]) -> Folder | Url:
    """The place that is meant: a URL with a scheme, or the path of a folder."""
    text = os.fspath(word)
    if "://" not in text:
        return Folder(text)
    scheme = text.partition("://")[0]
    try:
        parts = urlsplit(text)
    except ValueError as why:
        raise ExperimentError(f"store = {scheme}://...: is no URL: {why}", "store") from None
    if "@" in parts.netloc or parts.query or parts.fragment:
        # It would stand in messages, and travel with each task.
        sentence = f"store = {scheme}://...: has a user or a query: credentials come from the environment, as AWS_ACCESS_KEY_ID"
        raise ExperimentError(sentence, "store")
    if scheme == "file":
        return Folder(unquote(parts.path))
    return Url(text)


def _check_size(of: Folder | Url, name: str, size: int) -> None:
    """Refuses a file that is larger than knee writes it."""
    most = next(most for ending, most in _MOST_BYTES.items() if name.endswith(ending))
    if size > most:
        raise ExperimentError(
            f"store = {of}: {name} has {size} bytes, and those of a store at most {most}"
        )


def contents(of: Folder | Url, names: Iterable[str]) -> Iterator[tuple[str, bytes]]:
    """Reads files, some at once, and leaves out those that have gone: another sweep has just sorted their runs."""

    def read(name: str) -> bytes | None:
        try:
            return of.get(name)
        except FileNotFoundError:
            return None

    left = iter(names)
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        while some := list(itertools.islice(left, _AT_ONCE)):
            for name, content in zip(some, pool.map(read, some), strict=True):
                if content is not None:
                    yield name, content


def stored_names(of: Folder | Url) -> bytes:
    """The names of all runs that a place has, one after another."""
    while True:
        all_files = set(of.files())
        # A list whose runs somebody has removed counts for nothing.
        files = [
            file
            for file in sorted(all_files)
            if file.endswith(".names") and file.removesuffix("names") + "part" in all_files
        ]
        names = dict(contents(of, files))
        if len(names) == len(files):
            break
    for file, content in names.items():
        is_of_it = hashlib.sha256(content).hexdigest()[:32] == file.removesuffix(".names")
        if len(content) % _NAME_BYTES or not is_of_it:
            why = (
                f"store = {of}: {file} is damaged: remove it, and the same call runs its runs again"
            )
            raise ExperimentError(why)
    return b"".join(names.values())


def single_names(names: bytes) -> set[bytes]:
    """Names that stand one after another, each by itself."""
    return {names[at : at + _NAME_BYTES] for at in range(0, len(names), _NAME_BYTES)}
