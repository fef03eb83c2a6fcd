"""The remove delegation token record of a metadata log."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, string


class RemoveDelegationTokenRecord(Payload, versions="0", flexible="0+"):
    token_id: string = ""
