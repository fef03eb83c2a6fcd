"""Handing out record after record: what ``async for`` runs for each."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from aiokproto.accelerator import twin
from aiokproto.types import Record

if TYPE_CHECKING:
    from typing_extensions import Self

    from aiokproto.consumer.batch import FetchedBatch

    Handed = Record | FetchedBatch | list[Record] | None


@twin("handing")
class Hand:
    """What is ready to be handed out, and what was handed out last.

    Attributes:
        open: The records of the partition whose turn it is, last one first; empty when it is nobody's.
        hand: What was handed out last, until the next is asked for.
    """

    __slots__ = ("hand", "open")

    def __init__(self) -> None:
        self.open: list[Record] = []
        self.hand: Handed = None


@twin("handing")
class RecordIterator:
    """Takes one record after the other from a hand."""

    __slots__ = ("_hand", "_more")

    def __init__(self, hand: Hand, more: Callable[[], Awaitable[object]]) -> None:
        """``more`` is awaited when the hand has none; it has then."""
        self._hand = hand
        self._more = more

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Record:
        hand = self._hand
        # What keeps a record from being handed out has taken the list away.
        if not hand.open:
            await self._more()
        hand.hand = record = hand.open.pop()
        return record
