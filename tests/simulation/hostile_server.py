"""A server between clients and a broker, which damages the broker's responses as a seed decides."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from random import Random

from aiokproto.codec.frames import RequestFrame, decode_request_header, decode_response, encode_response
from aiokproto.codec.registry import response as response_type
from aiokproto.codec.schema import Response
from aiokproto.errors import KafkaError
from tests.simulation.damage import change_fields, places

INTERVAL = 1.0
"""Seconds between the bytes of a slow response."""


class HostileServer:
    """The connections to one broker.

    Attributes:
        done: How often the server did each kind of damage.
        rate: The share of responses that it damages.
    """

    def __init__(self, random: Random, broker: tuple[str, int]) -> None:
        self.done: Counter[str] = Counter()
        self._random = random
        self._broker = broker
        self.rate = 0.0
        self._tasks: set[asyncio.Task[None]] = set()
        self._damages: dict[str, Callable[[RequestFrame, bytes], list[bytes]]] = {
            "fields": self._fields,
            "garbage": lambda header, frame: [_framed(frame[:4] + random.randbytes(len(frame)))],
            "noise": lambda header, frame: [random.randbytes(random.randrange(1, 200))],
            "shorter": lambda header, frame: [_framed(frame[: random.randrange(len(frame))])],
            "longer": lambda header, frame: [_framed(frame + random.randbytes(random.randrange(1, 300)))],
            "unfinished": lambda header, frame: [(len(frame) + 1_000_000).to_bytes(4, "big") + frame],
            "huge": lambda header, frame: [((1 << 31) - 1).to_bytes(4, "big") + frame],
            "large": lambda header, frame: [(100 << 20).to_bytes(4, "big") + frame],
            "negative": lambda header, frame: [(-random.randrange(1, 1 << 31)).to_bytes(4, "big", signed=True) + frame],
            "other id": lambda header, frame: [_framed(random.randbytes(4) + frame[4:])],
            "twice": lambda header, frame: [_framed(frame), _framed(frame)],
            "unasked": lambda header, frame: [_framed(frame), _framed(b"\0\0\0\7" + frame[4:])],
            "error": self._error,
        }

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        pending: deque[RequestFrame] = deque()
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._broker)
            try:
                pumps = [self._forth(reader, far_writer, pending), self._back(far_reader, writer, pending)]
                ends = [asyncio.ensure_future(pump) for pump in pumps]
                try:
                    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    for end in ends:
                        end.cancel()
                    await asyncio.gather(*ends, return_exceptions=True)
            finally:
                far_writer.close()
        except (ConnectionError, asyncio.CancelledError):
            pass
        finally:
            writer.close()
            self._tasks.discard(task)

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    async def _forth(
        self, reader: asyncio.StreamReader, far_writer: asyncio.StreamWriter, pending: deque[RequestFrame]
    ) -> None:
        while True:
            size = await reader.readexactly(4)
            frame = await reader.readexactly(int.from_bytes(size, "big"))
            pending.append(decode_request_header(frame))
            far_writer.write(size + frame)

    async def _back(
        self, far_reader: asyncio.StreamReader, writer: asyncio.StreamWriter, pending: deque[RequestFrame]
    ) -> None:
        held: list[bytes] = []
        while True:
            size = await far_reader.readexactly(4)
            frame = await far_reader.readexactly(int.from_bytes(size, "big"))
            header = pending.popleft()
            if self._random.random() >= self.rate:
                writer.writelines([_framed(frame), *held])
                held.clear()
                continue
            what = self._random.choice([*self._damages, "fields", "slow", "silent", "close", "reset", "swap"])
            self.done[what] += 1
            if what in self._damages:
                writer.writelines(self._damages[what](header, frame))
            elif what == "slow":
                for byte in _framed(frame):
                    writer.write(bytes((byte,)))
                    await asyncio.sleep(INTERVAL)
            elif what == "swap":
                held.append(_framed(frame))
            elif what == "close":
                return
            elif what == "reset":
                writer.transport.abort()
                return

    def _error(self, header: RequestFrame, frame: bytes) -> list[bytes]:
        return self._changed(header, frame, lambda response: _set_errors(response, self._random.randrange(-2, 140)))

    def _fields(self, header: RequestFrame, frame: bytes) -> list[bytes]:
        return self._changed(header, frame, lambda response: change_fields(self._random, response))

    def _changed(self, header: RequestFrame, frame: bytes, change: Callable[[Response], None]) -> list[bytes]:
        try:
            response = decode_response(frame, response_type(header.api_key), header.api_version)
            change(response)
            return [bytes(encode_response(response, header.api_version, header.correlation_id))]
        # The values don't fit the fields, or this is an ApiVersions response of version 0.
        except KafkaError:
            return [_framed(frame)]


@asynccontextmanager
async def hostile_server(random: Random, bootstrap: str) -> AsyncIterator[tuple[HostileServer, int]]:
    """Yield the server and its port."""
    host, _, port = bootstrap.rpartition(":")
    hostile = HostileServer(random, (host, int(port)))
    server = await asyncio.start_server(hostile.serve, "127.0.0.1", 0)
    try:
        yield hostile, server.sockets[0].getsockname()[1]
    finally:
        server.close()
        await hostile.close()


def _framed(frame: bytes) -> bytes:
    return len(frame).to_bytes(4, "big") + frame


def _set_errors(response: Response, code: int) -> None:
    for owner, name in list(places(response)):
        if name == "error_code":
            setattr(owner, name, code)
