"""Request and response headers."""

from __future__ import annotations

from aiokproto.codec.schema import Payload, field, int16, int32, string


class RequestHeader(Payload, versions="0-2", flexible="2+"):
    """Header before the body of a request."""

    request_api_key: int16 = 0
    """ApiKey of the request."""
    request_api_version: int16 = 0
    """Version of the request's body, which determines the version of this header."""
    correlation_id: int32 = 0
    """Number chosen by the client, which the response repeats."""
    client_id: string | None = field("1+", default="", ignorable=True, flexible=False)
    """Name of the client, for quotas and logs; null: none."""


class ResponseHeader(Payload, versions="0-1", flexible="1+"):
    """Header before the body of a response."""

    correlation_id: int32 = 0
    """Number from the header of the request."""
