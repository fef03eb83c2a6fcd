"""The access control entry record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, int8, string, uuid
from aiokproto.codec.wire import ZERO_UUID


class AccessControlEntryRecord(Payload, versions="0", flexible="0+"):
    id: uuid = ZERO_UUID
    resource_type: int8 = 0
    resource_name: string = ""
    pattern_type: int8 = 0
    principal: string = ""
    host: string = ""
    operation: int8 = 0
    permission_type: int8 = 0
