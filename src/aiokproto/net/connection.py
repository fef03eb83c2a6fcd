"""One socket to one broker: requests pipelined, each with its deadline."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar, cast

from aiokproto.codec.frames import decode_response
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Request, Response
from aiokproto.config import ClusterConfig
from aiokproto.errors import (
    BrokerConnectionError,
    BrokerError,
    ClientClosedError,
    DeadlineError,
    DecodeError,
    KafkaError,
    ResponseTooLargeError,
    copied,
)
from aiokproto.net.alarm import Alarm
from aiokproto.net.call import INFINITY, AwaitedCall, Call, CallbackCall, Throttled
from aiokproto.net.protocol import ClientProtocol
from aiokproto.net.throttle import throttle
from aiokproto.net.timeouts import deadline
from aiokproto.net.transport import keep_alive
from aiokproto.net.versions import BrokerVersions

R = TypeVar("R", bound=Response)

logger = logging.getLogger("aiokproto.net")

# A load balancer whose broker is away does the same, so this is no NotKafkaError: it is worth another attempt.
_NEVER_HEARD = " before it answered anything: still starting, or a TLS listener (security_protocol='SSL'), or no Kafka"


class Connection(asyncio.BufferedProtocol):
    """One socket to one broker. Made by dialling; not usable again once :attr:`closed`.

    A request is written before :meth:`send` first suspends. Broker and client keep the order, so one answer that
    the broker holds back holds back those behind it. Cancelling a request leaves the connection as it is; the late
    answer is dropped. A request unanswered for ``request_timeout`` (or its own timeout, where that is longer) costs the
    connection: a peer that is gone without a word is not distinguishable from a slow one otherwise.
    """

    def __init__(self, peer: str, config: ClusterConfig) -> None:
        self.peer = peer
        self.versions = BrokerVersions({}, peer)
        self._config = config
        self._patience = config.request_timeout
        self._loop = asyncio.get_running_loop()
        self._protocol: ClientProtocol[Call] = ClientProtocol(peer, config.client_id, config.max_response_size)
        self._transport: asyncio.Transport | None = None
        self._failure: KafkaError | None = None
        self._lost = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._held: deque[Throttled] = deque()
        self._hold_until = 0.0
        self._release: asyncio.TimerHandle | None = None
        self._alarm = Alarm(self._on_timer)
        self._last_used = self._loop.time()

    @property
    def closed(self) -> bool:
        """Whether it is of no use any more."""
        return self._failure is not None

    @property
    def failure(self) -> KafkaError | None:
        """Why it is closed."""
        return self._failure

    @property
    def in_flight(self) -> int:
        """Requests sent and not answered, with those that wait to be sent."""
        return len(self._protocol.pending) + len(self._held)

    @property
    def silent_for(self) -> float:
        """Seconds since the oldest request without an answer was sent; 0 without any."""
        pending = self._protocol.pending
        return self._loop.time() - pending[0].token.sent_at if pending else 0.0

    @property
    def heard(self) -> bool:
        """Whether the peer has ever answered anything."""
        return self._protocol.heard

    async def send(
        self,
        request: Request[R],
        *,
        timeout: float,
        deadline: float = INFINITY,
        version: int | None = None,
        max_version: int | None = None,
    ) -> R:
        """Send a request and wait for its answer.

        Args:
            request: The request.
            timeout: Seconds to wait for the answer, once the request is sent: a broker that has asked for a pause
                (KIP-219) is not sent it before that is over.
            deadline: When to give up in any case (the loop's time).
            version: The version to use; by default the highest that both sides have.
            max_version: Use no higher one.

        Raises:
            DeadlineError: No answer in time.
            BrokerConnectionError: The connection was lost before the answer came.
            ResponseTooLargeError: It is longer than ``max_response_size``.
            UnsupportedVersionError: The broker has no version that fits.
            EncodeError, DecodeError: The version cannot carry the request; the answer is broken.
        """
        if version is None:
            version = self.versions.pick(type(request), max_version)
        frame = await self.send_raw(request, version, timeout, deadline)
        return self._response(request, version, frame)

    async def send_raw(
        self, request: Request[Any], version: int, timeout: float, deadline: float = INFINITY
    ) -> memoryview:
        """Send a request in that version and wait for the frame of its answer. Raises as :meth:`send`."""
        future: asyncio.Future[memoryview] = self._loop.create_future()
        self._send(request, version, AwaitedCall(future, request.api_key, timeout, deadline))
        return await future

    def send_nowait(
        self,
        request: Request[R],
        on_response: Callable[[R | KafkaError], None],
        *,
        timeout: float,
        max_version: int | None = None,
    ) -> None:
        """Send a request; its response, or why there is none, goes to a callback. It cannot be cancelled.

        Args:
            request: The request.
            on_response: Called once, by the loop: with the response, or with an error that :meth:`send` would raise
                after sending. It must not raise.
            timeout: Seconds to wait for the answer, once the request is sent.
            max_version: Use no higher one.

        Raises:
            BrokerConnectionError: The connection is closed. After this and the others the callback is not called.
            UnsupportedVersionError: The broker has no version that fits.
            EncodeError: The version cannot carry the request.
        """
        version = self.versions.pick(type(request), max_version)
        read = partial(self._response, request, version)
        self._send(request, version, CallbackCall(read, on_response, request.api_key, timeout))

    async def send_oneway(self, request: Request[Any], *, timeout: float, max_version: int | None = None) -> None:
        """Send a request that has no answer; returns once there is room for more. Raises as :meth:`send`."""
        self._send(request, self.versions.pick(type(request), max_version), None)
        if not self._writable.is_set():
            late = f"{api_name(request.api_key)} to {self.peer}: not written in {timeout:.3g} s"
            async with deadline(self._loop.time() + timeout, lambda: late):
                await self._writable.wait()
            if self._failure is not None:
                raise copied(self._failure)

    def close(self, reason: KafkaError | None = None) -> None:
        """Flush and close; what is under way fails with ``reason``."""
        self._fail(reason or ClientClosedError(f"the connection to {self.peer} is closed"))

    def abort(self) -> None:
        """Close at once, dropping what is not written."""
        self.close()
        if self._transport is not None:
            self._transport.abort()

    async def wait_closed(self) -> None:
        """Wait until the socket is closed."""
        if self._transport is not None:
            await self._lost.wait()

    # --- Sending ---

    def _send(self, request: Request[Any], version: int, call: Call | None) -> None:
        if self._failure is not None:
            raise copied(self._failure)
        correlation_id, data = self._protocol.encode(request, version)
        if self._hold_until and (self._held or self._loop.time() < self._hold_until):
            self._held.append(Throttled(correlation_id, data, call))
            if call is not None and call.deadline < INFINITY:
                self._alarm.at(call.deadline)
        else:
            self._write(correlation_id, data, call)

    def _write(self, correlation_id: int, data: bytearray, call: Call | None) -> None:
        assert self._transport is not None, "requests are made on a connected socket"
        self._last_used = now = self._loop.time()
        if call is not None:
            self._protocol.sent(correlation_id, call.api_key, call)
            call.sent(now, self._patience)
            self._alarm.at(call.deadline)
        self._transport.write(data)

    def _response(self, request: Request[R], version: int, frame: memoryview) -> R:
        """The response in a frame, whose wish for a pause is granted."""
        try:
            response = decode_response(frame, cast("type[R]", request.response), version)
        except DecodeError as error:
            raise DecodeError(f"answer of {self.peer} to {api_name(request.api_key)}: {error}") from error
        pause = throttle(response, version)
        if pause:
            self._hold(pause)
        return response

    def _hold(self, pause: float) -> None:
        """Send nothing for a while, as the broker asks."""
        self._hold_until = max(self._hold_until, self._loop.time() + pause)
        if self._release is not None:
            self._release.cancel()
        self._release = self._loop.call_at(self._hold_until, self._flush_held)
        logger.debug("%s asks for a pause of %.3f s", self.peer, pause)

    def _flush_held(self) -> None:
        self._release = None
        self._hold_until = 0.0
        while self._held and self._failure is None:
            held = self._held.popleft()
            # A caller that has left takes its request along, as long as it was not sent.
            if held.call is None or not held.call.done():
                self._write(held.correlation_id, held.data, held.call)

    # --- Time: one timer for all deadlines and for idleness ---

    def _on_timer(self, now: float) -> None:
        calls = self._calls()
        for call in calls:
            if call.deadline <= now and not call.done():
                call.failed(DeadlineError(self._too_late(call, now)))
        late = next((call for call in calls if call.overdue <= now), None)
        if late is not None:
            text = f"{self.peer} did not answer {api_name(late.api_key)} in {now - late.sent_at:.3g} s"
            self._fail(BrokerConnectionError(text), abort=True)
        elif not calls and now - self._last_used >= self._config.connections_max_idle:
            self._fail(BrokerConnectionError(f"the connection to {self.peer} was closed: idle for too long"))
        elif calls:
            due = min(call.overdue if call.done() else call.deadline for call in calls)
            # Answers may come long before: from then on the connection is idle, and that is to be seen in time.
            self._alarm.at(min(due, now + self._config.connections_max_idle))
        else:
            self._alarm.at(self._last_used + self._config.connections_max_idle)

    def _too_late(self, call: Call, now: float) -> str:
        request = f"{api_name(call.api_key)} to {self.peer}"
        if call.sent_at == INFINITY:
            return f"{request}: not sent, as the broker has asked for a pause of {self._hold_until - now:.3g} s more"
        return f"{request}: no answer in {round(call.deadline - call.sent_at, 3):g} s"

    def _calls(self) -> list[Call]:
        held = [held.call for held in self._held if held.call is not None]
        return [pending.token for pending in self._protocol.pending] + held

    # --- What asyncio calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        keep_alive(self._transport)
        self._alarm.at(self._last_used + self._config.connections_max_idle)

    def get_buffer(self, sizehint: int) -> memoryview:  # type: ignore[override,unused-ignore]
        return self._protocol.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for call, frame in self._protocol.received(nbytes):
                if not call.done():
                    call.answered(frame)
        except ResponseTooLargeError as error:
            call = self._protocol.pending.popleft().token
            if not call.done():
                call.failed(error)
            lost = BrokerConnectionError(f"the connection to {self.peer} was closed: {error}")
            self._fail(lost, abort=True)
        except KafkaError as error:
            self._fail(error, abort=True)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._failure is None:
            cause = f"{type(exc).__name__}: {exc}" if exc is not None else "closed by the broker"
            middle = " in the middle of a response" if self._protocol.mid_frame else ""
            hint = "" if self._protocol.heard or middle else _NEVER_HEARD
            error = BrokerConnectionError(f"the connection to {self.peer} was lost{middle}: {cause}{hint}")
            error.__cause__ = exc
            self._fail(error)
        self._lost.set()

    def _fail(self, failure: KafkaError, *, abort: bool = False) -> None:
        """The connection's end, from whichever side."""
        if self._failure is not None:
            return
        self._failure = failure
        self._alarm.cancel()
        if self._release is not None:
            self._release.cancel()
        for call in self._calls():
            if not call.done():
                call.failed(_for_call(failure, call))
        self._protocol.pending.clear()
        self._held.clear()
        self._writable.set()
        if self._transport is not None:
            if abort:
                self._transport.abort()
            else:
                self._transport.close()


def _for_call(failure: KafkaError, call: Call) -> KafkaError:
    """The error for one request: it names the API, where its text is all that it has."""
    error = copied(failure)
    if not isinstance(error, BrokerError):
        error.args = (f"{failure} ({api_name(call.api_key)} was under way)",)
    return error
