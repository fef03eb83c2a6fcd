"""Delivery of records one by one: what ``async for`` runs for each record."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any, final

from aiokproto.accelerator import has_compiled_form
from aiokproto.types import Record

if TYPE_CHECKING:
    from typing_extensions import Self

    from aiokproto.consumer.batch import FetchedBatch

    Current = Record[Any, Any] | FetchedBatch | Sequence[Record[Any, Any]] | None


@has_compiled_form
class DeliveryState:
    """The records that can be delivered now, and the ones that the application is processing.

    Attributes:
        open: The decoded records of the partition that is being delivered, last one first, so that delivering is
            ``pop()``. Whatever ends a partition's right to be delivered replaces this list.
        current: What was delivered last: a record, a list or a batch, until the next is requested; then None.
        thread: The thread that they are for.
    """

    __slots__ = ("current", "open", "thread")

    def __init__(self) -> None:
        self.open: list[Record] = []
        self.current: Current = None
        self.thread = get_ident()


@has_compiled_form
@final
class RecordIterator:
    """Delivers one record after the other."""

    __slots__ = ("_delivery", "_more")

    def __init__(self, delivery: DeliveryState, more: Callable[[], Awaitable[object]]) -> None:
        """``more`` is awaited when no record is open; there is one when it returns. In another thread it is awaited for
        each record, and refuses that."""
        self._delivery = delivery
        self._more = more

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        delivery = self._delivery
        # No check of pauses, seeks or revocations here: each of them has replaced the list.
        if not delivery.open or delivery.thread != get_ident():
            await self._more()
        delivery.current = record = delivery.open.pop()
        return record
