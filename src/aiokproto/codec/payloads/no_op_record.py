"""The no op record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload


class NoOpRecord(Payload, versions="0", flexible="0+"):
    pass
