"""The user scram credential record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, int8, int32, string


class UserScramCredentialRecord(Payload, versions="0", flexible="0+"):
    name: string
    mechanism: int8
    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int32
