"""An in-memory asyncio transport, with buffers that fill up like a socket's."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any, cast

if TYPE_CHECKING:
    from aiokproto.simulation.link import Direction, Link
    from aiokproto.simulation.trace import Trace

WINDOW = 256 * 1024
"""Maximum number of bytes in transit or not yet read by the receiver: the buffers of both sockets together."""

HIGH_WATER = 64 * 1024
"""The number of unsent bytes at which the transport calls ``pause_writing``, as in asyncio."""

SEGMENT = 64 * 1024
"""Maximum number of bytes received at a time."""


class SimulatedTransport(asyncio.Transport):
    """One end of a connection. The other end is its :attr:`peer`.

    Attributes:
        peer: The other end.
    """

    peer: SimulatedTransport

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol: asyncio.BaseProtocol,
        link: Link,
        direction: Direction,
        random: Random,
        trace: Trace,
        extra: dict[str, Any],
    ) -> None:
        """``direction`` carries what this end sends."""
        super().__init__(extra)
        self._loop = loop
        self._protocol = protocol
        self._link = link
        self._direction = direction
        self._random = random
        self._trace = trace
        self._name = f"{extra['sockname']} to {extra['peername']}"
        self._outgoing = bytearray()
        self._incoming: deque[bytes] = deque()
        self._window = WINDOW
        self._last_arrival = 0.0
        self._high = HIGH_WATER
        self._low = HIGH_WATER // 4
        self._writing_paused = False
        self._reading_paused = False
        self._closing = False
        self._write_ended = False
        self._end_sent = False
        self._end_received = False
        self._lost = False
        link.connections[self] = None

    def start(self) -> None:
        """Call the protocol's ``connection_made``."""
        self._protocol.connection_made(self)

    # --- What protocols call

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return not self._reading_paused and not self._closing

    def pause_reading(self) -> None:
        self._reading_paused = True

    def resume_reading(self) -> None:
        if self._reading_paused:
            self._reading_paused = False
            self._loop.call_soon(self._read)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = high if high is not None else HIGH_WATER if low is None else 4 * low
        self._low = low if low is not None else self._high // 4
        self._signal_room()

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return len(self._outgoing)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._write_ended:
            raise RuntimeError("nothing can be written after write_eof()")
        if self._closing:
            return
        self._outgoing += data
        self._send()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self._write_ended = True
        self._send()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._send()

    def abort(self) -> None:
        """Close immediately. Unsent bytes are dropped, and the other end gets ``ConnectionResetError``."""
        if not self._lost:
            self._trace.note("abort", self._name)
            self._lose(None)
            self._transmit(0, self.peer._reset_received)

    def reset(self) -> None:
        """Reset the connection: this end gets ``ConnectionResetError``."""
        self._trace.note("reset", self._name)
        self._lose(ConnectionResetError(104, "Connection reset by peer"))

    # --- Sending

    def _send(self) -> None:
        while self._outgoing and self._window and not self._lost:
            size = min(len(self._outgoing), self._window, SEGMENT)
            data = bytes(memoryview(self._outgoing)[:size])
            del self._outgoing[:size]
            self._window -= size
            self._transmit(size, partial(self.peer._received, data))
        self._signal_room()
        if self._outgoing or self._lost:
            return
        if (self._closing or self._write_ended) and not self._end_sent:
            self._end_sent = True
            self._transmit(0, self.peer._end_arrived)
        # Close the connection even if write_eof() has already sent the end of the stream.
        if self._closing:
            self._lose(None)

    def _transmit(self, size: int, arrive: Any) -> None:
        at = self._direction.arrival(size, self._last_arrival)
        self._last_arrival = at
        self._loop.call_at(at, self._direction.deliver, arrive)

    def _signal_room(self) -> None:
        size = len(self._outgoing)
        if size > self._high and not self._writing_paused:
            self._writing_paused = True
            self._protocol.pause_writing()
        elif size <= self._low and self._writing_paused:
            self._writing_paused = False
            self._protocol.resume_writing()

    def _window_opened(self, size: int) -> None:
        self._window += size
        self._send()

    # --- Receiving

    def _received(self, data: bytes) -> None:
        if self._lost:
            # Behave like a closed socket: the sender gets a reset because nobody receives the data.
            self._transmit(0, self.peer._reset_received)
            return
        self._trace.note("receive", self._name, data)
        # A stream doesn't preserve message boundaries: bytes arrive in pieces of any size.
        if len(data) > 1 and self._random.random() < 0.1:
            cut = self._random.randrange(1, len(data))
            self._incoming += (data[:cut], data[cut:])
        else:
            self._incoming.append(data)
        self._read()

    def _end_arrived(self) -> None:
        self._end_received = True
        self._read()

    def _reset_received(self) -> None:
        self._lose(ConnectionResetError(104, "Connection reset by peer"))

    def _read(self) -> None:
        try:
            while self._incoming and self.is_reading():
                data = self._incoming.popleft()
                self._give(data)
                self._transmit(0, partial(self.peer._window_opened, len(data)))
            if self._end_received and not self._incoming and self.is_reading():
                self._end_received = False
                if not cast("asyncio.Protocol", self._protocol).eof_received():
                    self.close()
        except Exception as error:  # noqa: BLE001 - as asyncio's transports treat what protocols raise
            self._loop.call_exception_handler(
                {"message": "a protocol failed", "exception": error, "transport": self, "protocol": self._protocol}
            )
            self._lose(error)

    def _give(self, data: bytes) -> None:
        if not isinstance(self._protocol, asyncio.BufferedProtocol):
            cast("asyncio.Protocol", self._protocol).data_received(data)
            return
        rest = memoryview(data)
        while rest:
            buffer = memoryview(cast("bytearray", self._protocol.get_buffer(len(rest))))
            size = min(len(buffer), len(rest))
            buffer[:size] = rest[:size]
            rest = rest[size:]
            self._protocol.buffer_updated(size)
            if rest and not self.is_reading():
                self._incoming.appendleft(bytes(rest))
                return

    def _lose(self, error: Exception | None) -> None:
        if self._lost:
            return
        self._lost = self._closing = True
        self._outgoing.clear()
        self._incoming.clear()
        self._link.connections.pop(self, None)
        self._loop.call_soon(self._protocol.connection_lost, error)
