"""A client's connection: its bytes as frames, and answers in pieces that it can take.

Small frames are cut out of one buffer; what is left of a large one is read to where it stays, and copied no more.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

from aiokproto.codec.frames import frame_buffer

_BUFFER = 1 << 17
"""What is read ahead of a client's requests, which are answered one after the other."""

_PIECE = 1 << 18
"""An answer is given to the transport in pieces: what the socket does not take, it copies."""

_LENGTH = 4


class ClientConnection(asyncio.BufferedProtocol):
    """One connection.

    Attributes:
        transport: Its transport; None before it is made.
    """

    transport: asyncio.Transport | None = None

    def __init__(self, accept: Callable[[ClientConnection], None]) -> None:
        """``accept`` is called when the connection is made."""
        self._accept = accept
        self._buffer = bytearray(_BUFFER)
        # What was read, and not taken yet, is between these two; what is missing of a large frame comes to the third.
        self._begin = 0
        self._end = 0
        self._rest: memoryview | None = None
        self._reading = True
        self._ended = False
        self._lost: ConnectionError | None = None
        self._arrival: asyncio.Future[None] | None = None
        self._room: asyncio.Future[None] | None = None

    # ---- what the broker does

    def info(self, name: str) -> Any:
        """What the transport knows of itself, such as its ``peername``."""
        return None if self.transport is None else self.transport.get_extra_info(name)

    async def read_size(self) -> int:
        """Wait for a frame; returns its size, which is anything that four bytes can say.

        Raises:
            EOFError: The client has ended the connection.
            ConnectionError: It is lost.
        """
        while self._end - self._begin < _LENGTH:
            await self._more()
        self._begin += _LENGTH
        return int.from_bytes(self._buffer[self._begin - _LENGTH : self._begin], "big", signed=True)

    async def read_frame(self, size: int) -> bytes | memoryview:
        """The frame, of that size. Raises as :meth:`read_size`."""
        begin, end = self._begin, self._begin + size
        if end <= self._end:
            self._begin = end
            frame = bytes(memoryview(self._buffer)[begin:end])
            self._read_on()
            return frame
        large = frame_buffer(size)
        have = self._end - begin
        large[:have] = memoryview(self._buffer)[begin : self._end]
        self._begin = self._end = 0
        self._rest = large[have:]
        self._read_on()
        while self._rest is not None:
            await self._more()
        return large

    async def send(self, data: bytes | bytearray) -> None:
        """Write an answer; returns once the client has taken most of it. Raises as :meth:`read_size`."""
        assert self.transport is not None
        view = memoryview(data)
        for begin in range(0, len(data), _PIECE):
            if self._lost is not None:
                raise self._lost
            if self.transport.is_closing():
                # asyncio logs a warning of its own for each write to a transport that has failed.
                raise ConnectionResetError("the connection is closing")
            self.transport.write(view[begin : begin + _PIECE])
            if self._room is not None:
                await self._room

    def close(self, last: bytes = b"") -> None:
        """Write what is left to say, and close."""
        if self.transport is not None:
            if last:
                self.transport.write(last)
            self.transport.close()

    def abort(self) -> None:
        """Cut the connection."""
        if self.transport is not None:
            self.transport.abort()

    @property
    def closing(self) -> bool:
        """Whether it is closed, or about to be."""
        return self.transport is None or self.transport.is_closing()

    # ---- what the transport tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # No assertion: uvloop's transports are no subclasses of asyncio's.
        self.transport = cast("asyncio.Transport", transport)
        self._accept(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._rest is not None:
            return self._rest
        if self._end == len(self._buffer):
            # Some transports have more to hand over, though they were told to pause.
            self._buffer = self._buffer + bytes(_BUFFER)
        return memoryview(self._buffer)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._rest is not None:
            self._rest = self._rest[nbytes:] if nbytes < len(self._rest) else None
        else:
            self._end += nbytes
            if self._end == len(self._buffer):
                assert self.transport is not None
                self.transport.pause_reading()
                self._reading = False
        if self._rest is None:
            self._wake()

    def eof_received(self) -> bool:
        self._ended = True
        self._wake()
        # What was asked before the end is still answered; TLS cannot be open in one direction.
        return self.info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = ConnectionResetError("the connection is lost")
        self._wake()
        self.resume_writing()

    def pause_writing(self) -> None:
        self._room = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    # ---- inside

    async def _more(self) -> None:
        if self._lost is not None:
            raise self._lost
        if self._ended:
            raise EOFError
        self._read_on()
        self._arrival = asyncio.get_running_loop().create_future()
        await self._arrival

    def _wake(self) -> None:
        if self._arrival is not None and not self._arrival.done():
            self._arrival.set_result(None)

    def _read_on(self) -> None:
        """Make room at the buffer's end, if there is none, and read again."""
        if self._begin == self._end:
            self._begin = self._end = 0
            if len(self._buffer) > _BUFFER:
                self._buffer = bytearray(_BUFFER)
        elif self._end == len(self._buffer) and self._begin:
            left = self._end - self._begin
            self._buffer[:left] = self._buffer[self._begin : self._end]
            self._begin, self._end = 0, left
        if not self._reading and self._end < len(self._buffer):
            assert self.transport is not None
            self.transport.resume_reading()
            self._reading = True
