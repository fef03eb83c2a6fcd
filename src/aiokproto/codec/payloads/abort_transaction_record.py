"""The abort transaction record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, field, string


class AbortTransactionRecord(Payload, versions="0", flexible="0+"):
    reason: string | None = field(tag=0, default=None)
