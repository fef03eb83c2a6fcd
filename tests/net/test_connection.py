"""One connection against a scripted peer: pipelining, deadlines, cancellation, lost connections, other protocols."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from typing import Any

import pytest

from aiokproto.codec.frames import encode_response
from aiokproto.codec.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from aiokproto.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokproto.codec.messages.list_groups import ListedGroup, ListGroupsRequest, ListGroupsResponse
from aiokproto.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokproto.codec.schema import Response
from aiokproto.errors import (
    BrokerConnectionError,
    ClientClosedError,
    DeadlineError,
    DecodeError,
    EncodeError,
    KafkaError,
    NotKafkaError,
    ResponseTooLargeError,
    UnsupportedVersionError,
)
from aiokproto.net.connection import MAX_THROTTLE, Connection
from aiokproto.net.transport import dial
from tests.net.peer import HangUp, connected, peer, raw_peer, serves
from tests.net.waiting import held_port, until
from tests.timeouts import LONG_TIMEOUT

VERSIONS = serves(Heartbeat=(0, 4), ListGroups=(0, 4), Produce=(3, 13))


def beat(number: int = 0) -> HeartbeatRequest:
    return HeartbeatRequest(group_id="g", generation_id=number, member_id="m")


def echo(request: HeartbeatRequest, version: int) -> HeartbeatResponse:
    """Respond with the generation as error code. So a response shows which request it belongs to."""
    return HeartbeatResponse(error_code=request.generation_id)


def silent(request: object, version: int) -> None:
    return None


def hangs_up(request: object, version: int) -> None:
    raise HangUp


async def test_requests_are_pipelined_and_each_gets_its_response() -> None:
    async with peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: echo}) as broker, connected(broker.port) as line:
        answers = await asyncio.gather(*(line.send(beat(number), timeout=LONG_TIMEOUT) for number in range(50)))
        assert [answer.error_code for answer in answers] == list(range(50))
        assert [request.generation_id for request, _ in broker.requests[1:]] == list(range(50))
        assert line.in_flight == 0


async def test_a_large_response() -> None:
    groups = [ListedGroup(group_id=f"group-{number}", protocol_type="consumer") for number in range(30_000)]

    def listed(request: object, version: int) -> ListGroupsResponse:
        return ListGroupsResponse(error_code=0, groups=groups)

    async with (
        peer({ApiVersionsRequest: VERSIONS, ListGroupsRequest: listed, HeartbeatRequest: echo}) as broker,
        connected(broker.port) as line,
    ):
        big, small = await asyncio.gather(
            line.send(ListGroupsRequest(), timeout=LONG_TIMEOUT), line.send(beat(3), timeout=LONG_TIMEOUT)
        )
        assert big.groups == groups
        assert small.error_code == 3


async def test_a_request_that_times_out_leaves_the_connection_open() -> None:
    """The connection is kept until no response has come for ``request_timeout``."""
    async with peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: silent}) as broker, connected(broker.port) as line:
        with pytest.raises(DeadlineError, match=rf"Heartbeat to 127.0.0.1:{broker.port}: no response in 0.01 s"):
            await line.send(beat(), timeout=0.01)
        assert not line.closed


async def test_a_peer_silent_for_the_request_timeout_loses_the_connection() -> None:
    async with (
        peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: silent}) as broker,
        connected(broker.port, request_timeout=0.02) as line,
    ):
        first = asyncio.ensure_future(line.send(beat(), timeout=0.02))
        second = asyncio.ensure_future(line.send(beat(), timeout=50))
        with pytest.raises(DeadlineError, match=r"no response in 0\.02 s"):
            await first
        with pytest.raises(BrokerConnectionError, match=r"did not respond to Heartbeat in .*Heartbeat was in flight"):
            await second
        assert line.closed


async def test_a_cancelled_request_leaves_the_connection_open_and_its_late_response_is_dropped() -> None:
    held: list[HeartbeatRequest] = []

    def hold_first(request: HeartbeatRequest, version: int) -> HeartbeatResponse | bytes | None:
        if request.generation_id:
            return b"".join(
                encode_response(HeartbeatResponse(error_code=one.generation_id), version, number + 1)
                for number, one in enumerate([*held, request])
            )
        held.append(request)
        return None

    async with (
        peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: hold_first}) as broker,
        connected(broker.port) as line,
    ):
        first = asyncio.ensure_future(line.send(beat(0), timeout=LONG_TIMEOUT))
        await until(lambda: bool(held))
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        assert (await line.send(beat(7), timeout=LONG_TIMEOUT)).error_code == 7


@pytest.mark.parametrize("cut", [0, 3, 7])
async def test_a_lost_connection_fails_and_names_all_requests_in_flight(cut: int) -> None:
    """Also in the middle of a response."""

    def partial(request: HeartbeatRequest, version: int) -> bytes | None:
        if request.generation_id:
            raise HangUp
        return bytes(encode_response(HeartbeatResponse(error_code=0), version, 1)[:cut])

    async with (
        peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: partial}) as broker,
        connected(broker.port) as line,
    ):
        results = await asyncio.gather(
            *(line.send(beat(number), timeout=LONG_TIMEOUT) for number in range(3)), return_exceptions=True
        )
        middle = " in the middle of a response" if cut else ""
        for error in results:
            assert type(error) is BrokerConnectionError
            assert f"127.0.0.1:{broker.port} was lost{middle}: " in str(error)
            assert "(Heartbeat was in flight)" in str(error)
        with pytest.raises(BrokerConnectionError, match="was lost"):
            await line.send(beat(), timeout=LONG_TIMEOUT)


@pytest.mark.parametrize("hang_up", [True, False], ids=["lost", "closed"])
async def test_a_connection_that_has_ended_keeps_no_buffer(hang_up: bool) -> None:
    """Code that keeps an error keeps the connection with it, through the traceback."""

    def answer(request: HeartbeatRequest, version: int) -> bytes:
        if hang_up:
            raise HangUp
        return bytes(encode_response(HeartbeatResponse(error_code=0), version, 99))

    async with peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: answer}) as broker, connected(broker.port) as line:
        with pytest.raises(BrokerConnectionError):
            await line.send(beat(), timeout=LONG_TIMEOUT)
        await line.wait_closed()
        assert len(line.get_buffer(-1)) == 0


async def test_a_response_out_of_order_closes_the_connection() -> None:
    def wrong(request: HeartbeatRequest, version: int) -> bytes:
        return bytes(encode_response(HeartbeatResponse(error_code=0), version, 99))

    async with peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: wrong}) as broker, connected(broker.port) as line:
        with pytest.raises(BrokerConnectionError, match="never sent: correlation id 99, expected 1"):
            await line.send(beat(), timeout=LONG_TIMEOUT)
        assert line.closed


async def test_a_malformed_response_fails_only_its_own_request() -> None:
    def broken(request: HeartbeatRequest, version: int) -> bytes | HeartbeatResponse:
        if request.generation_id:
            return HeartbeatResponse(error_code=1)
        return b"\0\0\0\5\0\0\0\1\xff"

    async with peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: broken}) as broker, connected(broker.port) as line:
        with pytest.raises(DecodeError, match=rf"Heartbeat to 127.0.0.1:{broker.port}: malformed response: "):
            await line.send(beat(), timeout=LONG_TIMEOUT)
        assert (await line.send(beat(1), timeout=LONG_TIMEOUT)).error_code == 1


async def test_a_request_that_cannot_be_encoded_is_not_sent() -> None:
    async with peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: echo}) as broker, connected(broker.port) as line:
        with pytest.raises(EncodeError):
            await line.send(beat(1 << 40), timeout=LONG_TIMEOUT)
        with pytest.raises(UnsupportedVersionError):
            await line.send(ProduceRequest(acks=0, timeout_ms=1, topic_data=[]), timeout=LONG_TIMEOUT, max_version=2)
        assert (await line.send(beat(4), timeout=LONG_TIMEOUT)).error_code == 4
        assert len(broker.requests) == 2


async def test_a_oneway_request_expects_no_response() -> None:
    async with (
        peer({ApiVersionsRequest: VERSIONS, ProduceRequest: silent, HeartbeatRequest: echo}) as broker,
        connected(broker.port) as line,
    ):
        await line.send_oneway(ProduceRequest(acks=0, timeout_ms=1, topic_data=[]), timeout=LONG_TIMEOUT)
        assert (await line.send(beat(2), timeout=LONG_TIMEOUT)).error_code == 2
        assert [type(request).__name__ for request, _ in broker.requests[1:]] == ["ProduceRequest", "HeartbeatRequest"]


async def test_a_oneway_request_waits_for_the_write_buffer() -> None:
    """A broker that stops reading cannot make the client buffer more and more bytes."""
    reads = asyncio.Event()

    async def lazy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4), "big")
        await reader.readexactly(size)
        answer = VERSIONS(None, 0)
        assert isinstance(answer, Response)
        writer.write(encode_response(answer, ApiVersionsRequest.versions.highest, 0))
        await reads.wait()
        while await reader.read(1 << 20):
            pass

    topic = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=bytes(1 << 20))])
    request = ProduceRequest(acks=0, timeout_ms=1, topic_data=[topic])

    async def flood(line: Connection) -> None:
        for _ in range(64):
            await line.send_oneway(request, timeout=0.05, max_version=12)

    async with raw_peer(lazy) as port, connected(port) as line:
        with pytest.raises(DeadlineError, match=rf"Produce to 127.0.0.1:{port}: not written to the socket in 0.05 s"):
            await flood(line)
        reads.set()
        await line.send_oneway(request, timeout=LONG_TIMEOUT, max_version=12)


def throttled(seconds: float) -> Callable[[HeartbeatRequest, int], HeartbeatResponse]:
    """Respond as `echo`; to generation 0 with a throttle time."""

    def answer(request: HeartbeatRequest, version: int) -> HeartbeatResponse:
        pause = 0 if request.generation_id else round(seconds * 1000)
        return HeartbeatResponse(error_code=request.generation_id, throttle_time_ms=pause)

    return answer


async def test_throttled_requests_wait_and_keep_their_order() -> None:
    async with (
        peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: throttled(MAX_THROTTLE)}) as broker,
        connected(broker.port) as line,
    ):
        await line.send(beat(0), timeout=LONG_TIMEOUT)
        calls = [asyncio.ensure_future(line.send(beat(number), timeout=LONG_TIMEOUT)) for number in (1, 2, 3)]
        now = asyncio.get_running_loop().time()
        gone = asyncio.ensure_future(line.send(beat(9), timeout=LONG_TIMEOUT, deadline=now + 0.001))
        with pytest.raises(DeadlineError):
            await gone
        assert len(broker.requests) == 2, "nothing is sent during the pause"
        line._end_throttle()
        assert [(await call).error_code for call in calls] == [1, 2, 3]
        assert [request.generation_id for request, _ in broker.requests[1:]] == [0, 1, 2, 3], (
            "the cancelled request was not sent"
        )


async def test_a_throttled_oneway_request_is_waited_for() -> None:
    """It has no response, so nothing else limits how many collect until the pause ends."""
    request = ProduceRequest(acks=0, timeout_ms=1, topic_data=[])
    async with (
        peer(
            {ApiVersionsRequest: VERSIONS, HeartbeatRequest: throttled(MAX_THROTTLE), ProduceRequest: silent}
        ) as broker,
        connected(broker.port) as line,
    ):
        await line.send(beat(0), timeout=LONG_TIMEOUT)
        first, second = (asyncio.ensure_future(line.send_oneway(request, timeout=LONG_TIMEOUT)) for _ in range(2))
        await asyncio.sleep(0)
        assert not first.done()
        line._end_throttle()
        await first
        await second
        line._throttle(MAX_THROTTLE)
        lost = asyncio.ensure_future(line.send_oneway(request, timeout=LONG_TIMEOUT))
        await asyncio.sleep(0)
        line.close()
        with pytest.raises(ClientClosedError):
            await lost


async def test_throttling_ends() -> None:
    async with (
        peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: throttled(0.02)}) as broker,
        connected(broker.port) as line,
    ):
        await line.send(beat(0), timeout=LONG_TIMEOUT)
        answers = await asyncio.gather(*(line.send(beat(number), timeout=LONG_TIMEOUT) for number in (1, 2, 3)))
        assert [answer.error_code for answer in answers] == [1, 2, 3]


async def test_the_timeout_of_a_throttled_request_starts_when_it_is_sent() -> None:
    """It does not time out, and the connection stays open."""
    outcomes: list[object] = []
    async with (
        peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: throttled(MAX_THROTTLE)}) as broker,
        connected(broker.port, request_timeout=LONG_TIMEOUT) as line,
    ):
        await line.send(beat(0), timeout=LONG_TIMEOUT)
        line.send_nowait(beat(1), outcomes.append, timeout=LONG_TIMEOUT)
        later = asyncio.ensure_future(line.send(beat(2), timeout=LONG_TIMEOUT))
        await asyncio.sleep(0)
        line._on_timer(asyncio.get_running_loop().time() + 2 * LONG_TIMEOUT)
        assert not outcomes
        assert not line.closed
        line._end_throttle()
        assert (await later).error_code == 2
        assert [getattr(outcome, "error_code", outcome) for outcome in outcomes] == [1]


async def test_the_error_for_a_response_that_is_too_large_names_the_option_and_the_request() -> None:
    """The requests behind it fail only with a lost connection, and may be sent again."""
    reads = asyncio.Event()

    def large(request: object, version: int) -> bytes:
        reads.set()
        return struct.pack(">ii", 1 << 30, 1)

    async with (
        peer({ApiVersionsRequest: VERSIONS, ListGroupsRequest: large, HeartbeatRequest: echo}) as broker,
        connected(broker.port) as line,
    ):
        first = asyncio.ensure_future(line.send(ListGroupsRequest(), timeout=LONG_TIMEOUT))
        behind = asyncio.ensure_future(line.send(beat(1), timeout=LONG_TIMEOUT))
        with pytest.raises(
            ResponseTooLargeError,
            match=rf"ListGroups to 127.0.0.1:{broker.port}: .* {1 << 30} bytes.*max_response_size",
        ):
            await first
        with pytest.raises(BrokerConnectionError, match="Heartbeat was in flight"):
            await behind
        with pytest.raises(BrokerConnectionError):
            await line.send(beat(2), timeout=LONG_TIMEOUT)


async def test_send_nowait_writes_at_once_and_calls_back_in_order() -> None:
    outcomes: list[int] = []

    def tell(outcome: HeartbeatResponse | KafkaError) -> None:
        assert isinstance(outcome, HeartbeatResponse)
        outcomes.append(outcome.error_code)

    async with peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: echo}) as broker, connected(broker.port) as line:
        before = asyncio.all_tasks()
        for number in (1, 2, 3):
            line.send_nowait(beat(number), tell, timeout=LONG_TIMEOUT)
        assert (line.in_flight, outcomes) == (3, [])
        assert asyncio.all_tasks() == before, "no task waits for the answers"
        assert (await line.send(beat(4), timeout=LONG_TIMEOUT)).error_code == 4
        assert outcomes == [1, 2, 3]


@pytest.mark.parametrize(
    ("answer", "error"),
    [(silent, DeadlineError), (hangs_up, BrokerConnectionError), (lambda *_: b"\0\0\0\5\0\0\0\1\xff", DecodeError)],
    ids=["silence", "loss", "nonsense"],
)
async def test_a_callback_gets_one_error_if_there_is_no_response(
    answer: Callable[[object, int], bytes | None], error: type[KafkaError]
) -> None:
    outcomes: list[object] = []
    async with peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: answer}) as broker, connected(broker.port) as line:
        line.send_nowait(beat(), outcomes.append, timeout=0.01 if error is DeadlineError else LONG_TIMEOUT)
        await until(lambda: bool(outcomes))
    assert [type(outcome) for outcome in outcomes] == [error]


async def test_send_nowait_raises_without_a_callback_if_the_request_cannot_be_sent() -> None:
    outcomes: list[object] = []
    async with peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: echo}) as broker, connected(broker.port) as line:
        with pytest.raises(EncodeError):
            line.send_nowait(beat(1 << 40), outcomes.append, timeout=LONG_TIMEOUT)
        with pytest.raises(UnsupportedVersionError):
            line.send_nowait(
                ProduceRequest(acks=0, timeout_ms=1, topic_data=[]),
                outcomes.append,
                timeout=LONG_TIMEOUT,
                max_version=2,
            )
        line.close()
        with pytest.raises(ClientClosedError):
            line.send_nowait(beat(), outcomes.append, timeout=LONG_TIMEOUT)
        await line.wait_closed()
    assert outcomes == []
    assert len(broker.requests) == 1


async def test_a_throttle_time_in_the_response_to_send_nowait_pauses_the_connection() -> None:
    outcomes: list[object] = []
    async with (
        peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: throttled(MAX_THROTTLE)}) as broker,
        connected(broker.port) as line,
    ):
        line.send_nowait(beat(0), outcomes.append, timeout=LONG_TIMEOUT)
        await until(lambda: bool(outcomes))
        line.send_nowait(beat(1), outcomes.append, timeout=LONG_TIMEOUT)
        now = asyncio.get_running_loop().time()
        late = asyncio.ensure_future(line.send(beat(2), timeout=LONG_TIMEOUT, deadline=now + 0.001))
        with pytest.raises(DeadlineError):
            await late
        assert len(broker.requests) == 2, "nothing is sent during the pause"
        line._end_throttle()
        await until(lambda: len(outcomes) == 2)


async def test_close_fails_requests_in_flight() -> None:
    async with peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: silent}) as broker, connected(broker.port) as line:
        call = asyncio.ensure_future(line.send(beat(), timeout=LONG_TIMEOUT))
        await until(lambda: len(broker.requests) == 2)
        line.close()
        with pytest.raises(ClientClosedError, match="Heartbeat was in flight"):
            await call
        await line.wait_closed()


async def test_an_idle_connection_is_closed() -> None:
    async with (
        peer({ApiVersionsRequest: VERSIONS}) as broker,
        connected(broker.port, connections_max_idle=0.01) as line,
    ):
        await line.wait_closed()
        assert "idle" in str(line.failure)


async def test_an_idle_timeout_is_checked_while_responses_are_awaited() -> None:
    """Responses may come long before their deadlines."""
    async with (
        peer({ApiVersionsRequest: VERSIONS, HeartbeatRequest: silent}) as broker,
        connected(broker.port, connections_max_idle=100.0) as line,
    ):
        line.send_nowait(beat(), lambda outcome: None, timeout=1000)
        now = asyncio.get_running_loop().time()
        line._timer.cancel()
        line._on_timer(now)
        assert line._timer._when <= now + 100


async def test_api_versions_is_sent_again_in_the_version_the_broker_supports() -> None:
    """KIP-511: the newest form is refused in the form of version 0, which names the newest version that the broker
    has."""

    def old(request: object, version: int) -> ApiVersionsResponse:
        keys = [
            ApiVersion(api_key=18, min_version=0, max_version=2),
            ApiVersion(api_key=12, min_version=0, max_version=1),
        ]
        return ApiVersionsResponse(error_code=35 if version > 2 else 0, api_keys=keys)

    async with peer({ApiVersionsRequest: old, HeartbeatRequest: echo}) as broker, connected(broker.port) as line:
        assert [version for _, version in broker.requests] == [ApiVersionsRequest.versions.highest, 2]
        await line.send(beat(1), timeout=LONG_TIMEOUT)
        assert broker.requests[-1][1] == 1
        assert broker.connections == 1


async def test_an_http_server_is_recognised() -> None:
    async def http(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(100)
        writer.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
        await writer.drain()

    async with raw_peer(http) as port:
        with pytest.raises(NotKafkaError, match=f"127.0.0.1:{port} does not speak Kafka.*HTTP/1.1 400 Bad Request"):
            async with connected(port):
                pass


async def test_connecting_to_a_silent_peer_ends_at_the_connect_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1000)
        await reader.read(1000)

    async def connects(*given: Any, **options: Any) -> Any:
        """Connecting may take long: only the response is too late."""
        return await dial(*given, **{**options, "deadline": asyncio.get_running_loop().time() + LONG_TIMEOUT})

    monkeypatch.setattr("aiokproto.net.open.dial", connects)
    async with raw_peer(mute) as port:
        with pytest.raises(DeadlineError, match=r"ApiVersions to .*: no response in [\d.]+ s"):
            async with connected(port, timeout=0.02):
                pass


async def test_a_port_without_a_listener_refuses_the_connection() -> None:
    with (
        held_port() as port,
        pytest.raises(BrokerConnectionError, match=rf"cannot connect to 127.0.0.1:{port}: .*connection refused"),
    ):
        async with connected(port):
            pass
