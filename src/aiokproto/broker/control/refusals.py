"""Refusing a request, or a part of it while the rest is served."""

from __future__ import annotations

from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.broker.request_context import CloseConnection
from aiokproto.codec.entities import ANYTHING, Subject, merge, split
from aiokproto.codec.messages.fetch import FetchRequest, FetchResponse
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.refusal import refuse
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode

_NEW_SESSION = 0


async def fail_request(error: ErrorCode, subject: Subject, call: RequestInfo, serve: Serve) -> Response | None:
    """The answer to a request of which what is about ``subject`` fails with ``error``."""
    request = call.request
    if isinstance(request, MetadataRequest):
        request = call.expanded
    if isinstance(request, FetchRequest) and subject != ANYTHING and request.session_id != _NEW_SESSION:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=[])
    kept, hit = split(request, subject, call.name_of)
    if isinstance(request, MetadataRequest) and kept is None:
        # An answer has to name the brokers all the same.
        kept = MetadataRequest(topics=[], allow_auto_topic_creation=False)
    response = refuse(hit, call.version, error) if hit is not None else None
    if response is None and hit is not None:
        raise CloseConnection(f"{call.api} v{call.version} failed with {error.name}, as told")
    if kept is None:
        if isinstance(request, ProduceRequest) and request.acks == 0:
            raise CloseConnection(f"Produce with acks=0 failed with {error.name}, as told")
        return response
    if isinstance(kept, FetchRequest):
        # The error has to be told now, whatever the rest of the partitions wait for.
        kept.max_wait_ms = 0
    served = await serve(kept)
    if served is None or response is None:
        return served
    merge(served, response, call.name_of)
    return served
