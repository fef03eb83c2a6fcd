"""The client's side of one connection, without I/O: requests to bytes, bytes to response frames (pure).

A response frame is ``int32 length | int32 correlation id | …``. Responses arrive in the order of the requests, so the
correlation id is a check, not a key: :attr:`ClientProtocol.pending` is a FIFO queue, and a mismatch means that bytes
were lost or the peer is broken. The only recovery from that is to close the connection. (After SaslHandshake v0, SASL
tokens are sent as frames without a correlation id: see :data:`TOKEN`.)

Frames are read into one of two places. Small frames share a scratch buffer: one ``recv`` can return many of them, and
each is copied out. A frame larger than the scratch buffer gets a buffer of its exact size that the socket writes to
directly, so a Fetch response of megabytes is never copied, and the records decoded from it are views of that buffer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from struct import Struct as Packer
from typing import Any, Generic, TypeVar

from aiokproto.codec.frames import frame_buffer, response_correlation_id
from aiokproto.codec.messages.header import RequestHeader
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Request
from aiokproto.errors import BrokerConnectionError, NotKafkaError, ResponseTooLargeError
from aiokproto.net.foreign_protocols import describe_bytes

T = TypeVar("T")

SCRATCH_SIZE = 64 * 1024
"""Responses up to this size (bytes) share the scratch buffer; a larger one gets a buffer of its exact size."""

READ_AT_ONCE = 512 * 1024
"""Maximum number of bytes read in one iteration of the event loop. A socket can hold megabytes, and copying them takes
milliseconds."""

MAX_FIRST_RESPONSE_SIZE = 1024 * 1024
"""Maximum length of a frame in bytes before the connection is open: a peer that may not even be a broker must not make
the client allocate much memory."""

TOKEN = -1
"""Used in place of a correlation id: the next frame is just a SASL token."""

_INT32 = Packer(">i")
_LENGTH_SIZE = 4
# The correlation id comes after the length (4), ApiKey (2) and version (2), in every version of the request header.
_ID_AT = 8
_IDS = 1 << 31


class Pending(Generic[T]):
    """A request in flight: the correlation id expected in its response (or :data:`TOKEN`), and the caller's token."""

    __slots__ = ("api_key", "correlation_id", "token")

    def __init__(self, correlation_id: int, api_key: int, token: T) -> None:
        self.correlation_id = correlation_id
        self.api_key = api_key
        self.token = token


class ClientProtocol(Generic[T]):
    """Encodes requests, splits received bytes into frames, and matches each frame to its request.

    Reading follows :class:`asyncio.BufferedProtocol`: fill the buffer that :meth:`get_buffer` returns, then call
    :meth:`received` with the number of bytes.

    Args:
        peer: Names the broker in errors.
        client_id: Sent in every request's header.
        max_response_size: Maximum length of a frame in bytes; a longer one is an error. Until :meth:`opened` it's
            :data:`MAX_FIRST_RESPONSE_SIZE` instead, if that is less.
        first_correlation_id: Ids count up from this and wrap after 2**31 - 1.
    """

    def __init__(self, peer: str, client_id: str | None, max_response_size: int, first_correlation_id: int = 0) -> None:
        self.peer = peer
        self.pending: deque[Pending[T]] = deque()
        self._client_id = client_id
        # At most one entry per API and version in use, so a few dozen.
        self._headers: dict[tuple[int, int], bytes] = {}
        self._max_response_size = max_response_size
        self._limit = min(max_response_size, MAX_FIRST_RESPONSE_SIZE)
        self._next_id = first_correlation_id
        self._scratch = bytearray(SCRATCH_SIZE)
        self._scratch_view = memoryview(self._scratch)
        # The bounds of the unprocessed part of the scratch buffer. Between reads _start is 0: _make_room has moved the
        # rest to the front.
        self._start = self._end = 0
        # The large frame that is being read into its own buffer. While it is set, the scratch buffer is empty.
        self._frame: memoryview | None = None
        self._frame_filled = 0
        # True until the first whole response. Until then, bytes that don't look like a response mean a wrong address;
        # afterwards, a broken connection.
        self._first = True

    @property
    def mid_frame(self) -> bool:
        """Whether part of a response has been read."""
        # A read never extends past the end of a large frame, so there is nothing else to check.
        return self._frame is not None or self._end > self._start

    @property
    def unfinished(self) -> bytes:
        """The first bytes of a frame that was not read to its end, starting with its length."""
        if self._frame is not None:
            return _INT32.pack(len(self._frame)) + bytes(self._frame[: min(self._frame_filled, SCRATCH_SIZE)])
        return bytes(self._scratch_view[self._start : self._end])

    @property
    def has_responded(self) -> bool:
        """Whether a whole response has ever been read."""
        return not self._first

    @property
    def next_id(self) -> int:
        """The correlation id of the next request."""
        return self._next_id

    def opened(self) -> None:
        """Start accepting frames of up to ``max_response_size``."""
        self._limit = self._max_response_size

    def encode(self, request: Request[Any], version: int) -> tuple[int, bytearray]:
        """Return a request's correlation id and bytes. No response is expected before :meth:`sent`.

        Raises:
            EncodeError: The version cannot carry the request.
        """
        # Headers of the same API and version differ only in length and correlation id, so encode them once, then patch
        # a copy.
        correlation_id = self._next_id
        header = self._headers.get((request.api_key, version))
        if header is None:
            header = self._headers[request.api_key, version] = self._header(request, version)
        data = bytearray(header)
        request.encode_into(data, version)
        _INT32.pack_into(data, 0, len(data) - _LENGTH_SIZE)
        _INT32.pack_into(data, _ID_AT, correlation_id)
        # Count only after encoding has succeeded: a request that was never sent doesn't use up an id.
        self._next_id = (correlation_id + 1) % _IDS
        return correlation_id, data

    def _header(self, request: Request[Any], version: int) -> bytes:
        """Return the length and the request header, with zeros for the values that differ between requests."""
        frame = bytearray(_LENGTH_SIZE)
        header = RequestHeader(
            request_api_key=request.api_key,
            request_api_version=version,
            correlation_id=0,
            client_id=self._client_id,
        )
        header.encode_into(frame, request.header_version(version))
        return bytes(frame)

    def sent(self, correlation_id: int, api_key: int, token: T) -> None:
        """Expect the response to a request that is now being written, after the responses to all earlier requests."""
        self.pending.append(Pending(correlation_id, api_key, token))

    def end(self) -> None:
        """Release the buffers: nothing more will be read. :attr:`unfinished` keeps its value."""
        rest = self.unfinished
        self._frame = None
        self._scratch = bytearray(rest)
        self._scratch_view = memoryview(self._scratch)
        self._start, self._end = 0, len(rest)

    def get_buffer(self) -> memoryview:
        """Return the buffer to read into; never empty before :meth:`end`."""
        if self._frame is not None:
            # Slice it again each time: asyncio gets a buffer before every recv, and it must end where the frame ends,
            # or asyncio would read part of the next frame.
            return self._frame[self._frame_filled : self._frame_filled + READ_AT_ONCE]
        # This is never empty: _make_room moves out a frame that would fill it.
        return self._scratch_view[self._end :]

    def received(self, count: int) -> Iterator[tuple[T, memoryview]]:
        """Process ``count`` bytes that were read into the buffer; yield each completed request's token and frame.

        The frame consists of correlation id, header and body, without the length. Exhaust the iterator before calling
        anything else here. After an error the connection is unusable.

        Raises:
            NotKafkaError: The first bytes on the connection are not from a broker.
            ResponseTooLargeError: The response to the oldest request is longer than ``max_response_size``.
            BrokerConnectionError: A frame doesn't belong to the oldest request in flight.
        """
        if self._frame is not None:
            self._frame_filled += count
            if self._frame_filled == len(self._frame):
                frame, self._frame = self._frame, None
                # Don't copy it: nothing else refers to this buffer, and decoded records are views of it.
                yield self._match(frame), frame
            return
        self._end += count
        while self._end - self._start >= _LENGTH_SIZE:
            start = self._start + _LENGTH_SIZE
            size = self._announced()
            # _announced has checked the size against the limit, so a length of gigabytes doesn't allocate memory.
            if self._end - start < size:
                break
            # Move the start before yielding the frame: the receiver may raise, and the frame must not be seen twice.
            self._start = start + size
            # Copy it: the next read overwrites the scratch buffer, but views of the frame may still be in use.
            frame = memoryview(bytes(self._scratch_view[start : start + size]))
            yield self._match(frame), frame
        self._make_room()

    def _announced(self) -> int:
        """Return the size of the frame at the scratch buffer's start. Raises if that isn't plausible."""
        (size,) = _INT32.unpack_from(self._scratch, self._start)
        # A frame contains at least a correlation id. Read as a length, the first bytes of other protocols ("HTTP",
        # "SSH-") exceed any sensible limit. Only a TLS alert (0x1503…, 336 MiB) may be within a high limit, so it is
        # tested for explicitly.
        shortest = 0 if self.pending and self.pending[0].correlation_id == TOKEN else _LENGTH_SIZE
        if shortest <= size <= self._limit and not (self._first and self._scratch.startswith(b"\x15\x03")):
            return int(size)
        seen = bytes(self._scratch_view[self._start : self._end])
        if self._first:
            raise NotKafkaError(f"{self.peer} does not speak Kafka: {describe_bytes(seen)}")
        if not self.pending:
            raise BrokerConnectionError(f"{self.peer} sent a response of {size} bytes without a request in flight")
        what = f"{api_name(self.pending[0].api_key)} to {self.peer}"
        if size < shortest:
            raise BrokerConnectionError(f"{what}: the response has an impossible length of {size} bytes")
        if size > self._limit < self._max_response_size:
            raise BrokerConnectionError(f"{what}: the response has {size} bytes, and the connection is not open yet")
        raise ResponseTooLargeError(
            f"{what}: the response of {size} bytes exceeds max_response_size={self._max_response_size}; "
            f"raise max_response_size, or request less (a consumer: lower fetch_max_bytes)"
        )

    def _make_room(self) -> None:
        """Move the rest of the scratch buffer: to a separate buffer if a large frame starts there, otherwise to the
        front."""
        left = self._end - self._start
        if left >= _LENGTH_SIZE:
            size = self._announced()
            # The frame doesn't fit into the scratch buffer.
            if size > SCRATCH_SIZE - _LENGTH_SIZE:
                self._frame = frame_buffer(size)
                self._frame_filled = left - _LENGTH_SIZE
                self._frame[: self._frame_filled] = self._scratch_view[self._start + _LENGTH_SIZE : self._end]
                left = 0
        # The slice on the right is a copy, so source and target may overlap. It is shorter than one small frame.
        if left and self._start:
            self._scratch[:left] = self._scratch[self._start : self._end]
        self._start, self._end = 0, left

    def _match(self, frame: memoryview) -> T:
        self._first = False
        if self.pending and self.pending[0].correlation_id == TOKEN:
            return self.pending.popleft().token
        correlation_id = response_correlation_id(frame)
        if not self.pending:
            raise BrokerConnectionError(f"{self.peer} responds to request {correlation_id}, but none is in flight")
        expected = self.pending[0]
        if correlation_id != expected.correlation_id:
            # This scan is only for the message: the connection ends here.
            known = any(pending.correlation_id == correlation_id for pending in self.pending)
            raise BrokerConnectionError(
                f"{self.peer} responds {'out of order' if known else 'to a request that was never sent'}: "
                f"correlation id {correlation_id}, expected {expected.correlation_id}"
            )
        return self.pending.popleft().token
