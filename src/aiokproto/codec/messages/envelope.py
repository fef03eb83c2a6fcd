"""Envelope (ApiKey 58): a broker forwards a client's request to the controller."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, int16


class EnvelopeResponse(Response, key=58, versions="0", flexible="0+"):
    response_data: bytes | None = None
    error_code: int16 = 0


class EnvelopeRequest(Request[EnvelopeResponse], key=58, versions="0", flexible="0+", route=Route.CONTROLLER):
    request_data: bytes = b""
    request_principal: bytes | None = b""
    client_host_address: bytes = b""
