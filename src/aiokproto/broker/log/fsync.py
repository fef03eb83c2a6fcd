"""Having files on disk for certain, which takes long: it may be done in a thread, for nothing else is touched."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class UnflushedFiles(NamedTuple):
    """What is complete, but may be lost when the machine fails.

    Attributes:
        end: The offset up to which the log is on disk once these files are.
        files: The files; one that is gone by then was not needed any more.
    """

    end: int
    files: list[Path]

    def sync(self) -> None:
        """Return once the files are on disk."""
        sync(self.files)


def sync(files: Iterable[Path]) -> None:
    """Return once the files are on disk, and so are their names."""
    directories: set[Path] = set()
    for path in files:
        try:
            with path.open("r+b") as file:
                os.fsync(file.fileno())
        except FileNotFoundError:
            continue
        directories.add(path.parent)
    # Elsewhere a directory cannot be opened, and its file system sees to the names.
    if os.name == "posix":
        for directory in directories:
            _sync_directory(directory)


def _sync_directory(path: Path) -> None:
    try:
        number = os.open(path, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        os.fsync(number)
    finally:
        os.close(number)
