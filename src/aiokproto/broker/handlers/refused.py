"""The responses of APIs that aren't served.

ApiVersions doesn't list these APIs, so most clients never send them. A client that does gets the API's own response,
with UNSUPPORTED_VERSION. For APIs that only the nodes of a cluster use, the connection is closed, as in Kafka.
"""

from __future__ import annotations

from typing import Any, NoReturn

from aiokproto.broker.request_context import RequestContext
from aiokproto.codec.schema import Request
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

BETWEEN_NODES = frozenset({4, 5, 6, 7, 52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 73, 82})
"""ApiKeys that only brokers and controllers of a cluster send each other."""

NOT_SERVED = {
    80: "AddRaftVoter: the embedded cluster has no KRaft quorum",
    81: "RemoveRaftVoter: the embedded cluster has no KRaft quorum",
    94: "UnregisterController: the embedded cluster has no KRaft controllers",
}
"""Why the other APIs aren't served, by ApiKey. A new API must be served or listed here, or a test fails."""

ERROR = ErrorCode.UNSUPPORTED_VERSION
"""The error code in the responses."""


async def handle(request: Request[Any], context: RequestContext) -> NoReturn:
    """Refuse a request to any API."""
    raise BrokerError(ERROR, detail=f"the embedded broker does not serve {type(request).__name__}")
