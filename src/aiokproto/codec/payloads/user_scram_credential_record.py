"""The user scram credential record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, int8, int32, string


class UserScramCredentialRecord(Payload, versions="0", flexible="0+"):
    name: string = ""
    mechanism: int8 = 0
    salt: bytes = b""
    stored_key: bytes = b""
    server_key: bytes = b""
    iterations: int32 = 0
