"""Requests in flight on a connection: their deadlines, and how each gets its response.

A request has two deadlines. ``deadline`` is the caller's: when it passes, the caller gets ``DeadlineError`` and the
connection stays open. ``disconnect_at`` is the connection's: when it passes without a response, the connection is
closed (as in Java's ``NetworkClient``, which disconnects after ``request.timeout.ms``), whether or not a caller is
still waiting. Both start when the request is written: the time during which the client itself holds a request back, for
a throttle (KIP-219) or to authenticate again (KIP-368), isn't the broker's fault.
"""

from __future__ import annotations

import asyncio
import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Response
from aiokproto.errors import BrokerError, KafkaError, copied

R = TypeVar("R", bound=Response)


class InFlightRequest(ABC):
    """A request that was sent or is held back. The two subclasses below differ in how they deliver the response.

    Attributes:
        api_key: The request's ApiKey, for error messages.
        version: The version it is encoded in.
        timeout: How long to wait for the response once the request is sent (s).
        deadline: When the caller stops waiting (s, the loop's clock).
        sent_at: When the request was written; ``inf`` before that.
        disconnect_at: When the connection is closed if there's no response; ``inf`` until the request is written.
        queue_time: How long it was held back (s).
        reported: Whether its end was reported to the observer. A response can still arrive after the deadline.
    """

    __slots__ = ("api_key", "deadline", "disconnect_at", "queue_time", "reported", "sent_at", "timeout", "version")

    def __init__(self, api_key: int, timeout: float, deadline: float) -> None:
        self.api_key = api_key
        self.timeout = timeout
        self.deadline = deadline
        self.sent_at = self.disconnect_at = math.inf
        self.queue_time = 0.0
        self.reported = False
        self.version = 0

    def mark_sent(self, now: float, request_timeout: float) -> None:
        """Start both deadlines, because the request is being written.

        Args:
            now: The time (s).
            request_timeout: The connection waits at least this long (s), even if this caller waits for less: a caller
                with a short timeout must not cost the other callers their connection.
        """
        self.sent_at = now
        timeout = self.timeout
        # Compare instead of calling min(): this runs for every request, and a builtin call costs more than a
        # comparison.
        if now + timeout < self.deadline:
            self.deadline = now + timeout
        self.disconnect_at = now + (timeout if timeout > request_timeout else request_timeout)

    @abstractmethod
    def done(self) -> bool:
        """Whether no caller is waiting for the response any more."""

    @abstractmethod
    def complete(self, frame: memoryview) -> None:
        """Deliver the response's frame."""

    @abstractmethod
    def fail(self, error: KafkaError) -> None:
        """Deliver an error: there will be no response."""


class AwaitedRequest(InFlightRequest):
    """A request whose response a task awaits."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[memoryview], api_key: int, timeout: float, deadline: float) -> None:
        super().__init__(api_key, timeout, deadline)
        self._future = future

    def done(self) -> bool:
        return self._future.done()

    def complete(self, frame: memoryview) -> None:
        # Pass the frame, not a decoded response. The waiting task decodes it, so a DecodeError is raised there, and
        # dropped responses are never decoded.
        self._future.set_result(frame)

    def fail(self, error: KafkaError) -> None:
        self._future.set_exception(error)


class CallbackRequest(InFlightRequest, Generic[R]):
    """A request whose response is passed to a callback, in the loop iteration that reads it.

    It doesn't need a future or a task. The producer sends this way: a task per Produce request would add an iteration
    of the event loop between a response and the next batch, which is waiting for it.
    """

    __slots__ = ("_decode", "_done", "_on_response")

    def __init__(
        self,
        decode: Callable[[memoryview], R],
        on_response: Callable[[R | KafkaError], None],
        api_key: int,
        timeout: float,
    ) -> None:
        super().__init__(api_key, timeout, math.inf)
        self._decode = decode
        self._on_response = on_response
        self._done = False

    def done(self) -> bool:
        return self._done

    def complete(self, frame: memoryview) -> None:
        # Mark it done before the callback: if that closes the connection, every request that isn't done is failed.
        self._done = True
        try:
            response = self._decode(frame)
        except KafkaError as error:
            self._on_response(error)
        else:
            self._on_response(response)

    def fail(self, error: KafkaError) -> None:
        self._done = True
        self._on_response(error)


class HeldRequest:
    """An encoded request that is held back: see "Holding" in :mod:`aiokproto.net.connection`."""

    __slots__ = ("correlation_id", "data", "request", "since")

    def __init__(self, correlation_id: int, data: bytearray, request: InFlightRequest | None, since: float) -> None:
        self.correlation_id = correlation_id
        self.data = data
        self.request = request
        self.since = since


def end_of(failure: KafkaError, request: InFlightRequest) -> KafkaError:
    """Copy a connection's error for one request, with the API's name added. (A BrokerError has no free text to add it
    to.)"""
    error = copied(failure)
    if not isinstance(error, BrokerError):
        error.args = (f"{failure} ({api_name(request.api_key)} was in flight)",)
    return error
