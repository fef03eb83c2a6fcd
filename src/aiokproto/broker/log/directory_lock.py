"""Keeping two brokers out of one data directory."""

from __future__ import annotations

import sys
from pathlib import Path

from aiokproto.errors import ConfigurationError


class DirectoryLock:
    """Held from its making until :meth:`release`, or the end of the process."""

    def __init__(self, directory: Path) -> None:
        """Lock the directory.

        Raises:
            ConfigurationError: Another broker has it.
        """
        self._file = (directory / ".lock").open("a+b")
        try:
            _lock(self._file.fileno())
        except OSError:
            self._file.close()
            raise ConfigurationError(f"data_dir: {directory} is in use by another broker") from None

    def release(self) -> None:
        """Let go."""
        self._file.close()


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
