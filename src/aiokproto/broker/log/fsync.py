"""Flushes files to disk. This blocks for milliseconds to seconds, but touches only complete files, so it can run in a
thread."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple


class UnflushedFiles(NamedTuple):
    """Files that are complete but may not be on disk yet.

    Attributes:
        end: The log's recovery point once these files are flushed.
        files: The files. A file that retention has removed in the meantime is skipped.
    """

    end: int
    files: list[Path]

    def sync(self) -> None:
        """Flush the files."""
        sync(self.files)


def sync(files: Iterable[Path]) -> None:
    """Flush files, and then the directories that they are in, so that their names survive a crash too."""
    directories: set[Path] = set()
    for path in files:
        try:
            # The file is opened for writing, although nothing is written, because Windows can't flush it otherwise.
            with path.open("r+b") as file:
                os.fsync(file.fileno())
        except FileNotFoundError:
            continue
        directories.add(path.parent)
    # Windows can't open a directory as a file, but NTFS journals the names itself.
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
