"""The delegation token record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, field, int64, string


class DelegationTokenRecord(Payload, versions="0", flexible="0+"):
    owner: string = ""
    requester: string = ""
    renewers: list[string] = field(factory=list)
    issue_timestamp: int64 = 0
    max_timestamp: int64 = 0
    expiration_timestamp: int64 = 0
    token_id: string = ""
