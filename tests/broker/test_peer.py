"""A client's connection: frames are reassembled from any chunks, and responses wait for a slow reader."""

from __future__ import annotations

import asyncio
import mmap
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokproto.broker.server.client_connection import ClientConnection
from aiokproto.broker.yield_budget import YieldBudget


class Pipe(asyncio.Transport):
    """A transport of which the test is the other end."""

    def __init__(self) -> None:
        super().__init__()
        self.reading = True
        self.written: list[bytes] = []
        self.fails_after = 1 << 30

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))

    def is_closing(self) -> bool:
        return len(self.written) >= self.fails_after


def connected() -> tuple[ClientConnection, Pipe]:
    peer, pipe = ClientConnection(None), Pipe()
    peer.connection_made(pipe)
    return peer, pipe


def feed(peer: ClientConnection, data: bytes) -> None:
    """As much as it takes, as a transport hands it over."""
    while data:
        room = peer.get_buffer(-1)
        size = min(len(room), len(data))
        room[:size] = data[:size]
        del room
        peer.buffer_updated(size)
        data = data[size:]


def in_pieces(data: bytes, sizes: list[int]) -> Iterator[bytes]:
    position = 0
    while position < len(data):
        size = sizes[position % len(sizes)]
        yield data[position : position + size]
        position += size


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.sampled_from([0, 1, 3, 100, 16_000, 131_068, 131_072, 400_000]), min_size=1, max_size=8),
    st.lists(st.sampled_from([1_000, 4_097, 65_536, 131_072, 262_144]), min_size=1, max_size=5),
    st.booleans(),
)
def test_frames_are_reassembled(sizes: list[int], pieces: list[int], heeds_pauses: bool) -> None:
    """Whether or not the transport stops reading at once."""
    frames = [bytes([number % 256]) * size for number, size in enumerate(sizes)]
    data = b"".join(len(frame).to_bytes(4, "big") + frame for frame in frames)

    async def run() -> None:
        peer, pipe = connected()

        async def read() -> list[bytes]:
            return [bytes(await peer.read_frame(await peer.read_size())) for _ in frames]

        reading = asyncio.ensure_future(read())
        for piece in in_pieces(data, pieces):
            while heeds_pauses and not pipe.reading:
                await asyncio.sleep(0)
            feed(peer, piece)
        assert await reading == frames
        peer.eof_received()
        with pytest.raises(EOFError):
            await peer.read_size()

    asyncio.run(run())


@pytest.mark.parametrize("sent", [b"", b"\0\0", b"\0\0\0\x09half"])
async def test_a_connection_that_ends_within_a_frame(sent: bytes) -> None:
    peer, _ = connected()
    feed(peer, sent)
    peer.eof_received()
    with pytest.raises(EOFError):
        await peer.read_frame(await peer.read_size())


async def test_a_response_waits_for_the_write_buffer() -> None:
    peer, pipe = connected()
    answer = bytes(range(256)) * 4_000
    peer.pause_writing()
    sending = asyncio.ensure_future(peer.send(answer))
    await asyncio.sleep(0)
    assert 0 < len(pipe.written[0]) < len(answer)
    assert len(pipe.written) == 1
    peer.resume_writing()
    await sending
    assert b"".join(pipe.written) == answer


async def test_a_response_to_a_closed_connection_is_dropped() -> None:
    """The connection is lost while the client does not read."""
    peer, pipe = connected()
    peer.pause_writing()
    sending = asyncio.ensure_future(peer.send(bytes(1_000_000)))
    await asyncio.sleep(0)
    peer.connection_lost(None)
    with pytest.raises(ConnectionResetError):
        await sending
    assert len(pipe.written) == 1
    with pytest.raises(ConnectionResetError):
        await peer.read_size()


async def test_other_connections_are_served_in_between() -> None:
    """After every MiB, and not before."""
    others: list[int] = []
    turns = YieldBudget()
    for number in range(8):
        asyncio.get_running_loop().call_soon(others.append, number)
        await turns.spend(300 << 10)
        assert len(others) == (0 if number < 3 else 4 if number < 7 else 8)


async def test_nothing_is_written_to_a_connection_that_has_failed() -> None:
    peer, pipe = connected()
    pipe.fails_after = 2
    with pytest.raises(ConnectionError):
        await peer.send(bytes(10 << 20))
    assert len(pipe.written) == 2


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory of a process is read from /proc")
async def test_an_announced_frame_takes_no_memory_before_it_is_received() -> None:
    """A client that is not authenticated can send any frame length."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    before = resident()
    reads = []
    try:
        for _ in range(20):
            peer, _ = connected()
            feed(peer, (1 << 27).to_bytes(4, "big") + bytes(1 << 16))
            reads.append(asyncio.ensure_future(peer.read_frame(await peer.read_size())))
        await asyncio.sleep(0)
        # A tenth of the announced length: the system allocates pages of up to 2 MB.
        assert resident() - before < 1 << 28
    finally:
        for read in reads:
            read.cancel()
        await asyncio.gather(*reads, return_exceptions=True)
