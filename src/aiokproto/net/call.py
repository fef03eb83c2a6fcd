"""Requests under way on a connection, and where their answers go."""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Generic, TypeVar

from aiokproto.codec.schema import Response
from aiokproto.errors import KafkaError

R = TypeVar("R", bound=Response)

INFINITY = float("inf")


class Call(ABC):
    """A request under way: how long its answer is awaited, and, in the two classes below, by whom."""

    __slots__ = ("api_key", "deadline", "overdue", "sent_at", "timeout")

    def __init__(self, api_key: int, timeout: float, deadline: float) -> None:
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

    @abstractmethod
    def done(self) -> bool:
        """Whether nobody waits for the answer any more."""

    @abstractmethod
    def answered(self, frame: memoryview) -> None:
        """The frame of the answer has come."""

    @abstractmethod
    def failed(self, error: KafkaError) -> None:
        """No answer will come."""


class AwaitedCall(Call):
    """A call whose answer a task awaits."""

    __slots__ = ("_future",)

    def __init__(self, future: asyncio.Future[memoryview], api_key: int, timeout: float, deadline: float) -> None:
        super().__init__(api_key, timeout, deadline)
        self._future = future

    def done(self) -> bool:
        return self._future.done()

    def answered(self, frame: memoryview) -> None:
        self._future.set_result(frame)

    def failed(self, error: KafkaError) -> None:
        self._future.set_exception(error)


class CallbackCall(Call, Generic[R]):
    """A call whose answer goes to a callback, in the turn of the loop that reads it: it needs no task."""

    __slots__ = ("_done", "_on_response", "_read")

    def __init__(
        self,
        read: Callable[[memoryview], R],
        on_response: Callable[[R | KafkaError], None],
        api_key: int,
        timeout: float,
    ) -> None:
        super().__init__(api_key, timeout, INFINITY)
        self._read = read
        self._on_response = on_response
        self._done = False

    def done(self) -> bool:
        return self._done

    def answered(self, frame: memoryview) -> None:
        self._done = True
        try:
            response = self._read(frame)
        except KafkaError as error:
            self._on_response(error)
        else:
            self._on_response(response)

    def failed(self, error: KafkaError) -> None:
        self._done = True
        self._on_response(error)


class Throttled:
    """A request that is not sent before the pause is over that its broker has asked for (KIP-219)."""

    __slots__ = ("call", "correlation_id", "data")

    def __init__(self, correlation_id: int, data: bytearray, call: Call | None) -> None:
        self.correlation_id = correlation_id
        self.data = data
        self.call = call
