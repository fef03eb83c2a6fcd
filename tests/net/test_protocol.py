"""The sans-I/O client protocol: frames from a stream cut anywhere, responses in order, other protocols recognised."""

from __future__ import annotations

import mmap
import struct
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.errors import BrokerConnectionError, NotKafkaError, ResponseTooLargeError
from aiokproto.net.protocol import MAX_FIRST_RESPONSE_SIZE, READ_AT_ONCE, SCRATCH_SIZE, TOKEN, ClientProtocol

LIMIT = 1 << 20


def protocol(expecting: int = 0, limit: int = LIMIT) -> ClientProtocol[int]:
    """A protocol with requests 0, 1, … in flight; each has its own number as its token."""
    made: ClientProtocol[int] = ClientProtocol("broker 1", "me", limit)
    for number in range(expecting):
        made.sent(number, 12, number)
    return made


def feed(to: ClientProtocol[int], data: bytes, sizes: list[int]) -> list[tuple[int, bytes]]:
    """Read ``data`` in pieces of these sizes (in turn), and never more than the buffer takes."""
    answers: list[tuple[int, bytes]] = []
    turn = 0
    while data:
        buffer = to.get_buffer()
        assert len(buffer) > 0
        count = min(len(buffer), sizes[turn % len(sizes)], len(data))
        buffer[:count] = data[:count]
        data = data[count:]
        turn += 1
        answers += [(token, bytes(frame)) for token, frame in to.received(count)]
    return answers


def framed(correlation_id: int, body: bytes) -> bytes:
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


@settings(deadline=None)
@given(
    bodies=st.lists(
        st.one_of(
            st.binary(max_size=40),
            st.integers(SCRATCH_SIZE - 20, SCRATCH_SIZE + 20).map(lambda size: b"x" * size),
            st.just(b"y" * 3 * SCRATCH_SIZE),
        ),
        max_size=6,
    ),
    sizes=st.lists(st.sampled_from([1, 3, 4, 5, 11, 1000, 65535, 65536, 1 << 20]), min_size=1, max_size=5).filter(
        lambda sizes: max(sizes) > 999
    ),
)
def test_any_cut_of_the_stream_gives_the_same_frames(bodies: list[bytes], sizes: list[int]) -> None:
    stream = b"".join(framed(number, body) for number, body in enumerate(bodies))
    reading = protocol(expecting=len(bodies))
    expected = [(number, struct.pack(">i", number) + body) for number, body in enumerate(bodies)]
    assert feed(reading, stream, sizes) == expected
    assert not reading.mid_frame
    assert not reading.pending


@settings(deadline=None)
@given(st.binary(min_size=1, max_size=400), st.integers(1, 50))
def test_random_bytes_raise_a_protocol_error_or_wait_for_more(data: bytes, size: int) -> None:
    reading = protocol(expecting=3)
    try:
        feed(reading, data, [size])
    except BrokerConnectionError:
        pass


def test_the_end_of_the_stream_within_a_frame_is_an_error() -> None:
    reading = protocol(expecting=1)
    assert feed(reading, framed(0, b"abc")[:-1], [100]) == []
    assert reading.mid_frame
    assert not reading.has_responded


def test_a_large_frame_is_read_into_a_buffer_of_its_own() -> None:
    """Bytes already read are copied once; the rest is read directly into the frame's buffer."""
    reading = protocol(expecting=2)
    body = bytes(range(256)) * 1024
    assert feed(reading, framed(0, body)[:1000], [1000]) == []
    assert len(reading.get_buffer()) == len(body) + 8 - 1000
    rest = framed(0, body)[1000:] + framed(1, b"next")
    assert feed(reading, rest, [1 << 20]) == [(0, bytes(4) + body), (1, b"\0\0\0\1next")]


def test_a_turn_reads_no_more_than_its_share_of_a_large_frame() -> None:
    reading = protocol(expecting=1, limit=8 * READ_AT_ONCE)
    reading.opened()
    body = bytes(range(256)) * (READ_AT_ONCE // 64)
    assert feed(reading, framed(0, body)[:1000], [1000]) == []
    rest = framed(0, body)[1000:]
    shares: list[int] = []
    answers: list[bytes] = []
    while rest:
        buffer = reading.get_buffer()
        shares.append(len(buffer))
        buffer[:] = rest[: len(buffer)]
        rest = rest[len(buffer) :]
        answers = [bytes(frame) for _, frame in reading.received(len(buffer))]
    assert set(shares[:-1]) == {READ_AT_ONCE}
    assert answers == [bytes(4) + body]


def test_responses_before_a_malformed_one_are_delivered() -> None:
    reading = protocol(expecting=2)
    got: list[int] = []
    data = framed(0, b"") + framed(7, b"")
    reading.get_buffer()[: len(data)] = data
    with pytest.raises(BrokerConnectionError):
        got.extend(token for token, _ in reading.received(len(data)))
    assert got == [0]


def test_a_response_out_of_order_is_an_error() -> None:
    with pytest.raises(BrokerConnectionError, match="out of order: correlation id 1, expected 0"):
        feed(protocol(expecting=2), framed(1, b""), [100])


def test_a_response_to_a_request_that_was_never_sent_is_an_error() -> None:
    with pytest.raises(BrokerConnectionError, match="never sent: correlation id 9, expected 0"):
        feed(protocol(expecting=2), framed(9, b""), [100])


def test_a_response_without_a_request_is_an_error() -> None:
    with pytest.raises(BrokerConnectionError, match="request 0, but none is in flight"):
        feed(protocol(), framed(0, b""), [100])


@pytest.mark.parametrize(
    ("seen", "named"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nServer: x\r\n\r\n", r"HTTP server \('HTTP/1.1 400 Bad Request'\)"),
        (b"\x15\x03\x03\x00\x02\x02\x46", "TLS server"),
        (b"SSH-2.0-OpenSSH_9.2\r\n", "SSH-2.0"),
        (b"-ERR unknown command\r\n", "-ERR"),
        (b"\xff\xff\xff\xff\x00", "ffff|xff"),
        (b"\x00\x00\x00\x03abc", "does not speak Kafka"),
    ],
)
def test_other_protocols_are_recognised_by_their_first_bytes(seen: bytes, named: str) -> None:
    with pytest.raises(NotKafkaError, match=named):
        feed(protocol(expecting=1), seen, [1000])


def test_a_tls_alert_is_recognised_with_any_limit() -> None:
    with pytest.raises(NotKafkaError, match="TLS server"):
        feed(protocol(expecting=1, limit=(1 << 31) - 1), b"\x15\x03\x03\x00\x02\x02\x46", [1000])


@pytest.mark.parametrize(("size", "fits"), [(LIMIT, True), (LIMIT + 1, False)])
def test_the_limit_of_a_later_frame(size: int, fits: bool) -> None:
    """A peer that has responded before is a broker: a frame is then too large, not another protocol."""
    reading = protocol(expecting=2)
    feed(reading, framed(0, b""), [100])
    announcement = struct.pack(">ii", size, 1)
    if fits:
        assert feed(reading, announcement, [100]) == []
        assert reading.mid_frame
    else:
        with pytest.raises(ResponseTooLargeError, match=f"{size} bytes exceeds max_response_size={LIMIT}"):
            feed(reading, announcement, [100])


def test_a_frame_that_is_too_large_with_no_request_in_flight() -> None:
    reading = protocol(expecting=1)
    feed(reading, framed(0, b""), [100])
    with pytest.raises(BrokerConnectionError, match="without a request in flight"):
        feed(reading, struct.pack(">ii", LIMIT + 1, 1), [100])


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory of a process is read from /proc")
def test_a_frame_length_alone_allocates_little_memory() -> None:
    """A frame length alone allocates little memory, both in the scratch buffer and in a frame's own buffer."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * mmap.PAGESIZE

    reading = protocol(expecting=1, limit=1 << 30)
    reading.opened()
    before = resident()
    assert feed(reading, struct.pack(">ii", 1 << 29, 0), [100]) == []
    assert feed(reading, bytes(1 << 20), [1 << 16]) == []
    assert reading.mid_frame
    assert resident() - before < 1 << 26


@pytest.mark.parametrize("size", [0, 3, 100, LIMIT])
def test_a_connection_that_has_ended_keeps_only_the_start_of_a_frame(size: int) -> None:
    """Errors name the connection and refer to it: buffers would stay until the garbage collector runs."""
    reading = protocol(expecting=1)
    reading.opened()
    feed(reading, framed(0, bytes(LIMIT - 4))[:size], [1 << 16])
    unfinished = reading.unfinished
    reading.end()
    assert (reading.unfinished, reading.mid_frame) == (unfinished, size > 0)
    assert len(reading.get_buffer()) == 0
    kept = [each for each in vars(reading).values() if isinstance(each, bytearray | memoryview)]
    assert sum(map(len, kept)) < 3 * SCRATCH_SIZE


def test_a_peer_gets_little_memory_before_the_connection_is_open() -> None:
    reading = protocol(expecting=2, limit=1 << 30)
    assert len(feed(reading, framed(0, b"short"), [100])) == 1
    with pytest.raises(BrokerConnectionError, match="has 1048577 bytes, and the connection is not open yet"):
        feed(reading, struct.pack(">ii", MAX_FIRST_RESPONSE_SIZE + 1, 1), [100])


def test_tokens_are_frames_of_any_content_between_responses() -> None:
    reading = protocol(expecting=1, limit=1 << 20)
    for _ in range(3):
        reading.sent(TOKEN, 36, 9)
    tokens = struct.pack(">i", 0) + struct.pack(">i2s", 2, b"ab") + struct.pack(">i4s", 4, b"\xff" * 4)
    stream = framed(0, b"x") + tokens
    frames = [frame for _, frame in feed(reading, stream, [3])]
    assert frames[1:] == [b"", b"ab", b"\xff" * 4]
    reading.sent(TOKEN, 36, 9)
    with pytest.raises(BrokerConnectionError, match="impossible length of -1 bytes"):
        feed(reading, struct.pack(">i", -1), [100])


def test_correlation_ids_count_up_and_wrap() -> None:
    sending: ClientProtocol[int] = ClientProtocol("b", None, LIMIT, first_correlation_id=(1 << 31) - 2)
    request = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
    ids = [sending.encode(request, 0)[0] for _ in range(3)]
    assert ids == [(1 << 31) - 2, (1 << 31) - 1, 0]
