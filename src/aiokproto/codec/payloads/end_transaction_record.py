"""The end transaction record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload


class EndTransactionRecord(Payload, versions="0", flexible="0+"):
    pass
