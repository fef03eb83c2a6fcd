"""The APIs that are not served, and what a client hears that asks for them all the same.

ApiVersions does not list them, so a client that goes by it never does. One that does gets the API's own answer, with
UNSUPPORTED_VERSION. What only the nodes of a cluster send each other is not
answered: Kafka closes the connection too.
"""

from __future__ import annotations

from typing import Any, NoReturn

from aiokproto.broker.request_context import RequestContext
from aiokproto.codec.schema import Request
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

BETWEEN_NODES = frozenset({4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82})
"""ApiKeys that brokers and controllers of a cluster send each other."""

ERROR = ErrorCode.UNSUPPORTED_VERSION
"""What is answered."""


async def handle(request: Request[Any], context: RequestContext) -> NoReturn:
    """Refuse an API."""
    raise BrokerError(ERROR, detail="the embedded broker does not serve this")
