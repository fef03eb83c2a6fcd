"""The delegation token record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, int64, string


class DelegationTokenRecord(Payload, versions="0", flexible="0+"):
    owner: string
    requester: string
    renewers: list[string]
    issue_timestamp: int64
    max_timestamp: int64
    expiration_timestamp: int64
    token_id: string
