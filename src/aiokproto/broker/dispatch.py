"""From a request frame to a response frame: ApiKey → handler, versions, and what happens when things go wrong."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from aiokproto.broker import handlers
from aiokproto.broker.context import Context, Hangup
from aiokproto.broker.groups.coordinator import GroupCoordinator
from aiokproto.broker.sessions import FetchSessions
from aiokproto.broker.state import Node, State
from aiokproto.codec.frames import RequestFrame, decode_request_header, encode_response
from aiokproto.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Request, Response, Versions
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DecodeError

log = logging.getLogger("aiokproto.broker")

Handle = Callable[[Any, Context], Awaitable[Response | None]]


class Handler(NamedTuple):
    """How an API is served."""

    request: type[Request[Any]]
    versions: Versions
    handle: Handle


HANDLERS: dict[int, Handler] = {
    module.REQUEST.api_key: Handler(module.REQUEST, Versions.parse(module.VERSIONS), module.handle)
    for module in handlers.MODULES
}

SERVED: dict[int, Versions] = {key: handler.versions for key, handler in sorted(HANDLERS.items())}
"""What ApiVersions says: no more and no less than what is served."""


class Dispatcher:
    """Answers the requests to one node."""

    def __init__(self, state: State, groups: GroupCoordinator, node: Node) -> None:
        self._state = state
        self._groups = groups
        self._node = node
        self._sessions = FetchSessions(state.options.number("max.incremental.fetch.session.cache.slots"))

    async def answer(self, data: bytes, client_host: str) -> bytearray | None:
        """The response to a request frame (without its length), or None where none is due.

        Raises:
            Hangup: The connection must be closed: what came is not served, is not Kafka's, or broke the handler.
        """
        try:
            frame = decode_request_header(data)
        except DecodeError as error:
            raise Hangup(f"a request that cannot be read: {error}") from None
        handler = HANDLERS.get(frame.api_key)
        if handler is None or frame.api_version not in handler.versions:
            return _unsupported(frame)
        name = f"{api_name(frame.api_key)} v{frame.api_version}"
        try:
            # What may follow the body is left unread, as Kafka does: librdkafka's Metadata request has such a tail.
            request, _ = handler.request.decode_from(frame.body, 0, frame.api_version)
        except DecodeError as error:
            raise Hangup(f"{name} from {frame.client_id!r} cannot be read: {error}") from None
        context = Context(
            self._state,
            self._groups,
            self._sessions,
            self._node,
            SERVED,
            frame.api_version,
            frame.client_id or "",
            client_host,
        )
        try:
            response = await handler.handle(request, context)
            if response is None:
                return None
            return encode_response(response, frame.api_version, frame.correlation_id)
        except Hangup:
            raise
        except Exception as error:
            log.exception("%s from %r failed", name, frame.client_id)
            raise Hangup(f"{name} failed: {error}") from error


def _unsupported(frame: RequestFrame) -> bytearray:
    if frame.api_key != ApiVersionsRequest.api_key:
        raise Hangup(f"{api_name(frame.api_key)} v{frame.api_version} is not served")
    # Of the oldest form, which every client can read; it says which versions to come back with (KIP-511).
    low, high = SERVED[ApiVersionsRequest.api_key]
    response = handlers.api_versions.describe({ApiVersionsRequest.api_key: Versions(low, high)})
    response.error_code = ErrorCode.UNSUPPORTED_VERSION
    assert isinstance(response, ApiVersionsResponse)
    return encode_response(response, 0, frame.correlation_id)
