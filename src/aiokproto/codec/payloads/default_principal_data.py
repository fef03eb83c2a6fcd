"""A principal, as brokers hand it to the controller."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, string


class DefaultPrincipalData(Payload, versions="0", flexible="0+"):
    type: string = ""
    name: string = ""
    token_authenticated: bool = False
