"""A client's connection: received bytes as frames, and responses with flow control.

Small frames are copied out of one receive buffer. A frame larger than that buffer gets its own, and the transport reads
the rest of the frame directly into it, so that a large Produce request isn't copied again.

Flow control works in both directions. When the buffer is full, reading is paused, so that TCP slows the client down. A
response is written in pieces, and the next piece waits while the transport's own buffer is full.
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
"""The size of the receive buffer once it has been full: how much is read ahead of the request that is being served."""

_FIRST_BUFFER = 1 << 12
"""The size of the buffer at first. It's small, so that a connection which sends little or nothing costs little."""

_LINGER_SECONDS = 10.0
"""How long a closed connection may take to send what it still has. A client that doesn't read would never end it."""

_PIECE = 1 << 18
"""Responses are written in pieces of this size, because the transport copies what the socket doesn't accept at once."""

# The length of a frame is this many bytes, and comes before it.
_LENGTH = 4


class ClientConnection(asyncio.BufferedProtocol):
    """A connection, as an asyncio protocol.

    Attributes:
        transport: Its transport; None before ``connection_made``.
    """

    transport: asyncio.Transport | None = None

    def __init__(self, server: SocketServer | None, accepted: tuple[socket.socket, Any] | None = None) -> None:
        """Start without a transport.

        Args:
            server: The server, which serves the connection from ``connection_made`` on. None if there is an
                ``accepted`` socket, because the server has the connection already.
            accepted: For TLS: the socket, with which :meth:`start_tls` makes the transport, and the client's address.
        """
        self._server = server
        self._accepted = accepted
        self._buffer = bytearray(_FIRST_BUFFER)
        self._linger: asyncio.TimerHandle | None = None
        # Received but unread bytes are between _start and _end. While a large frame is incomplete, _rest is the part
        # that is still to be filled, and the buffer is empty.
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
            context: The context of the server's side.
            timeout: The time limit for the handshake (s).

        Raises:
            ConnectionError: The handshake fails, or the connection is lost.
        """
        assert self._accepted is not None, "made with a socket"
        # The event loop owns the socket from now on.
        accepted, self._accepted = self._accepted, None
        try:
            await asyncio.get_running_loop().connect_accepted_socket(
                lambda: self, accepted[0], ssl=context, ssl_handshake_timeout=timeout
            )
        # ssl's errors are OSErrors too. The client has already got its alert.
        except OSError as error:
            raise ConnectionResetError(f"the TLS handshake failed: {error}") from None

    async def read_size(self) -> int:
        """Wait for the next frame and return its size, unchecked: it can be negative or huge.

        Raises:
            EOFError: The client closed the connection.
            ConnectionError: The connection is lost.
        """
        # The length itself can arrive in pieces.
        while self._end - self._start < _LENGTH:
            await self._wait_for_data()
        self._start += _LENGTH
        return int.from_bytes(self._buffer[self._start - _LENGTH : self._start], "big", signed=True)

    async def read_frame(self, size: int) -> bytes | memoryview:
        """Read the frame of that size. Raises like :meth:`read_size`."""
        start, end = self._start, self._start + size
        if end <= self._end:
            self._start = end
            # The handler still uses the frame while the buffer is filled again, so this is a copy.
            frame = bytes(memoryview(self._buffer)[start:end])
            self._make_room()
            return frame
        # The rest of the frame is read directly into its own buffer: see get_buffer(). A larger receive buffer wouldn't
        # do, because this one becomes the request's, and record sets stay views of it.
        large = frame_buffer(size)
        have = self._end - start
        # The buffer is empty from here on: what follows in the stream, up to the end of the frame, belongs to it.
        large[:have] = memoryview(self._buffer)[start : self._end]
        self._start = self._end = 0
        self._rest = large[have:]
        self._make_room()
        while self._rest is not None:
            await self._wait_for_data()
        return large

    async def send(self, data: bytes | bytearray) -> None:
        """Write a response. Returns once the client has received most of it. Raises like :meth:`read_size`."""
        assert self.transport is not None
        # Slices of a view don't copy the response once more, as slices of bytes would.
        view = memoryview(data)
        for start in range(0, len(data), _PIECE):
            if self._lost is not None:
                raise self._lost
            if self.transport.is_closing():
                # asyncio logs a warning for each write to a failed transport.
                raise ConnectionResetError("the connection is closing")
            self.transport.write(view[start : start + _PIECE])
            # write() never blocks, so a client that doesn't read must stop us here, between two pieces.
            if self._write_waiter is not None:
                await self._write_waiter

    def close(self, last: bytes = b"") -> None:
        """Send the last bytes, if any, and close the connection."""
        self._close_accepted()
        if self.transport is not None:
            if last:
                self.transport.write(last)
            # abort() would drop what was written and must still be sent, such as the response to a failed
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
        # uvloop's transports aren't subclasses of asyncio's, so nothing is asserted here.
        self.transport = cast("asyncio.Transport", transport)
        # Reading is paused until the first read, so that a connection that waits for its turn takes no memory. It's
        # paused twice because uvloop starts to read after this call, whatever this call has done.
        self._reading = False
        self.transport.pause_reading()
        asyncio.get_running_loop().call_soon(self.transport.pause_reading)
        if self._server is not None:
            self._server.accept(self)

    def get_buffer(self, sizehint: int) -> memoryview:
        if self._rest is not None:
            return self._rest
        if self._end == len(self._buffer):
            # Some transports deliver more data after they were paused.
            self._buffer = self._buffer + bytes(_BUFFER)
        return memoryview(self._buffer)[self._end :]

    def buffer_updated(self, nbytes: int) -> None:
        if self._rest is not None:
            self._rest = self._rest[nbytes:] if nbytes < len(self._rest) else None
        else:
            self._end += nbytes
            if self._end == len(self._buffer) < _BUFFER:
                # The transport still has a view of the old buffer, so this makes a new one.
                self._buffer = self._buffer + bytes(min(7 * self._end, _BUFFER - self._end))
            # The buffer is full of pipelined requests: stop reading, so that TCP flow control slows the client down.
            if self._end == len(self._buffer):
                assert self.transport is not None
                self.transport.pause_reading()
                self._reading = False
        if self._rest is None:
            self._wake()

    def eof_received(self) -> bool:
        self._ended = True
        self._wake()
        # Requests that came before the end of the stream are still answered (TCP half-close). TLS can't be half closed.
        return self.info("sslcontext") is None

    def connection_lost(self, exc: Exception | None) -> None:
        # The error is kept, not raised: the connection's task may be in a handler, and meets the error at its next read
        # or write.
        self._lost = ConnectionResetError("the connection is lost")
        if self._linger is not None:
            self._linger.cancel()
        self._wake()
        # asyncio doesn't call this when the connection is lost while writing is paused.
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
        # All buffered requests are served by now.
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
        # The buffer is empty: start over at its front, and give back the room that a burst of data has added.
        if self._start == self._end:
            self._start = self._end = 0
            if len(self._buffer) > _BUFFER:
                self._buffer = bytearray(_BUFFER)
        # Bytes are moved only when the end is reached, so at most one buffer of bytes is copied for each buffer
        # received.
        elif self._end == len(self._buffer) and self._start:
            left = self._end - self._start
            self._buffer[:left] = self._buffer[self._start : self._end]
            self._start, self._end = 0, left
        if not self._reading and self._end < len(self._buffer):
            assert self.transport is not None
            self.transport.resume_reading()
            self._reading = True
