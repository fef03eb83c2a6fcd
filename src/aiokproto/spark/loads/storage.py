"""The storage of an output: the file operations that the commit protocol needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from aiokproto.errors import KafkaError

FOLDER = "_aiokproto"
"""The directory of manifests and checkpoints. Spark ignores names that start with an underscore."""

PROBE = f"{FOLDER}/probe"
"""The file that :meth:`Storage.check` creates."""

LOCAL = "file://"


class StorageError(KafkaError):
    """The file system can't be used for loads, or failed. A failed call may have taken effect."""


@dataclass(frozen=True)
class Folder:
    """A directory of data files.

    Attributes:
        name: Its name, relative to the output.
        modified: The modification time of its newest file; None if there is no file, or the file system doesn't report
            it.
        size: The total bytes of its files.
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
