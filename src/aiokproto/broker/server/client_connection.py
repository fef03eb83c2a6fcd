"""A client's connection: splits received bytes into frames, and sends responses with flow control.

Small frames are copied out of one receive buffer. A frame larger than that buffer gets its own buffer, and the
transport reads the rest of the frame directly into it, so a large Produce request isn't copied again.

Flow control works in both directions. When the receive buffer is full, reading is paused, so TCP slows the client down.
A response is written in pieces, and the next piece waits while the transport's own buffer is full.
"""

from __future__ import annotations

import asyncio
import socket
from ssl import SSLContext
from typing import TYPE_CHECKING, Any, cast

from aiokproto.codec.frames import frame_buffer

if TYPE_CHECKING:
    from aiokproto.broker.server.socket_server import SocketServer

_BUFFER = 1 << 17
"""The size of the receive buffer after it has filled up once: how much is read ahead while a request is being
served."""

_FIRST_BUFFER = 1 << 12
"""The initial size of the receive buffer. It's small, so a connection that sends little or nothing takes little
memory."""

_LINGER_SECONDS = 10.0
"""How long a closed connection may take to send its remaining bytes. A client that doesn't read would otherwise keep it
open forever."""

_PIECE = 1 << 18
"""Responses are written in pieces of this size: the transport copies what the socket doesn't accept right away."""

# The size of the length field that precedes each frame, in bytes.
_LENGTH = 4


class ClientConnection(asyncio.BufferedProtocol):
    """A connection, as an asyncio protocol.

    Attributes:
        transport: The transport, or None before ``connection_made``.
    """

    transport: asyncio.Transport | None = None

    def __init__(self, server: SocketServer | None, accepted: tuple[socket.socket, Any] | None = None) -> None:
        """Start without a transport.

        Args:
            server: The server, which starts serving the connection in ``connection_made``. None if ``accepted`` is
                given: the server already has the connection.
            accepted: For TLS: the socket, from which :meth:`start_tls` makes the transport, and the client's address.
        """
        self._server = server
        self._accepted = accepted
        self._buffer = bytearray(_FIRST_BUFFER)
        self._linger: asyncio.TimerHandle | None = None
        # Received but unread bytes are between _start and _end. While a large frame is incomplete, _rest is the part of
        # it that hasn't been filled yet, and the buffer is empty.
        self._start = 0
        self._end = 0
        self._rest: memoryview | None = None
        self._reading = True
        self._ended = False
        self._lost: ConnectionError | None = None
        self._data_waiter: asyncio.Future[None] | None = None
        self._write_waiter: asyncio.Future[None] | None = None

    # ---- called by the server

    def info(self, name: str) -> Any:
        """Return the transport's extra info, such as ``peername``."""
        if self.transport is not None:
            return self.transport.get_extra_info(name)
        return self._accepted[1] if self._accepted is not None and name == "peername" else None

    async def start_tls(self, context: SSLContext, timeout: float) -> None:
        """Do the TLS handshake. Cancelling closes the connection.

        Args:
            context: The server-side context.
            timeout: The time limit for the handshake (s).

        Raises:
            ConnectionError: The handshake fails, or the connection is lost.
        """
        assert self._accepted is not None, "made with a socket"
        # The event loop now owns the socket.
        accepted, self._accepted = self._accepted, None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self, accepted[0], ssl=context, ssl_handshake_timeout=timeout
            )
        # The ssl module's errors are OSErrors too. The client has already received its alert.
        except OSError as error:
            raise ConnectionResetError(f"the TLS handshake failed: {error}") from None

    async def read_size(self) -> int:
        """Wait for the next frame and return its size, unchecked: it can be negative or huge.

        Raises:
            EOFError: The client closed the connection.
            ConnectionError: The connection is lost.
        """
        # The length, too, can arrive in pieces.
        while self._end - self._start < _LENGTH:
            await self._wait_for_data()
        self._start += _LENGTH
        return int.from_bytes(self._buffer[self._start - _LENGTH : self._start], "big", signed=True)

    async def read_frame(self, size: int) -> bytes | memoryview:
        """Read a frame of the given size. Raises the same errors as :meth:`read_size`."""
        start, end = self._start, self._start + size
        if end <= self._end:
            self._start = end
            # Make a copy, because the handler is still using the frame when the buffer is filled again.
            frame = bytes(memoryview(self._buffer)[start:end])
            self._make_room()
            return frame
        # The rest of the frame is read directly into its own buffer: see get_buffer(). A larger receive buffer wouldn't
        # do, because this buffer will belong to the request, and record sets are views of it.
        large = frame_buffer(size)
        have = self._end - start
        # The receive buffer is now empty: the next bytes of the stream, up to the end of the frame, go into the frame's
        # own buffer.
        large[:have] = memoryview(self._buffer)[start : self._end]
        self._start = self._end = 0
        self._rest = large[have:]
        self._make_room()
        while self._rest is not None:
            await self._wait_for_data()
        return large

    async def send(self, data: bytes | bytearray) -> None:
        """Write a response. Returns once the client has received most of it. Raises the same errors as
        :meth:`read_size`."""
        assert self.transport is not None
        # Unlike slices of bytes, slices of a view don't copy the response.
        view = memoryview(data)
        for start in range(0, len(data), _PIECE):
            if self._lost is not None:
                raise self._lost
            if self.transport.is_closing():
                # asyncio logs a warning for each write to a failed transport.
                raise ConnectionResetError("the connection is closing")
            self.transport.write(view[start : start + _PIECE])
            # write() never blocks. If the client isn't reading, wait here, between two pieces.
            if self._write_waiter is not None:
                await self._write_waiter

    def close(self, last: bytes = b"") -> None:
        """Send the last bytes, if any, and close the connection."""
        self._close_accepted()
        if self.transport is not None:
            if last:
                self.transport.write(last)
            # Don't use abort(): it would drop data that must still be sent, such as the response to a failed
            # authentication.
            self.transport.close()
            if self._lost is None and self._linger is None:
                loop = asyncio.get_running_loop()
                self._linger = loop.call_later(_LINGER_SECONDS, self.transport.abort)

    def abort(self) -> None:
        """Close the connection without sending what is buffered."""
        self._close_accepted()
        if self.transport is not None:
            self.transport.abort()

    @property
    def closing(self) -> bool:
        """Whether the connection is closed or closing."""
        return self.transport is None or self.transport.is_closing()

    # ---- called by the transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports aren't subclasses of asyncio's, so this can't be an assert.
        self.transport = cast("asyncio.Transport", transport)
        # Pause reading until the first read, so a connection that is waiting for its turn doesn't take memory. Do it
        # twice: uvloop starts reading after this call, whatever this call does.
        self._reading = False
        self.transport.pause_reading()
        asyncio.get_running_loop().call_soon(self.transport.pause_reading)
        if self._server is not None:
            self._server.accept(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._rest is not None:
            return self._rest
        if self._end == len(self._buffer):
            # Some transports deliver more data after being paused.
            self._buffer = self._buffer + bytes(_BUFFER)
        return memoryview(self._buffer)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._rest is not None:
            self._rest = self._rest[nbytes:] if nbytes < len(self._rest) else None
        else:
            self._end += nbytes
            if self._end == len(self._buffer) < _BUFFER:
                # Make a new buffer: the transport still has a view of the old one.
                self._buffer = self._buffer + bytes(min(7 * self._end, _BUFFER - self._end))
            # The buffer is full of pipelined requests: stop reading, so TCP flow control slows the client down.
            if self._end == len(self._buffer):
                assert self.transport is not None
                self.transport.pause_reading()
                self._reading = False
        if self._rest is None:
            self._wake()

    def eof_received(self) -> bool:
        self._ended = True
        self._wake()
        # Requests received before the end of the stream are still answered (TCP half-close). TLS connections can't be
        # half-closed.
        return self.info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        # Store the error instead of raising it: the connection's task may be in a handler, and gets the error at its
        # next read or write.
        self._lost = ConnectionResetError("the connection is lost")
        if self._linger is not None:
            self._linger.cancel()
        self._wake()
        # asyncio doesn't call this if the connection is lost while writing is paused.
        self.resume_writing()

    def pause_writing(self) -> None:
        self._write_waiter = asyncio.get_running_loop().create_future()

    def resume_writing(self) -> None:
        room, self._write_waiter = self._write_waiter, None
        if room is not None and not room.done():
            room.set_result(None)

    # ---- inside

    def _close_accepted(self) -> None:
        if self._accepted is not None:
            self._accepted[0].close()
            self._accepted = None

    async def _wait_for_data(self) -> None:
        if self._lost is not None:
            raise self._lost
        # All buffered requests have been served by now.
        if self._ended:
            raise EOFError
        self._make_room()
        self._data_waiter = asyncio.get_running_loop().create_future()
        await self._data_waiter

    def _wake(self) -> None:
        if self._data_waiter is not None and not self._data_waiter.done():
            self._data_waiter.set_result(None)

    def _make_room(self) -> None:
        """Make room at the end of the buffer, and resume reading if it was paused."""
        # The buffer is empty: start over at the front, and shrink it if a burst of data has made it grow.
        if self._start == self._end:
            self._start = self._end = 0
            if len(self._buffer) > _BUFFER:
                self._buffer = bytearray(_BUFFER)
        # Move bytes only when the end is reached, so at most one buffer of bytes is copied per buffer received.
        elif self._end == len(self._buffer) and self._start:
            left = self._end - self._start
            self._buffer[:left] = self._buffer[self._start : self._end]
            self._start, self._end = 0, left
        if not self._reading and self._end < len(self._buffer):
            assert self.transport is not None
            self.transport.resume_reading()
            self._reading = True
