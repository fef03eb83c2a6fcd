"""The storage of an output: the file operations that the commit protocol needs, and the choice by path or URI."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path, PurePath
from typing import Protocol

from aiokproto.errors import ConfigurationError, KafkaError

FOLDER = "_aiokproto"
"""The directory of manifests and checkpoints. Spark ignores names that start with an underscore."""

PROBE = f"{FOLDER}/probe"
"""The file that :meth:`Storage.check` creates."""

LOCAL = "file://"

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/")
"""A scheme has more than one letter, because one letter is a drive on Windows."""


class StorageError(KafkaError):
    """The file system can't be used for loads, or failed. A failed call may have taken effect."""


@dataclass(frozen=True)
class Folder:
    """A directory of data files.

    Attributes:
        name: Its name, relative to the output.
        modified: The modification time of its newest file; None if there is no file, or the file system doesn't report
            it.
        size: Bytes in its files.
    """

    name: str
    modified: datetime | None
    size: int


class Storage(Protocol):
    """The files of an output. Names are relative to it, with slashes.

    Any call may raise any error of its file system, before or after it took effect.
    """

    @property
    def uri(self) -> str:
        """The URI of the output, for Spark."""
        ...

    def check(self) -> None:
        """Check that :meth:`create` is exclusive on this storage.

        Raises:
            StorageError: It isn't, so loads can't be committed.
        """
        ...

    def read(self, name: str) -> bytes | None:
        """Return a file's content; None if it doesn't exist. It sees all writes that returned before the call."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Create a file atomically; return False if it exists. Exactly one of several concurrent calls succeeds."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write or replace a file atomically, so that readers see the old content or the new."""
        ...

    def settle(self, names: Sequence[str]) -> None:
        """Make files that Spark has written durable, so that they survive a loss of power."""
        ...

    def folders(self) -> Iterator[Folder]:
        """Yield the output's directories whose names don't start with ``_`` or ``.``. New ones may be missing."""
        ...

    def remove(self, name: str) -> None:
        """Remove a directory with all its files, if it exists."""
        ...


def open_storage(out: str | Path, spark: object | None = None) -> Storage:
    """Return the storage of an output, by its path or URI. A path is local, whatever Spark's default file system is.

    ``hdfs://`` and ``viewfs://`` use the file system classes of ``spark``'s Hadoop. Other schemes use fsspec.

    Raises:
        ConfigurationError: It isn't a path or URI, or Spark would resolve it differently.
        StorageError: The package or the session for this scheme is missing.
    """
    scheme, uri = _normalize(out)
    # Import each module on use because each needs another library.
    if scheme == "file":
        from aiokproto.spark.loads.local import LocalStorage

        if Path(uri.removeprefix(LOCAL)).is_file():
            raise ConfigurationError(f"out={str(out)!r} is a file; it must be a directory")
        return LocalStorage(uri)
    if scheme in ("hdfs", "viewfs"):
        from aiokproto.spark.loads.hadoop import HadoopStorage

        return HadoopStorage(uri, spark)
    from aiokproto.spark.loads.remote import RemoteStorage

    return RemoteStorage(uri)


def local_directory(out: str | Path) -> Path | None:
    """Return the directory of an output on a local file system, which needn't exist; None for other outputs.

    Raises:
        ConfigurationError: It isn't a path or URI, or Spark would resolve it differently.
    """
    scheme, uri = _normalize(out)
    return Path(uri.removeprefix(LOCAL)) if scheme == "file" else None


def _normalize(out: str | Path) -> tuple[str, str]:
    """Return the scheme and the normal form of a URI, so that manifests and data are in the same place."""
    if not isinstance(out, str | PurePath):
        raise ConfigurationError(f"out must be a path or a URI, got {type(out).__name__}")
    text = str(out)
    if not text or text.startswith("~"):
        # Refuse an empty variable, or one that no shell has expanded, because it would create an unexpected directory.
        raise ConfigurationError(f"out={text!r}: it must be a path or a URI, without ~")
    if found := re.search(r"[*?\[\]{}\\^]", text):
        raise ConfigurationError(f"out={text!r}: Spark reads {found[0]!r} as a pattern")
    match = _SCHEME.match(text)
    if match is None:
        return "file", LOCAL + str(Path(text).resolve())
    scheme, rest = match[1].lower(), text[match.end() :]
    if isinstance(out, PurePath) or not rest.startswith("/"):
        text = f"out={text!r}: write it as a string with two slashes, {scheme}://…, or as a path without a scheme"
        raise ConfigurationError(text)
    authority, slash, path = rest[1:].partition("/")
    if scheme == "file" and authority:
        raise ConfigurationError(f"out={text!r}: a local path has three slashes, file:///{authority}{slash}{path}")
    if scheme == "file":
        return scheme, LOCAL + str(Path(f"/{path}").resolve())
    parts = path.rstrip("/").split("/")
    if "" in parts[:-1] or not {".", ".."}.isdisjoint(parts):
        raise ConfigurationError(f"out={text!r}: remove '//', '.' and '..', which file systems resolve differently")
    return scheme, f"{scheme}://{authority}/{path}".rstrip("/")
