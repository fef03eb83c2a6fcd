"""What the delivery of a fetched record waits for: the application's deserializer, or a dead letter. Pure."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from aiokproto.types import Record


class Awaited(NamedTuple):
    """What a record waits for.

    Attributes:
        what: As in "the record waits for …".
        record: Returns the record.
        since: The loop time at which the wait began.
    """

    what: str
    record: Callable[[], Record]
    since: float

    def __str__(self) -> str:
        record = self.record()
        return f"{record.topic}-{record.partition}: the record at offset {record.offset} waits for {self.what}"
