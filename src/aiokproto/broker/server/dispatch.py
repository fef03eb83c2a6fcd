"""From a request frame to a response frame: ApiKey → handler, versions, and what happens when things go wrong."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any, NamedTuple

from aiokproto.broker.control import Call, Cut, Faults
from aiokproto.broker.core import Core
from aiokproto.broker.fetch.sessions import FetchSessions
from aiokproto.broker.handlers import SERVED, Handle, Handler, api_versions, find
from aiokproto.broker.handlers.refused import BETWEEN_NODES
from aiokproto.broker.handlers.refused import handle as refuse_api
from aiokproto.broker.metadata.cluster_state import Node
from aiokproto.broker.quotas.charge import Stopwatch, charge
from aiokproto.broker.quotas.quotas import Quotas
from aiokproto.broker.request_context import CloseConnection, RequestContext
from aiokproto.broker.security.enforcement import judge
from aiokproto.broker.security.session import ClientSession
from aiokproto.broker.share.session import ShareSessions
from aiokproto.codec.entities import merge
from aiokproto.codec.frames import RequestFrame, decode_request_header, encode_response
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.fetch import FetchRequest, FetchResponse
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.refusal import refuse
from aiokproto.codec.registry import api_name
from aiokproto.codec.registry import request as request_type
from aiokproto.codec.schema import NEVER, Request, Response, Versions
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, DecodeError

log = logging.getLogger("aiokproto.broker")

_SINCE_2_4 = 3
"""The version of ApiVersions that Kafka 2.4 brought, by which a broker of an older release is known."""


class Answer(NamedTuple):
    """What goes back to the client.

    Attributes:
        reply: The response frame; None where none is due.
        pause: For how many seconds nothing more is read from the client: it has used too much (KIP-219).
    """

    reply: bytes | bytearray | None
    pause: float = 0.0


def _unanswered(request: Request[Any]) -> bool:
    return isinstance(request, ProduceRequest) and request.acks == 0


def _check(connection: ClientSession, reply: bytearray | None = None) -> None:
    """Hang up on who failed to authenticate, once it was told."""
    if connection.failure is not None:
        raise CloseConnection(connection.failure, bytes(reply or b""))


class Dispatcher:
    """Answers the requests to one node."""

    def __init__(self, core: Core, node: Node, faults: Faults, served: Mapping[int, Versions], quotas: Quotas) -> None:
        self._core = core
        self._node = node
        self._faults = faults
        self._served = served
        self._quotas = quotas
        options = core.state.options
        self._sessions = FetchSessions(options.number("max.incremental.fetch.session.cache.slots"))
        self._share_sessions = ShareSessions(options.number("group.share.max.share.sessions"))

    def disconnected(self, connection: ClientSession) -> None:
        """A client's connection is gone, and with it the share sessions that were begun on it."""
        for session in self._share_sessions.of_connection(connection):
            self._core.shares.end_session(self._share_sessions, session, self._node.node_id)

    async def answer(self, data: bytes | memoryview, connection: ClientSession) -> Answer:
        """The response to a request frame (without its length).

        Raises:
            Hangup: The connection must be closed: what came is not served, is not Kafka's, or broke the handler.
        """
        if connection.sasl is not None and connection.sasl.raw:
            token = connection.sasl.token(bytes(data))
            _check(connection)
            return Answer(len(token).to_bytes(4, "big") + token)
        try:
            frame = decode_request_header(data)
        except DecodeError as error:
            raise CloseConnection(f"a request that cannot be read: {error}") from None
        refusal = connection.sasl.admit(frame.api_key) if connection.sasl is not None else None
        if refusal is None:
            _check(connection)
        handler = find(frame.api_key) or self._refuser(frame.api_key)
        if handler is None or frame.api_version not in self._served.get(frame.api_key, handler.refused):
            return Answer(self._unsupported(frame))
        name = f"{api_name(frame.api_key)} v{frame.api_version}"
        try:
            # What may follow the body is left unread, as Kafka does: librdkafka's Metadata request has such a tail.
            request, _ = handler.request.decode_from(frame.body, 0, frame.api_version)
        except DecodeError as error:
            raise CloseConnection(f"{name} from {frame.client_id!r} cannot be read: {error}") from None
        context = RequestContext(
            self._core.state,
            self._core.groups,
            self._core.transactions,
            self._core.share_states,
            self._core.shares,
            self._share_sessions,
            self._sessions,
            self._node,
            self._served,
            frame.api_version,
            frame.client_id or "",
            connection.host,
            connection,
            self._core.guard,
            self._quotas,
            self._quotas.mutations(connection.principal.name, frame.client_id or "", self._core.clock.time()),
        )
        try:
            if refusal is not None:
                response, pause = refuse(request, frame.api_version, refusal.code, refusal.detail), 0.0
            elif self._quotas.limits:
                response, pause = await self._metered(handler.handle, request, context, len(data))
            else:
                response, pause = await self._handle(handler.handle, request, context), 0.0
            reply = None
            if response is not None:
                reply = encode_response(response, frame.api_version, frame.correlation_id)
            _check(connection, reply)
            return Answer(reply, pause)
        except Cut as cut:
            whole = encode_response(cut.response, frame.api_version, frame.correlation_id)
            raise CloseConnection(str(cut), bytes(whole[: cut.size])) from None
        except CloseConnection:
            raise
        except Exception as error:
            log.exception("%s from %r failed", name, frame.client_id)
            raise CloseConnection(f"{name} failed: {error}") from error

    async def _metered(
        self, handle: Handle, request: Request[Any], context: RequestContext, size: int
    ) -> tuple[Response | None, float]:
        watch = Stopwatch(self._handle(handle, request, context))
        response = await watch
        told, pause = charge(
            self._quotas,
            context.connection.principal.name,
            context.client_id,
            request,
            response,
            context.version,
            size=size,
            busy=watch.seconds,
            mutations=context.mutations,
            now=self._core.clock.time(),
        )
        # A session that has just begun, and the client is not told of.
        if isinstance(request, FetchRequest) and request.session_epoch <= 0 and told is not response:
            assert isinstance(response, FetchResponse)
            self._sessions.end(response.session_id)
        return told, pause

    async def _permitted(self, handle: Handle, request: Request[Any], context: RequestContext) -> Response | None:
        """Serve what the client may ask for, and refuse the rest."""
        try:
            if self._core.guard.authorizer is None:
                return await handle(request, context)
            served, refused = judge(request, context.version, context.may, self._name_of)
            response = await handle(served, context) if served is not None else refused.pop()
        except BrokerError as error:
            refusal = refuse(request, context.version, error.code, error.detail)
            if refusal is None or _unanswered(request):
                raise CloseConnection(f"{type(request).__name__} failed with {error.code.name}") from None
            return refusal
        if _unanswered(request):
            if served is not request:
                raise CloseConnection("Produce with acks=0 to what the client may not write to")
            return None
        for other in refused:
            assert response is not None, "only Produce has no answer"
            merge(response, other, self._name_of)
        return response

    async def _handle(self, handle: Handle, request: Request[Any], context: RequestContext) -> Response | None:
        if self._faults.idle:
            return await self._permitted(handle, request, context)
        call = Call(
            request,
            context.version,
            context.client_id,
            context.client_host,
            self._node.node_id,
            self._name_of,
            lambda: list(self._core.state.topics),
            self._sessions.partitions,
        )
        return await self._faults.serve(call, lambda asked: self._permitted(handle, asked, context))

    def _name_of(self, topic_id: bytes) -> str | None:
        topic = self._core.state.topic_by_id(topic_id)
        return topic.name if topic is not None else None

    def _refuser(self, api_key: int) -> Handler | None:
        """What answers an API that is not served; None where nobody does."""
        # A broker of an old release cannot know what came after it.
        if self._served is not SERVED or api_key in BETWEEN_NODES:
            return None
        message = request_type(api_key)
        return Handler(message, NEVER, refuse_api, refused=message.versions)

    def _unsupported(self, frame: RequestFrame) -> bytearray:
        served = self._served.get(ApiVersionsRequest.api_key)
        if frame.api_key != ApiVersionsRequest.api_key or served is None:
            raise CloseConnection(f"{api_name(frame.api_key)} v{frame.api_version} is not served")
        # Of the oldest form, which every client can read; since 2.4 it says which versions to come back with (KIP-511).
        told = {ApiVersionsRequest.api_key: served} if served.highest >= _SINCE_2_4 else {}
        response = api_versions.describe(told)
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        return encode_response(response, 0, frame.correlation_id)
