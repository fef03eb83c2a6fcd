"""Where the manifests of an output are kept: what the commit protocol needs of a file system, and no more."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from aiokproto.errors import KafkaError

FOLDER = "_aiokproto"
"""What is not data. Spark does not see names with an underscore in front."""

PROBE = f"{FOLDER}/probe"
"""What :meth:`Storage.check` creates."""

LOCAL = "file://"


class StorageError(KafkaError):
    """The file system cannot be used for loads, or failed. What it was asked for may have taken effect all the same."""


@dataclass(frozen=True)
class Folder:
    """A directory of data.

    Attributes:
        name: Relative to the output.
        modified: When the newest of its files was written; None if it has none, or the file system does not say.
        size: Bytes in its files.
    """

    name: str
    modified: datetime | None
    size: int


class Storage(Protocol):
    """The files of an output; names are relative to it, with slashes.

    Any call may raise whatever its file system raises, before or after it took effect.
    """

    @property
    def uri(self) -> str:
        """The output, for Spark."""
        ...

    def check(self) -> None:
        """See that :meth:`create` keeps its word here.

        Raises:
            StorageError: It would not: nothing can be committed.
        """
        ...

    def read(self, name: str) -> bytes | None:
        """A file's content; None if there is no such file. Sees what any call has written that came back before."""
        ...

    def create(self, name: str, data: bytes) -> bool:
        """Write a file that does not exist; False if it does. Of several at a time one succeeds, with all its data."""
        ...

    def write(self, name: str, data: bytes) -> None:
        """Write a file, in place of the one there may be. Readers see the one or the other."""
        ...

    def settle(self, names: Sequence[str]) -> None:
        """Have files that others have written where a loss of power does not reach them."""
        ...

    def folders(self) -> Iterator[Folder]:
        """The directories in the output, less those whose names begin with an underscore; some may be missing yet."""
        ...

    def remove(self, name: str) -> None:
        """Remove a directory and all that is in it, if it is there."""
        ...
