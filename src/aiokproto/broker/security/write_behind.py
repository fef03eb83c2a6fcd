"""A file that is written behind the changes of what it stores: in a thread, and once for many changes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

from aiokproto.broker.log.private_files import write_private
from aiokproto.runtime import create_task

Run = Callable[[Callable[[], None]], "asyncio.Future[None]"]
"""Does some work in a thread."""


class WriteBehind:
    """Writes the whole file after changes, one write at a time: what changes during one is in the next.

    Who has changed something awaits :meth:`saved` before it says so.

    Args:
        run: Does the writing.
        snapshot: Called in the event loop: returns what makes the file's text, in the thread, of the state as it is
            now.
        path: The file.
    """

    def __init__(self, run: Run, snapshot: Callable[[], Callable[[], str]], path: Path) -> None:
        self._run = run
        self._snapshot = snapshot
        self._path = path
        self._changes = self._saved = 0
        self._writing: asyncio.Task[None] | None = None

    def changed(self) -> None:
        """Note a change."""
        self._changes += 1

    async def saved(self) -> None:
        """Return once the changes up to now are in the file. Cancelling does not end a write that has begun.

        Raises:
            OSError: It cannot be written. The next call tries it again.
        """
        wanted = self._changes
        while self._saved < wanted:
            if self._writing is None:
                self._writing = create_task(self._write())
                self._writing.add_done_callback(self._ended)
            await asyncio.shield(self._writing)

    async def _write(self) -> None:
        changes, text = self._changes, self._snapshot()
        await self._run(lambda: replace(self._path, text()))
        self._saved = changes

    def _ended(self, writing: asyncio.Task[None]) -> None:
        self._writing = None
        # Retrieved, as if it were awaited: all who do may have been cancelled.
        if not writing.cancelled():
            writing.exception()


def replace(path: Path, text: str) -> None:
    """Replace a file that only its owner can read. A crash leaves the old file or the new one."""
    # Written beside and renamed.
    temporary = path.with_suffix(".tmp")
    # One that a crash has left would keep the mode that it has.
    temporary.unlink(missing_ok=True)
    # SCRAM credentials allow offline guessing of passwords.
    write_private(temporary, text)
    temporary.replace(path)
