"""Creates files and directories that only their owner can open, because they contain records and credentials.

Existing files keep their mode. On Windows modes don't matter: files inherit the access rules of their directory.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

_OTHERS = stat.S_IRWXG | stat.S_IRWXO


def private(path: str, flags: int) -> int:
    """Open a file, or create it for its owner only. Used as the ``opener`` of :func:`open`."""
    return os.open(path, flags, 0o600)


def write_private(path: Path, data: str | bytes) -> None:
    """Write a whole file."""
    with open(path, "wb", opener=private) as file:
        file.write(data.encode() if isinstance(data, str) else data)


def make_directory(path: Path) -> None:
    """Create a directory for its owner only, if it's missing. Missing parent directories get the default mode."""
    path.mkdir(0o700, parents=True, exist_ok=True)


def open_to_others(path: Path) -> str:
    """Return the mode of a file or directory, such as ``"0755"``, if other users have any access to it; otherwise an
    empty string."""
    mode = stat.S_IMODE(path.stat().st_mode)
    return f"{mode:04o}" if os.name == "posix" and mode & _OTHERS else ""
