"""Locks a data directory, so that two brokers cannot use it at the same time."""

from __future__ import annotations

import sys
from pathlib import Path

from aiokproto.broker.log.private_files import private
from aiokproto.errors import ConfigurationError


class DirectoryLock:
    """A lock that is held from construction until :meth:`release`, or until the process ends in any way."""

    def __init__(self, directory: Path) -> None:
        """Lock the directory.

        Raises:
            ConfigurationError: Another broker uses the directory.
        """
        # The operating system holds the lock. Unlike a file with a process id, it ends with the process and can't
        # become stale.
        self._file = open(directory / ".lock", "a+b", opener=private)  # noqa: SIM115 - until release()
        try:
            _lock(self._file.fileno())
        except OSError:
            self._file.close()
            raise ConfigurationError(f"data_dir: {directory} is in use by another broker") from None

    def release(self) -> None:
        """Release the lock."""
        self._file.close()


if sys.platform == "win32":
    import msvcrt

    def _lock(descriptor: int) -> None:
        msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
