"""The APIs that are not served, and what a client hears that asks for them all the same.

ApiVersions does not list them, so a client that goes by it never does. One that does gets the API's own answer, with
the error that Kafka gives where the same is turned off. What only the nodes of a cluster send each other is not
answered: Kafka closes the connection too.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, NoReturn

from aiokproto.broker.context import Context
from aiokproto.codec.schema import Request
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

BETWEEN_NODES = frozenset({4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82})
"""ApiKeys that brokers and controllers of a cluster send each other."""

_TOKENS = frozenset({38, 39, 40, 41})


def error_for(api_key: int) -> ErrorCode:
    """What is answered."""
    return ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED if api_key in _TOKENS else ErrorCode.UNSUPPORTED_VERSION


def refuser(api_key: int) -> Callable[[Request[Any], Context], Awaitable[NoReturn]]:
    """A handler that refuses an API."""

    async def handle(request: Request[Any], context: Context) -> NoReturn:
        raise BrokerError(error_for(api_key), detail="the embedded broker does not serve this")

    return handle
