"""The client's side of one connection, without I/O: requests in, bytes out; bytes in, answers out (pure)."""

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

T = TypeVar("T")

SCRATCH_SIZE = 64 * 1024
"""Answers up to this size are read many at a time; a larger one gets a buffer of its exact size."""

READ_AT_ONCE = 512 * 1024
"""Most bytes read in one turn of the event loop. A socket holds megabytes, and copying them takes milliseconds."""

_INT32 = Packer(">i")
_LENGTH_SIZE = 4
_ID_AT = 8
_IDS = 1 << 31


class Pending(Generic[T]):
    """A request under way: what its answer will be matched by, and whatever the caller wants back with it."""

    __slots__ = ("api_key", "correlation_id", "token")

    def __init__(self, correlation_id: int, api_key: int, token: T) -> None:
        self.correlation_id = correlation_id
        self.api_key = api_key
        self.token = token


class ClientProtocol(Generic[T]):
    """Correlation ids, the requests under way in their order, and frames out of a stream of bytes.

    Reading is shaped for :class:`asyncio.BufferedProtocol`: fill what :meth:`get_buffer` returns, then say how much
    by :meth:`received`. A large answer is thus read straight into a buffer of its own and never copied.

    Args:
        peer: Names the broker in errors.
        client_id: Goes into every request's header.
        max_response_size: A frame that announces more is an error.
        first_correlation_id: Ids count up from here and wrap after 2**31 - 1.
    """

    def __init__(self, peer: str, client_id: str | None, max_response_size: int, first_correlation_id: int = 0) -> None:
        self.peer = peer
        self.pending: deque[Pending[T]] = deque()
        self._client_id = client_id
        self._headers: dict[tuple[int, int], bytes] = {}
        self._max_response_size = max_response_size
        self._next_id = first_correlation_id
        self._scratch = bytearray(SCRATCH_SIZE)
        self._scratch_view = memoryview(self._scratch)
        self._start = self._end = 0
        self._frame: memoryview | None = None
        self._frame_filled = 0
        self._first = True

    @property
    def mid_frame(self) -> bool:
        """Whether part of an answer has been read."""
        return self._frame is not None or self._end > self._start

    @property
    def heard(self) -> bool:
        """Whether a whole answer has ever been read."""
        return not self._first

    def encode(self, request: Request[Any], version: int) -> tuple[int, bytearray]:
        """A request's bytes and correlation id. Nothing is expected before :meth:`sent`.

        Raises:
            EncodeError: The version cannot carry the request.
        """
        # What an API's requests begin with differs in length and correlation id alone.
        correlation_id = self._next_id
        header = self._headers.get((request.api_key, version))
        if header is None:
            header = self._headers[request.api_key, version] = self._header(request, version)
        data = bytearray(header)
        request.encode_into(data, version)
        _INT32.pack_into(data, 0, len(data) - _LENGTH_SIZE)
        _INT32.pack_into(data, _ID_AT, correlation_id)
        self._next_id = (correlation_id + 1) % _IDS
        return correlation_id, data

    def _header(self, request: Request[Any], version: int) -> bytes:
        """Room for the length, and a header with room for the correlation id."""
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
        """The request is being written, and will be answered after all those before it."""
        self.pending.append(Pending(correlation_id, api_key, token))

    def get_buffer(self) -> memoryview:
        """Where to read to; never empty."""
        if self._frame is not None:
            return self._frame[self._frame_filled : self._frame_filled + READ_AT_ONCE]
        return self._scratch_view[self._end :]

    def received(self, count: int) -> Iterator[tuple[T, memoryview]]:
        """Take in ``count`` bytes read into the buffer: the tokens of completed requests, each with its answer's frame
        (correlation id, header and body; without the length). To be exhausted before the next call of anything here.

        Raises:
            NotKafkaError: The first bytes ever are not from a broker.
            ResponseTooLargeError: The answer to the oldest request is too large.
            BrokerConnectionError: A frame answers no request, or not the oldest. After these the connection cannot be
                used further.
        """
        if self._frame is not None:
            self._frame_filled += count
            if self._frame_filled == len(self._frame):
                frame, self._frame = self._frame, None
                yield self._match(frame), frame
            return
        self._end += count
        while self._end - self._start >= _LENGTH_SIZE:
            begin = self._start + _LENGTH_SIZE
            size = self._announced()
            if self._end - begin < size:
                break
            self._start = begin + size
            # Copied, as the scratch buffer is used again.
            frame = memoryview(bytes(self._scratch_view[begin : begin + size]))
            yield self._match(frame), frame
        self._make_room()

    def _announced(self) -> int:
        """The size of the frame that begins at the scratch buffer's start."""
        (size,) = _INT32.unpack_from(self._scratch, self._start)
        # A frame has at least a correlation id. The sizes that other protocols' greetings amount to, read as a length,
        # lie beyond any limit in use, except TLS's with a limit above 336 MiB.
        if 4 <= size <= self._max_response_size and not (self._first and self._scratch.startswith(b"\x15\x03")):
            return int(size)
        seen = bytes(self._scratch_view[self._start : self._end])
        if self._first:
            raise NotKafkaError(f"{self.peer} does not speak Kafka: {describe_bytes(seen)}")
        if not self.pending:
            raise BrokerConnectionError(f"{self.peer} announces a response of {size} bytes, but none is under way")
        asked = f"{api_name(self.pending[0].api_key)} to {self.peer}"
        if size < _LENGTH_SIZE:
            raise BrokerConnectionError(f"{asked}: the response is announced with {size} bytes")
        raise ResponseTooLargeError(
            f"{asked}: the response has {size} bytes, over max_response_size={self._max_response_size}; "
            f"raise that, or ask for less (a consumer by fetch_max_bytes)"
        )

    def _make_room(self) -> None:
        """Move what is left of the scratch buffer: into a frame of its own if that is large, else to the front."""
        left = self._end - self._start
        if left >= _LENGTH_SIZE:
            size = self._announced()
            if size > SCRATCH_SIZE - _LENGTH_SIZE:
                self._frame = frame_buffer(size)
                self._frame_filled = left - _LENGTH_SIZE
                self._frame[: self._frame_filled] = self._scratch_view[self._start + _LENGTH_SIZE : self._end]
                left = 0
        if left and self._start:
            self._scratch[:left] = self._scratch[self._start : self._end]
        self._start, self._end = 0, left

    def _match(self, frame: memoryview) -> T:
        self._first = False
        correlation_id = response_correlation_id(frame)
        if not self.pending:
            raise BrokerConnectionError(f"{self.peer} answers request {correlation_id}, but none is under way")
        expected = self.pending[0]
        if correlation_id != expected.correlation_id:
            known = any(pending.correlation_id == correlation_id for pending in self.pending)
            raise BrokerConnectionError(
                f"{self.peer} answers {'out of order' if known else 'a request that was never sent'}: "
                f"correlation id {correlation_id} instead of {expected.correlation_id}"
            )
        return self.pending.popleft().token


def describe_bytes(seen: bytes) -> str:
    """What a peer that is no broker seems to be, from the first bytes it sent."""
    if seen.startswith(b"HTTP/"):
        line = seen.partition(b"\r\n")[0][:80].decode("latin-1")
        return f"it answers as an HTTP server ({line!r})"
    if seen.startswith(b"\x15\x03"):
        return "it answers with a TLS alert (a TLS listener takes security_protocol='SSL')"
    return f"it answers {seen[:32]!r}"
