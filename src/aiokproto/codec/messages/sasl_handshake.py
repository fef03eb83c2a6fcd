"""SaslHandshake (ApiKey 17): agree on a SASL mechanism."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, field, int16, string


class SaslHandshakeResponse(Response, key=17, versions="0-1"):
    error_code: int16 = 0
    mechanisms: list[string] = field(factory=list)


class SaslHandshakeRequest(Request[SaslHandshakeResponse], key=17, versions="0-1", route=Route.BROKER):
    mechanism: string = ""
