"""Request and response headers."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, field, int16, int32, string


class RequestHeader(Payload, versions="0-2", flexible="2+"):
    request_api_key: int16 = 0
    request_api_version: int16 = 0
    correlation_id: int32 = 0
    client_id: string | None = field("1+", default="", ignorable=True, flexible=False)


class ResponseHeader(Payload, versions="0-1", flexible="1+"):
    correlation_id: int32 = 0
