"""The unregister controller record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, int32


class UnregisterControllerRecord(Payload, versions="0", flexible="0+"):
    controller_id: int32 = 0
