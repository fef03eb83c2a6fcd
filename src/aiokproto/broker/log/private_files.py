"""Files and directories that only their owner can open from their creation on, because they have records and
credentials.

Existing files keep their mode. Modes mean nothing on Windows, where files have the access rules of their directory.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def private(path: str, flags: int) -> int:
    """Open a file, and create it for its owner alone: the ``opener`` of :func:`open`."""
    return os.open(path, flags, 0o600)


def write_private(path: Path, data: str | bytes) -> None:
    """Write a whole file."""
    with open(path, "wb", opener=private) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def make_directory(path: Path) -> None:
    """Create a directory for its owner alone, if it is missing. Missing directories above it get the usual mode."""
    path.mkdir(0o700, parents=True, exist_ok=True)


def open_to_others(path: Path) -> str:
    """Return the mode of a file or directory, such as ``"0755"``, if other users have any access to it; otherwise an
    empty text."""
    mode = stat.S_IMODE(path.stat().st_mode)
    return f"{mode:04o}" if os.name == "posix" and mode & _OTHERS else ""
