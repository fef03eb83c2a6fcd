"""One socket to one broker: pipelined requests, each with a deadline.

**Pipelining.** Requests are written without waiting for earlier responses. A broker handles one connection's requests
in order and responds in order, so a response always belongs to the oldest request in flight
(:attr:`ClientProtocol.pending <aiokproto.net.protocol.ClientProtocol.pending>`); a correlation id that says otherwise
is a protocol error. So a response that the broker delays (a long-polling Fetch, a JoinGroup) delays the responses
behind it. Callers send such requests over separate connections (see :class:`~aiokproto.cluster.pool.Pool`, channels).

**Writing.** A request is encoded and written before :meth:`Connection.send` first suspends. Callers rely on this: the
producer's sequence numbers are in order because its requests are written in the order of the calls.

**Holding.** After a response with a throttle time, nothing is written until that time has passed (KIP-219). While the
client authenticates again, only that exchange is written (KIP-368). Requests wait in ``_held``, in order, with their
correlation ids assigned; once one is waiting, all later ones wait, too. Their response deadlines start when they are
written.

**Deadlines.** One timer serves all requests and the idle timeout; a ``TimerHandle`` per request would cost more than
the request. A caller's deadline fails only that caller. The late response is still matched, then dropped: skipping it
would shift every later response. A request without a response for ``request_timeout`` (or its own timeout, if longer)
closes the connection: otherwise a peer that vanished without closing its socket would be indistinguishable from a slow
one.

**End.** ``_fail`` is the only way a connection ends, and takes effect once. It fails every request in flight exactly
once. Requests are never retried here: only the caller knows whether a request can be executed twice.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast

from aiokproto.codec.frames import decode_response
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Request, Response
from aiokproto.config import ClusterConfig
from aiokproto.errors import (
    BrokerConnectionError,
    ClientClosedError,
    DeadlineError,
    DecodeError,
    KafkaError,
    NotKafkaError,
    ResponseTooLargeError,
    copied,
)
from aiokproto.net.foreign_protocols import describe_bytes, recognize, usual_service
from aiokproto.net.in_flight import (
    AwaitedRequest,
    CallbackRequest,
    HeldRequest,
    InFlightRequest,
    end_of,
)
from aiokproto.net.protocol import TOKEN, ClientProtocol
from aiokproto.net.timer import Timer
from aiokproto.net.tls_errors import refusal
from aiokproto.net.transport import Dialled, set_socket_options
from aiokproto.net.versions import BY_OPTION, BrokerVersions
from aiokproto.observe.observers import NodeObserver
from aiokproto.runtime.timeouts import deadline_at

if TYPE_CHECKING:
    from aiokproto.net.authentication import Authentication

R = TypeVar("R", bound=Response)

logger = logging.getLogger("aiokproto.net")

MAX_THROTTLE = 60.0
"""Maximum pause in seconds that one response can impose. The field is an int32 of milliseconds, up to 24 days."""

_LENGTH_SIZE = 4

# The usual reasons why a connection ends early, or never gets a response. They don't become a NotKafkaError, which
# bootstrap treats as final: a load balancer without a backend also closes connections like this, and the next attempt
# can succeed.
_NO_RESPONSE_YET = (
    " before its first response: the broker is starting, the listener expects TLS (security_protocol='SSL'), or it is"
    " not Kafka"
)
_SILENT = "the broker hangs, the listener expects TLS (security_protocol='SSL'), or it is not Kafka"
# A broker's TLS alert can be lost if the broker closes its end of the connection before the client has read the alert.
_NO_RESPONSE_YET_WITH_TLS = (
    " before its first response: the broker is starting, or it requires a client certificate (ssl_certfile or"
    " ssl_keystore_location) or does not accept this one"
)
# A listener with SASL answers ApiVersions even before authentication, and closes the connection on any other request.
_NO_RESPONSE_AFTER_VERSIONS = (
    " on the first request after ApiVersions: the broker is stopping, or the listener expects authentication"
    " (security_protocol='SASL_SSL' or 'SASL_PLAINTEXT')"
)


class Connection(Dialled, asyncio.BufferedProtocol):
    """One socket to one broker, made by :func:`~aiokproto.net.open.open_connection`. Once closed it stays closed.

    Cancelling a call leaves the connection open; the late response is dropped. A request without a response for
    ``request_timeout`` (or its own timeout, if longer) closes it.
    """

    def __init__(self, peer: str, config: ClusterConfig, observer: NodeObserver | None = None) -> None:
        self.peer = peer
        self._observer = observer or NodeObserver(-1, config.hooks)
        # Whether the connection was reported to the observer as open. Only then is its end reported.
        self._reported = False
        self.versions = BrokerVersions({}, peer)
        self._first_id = -1
        self._config = config
        self._request_timeout = config.request_timeout
        self._loop = asyncio.get_running_loop()
        self._protocol = ClientProtocol[InFlightRequest](peer, config.client_id, config.max_response_size)
        self._transport: asyncio.Transport | None = None
        # Why the connection has ended. This is the only sign of it: every method tests this and never the transport,
        # which reports the loss one loop iteration later.
        self._failure: KafkaError | None = None
        # Set only by connection_lost. close() doesn't set it: the transport still has to flush, and wait_closed() waits
        # for that.
        self._lost = asyncio.Event()
        # Mirrors asyncio's write flow control (pause_writing). Only one-way requests wait for it. Callers of all other
        # requests wait for responses, which limits them.
        self._writable = asyncio.Event()
        self._writable.set()
        # Only _send appends and only _flush removes, which keeps the order of the calls.
        self._held: deque[HeldRequest] = deque()
        # Cleared while there are requests in `_held`. Only one-way requests wait for it, like `_writable`.
        self._flushed = asyncio.Event()
        self._flushed.set()
        # The end of the throttle time, or infinity between hold() and release(). Otherwise 0.0, so that a request
        # normally doesn't need to read the clock.
        self._held_until = 0.0
        self._holding = False
        # Whether the next request that has to wait starts a renewal of the session.
        self._renewal_due = False
        self._throttled_until = 0.0
        self._throttle_timer: asyncio.TimerHandle | None = None
        self._authentication: Authentication | None = None
        # The APIs that the broker has answered, if the versions are those of `broker_version`; None if the broker
        # reported its versions.
        self._answered: set[int] | None = None
        self._refused_api: int | None = None
        self._timer = Timer(self._on_timer)
        # When the last request was written. Reads don't count: while a response is due, the connection isn't idle
        # anyway.
        self._last_used = self._loop.time()

    @property
    def closed(self) -> bool:
        """Whether it has ended. All further requests raise :attr:`failure`."""
        return self._failure is not None

    @property
    def failure(self) -> KafkaError | None:
        """Why it is closed; None while it is open."""
        return self._failure

    @property
    def refused(self) -> str:
        """The API of the request on which the broker closed the connection, if it never answered that API in the
        version of ``broker_version``. Empty otherwise."""
        return "" if self._refused_api is None else api_name(self._refused_api)

    @property
    def in_flight(self) -> int:
        """Number of requests without a response, including requests that are held back."""
        return len(self._protocol.pending) + len(self._held)

    @property
    def silent_for(self) -> float:
        """Seconds since the oldest request in flight was sent; 0 if there is none."""
        pending = self._protocol.pending
        return self._loop.time() - pending[0].token.sent_at if pending else 0.0

    def negotiated(self, versions: BrokerVersions) -> None:
        """Use these versions for later requests."""
        self.versions = versions
        self._first_id = self._protocol.next_id

    def report_open(self, channel: str, latency: float) -> None:
        """Report to the observer that the connection is open. ``latency`` is how long that took (s)."""
        self._reported = True
        self._observer.connected(self.peer, channel, latency)

    @property
    def has_responded(self) -> bool:
        """Whether a whole response has ever arrived on this connection."""
        return self._protocol.has_responded

    def unresponsive(self, error: DeadlineError) -> KafkaError:
        """Return the error for a deadline that has passed.

        If the peer has never responded, the error says what it may be.
        """
        seen = self._protocol.unfinished
        if self._protocol.has_responded:
            return error
        if recognize(seen):
            return NotKafkaError(f"{self.peer} does not speak Kafka: {describe_bytes(seen)}")
        arrived = f"only {seen[:32]!r} arrived" if seen else "nothing arrived"
        return DeadlineError(f"{error}: {arrived}: {_SILENT}{self._usual_service()}")

    async def send(
        self,
        request: Request[R],
        *,
        timeout: float,
        deadline: float = math.inf,
        version: int | None = None,
        max_version: int | None = None,
    ) -> R:
        """Send a request and wait for its response. Cancelling stops the wait; the broker may still execute it.

        Args:
            request: The request.
            timeout: Seconds to wait for the response, counted from when the request is written. A throttle time that
                the broker imposed (KIP-219) comes before that.
            deadline: When to stop waiting regardless, throttle time included (s, the loop's clock).
            version: The version to use; by default the highest that both sides support.
            max_version: Highest version to use, if ``version`` is not given.

        Raises:
            DeadlineError: No response in time.
            BrokerConnectionError: The connection was lost before the response arrived.
            ResponseTooLargeError: The response is longer than ``max_response_size``.
            UnsupportedVersionError: Client and broker have no version in common.
            EncodeError: The version cannot carry the request.
            DecodeError: The response is malformed.
        """
        if version is None:
            version = self.versions.pick(type(request), max_version)
        frame = await self.send_raw(request, version, timeout, deadline)
        return self._decode(request, version, frame)

    async def send_raw(
        self,
        request: Request[Any],
        version: int,
        timeout: float,
        deadline: float = math.inf,
        *,
        past_hold: bool = False,
    ) -> memoryview:
        """Send a request in the given version and return the response's frame, undecoded.

        Raises the same errors as :meth:`send`.

        With ``past_hold`` the request is written at once, ahead of requests that are held back.
        """
        # If the caller is cancelled, nothing has to be shielded or removed from the queue: the cancelled future counts
        # as done(), and the late response is matched and dropped.
        future: asyncio.Future[memoryview] = self._loop.create_future()
        self._send(request, version, AwaitedRequest(future, request.api_key, timeout, deadline), past_hold)
        return await future

    async def send_token(self, token: bytes, api_key: int, timeout: float) -> memoryview:
        """Send a SASL token without a header, and return the broker's token.

        Raises the same errors as :meth:`send`, naming the API of ``api_key``.
        """
        if self._failure is not None:
            raise copied(self._failure)
        future: asyncio.Future[memoryview] = self._loop.create_future()
        self._write(TOKEN, _token_frame(token), AwaitedRequest(future, api_key, timeout, math.inf))
        return await future

    def send_last_token(self, token: bytes) -> None:
        """Send a SASL token without a header. The broker does not respond to it.

        Raises:
            BrokerConnectionError: The connection is closed.
        """
        if self._failure is not None:
            raise copied(self._failure)
        self._write(TOKEN, _token_frame(token), None)

    def opened(self, authentication: Authentication | None = None) -> None:
        """Lift the size limit for first responses.

        ``authentication``, if any, renews the session until the connection ends.
        """
        self._protocol.opened()
        self._authentication = authentication
        if self.versions.assumed == BY_OPTION:
            self._answered = set()

    def hold(self) -> None:
        """Hold back all requests until :meth:`release`.

        The first request that has to wait starts a renewal of the session.
        """
        self._holding = True
        self._held_until = math.inf
        self._renewal_due = True
        # Requests may already be waiting because the broker throttles the client.
        if self._held:
            self._start_renewal()

    def release(self) -> None:
        """Write the requests that :meth:`hold` has held back, unless the client is still throttled."""
        self._holding = False
        self._held_until = self._throttled_until
        if not self._held_until:
            self._flush()

    def send_nowait(
        self,
        request: Request[R],
        on_response: Callable[[R | KafkaError], None],
        *,
        timeout: float,
        max_version: int | None = None,
    ) -> None:
        """Send a request and pass its response, or the error, to a callback. It cannot be cancelled.

        Args:
            request: The request.
            on_response: Called once, from the loop, with the response or with an error that :meth:`send` would raise
                after sending. It must not raise.
            timeout: Seconds to wait for the response, counted from when the request is written.
            max_version: Highest version to use.

        Raises:
            BrokerConnectionError: The connection is closed. If this method raises, the callback is not called.
            UnsupportedVersionError: Client and broker have no version in common.
            EncodeError: The version cannot carry the request.
        """
        version = self.versions.pick(type(request), max_version)
        # Decode in the loop iteration that reads the frame: there is no task that could do it later.
        decode = partial(self._decode, request, version)
        self._send(request, version, CallbackRequest(decode, on_response, request.api_key, timeout))

    async def send_oneway(self, request: Request[Any], *, timeout: float, max_version: int | None = None) -> None:
        """Send a request that has no response (Produce with ``acks=0``).

        Returns once the request is written, after a throttle time (KIP-219), and the socket's write buffer is below its
        high-water mark. Without responses this is the only backpressure: otherwise requests would pile up without
        limit. Raises the same errors as :meth:`send`.
        """
        self._send(request, self.versions.pick(type(request), max_version), None)
        # Write first and wait afterwards. That keeps requests in order, and a caller that is cancelled while waiting
        # doesn't leave half a frame.
        if self._held or not self._writable.is_set():
            # This wait is not part of the deadline: the broker has imposed the pause, and MAX_THROTTLE limits it.
            await self._flushed.wait()
            late = f"{api_name(request.api_key)} to {self.peer}: not written to the socket in {timeout:.3g} s"
            async with deadline_at(self._loop.time() + timeout, lambda: late):
                await self._writable.wait()
            # _fail also sets both events, so no call waits for a closed socket.
            if self._failure is not None:
                raise copied(self._failure)

    def close(self, reason: KafkaError | None = None) -> None:
        """Flush what is written and close. Requests in flight fail with ``reason``."""
        self._fail(reason or self._closed_here())

    def abort(self) -> None:
        """Close at once and drop unsent data."""
        # Fail the waiting requests now: transport.abort() alone reports the loss only in the next loop iteration.
        # Calling close() wouldn't work: asyncio's TLS transports ignore abort() after they have been closed twice.
        self._fail(self._closed_here(), abort=True)
        if self._transport is not None:
            self._transport.abort()

    def _closed_here(self) -> ClientClosedError:
        return ClientClosedError(f"the connection to {self.peer} is closed")

    async def wait_closed(self) -> None:
        """Wait until the socket is closed."""
        if self._transport is not None:
            await self._lost.wait()

    # --- Sending ---

    def _send(
        self, request: Request[Any], version: int, in_flight: InFlightRequest | None, past_hold: bool = False
    ) -> None:
        # Check before encoding: a closed connection must neither use up a correlation id nor queue a request.
        if self._failure is not None:
            raise copied(self._failure)
        # Encode before deciding whether to hold the request: an EncodeError belongs to this call. When the queue is
        # flushed, there is no caller to raise it to.
        correlation_id, data = self._protocol.encode(request, version)
        if in_flight is not None:
            in_flight.version = version
        # Even if the time has passed, queue behind requests that are still waiting: overtaking them would reorder
        # requests.
        if self._held_until and not past_hold and (self._held or self._loop.time() < self._held_until):
            self._held.append(HeldRequest(correlation_id, data, in_flight, self._loop.time()))
            self._flushed.clear()
            if in_flight is not None and in_flight.deadline < math.inf:
                # While the request waits, only the caller's own deadline is running. If there's none (infinity), the
                # throttle time, at most MAX_THROTTLE, or the authentication's deadline limits the wait.
                self._timer.call_at(in_flight.deadline)
            self._start_renewal()
        else:
            self._write(correlation_id, data, in_flight)

    def _write(
        self, correlation_id: int, data: bytearray, in_flight: InFlightRequest | None, queued_at: float = math.inf
    ) -> None:
        assert self._transport is not None, "requests are made on a connected socket"
        self._last_used = now = self._loop.time()
        queue_time = now - queued_at if queued_at < math.inf else 0.0
        if in_flight is not None:
            # Add it to the queue before writing it, so it's there whenever a response arrives or the connection ends.
            self._protocol.sent(correlation_id, in_flight.api_key, in_flight)
            in_flight.mark_sent(now, self._request_timeout)
            in_flight.queue_time = queue_time
            self._timer.call_at(in_flight.deadline)
        self._transport.write(data)
        self._observer.sent(data, queue_time)

    def _decode(self, request: Request[R], version: int, frame: memoryview) -> R:
        """Decode a response, and start its throttle time, if any."""
        try:
            response = decode_response(frame, cast("type[R]", request.response), version, exact=False)
        except DecodeError as error:
            # Keep the connection open: frames are delimited by length, so the next one is intact.
            text = f"{api_name(request.api_key)} to {self.peer}: malformed response: {error}{self._other_release()}"
            raise DecodeError(text) from error
        pause = throttle(response, version)
        if pause:
            self._throttle(pause)
            self._observer.throttled(request.api_key, pause)
        return response

    def _throttle(self, pause: float) -> None:
        """Don't write for ``pause`` seconds. A throttle time that is already running is never shortened."""
        self._throttled_until = max(self._throttled_until, self._loop.time() + pause)
        if not self._holding:
            self._held_until = self._throttled_until
        # Replace the timer: a longer pause moves the end, and the old timer would flush too early.
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
        self._throttle_timer = self._loop.call_at(self._throttled_until, self._end_throttle)
        logger.debug("%s throttles this client for %.3f s", self.peer, pause)

    def _end_throttle(self) -> None:
        self._throttle_timer = None
        self._throttled_until = 0.0
        if not self._holding:
            self._held_until = 0.0
            self._flush()

    def _start_renewal(self) -> None:
        if self._renewal_due and self._authentication is not None:
            self._renewal_due = False
            self._authentication.start_renewal()

    def _flush(self) -> None:
        while self._held and self._failure is None:
            held = self._held.popleft()
            # Drop the request if its caller has stopped waiting. Its correlation id is then never sent, which brokers
            # don't mind: they only echo ids.
            if held.request is None or not held.request.done():
                self._write(held.correlation_id, held.data, held.request, held.since)
        self._flushed.set()

    # --- Deadlines and idle timeout: one timer for all ---

    def _on_timer(self, now: float) -> None:
        # Take a copy before anything fails: a callback may send again from within fail(), which would change the queues
        # during the iteration.
        requests = self._requests()
        for request in requests:
            if request.deadline <= now and not request.done():
                self._fail_request(request, DeadlineError(self._deadline_text(request, now)))
        # Look at all requests, not only the oldest: a request with a long timeout (a JoinGroup) may be ahead of one
        # that is overdue.
        late = next((request for request in requests if request.disconnect_at <= now), None)
        if late is not None:
            text = f"{self.peer} did not respond to {api_name(late.api_key)} in {now - late.sent_at:.3g} s"
            # Abort instead of closing: if the peer has vanished, a flush would wait until the kernel gives up.
            self._fail(BrokerConnectionError(text), abort=True)
        elif not requests and now - self._last_used >= self._config.connections_max_idle:
            self._fail(BrokerConnectionError(f"the connection to {self.peer} was closed: idle for too long"))
        elif requests:
            # If its caller has stopped waiting, a request only has the connection's deadline left.
            due = min(request.disconnect_at if request.done() else request.deadline for request in requests)
            # All responses may arrive long before that. The connection is then idle, and no event schedules the timer,
            # so let it run after one idle timeout at the latest.
            self._timer.call_at(min(due, now + self._config.connections_max_idle))
        else:
            self._timer.call_at(self._last_used + self._config.connections_max_idle)

    def _deadline_text(self, request: InFlightRequest, now: float) -> str:
        what = f"{api_name(request.api_key)} to {self.peer}"
        if request.sent_at == math.inf:
            if self._holding:
                return f"{what}: not sent, as the client is authenticating again"
            left = self._throttled_until - now
            return f"{what}: not sent, as the broker throttles this client for another {left:.3g} s"
        return f"{what}: no response in {round(request.deadline - request.sent_at, 3):g} s"

    def _requests(self) -> list[InFlightRequest]:
        """Return all requests without a response, oldest first.

        Requests that are held back come last, since they are sent last.
        """
        # One-way requests have no response, and so no deadline: they are None here.
        held = [held.request for held in self._held if held.request is not None]
        return [pending.token for pending in self._protocol.pending] + held

    # --- Callbacks of asyncio.BufferedProtocol ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        set_socket_options(self._transport)
        self._timer.call_at(self._last_used + self._config.connections_max_idle)

    def get_buffer(self, sizehint: int) -> memoryview:  # type: ignore[override,unused-ignore]
        return self._protocol.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            # The protocol removes a request from the queue before yielding its frame, so the queue is consistent if a
            # callback sends, or closes the connection.
            for request, frame in self._protocol.received(nbytes):
                self._report_response(request, len(frame) + _LENGTH_SIZE)
                if not request.done():
                    request.complete(frame)
        except ResponseTooLargeError as error:
            # The oldest request gets this error: a retry would get the same response. The other requests just lost
            # their connection: the response isn't read, so the start of the next frame is unknown.
            request = self._protocol.pending.popleft().token
            # If the caller has timed out or was cancelled, it doesn't need the error.
            if not request.done():
                self._fail_request(request, error)
            lost = BrokerConnectionError(f"the connection to {self.peer} was closed: {error}")
            self._fail(lost, abort=True)
        # The start of the next frame is now unknown, so nothing after this can be trusted.
        except KafkaError as error:
            self._fail(error, abort=True)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._failure is None:
            seen = self._protocol.unfinished
            if not self._protocol.has_responded and recognize(seen):
                self._fail(NotKafkaError(f"{self.peer} does not speak Kafka: {describe_bytes(seen)}"))
        if self._failure is None:
            pending = self._protocol.pending
            if self._answered is not None and pending and pending[0].api_key not in self._answered:
                self._refused_api = pending[0].api_key
            cause = f"{type(exc).__name__}: {exc}" if exc is not None else "closed by the broker"
            middle = " in the middle of a response" if self._protocol.mid_frame else ""
            hint = "" if middle else self._hint()
            lost = BrokerConnectionError(f"the connection to {self.peer} was lost{middle}: {cause}{hint}")
            # With TLS 1.3, a broker rejects a client's certificate after the handshake.
            error = refusal(self.peer, exc) or lost
            error.__cause__ = exc
            self._fail(error)
        # Errors and their tracebacks keep this connection alive until they are garbage-collected. Don't let them keep a
        # frame of megabytes alive, too.
        # guard: a connection that has ended releases its buffers
        self._protocol.end()
        # Set it last: by then, callers that wait for it must see the failure.
        self._lost.set()

    def _usual_service(self) -> str:
        address = self._transport.get_extra_info("peername") if self._transport is not None else None
        return usual_service(address[1]) if isinstance(address, tuple) else ""

    def _other_release(self) -> str:
        """Return a hint that ``broker_version`` may be wrong, if that option is set."""
        if self.versions.assumed != BY_OPTION:
            return ""
        return f"; broker_version={self.versions.assumed_release!r} may be wrong: without it, 0.10 and later are asked"

    def _hint(self) -> str:
        """Return the usual reasons why a peer closes a connection, as a hint for the error."""
        if not self._protocol.has_responded:
            if self._config.tls is not None:
                return _NO_RESPONSE_YET_WITH_TLS + self._other_release()
            return _NO_RESPONSE_YET + self._usual_service() + self._other_release()
        if self.versions.assumed:
            return self._other_release()
        pending = self._protocol.pending
        first = self._config.sasl is None and pending and pending[0].correlation_id == self._first_id
        return _NO_RESPONSE_AFTER_VERSIONS if first else ""

    def _fail(self, failure: KafkaError, *, abort: bool = False) -> None:
        """End the connection, whichever side caused that. Only the first call has an effect."""
        if self._failure is not None:
            return
        # Set it before failing the requests. A callback may send again from within fail(), and that must be refused,
        # not queued on a connection that has ended.
        self._failure = failure
        self._timer.cancel()
        if self._throttle_timer is not None:
            self._throttle_timer.cancel()
        for request in self._requests():
            if not request.done():
                self._fail_request(request, end_of(failure, request))
            elif not request.reported:
                # Its caller was cancelled while the response was still due.
                self._report_failure(request, failure)
        # Clear the queues only now: _requests() reads both.
        self._protocol.pending.clear()
        self._held.clear()
        self._flushed.set()
        self._writable.set()
        if self._transport is not None:
            if abort:
                self._transport.abort()
            else:
                self._transport.close()
        if self._authentication is not None:
            self._authentication.close()
        if self._reported:
            self._observer.disconnected(self.peer, failure)

    def _fail_request(self, request: InFlightRequest, error: KafkaError) -> None:
        # Report first: fail() may run a callback that sends again.
        self._report_failure(request, error)
        request.fail(error)

    def _report_failure(self, request: InFlightRequest, error: KafkaError) -> None:
        request.reported = True
        waited = self._loop.time() - request.sent_at if request.sent_at < math.inf else 0.0
        self._observer.unanswered(request.api_key, request.version, request.queue_time, waited, error)

    def _report_response(self, request: InFlightRequest, size: int) -> None:
        if self._answered is not None:
            self._answered.add(request.api_key)
        if request.reported:
            # The request was already reported as ended. Still count the bytes.
            self._observer.bytes_received += size
        else:
            # Report it even if its caller was cancelled: it's still a measurement of the broker's latency.
            waited = self._loop.time() - request.sent_at
            self._observer.received(request.api_key, request.version, size, request.queue_time, waited)


def _token_frame(token: bytes) -> bytearray:
    return bytearray(len(token).to_bytes(_LENGTH_SIZE, "big") + token)


def throttle(response: Response, version: int) -> float:
    """Return how many seconds the client must not send anything on this connection (KIP-219); 0.0 for no throttle.

    Only versions since KIP-219 count (``client_throttles``). In earlier versions the broker delays the response itself,
    and ``throttle_time_ms`` reports a delay that has already happened.
    """
    # Some responses lack the field; ApiVersions has it, and Produce with acks=0 has no response at all.
    milliseconds: int = getattr(response, "throttle_time_ms", 0)
    if milliseconds <= 0 or version not in response.client_throttles:
        return 0.0
    # Limit it: the peer controls the field, and a wrong value must not silence a client for weeks.
    return min(milliseconds / 1000, MAX_THROTTLE)
