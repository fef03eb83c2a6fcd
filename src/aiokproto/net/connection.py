"""One socket to one broker: requests pipelined, each with its deadline."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Generic, Protocol, TypeVar, cast

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
from aiokproto.net.protocol import ClientProtocol
from aiokproto.net.throttle import throttle
from aiokproto.net.timeouts import deadline
from aiokproto.net.transport import keep_alive
from aiokproto.net.versions import BrokerVersions

R = TypeVar("R", bound=Response)

INFINITY = float("inf")

logger = logging.getLogger("aiokproto.net")

# A load balancer whose broker is away does the same, so this is no NotKafkaError: it is worth another attempt.
_NEVER_HEARD = " before it answered anything: still starting, or a TLS listener (security_protocol='SSL'), or no Kafka"


class _Answer(Protocol):
    """Where the frame of an answer goes: a future, or what stands in for one."""

    def done(self) -> bool: ...
    def set_result(self, frame: memoryview, /) -> None: ...
    def set_exception(self, error: KafkaError, /) -> None: ...


class _Told(Generic[R]):
    """Stands in for a future where a callback is told: in the turn of the loop that reads the answer, with no task."""

    __slots__ = ("_done", "_read", "_tell")

    def __init__(self, read: Callable[[memoryview], R], tell: Callable[[R | KafkaError], None]) -> None:
        self._read = read
        self._tell = tell
        self._done = False

    def done(self) -> bool:
        return self._done

    def set_result(self, frame: memoryview) -> None:
        self._done = True
        try:
            response = self._read(frame)
        except KafkaError as error:
            self._tell(error)
        else:
            self._tell(response)

    def set_exception(self, error: KafkaError) -> None:
        self._done = True
        self._tell(error)


class _Call:
    """A request under way: where its answer goes, and until when that is awaited."""

    __slots__ = ("answer", "api_key", "deadline", "overdue", "sent_at", "timeout")

    def __init__(self, answer: _Answer, api_key: int, timeout: float, deadline: float) -> None:
        self.answer = answer
        self.api_key = api_key
        self.timeout = timeout
        self.deadline = deadline
        """When the caller gives up."""
        self.sent_at = self.overdue = INFINITY
        """When the request was written, and when the connection is given up for its sake, also if the caller has given
        up long before. While the client itself holds the request back, nobody is late."""

    def sent(self, now: float, patience: float) -> None:
        """The request is written: from now on the broker is waited for."""
        self.sent_at = now
        self.deadline = min(self.deadline, now + self.timeout)
        self.overdue = now + max(self.timeout, patience)


class _Held:
    """A request that waits for the broker's permission to send (throttling)."""

    __slots__ = ("call", "correlation_id", "data")

    def __init__(self, correlation_id: int, data: bytearray, call: _Call | None) -> None:
        self.correlation_id = correlation_id
        self.data = data
        self.call = call


class Connection(asyncio.BufferedProtocol):
    """One socket to one broker. Made by dialling; not usable again once :attr:`closed`.

    A request is written before :meth:`request` first suspends. Broker and client keep the order, so one answer that
    the broker holds back holds back those behind it. Cancelling a request leaves the connection as it is; the late
    answer is dropped. A request unanswered for ``request_timeout`` (or its own timeout, where that is longer) costs the
    connection: a peer that is gone without a word cannot be told from a slow one otherwise.
    """

    def __init__(self, peer: str, config: ClusterConfig) -> None:
        self.peer = peer
        self.versions = BrokerVersions({}, peer)
        self._config = config
        self._patience = config.request_timeout
        self._loop = asyncio.get_running_loop()
        self._protocol: ClientProtocol[_Call] = ClientProtocol(peer, config.client_id, config.max_response_size)
        self._transport: asyncio.Transport | None = None
        self._failure: KafkaError | None = None
        self._lost = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._held: deque[_Held] = deque()
        self._hold_until = 0.0
        self._release: asyncio.TimerHandle | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = 0.0
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

    async def request(
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
        frame = await self.exchange(request, version, timeout, deadline)
        return self._response(request, version, frame)

    async def exchange(
        self, request: Request[Any], version: int, timeout: float, deadline: float = INFINITY
    ) -> memoryview:
        """Send a request in that version and wait for the frame of its answer. Raises as :meth:`request`."""
        answer: asyncio.Future[memoryview] = self._loop.create_future()
        self._submit(request, version, _Call(answer, request.api_key, timeout, deadline))
        return await answer

    def submit(
        self,
        request: Request[R],
        tell: Callable[[R | KafkaError], None],
        *,
        timeout: float,
        max_version: int | None = None,
    ) -> None:
        """Send a request; its response, or why there is none, is told later. It cannot be cancelled.

        Args:
            request: The request.
            tell: Called once, by the loop: with the response, or with an error that :meth:`request` would raise after
                sending. It must not raise.
            timeout: Seconds to wait for the answer, once the request is sent.
            max_version: Use no higher one.

        Raises:
            BrokerConnectionError: The connection is closed. With this and the others nothing is told.
            UnsupportedVersionError: The broker has no version that fits.
            EncodeError: The version cannot carry the request.
        """
        version = self.versions.pick(type(request), max_version)
        answer = _Told(partial(self._response, request, version), tell)
        self._submit(request, version, _Call(answer, request.api_key, timeout, INFINITY))

    async def post(self, request: Request[Any], *, timeout: float, max_version: int | None = None) -> None:
        """Send a request that has no answer; returns once there is room for more. Raises as :meth:`request`."""
        self._submit(request, self.versions.pick(type(request), max_version), None)
        if not self._writable.is_set():
            late = f"{api_name(request.api_key)} to {self.peer}: not written in {timeout:.3g} s"
            async with deadline(self._loop.time() + timeout, lambda: late):
                await self._writable.wait()
            self._check()

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

    def _check(self) -> None:
        if self._failure is not None:
            raise copied(self._failure)

    def _submit(self, request: Request[Any], version: int, call: _Call | None) -> None:
        self._check()
        correlation_id, data = self._protocol.encode(request, version)
        if self._hold_until and (self._held or self._loop.time() < self._hold_until):
            self._held.append(_Held(correlation_id, data, call))
            if call is not None and call.deadline < INFINITY:
                self._watch(call.deadline)
        else:
            self._write(correlation_id, data, call)

    def _write(self, correlation_id: int, data: bytearray, call: _Call | None) -> None:
        assert self._transport is not None, "requests are made on a connected socket"
        self._last_used = now = self._loop.time()
        if call is not None:
            self._protocol.sent(correlation_id, call.api_key, call)
            call.sent(now, self._patience)
            self._watch(call.deadline)
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
            if held.call is None or not held.call.answer.done():
                self._write(held.correlation_id, held.data, held.call)

    # --- Time: one timer for all deadlines and for idleness ---

    def _watch(self, when: float) -> None:
        if self._timer is not None:
            if self._timer_at <= when:
                return
            self._timer.cancel()
        # Kept here: what uvloop gives for a time that has passed does not tell it.
        self._timer_at = when
        self._timer = self._loop.call_at(when, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        now = self._loop.time()
        calls = self._calls()
        for call in calls:
            if call.deadline <= now and not call.answer.done():
                call.answer.set_exception(DeadlineError(self._too_late(call, now)))
        late = next((call for call in calls if call.overdue <= now), None)
        if late is not None:
            text = f"{self.peer} did not answer {api_name(late.api_key)} in {now - late.sent_at:.3g} s"
            self._fail(BrokerConnectionError(text), abort=True)
        elif not calls and now - self._last_used >= self._config.connections_max_idle:
            self._fail(BrokerConnectionError(f"the connection to {self.peer} was closed: idle for too long"))
        elif calls:
            due = min(call.overdue if call.answer.done() else call.deadline for call in calls)
            # Answers may come long before: from then on the connection is idle, and that is to be seen in time.
            self._watch(min(due, now + self._config.connections_max_idle))
        else:
            self._watch(self._last_used + self._config.connections_max_idle)

    def _too_late(self, call: _Call, now: float) -> str:
        request = f"{api_name(call.api_key)} to {self.peer}"
        if call.sent_at == INFINITY:
            return f"{request}: not sent, as the broker has asked for a pause of {self._hold_until - now:.3g} s more"
        return f"{request}: no answer in {round(call.deadline - call.sent_at, 3):g} s"

    def _calls(self) -> list[_Call]:
        held = [held.call for held in self._held if held.call is not None]
        return [pending.token for pending in self._protocol.pending] + held

    # --- What asyncio calls ---

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        keep_alive(self._transport)
        self._watch(self._last_used + self._config.connections_max_idle)

    def get_buffer(self, sizehint: int) -> memoryview:  # type: ignore[override,unused-ignore]
        return self._protocol.get_buffer()

    def buffer_updated(self, nbytes: int) -> None:
        try:
            for call, frame in self._protocol.received(nbytes):
                if not call.answer.done():
                    call.answer.set_result(frame)
        except ResponseTooLargeError as error:
            call = self._protocol.pending.popleft().token
            if not call.answer.done():
                call.answer.set_exception(error)
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
        for timer in (self._timer, self._release):
            if timer is not None:
                timer.cancel()
        for call in self._calls():
            if not call.answer.done():
                call.answer.set_exception(_for_call(failure, call))
        self._protocol.pending.clear()
        self._held.clear()
        self._writable.set()
        if self._transport is not None:
            if abort:
                self._transport.abort()
            else:
                self._transport.close()


def _for_call(failure: KafkaError, call: _Call) -> KafkaError:
    """The error for one request: it names the API, where its text is all that it has."""
    error = copied(failure)
    if not isinstance(error, BrokerError):
        error.args = (f"{failure} ({api_name(call.api_key)} was under way)",)
    return error
