"""What the rest of a consumer needs to know of :meth:`Consumer.run`, and tells it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Protocol

from aiokproto.types import TopicPartition

if TYPE_CHECKING:
    from aiokproto.consumer.cursor import Cursor


class Handling(Protocol):
    """Delivered records that are being handled, or wait for it."""

    @property
    def full(self) -> bool:
        """Whether no record is taken, because as many are unfinished as may be."""
        ...

    def unfinished(self) -> Mapping[TopicPartition, int]:
        """Return the lowest unfinished offset of each partition that has one: no commit goes beyond it."""
        ...

    def is_busy(self, partitions: Collection[TopicPartition]) -> bool:
        """Return whether a handler runs for one of these partitions."""
        ...

    def oldest(self) -> float | None:
        """Return the loop time at which the oldest running call of the handler began; None if none runs."""
        ...

    def problem(self) -> str:
        """Return which call hangs, or does not end although it is cancelled, also after the run; empty if none."""
        ...

    def changed(self, cursors: Collection[Cursor]) -> None:
        """Cursors were added, removed, sought, paused, held or released."""
        ...

    def revoke(self, partitions: Collection[TopicPartition], deadline: float) -> None:
        """Start nothing more of these partitions; what runs may end until that loop time, and is then cancelled."""
        ...

    def check_outside(self, call: str) -> None:
        """Raise in a handler: ``call`` would wait for it."""
        ...

    async def finish(self, deadline: float) -> None:
        """End the run: let handlers finish, and cancel them before that loop time."""
        ...
