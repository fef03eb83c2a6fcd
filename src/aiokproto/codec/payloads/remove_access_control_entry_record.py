"""The remove access control entry record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, uuid
from aiokproto.codec.wire import ZERO_UUID


class RemoveAccessControlEntryRecord(Payload, versions="0", flexible="0+"):
    id: uuid = ZERO_UUID
