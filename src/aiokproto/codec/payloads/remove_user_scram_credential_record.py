"""The remove user scram credential record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, int8, string


class RemoveUserScramCredentialRecord(Payload, versions="0", flexible="0+"):
    name: string = ""
    mechanism: int8 = 0
