"""The Kafka protocol as Python classes: no I/O, no event loop, no third-party packages.

>>> from aiokproto.codec import lookup
>>> request = lookup("FindCoordinatorRequest")
>>> request(key="g").encode(0)
b'\\x00\\x01g'
"""

from __future__ import annotations

from aiokproto.codec.registry import api_keys, api_name, lookup, request, response
from aiokproto.codec.schema import Message, Payload, Request, Response, Route, Struct, Versions

__all__ = [
    "Message",
    "Payload",
    "Request",
    "Response",
    "Route",
    "Struct",
    "Versions",
    "api_keys",
    "api_name",
    "lookup",
    "request",
    "response",
]
