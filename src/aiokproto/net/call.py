"""Requests under way on a connection, and where their answers go."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from aiokproto.codec.schema import Response
from aiokproto.errors import KafkaError

R = TypeVar("R", bound=Response)

INFINITY = float("inf")


class Answer(Protocol):
    """Where the frame of an answer goes: a future, or what stands in for one."""

    def done(self) -> bool: ...
    def set_result(self, frame: memoryview, /) -> None: ...
    def set_exception(self, error: KafkaError, /) -> None: ...


class Callback(Generic[R]):
    """Stands in for a future where a callback waits: it is called in the turn of the loop that reads the answer, and
    needs no task."""

    __slots__ = ("_done", "_on_response", "_read")

    def __init__(self, read: Callable[[memoryview], R], on_response: Callable[[R | KafkaError], None]) -> None:
        self._read = read
        self._on_response = on_response
        self._done = False

    def done(self) -> bool:
        return self._done

    def set_result(self, frame: memoryview) -> None:
        self._done = True
        try:
            response = self._read(frame)
        except KafkaError as error:
            self._on_response(error)
        else:
            self._on_response(response)

    def set_exception(self, error: KafkaError) -> None:
        self._done = True
        self._on_response(error)


class Call:
    """A request under way: where its answer goes, and until when that is awaited."""

    __slots__ = ("answer", "api_key", "deadline", "overdue", "sent_at", "timeout")

    def __init__(self, answer: Answer, api_key: int, timeout: float, deadline: float) -> None:
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
        timeout = self.timeout
        if now + timeout < self.deadline:
            self.deadline = now + timeout
        self.overdue = now + (timeout if timeout > patience else patience)


class Throttled:
    """A request that is not sent before the pause is over that its broker has asked for (KIP-219)."""

    __slots__ = ("call", "correlation_id", "data")

    def __init__(self, correlation_id: int, data: bytearray, call: Call | None) -> None:
        self.correlation_id = correlation_id
        self.data = data
        self.call = call
