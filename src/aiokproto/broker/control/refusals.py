"""Fails a request, or a part of it while the rest is served."""

from __future__ import annotations

from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.broker.request_context import CloseConnection
from aiokproto.codec.entities import ANY_ENTITY, Entity, merge, split
from aiokproto.codec.messages.fetch import FetchRequest, FetchResponse
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.refusal import refuse
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode

_NEW_SESSION = 0


async def fail_request(error: ErrorCode, entity: Entity, info: RequestInfo, serve: Serve) -> Response | None:
    """Return the response to a request whose part about ``entity`` fails with ``error``."""
    request = info.request
    if isinstance(request, MetadataRequest):
        request = info.expanded
    if isinstance(request, FetchRequest) and entity != ANY_ENTITY and request.session_id != _NEW_SESSION:
        # An incremental Fetch names only some partitions: the error makes the client send a full one.
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    rest, hit = split(request, entity, info.name_of)
    if isinstance(request, MetadataRequest) and rest is None:
        # A Metadata response must list the brokers even if all its topics fail.
        rest = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    response = refuse(hit, info.version, error) if hit is not None else None
    if response is None and hit is not None:
        raise CloseConnection(f"{info.api} v{info.version} failed with {error.name} (fault injection)")
    if rest is None:
        if isinstance(request, ProduceRequest) and request.acks == 0:
            raise CloseConnection(f"Produce with acks=0 failed with {error.name} (fault injection)")
        return response
    if isinstance(rest, FetchRequest):
        # The error must be returned now, not after the other partitions have waited for records.
        rest.max_wait_ms = 0
    served = await serve(rest)
    if served is None or response is None:
        return served
    merge(served, [response], info.name_of)
    return served
