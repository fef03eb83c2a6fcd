"""The bytes of a connection: a proxy records them, and a capture file keeps them for other tools."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from aiokproto.codec import frames
from aiokproto.codec.messages.api_versions import ApiVersionsResponse
from aiokproto.codec.messages.find_coordinator import FindCoordinatorResponse
from aiokproto.codec.messages.metadata import MetadataResponse
from aiokproto.codec.registry import response

_RAW_IP = 101
_SEGMENT = 60_000
_CLIENT, _SERVER = b"\x0a\x00\x00\x01", b"\x0a\x00\x00\x02"
KAFKA_PORT = 9092


class Piece(NamedTuple):
    """Bytes that went one way.

    Attributes:
        sent: Whether the client sent them.
        data: The bytes.
    """

    sent: bool
    data: bytes


class Conversation:
    """All pieces of one connection, in order."""

    def __init__(self) -> None:
        self.pieces: list[Piece] = []

    def stream(self, *, sent: bool) -> bytes:
        """Return all bytes that went one way."""
        return b"".join(piece.data for piece in self.pieces if piece.sent is sent)


class Recorder:
    """A proxy in front of one broker.

    Responses that name the broker name the proxy instead, so that clients stay with it, and the broker has no version
    of an API above the one in ``newest``.
    """

    def __init__(self, host: str, port: int, newest: Mapping[int, int]) -> None:
        self.target = host, port
        self.newest = newest
        self.conversations: list[Conversation] = []
        self.port = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.get_running_loop().create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def finish(self) -> None:
        """Wait until all connections have ended; their clients must have closed."""
        await asyncio.gather(*self._tasks)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        conversation = Conversation()
        self.conversations.append(conversation)
        up_reader, up_writer = await asyncio.open_connection(*self.target)
        api_by_correlation_id: dict[int, tuple[int, int]] = {}

        async def forward() -> None:
            while frame := await _frame(reader):
                head = frames.decode_request_header(frame[4:])
                api_by_correlation_id[head.correlation_id] = head.api_key, head.api_version
                conversation.pieces.append(Piece(True, frame))
                up_writer.write(frame)
            up_writer.close()

        async def back() -> None:
            while frame := await _frame(up_reader):
                correlation_id = frames.response_correlation_id(frame[4:])
                frame = self._changed(frame, correlation_id, *api_by_correlation_id[correlation_id])
                conversation.pieces.append(Piece(False, frame))
                writer.write(frame)
            writer.close()

        await asyncio.gather(forward(), back())
        await asyncio.gather(up_writer.wait_closed(), writer.wait_closed(), return_exceptions=True)

    def _changed(self, frame: bytes, correlation_id: int, api_key: int, version: int) -> bytes:
        kind = response(api_key)
        if kind not in (ApiVersionsResponse, FindCoordinatorResponse, MetadataResponse):
            return frame
        answer = frames.decode_response(frame[4:], kind, version)
        if isinstance(answer, ApiVersionsResponse):
            for api in answer.api_keys:
                api.max_version = min(api.max_version, self.newest.get(api.api_key, api.max_version))
        elif isinstance(answer, MetadataResponse):
            for broker in answer.brokers:
                broker.port = self.port
        elif isinstance(answer, FindCoordinatorResponse):
            answer.port = self.port if version < 4 else answer.port
            for coordinator in answer.coordinators:
                coordinator.port = self.port
        return bytes(frames.encode_response(answer, version, correlation_id))


async def _frame(reader: asyncio.StreamReader) -> bytes:
    """Return the next frame with its length, empty at the end."""
    try:
        head = await reader.readexactly(4)
        return head + await reader.readexactly(int.from_bytes(head, "big"))
    except (asyncio.IncompleteReadError, ConnectionError):
        return b""


@asynccontextmanager
async def recorder(bootstrap: str, newest: Mapping[int, int]) -> AsyncIterator[Recorder]:
    """Run a proxy inside the block; all clients must be closed before its end."""
    host, _, port = bootstrap.rpartition(":")
    recording = Recorder(host, int(port), newest)
    server = await asyncio.start_server(recording.accept, "127.0.0.1", 0)
    try:
        recording.port = server.sockets[0].getsockname()[1]
        yield recording
    finally:
        server.close()
        await recording.finish()
        await server.wait_closed()


def write_pcap(path: Path, conversations: list[Conversation]) -> None:
    """Return the conversations as TCP streams to Kafka's own port, by which other tools recognize them."""
    with path.open("wb") as file:
        file.write(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 0xFFFF, _RAW_IP))
        for number, conversation in enumerate(conversations):
            client_port = 50_000 + number
            position = {True: 1, False: 1}
            for sent, data in conversation.pieces:
                for start in range(0, len(data), _SEGMENT):
                    segment = data[start : start + _SEGMENT]
                    packet = _packet(sent, client_port, position[sent], position[not sent], segment)
                    file.write(struct.pack("<IIII", 0, 0, len(packet), len(packet)) + packet)
                    position[sent] += len(segment)


def _packet(sent: bool, client_port: int, sequence: int, acknowledged: int, data: bytes) -> bytes:
    ports = (client_port, KAFKA_PORT) if sent else (KAFKA_PORT, client_port)
    hosts = (_CLIENT, _SERVER) if sent else (_SERVER, _CLIENT)
    push_ack = 0x5018
    tcp = struct.pack(">HHIIHHHH", *ports, sequence, acknowledged, push_ack, 0xFFFF, 0, 0)
    ip = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp) + len(data), 0, 0, 64, 6, 0, *hosts)
    return ip + tcp + data
