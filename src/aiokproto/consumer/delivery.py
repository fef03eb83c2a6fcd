"""Delivery of individual records: the code that ``async for`` runs for each record."""

from __future__ import annotations

from collections.abc import Sequence
from threading import get_ident
from typing import TYPE_CHECKING, Any, final

from aiokproto.accelerator import has_compiled_form
from aiokproto.types import Record

if TYPE_CHECKING:
    from typing_extensions import Self

    from aiokproto.consumer.batch import FetchedBatch
    from aiokproto.consumer.reader import Reader

    Current = Record[Any, Any] | FetchedBatch | Sequence[Record[Any, Any]] | None


@has_compiled_form
class DeliveryState:
    """The records that can be delivered now, and the ones that the application is processing.

    Attributes:
        open: The decoded records of the partition that is being delivered, last record first, so delivering a record is
            a ``pop()``. A pause, a seek, or anything else that ends the partition's delivery replaces this list.
        current: The last delivered record, list or batch; None once the next one is requested.
        thread: The id of the thread that reads the consumer.
    """

    __slots__ = ("current", "open", "thread")

    def __init__(self) -> None:
        self.open: list[Record] = []
        self.current: Current = None
        self.thread = get_ident()


@has_compiled_form
@final
class RecordIterator:
    """Delivers records one at a time."""

    __slots__ = ("_delivery", "_reader")

    def __init__(self, delivery: DeliveryState, reader: Reader) -> None:
        """The ``reader`` opens more records when none are open. If another thread calls the iterator, the reader is
        called for each record, and raises."""
        self._delivery = delivery
        self._reader = reader

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        delivery = self._delivery
        # There's no need to check for pauses, seeks and revocations here: each of them replaces the list.
        if not delivery.open or delivery.thread != get_ident():
            await self._reader.open()
        delivery.current = record = delivery.open.pop()
        return record
