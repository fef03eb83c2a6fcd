"""Acknowledgements of acquired records, and their outcomes. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from enum import IntEnum
from typing import NamedTuple

from aiokproto.errors import KafkaError


class Acknowledgement(IntEnum):
    """How a record is acknowledged, with the protocol's numbers (KIP-932, KIP-1222)."""

    GAP = 0
    """There is no record at the offset. The client sends this on its own."""
    ACCEPT = 1
    """Processed: never delivered again."""
    RELEASE = 2
    """Not processed: delivered again, to any member, unless its delivery count has reached the group's limit."""
    REJECT = 3
    """Can never be processed: not delivered again."""
    RENEW = 4
    """Still being processed: the acquisition lock starts over."""


class AcknowledgeOutcome(NamedTuple):
    """What the broker did with the acknowledgement of consecutive records.

    Attributes:
        topic: The topic's name.
        partition: The partition.
        first_offset: The first offset.
        last_offset: The last offset, inclusive.
        acknowledgement: The kind of acknowledgement.
        error: Why the acknowledgement had no effect, or why that isn't known; None if it took effect. After an error,
            the records are delivered again, unless the acknowledgement was applied after all (possible with
            :class:`~aiokproto.errors.BrokerConnectionError` and :class:`~aiokproto.errors.DeadlineError`).
        cause: The damage that made the client acknowledge these records without delivering them; None for other
            records.
    """

    topic: str
    partition: int
    first_offset: int
    last_offset: int
    acknowledgement: Acknowledgement
    error: KafkaError | None = None
    cause: KafkaError | None = None

    @property
    def ok(self) -> bool:
        """Whether the acknowledgement took effect."""
        return self.error is None

    def __str__(self) -> str:
        to = f" to {self.last_offset}" if self.last_offset > self.first_offset else ""
        what = f"{self.topic}-{self.partition} at offset {self.first_offset}{to}: {self.acknowledgement.name.lower()}"
        why = f" ({self.cause})" if self.cause else ""
        return f"{what}{why}: {self.error}" if self.error else f"{what}{why}"


def joined(outcomes: Iterable[AcknowledgeOutcome]) -> list[AcknowledgeOutcome]:
    """Return outcomes in order of partitions and offsets. Adjacent outcomes that are otherwise equal are joined."""
    result: list[AcknowledgeOutcome] = []
    for outcome in sorted(outcomes, key=lambda one: one[:3]):
        last = result[-1] if result else None
        if (
            last is not None
            and (last.topic, last.partition, last.last_offset + 1)
            == (outcome.topic, outcome.partition, outcome.first_offset)
            and last.acknowledgement is outcome.acknowledgement
            and last.error is outcome.error
            and last.cause is outcome.cause
        ):
            result[-1] = last._replace(last_offset=outcome.last_offset)
        else:
            result.append(outcome)
    return result
