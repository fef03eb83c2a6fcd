"""Dispatches the requests of one node: a request frame in, a response frame out.

A request goes through these steps. Each step can answer the request itself instead of passing it on:

1. SASL: while a connection authenticates, only handshake requests (and ApiVersions) are served.
2. ApiKey and version: ``handlers.find`` imports the handler. Requests that aren't served are refused, or close the
   connection.
3. Quotas: the handler's time and bytes are recorded, and the client is throttled (``quotas.request_quotas``).
4. Faults: rules set by a test (``control.faults``) delay, fail or drop the request.
5. Authorization: the parts of the request that the client has no permission for are refused
   (``security.authorization``).
6. The handler serves the rest. Its response is merged with the refusals.

Faults come before authorization: like an unavailable broker, an injected error doesn't reveal what the client isn't
authorized to know. Quotas come before both: a refused request has still used the broker's time.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from aiokproto.broker.cluster_runtime import ClusterRuntime
from aiokproto.broker.control.faults import Faults
from aiokproto.broker.control.request_info import RequestInfo, TruncatedResponse
from aiokproto.broker.fetch.sessions import FetchSessionCache
from aiokproto.broker.handlers import SERVED, UNSTABLE, Handler, api_versions, find
from aiokproto.broker.handlers.refused import BETWEEN_NODES
from aiokproto.broker.handlers.refused import handle as refuse_api
from aiokproto.broker.metadata.cluster_state import Node
from aiokproto.broker.quotas.client_quota_manager import ClientQuotaManager
from aiokproto.broker.quotas.request_quotas import ProcessingTimer, record_and_throttle
from aiokproto.broker.request_context import CloseConnection, RequestContext
from aiokproto.broker.security.authorization import authorizing_request
from aiokproto.broker.security.sasl_server import LoginError
from aiokproto.broker.security.session import ClientSession
from aiokproto.broker.share.session import ShareSessions
from aiokproto.broker.yield_budget import ITEM
from aiokproto.codec.entities import merging
from aiokproto.codec.frames import (
    RequestFrame,
    decode_request_header,
    decoding_request_header,
    encode_response,
    encoding_response,
)
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.fetch import FetchRequest, FetchResponse
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.refusal import refusing
from aiokproto.codec.registry import api_name
from aiokproto.codec.registry import request as request_type
from aiokproto.codec.schema import NEVER, Request, Response, Versions
from aiokproto.codec.wire import Limits
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, DecodeError
from aiokproto.security.tracebacks import without_frames

_LIMITS = Limits(memory=64 << 20)
"""The memory limit of one decoded request. 100,000 partitions, more than any client sends, take a third of it."""

_LONG = 1 << 12
"""Requests with more bytes are decoded in steps: decoding this many bytes at once takes a millisecond or two."""

_REQUEST = 8 * ITEM
"""How much a request counts as in its connection's budget, besides its items: a client can send thousands at once."""

_BYTE = 16
"""How much each byte counts as, in requests that are decoded at once."""

_MANY = 64
"""Responses to requests with more items are encoded in steps."""

_SHORT = 1 << 10
"""Maximum size of a request that is decoded before authentication, to refuse it with its own type of response. Anyone
can send such requests, and decoding and refusing 500 KB takes a second."""

_API_VERSIONS_OF_2_4 = 3
"""The version of ApiVersions that Kafka 2.4 added. A broker that serves it also supports KIP-511."""


class DispatchResult(NamedTuple):
    """What the connection does after a request.

    Attributes:
        frame: The response frame to send, or None if the request has no response.
        throttle: How many seconds to stop reading from the connection after that (KIP-219).
    """

    frame: bytes | bytearray | None
    throttle: float = 0.0


def _has_no_response(request: Request[Any]) -> bool:
    return isinstance(request, ProduceRequest) and request.acks == 0


def _close_if_authentication_failed(connection: ClientSession, frame: bytearray | None = None) -> None:
    """If authentication has failed, close the connection after sending the response with the error."""
    if connection.failure is not None:
        raise CloseConnection(connection.failure, bytes(frame or b""))


class Dispatcher:
    """Serves the requests of one node's connections."""

    def __init__(
        self,
        runtime: ClusterRuntime,
        node: Node,
        faults: Faults,
        served: Mapping[int, Versions],
        quotas: ClientQuotaManager,
    ) -> None:
        self._runtime = runtime
        self._node = node
        self._faults = faults
        self._served = served
        self._quotas = quotas
        options = runtime.state.options
        self._sessions = FetchSessionCache(
            options.number("max.incremental.fetch.session.cache.slots"), runtime.clock.time
        )
        self._share_sessions = ShareSessions(options.number("group.share.max.share.sessions"))

    def disconnected(self, connection: ClientSession) -> None:
        """End the share sessions of a closed connection. Their acquired records become available again (KIP-932)."""
        for session in self._share_sessions.of_connection(connection):
            self._runtime.shares.end_session(self._share_sessions, session, self._node.node_id)

    async def dispatch(self, data: bytes | memoryview, connection: ClientSession) -> DispatchResult:
        """Serve a request frame (without its length).

        Raises:
            CloseConnection: The request isn't served, can't be decoded, or its handler failed.
        """
        turns = connection.turns
        if turns.uses_up(_REQUEST + _BYTE * min(len(data), _LONG)):
            await turns.pause()
        # After SaslHandshake v0, frames are bare tokens without a header (KIP-43).
        if connection.sasl is not None and connection.sasl.raw:
            try:
                token = connection.sasl.token(bytes(data))
            except LoginError as error:
                raise CloseConnection(f"the login failed: {error}", bug=without_frames(error)) from None
            # Bare tokens have no way to report an error (KIP-152 added one), so no response is sent.
            _close_if_authentication_failed(connection)
            return DispatchResult(len(token).to_bytes(4, "big") + token)
        try:
            if len(data) > _LONG:
                header = await turns.finish(decoding_request_header(data))
            else:
                header = decode_request_header(data)
        except DecodeError as error:
            # A response needs the correlation id, which is in the header.
            raise CloseConnection(f"a request header cannot be decoded: {error}") from None
        # The header is enough to decide, so most requests that come before authentication are never decoded.
        refusal = connection.sasl.check_request(header.api_key) if connection.sasl is not None else None
        # If the request is refused, the client gets its response first, then the connection is closed.
        if refusal is None or len(data) > _SHORT:
            _close_if_authentication_failed(connection)
        # Use this broker's own table: versions that ApiVersions doesn't list aren't served.
        handler = find(header.api_key) or self._unsupported_api_handler(header.api_key)
        if handler is None or header.api_version not in self._served.get(header.api_key, handler.refused):
            return DispatchResult(self._unsupported_version(header))
        name = f"{api_name(header.api_key)} v{header.api_version}"
        before = turns.items
        try:
            # Kafka ignores bytes after the body, and librdkafka's Metadata request contains some.
            if len(data) > _LONG:
                steps = handler.request.decoding_from(header.body, 0, header.api_version, limits=_LIMITS)
                request, _ = await turns.finish(steps)
            else:
                request, _ = handler.request.decode_from(header.body, 0, header.api_version, limits=_LIMITS)
        except DecodeError as error:
            raise CloseConnection(f"{name} from {header.client_id!r} cannot be decoded: {error}") from None
        context = self._context(header, connection)
        try:
            if refusal is not None:
                refused = refusing(request, header.api_version, refusal.code, refusal.detail)
                response, throttle = await turns.finish(refused), 0.0
            # Most brokers have no quotas. In that case, don't measure, and don't encode responses twice just to count
            # their bytes.
            elif self._quotas.client_quotas:
                response, throttle = await self._handle_with_quotas(handler, request, context, len(data))
            else:
                response, throttle = await self._handle_with_faults(handler, request, context), 0.0
            frame = None
            if response is not None:
                if turns.items - before > _MANY:
                    frame = await turns.finish(encoding_response(response, header.api_version, header.correlation_id))
                else:
                    frame = encode_response(response, header.api_version, header.correlation_id)
            _close_if_authentication_failed(connection, frame)
            return DispatchResult(frame, throttle)
        except TruncatedResponse as truncated:
            whole = encode_response(truncated.response, header.api_version, header.correlation_id)
            raise CloseConnection(str(truncated), bytes(whole[: truncated.size])) from None
        # This is expected: the message says why, and a traceback wouldn't help.
        except CloseConnection:
            raise
        except LoginError as error:
            raise CloseConnection(
                f"{name} from {header.client_id!r} failed: {error}", bug=without_frames(error)
            ) from None
        # This is our own bug. The client sees a lost connection and retries. Any error code would mean something else.
        except Exception as error:
            raise CloseConnection(f"{name} from {header.client_id!r} failed: {error}", bug=error) from error

    def _context(self, header: RequestFrame, connection: ClientSession) -> RequestContext:
        runtime, client_id = self._runtime, header.client_id or ""
        return RequestContext(
            state=runtime.state,
            groups=runtime.groups,
            transactions=runtime.transactions,
            share_states=runtime.share_states,
            shares=runtime.shares,
            share_sessions=self._share_sessions,
            sessions=self._sessions,
            node=self._node,
            served=self._served,
            version=header.api_version,
            client_id=client_id,
            client_host=connection.host,
            connection=connection,
            security=runtime.security,
            quotas=self._quotas,
            mutation_quota=self._quotas.mutation_quota(connection.principal.name, client_id, runtime.clock.time()),
            telemetry=runtime.telemetry,
            opening=runtime.opening,
        )

    async def _handle_with_quotas(
        self, handler: Handler, request: Request[Any], context: RequestContext, size: int
    ) -> tuple[Response | None, float]:
        # The timer can include faults: an injected delay is suspended time, which isn't measured.
        timer = ProcessingTimer(self._handle_with_faults(handler, request, context))
        response = await timer
        sent, throttle = record_and_throttle(
            self._quotas,
            context.connection.principal.name,
            context.client_id,
            request,
            response,
            context.version,
            size=size,
            busy=timer.seconds,
            mutation_quota=context.mutation_quota,
            now=self._runtime.clock.time(),
        )
        # The response to a throttled full Fetch has session id 0. The client never learns the id of the session that
        # was created, so it would never close the session.
        if isinstance(request, FetchRequest) and request.session_epoch <= 0 and sent is not response:
            assert isinstance(response, FetchResponse)
            self._sessions.end(response.session_id)
        return sent, throttle

    async def _handle_with_faults(
        self, handler: Handler, request: Request[Any], context: RequestContext
    ) -> Response | None:
        # Normally there are no rules: don't build a RequestInfo for each request.
        if self._faults.idle:
            return await self._authorize_and_handle(handler, request, context)
        info = RequestInfo(
            request,
            context.version,
            context.client_id,
            context.client_host,
            self._node.node_id,
            self._name_of,
            lambda: list(self._runtime.state.topics),
            self._sessions.partitions,
        )
        return await self._faults.serve(info, lambda served: self._authorize_and_handle(handler, served, context))

    async def _authorize_and_handle(
        self, handler: Handler, request: Request[Any], context: RequestContext
    ) -> Response | None:
        try:
            # Most brokers have no ACLs, so there's nothing to split.
            if self._runtime.security.authorizer is None:
                return await handler.handle(request, context)
            permitted, refused = await context.turns.finish(
                authorizing_request(request, context.version, handler.requires, context.is_authorized, self._name_of)
            )
            # If everything is refused, there is no response to merge into, so one of the refusals becomes the response.
            response = await handler.handle(permitted, context) if permitted is not None else refused.pop()
        except BrokerError as error:
            refusal = await context.turns.finish(refusing(request, context.version, error.code, error.detail))
            # Some responses have no error code at all, and Produce with acks=0 has no response at all.
            if refusal is None or _has_no_response(request):
                raise CloseConnection(f"{type(request).__name__} failed with {error.code.name}") from None
            return refusal
        if _has_no_response(request):
            if permitted is not request:
                # Kafka closes the connection too: with acks=0, this is the only way to report an error.
                raise CloseConnection("Produce with acks=0 to topics that the client is not authorized to write to")
            return None
        assert response is not None, "only Produce has no response"
        if refused:
            await context.turns.finish(merging(response, refused, self._name_of))
        return response

    def _name_of(self, topic_id: bytes) -> str | None:
        topic = self._runtime.state.topic_by_id(topic_id)
        return topic.name if topic is not None else None

    def _unsupported_api_handler(self, api_key: int) -> Handler | None:
        """Return the handler that refuses an API that isn't served, or None to close the connection instead."""
        # A broker of an old release (as_version) closes the connection: it can't know APIs that were added later.
        is_old = self._served is not SERVED and self._served is not UNSTABLE
        # These requests are only sent by brokers and controllers. Kafka's broker closes the connection too.
        if is_old or api_key in BETWEEN_NODES:
            return None
        message = request_type(api_key)
        return Handler(message, NEVER, refuse_api, refused=message.versions)

    def _unsupported_version(self, header: RequestFrame) -> bytearray:
        served = self._served.get(ApiVersionsRequest.api_key)
        # The client wouldn't understand any response, because the format depends on the version, which this broker
        # doesn't know.
        if header.api_key != ApiVersionsRequest.api_key or served is None:
            raise CloseConnection(f"{api_name(header.api_key)} v{header.api_version} is not served")
        # ApiVersions is refused with a v0 response, which every client can decode. Since Kafka 2.4, it lists the
        # versions of ApiVersions itself, so the client can retry with one of them (KIP-511).
        listed = {ApiVersionsRequest.api_key: served} if served.highest >= _API_VERSIONS_OF_2_4 else {}
        response = api_versions.describe(listed)
        response.error_code = ErrorCode.UNSUPPORTED_VERSION
        return encode_response(response, 0, header.correlation_id)
