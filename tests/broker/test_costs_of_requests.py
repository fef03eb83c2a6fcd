"""What requests cost, however they are made: the work grows with their size, and the broker keeps nothing of them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, NamedTuple

import pytest

import aiokproto
from aiokproto.broker import Broker, Security
from aiokproto.broker.handlers import SERVED, describe_user_scram_credentials
from aiokproto.broker.security.credentials import ScramCredentials
from aiokproto.broker.server import dispatch
from aiokproto.broker.yield_budget import YieldBudget
from aiokproto.codec.frames import encode_request
from aiokproto.codec.messages.describe_quorum import DescribeQuorumRequest
from aiokproto.codec.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest, UserName
from aiokproto.codec.messages.list_offsets import ListOffsetsRequest
from aiokproto.codec.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Request
from aiokproto.codec.wire import Limits
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DecodeError
from tests.broker.costly_requests import SHAPES, Shape, request
from tests.broker.reachable import reachable_bytes
from tests.broker.secure import USERS, authenticate, guarded, logged_in
from tests.broker.wire import Wire, connect
from tests.net.waiting import until

SIZES = (30, 60, 120)
PACKAGE = str(Path(aiokproto.__file__).parent)


class Calls:
    """Counts how many functions of this package were called."""

    number = 0


@contextmanager
def counting() -> Iterator[Calls]:
    calls = Calls()

    def profile(frame: FrameType, event: str, _: Any) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(PACKAGE):
            calls.number += 1

    before = sys.getprofile()
    sys.setprofile(profile)
    try:
        yield calls
    finally:
        sys.setprofile(before)


@asynccontextmanager
async def user_of_a_broker(name: str) -> AsyncIterator[tuple[Broker, Wire]]:
    """Log in to a broker where ``admin`` may do everything and ``alice`` nothing."""
    broker = guarded(**{"delegation.token.secret.key": "x"})
    async with broker:
        await broker.create_topic("t", partitions=1)
        async with logged_in(broker, name) as wire:
            yield broker, wire


class Cost(NamedTuple):
    """The bytes of a request, and the calls that it took."""

    size: int
    calls: int


async def exchange(wire: Wire, api_key: int, number: int, shape: Shape, salt: str) -> Cost:
    """Send a request, and wait until the broker answers or closes the connection."""
    version = SERVED[api_key].highest
    frame = encode_request(request(api_key, version, number, shape, salt), version, 1, "client")
    with counting() as calls:
        wire.writer.write(frame)
        try:
            await wire.frame()
        # Not every response can say that everything was refused, so the broker may close the connection.
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
    return Cost(len(frame), calls.number)


async def costs_of(api_key: int, user: str, shape: Shape) -> list[Cost]:
    """Measure requests of the three sizes."""
    found = []
    one = request(api_key, SERVED[api_key].highest, 1, shape)
    # Decoding within a memory limit is compiled for the first request that could exceed it.
    with suppress(DecodeError):
        type(one).decode(one.encode(SERVED[api_key].highest), SERVED[api_key].highest, limits=Limits(memory=100))
    for size in SIZES:
        async with user_of_a_broker(user) as (_, wire):
            # This imports and compiles what the first request of this size needs.
            await exchange(wire, api_key, size, shape, "a")
        async with user_of_a_broker(user) as (_, wire):
            found.append(await exchange(wire, api_key, size, shape, "b"))
    return found


@pytest.mark.parametrize("user", ["admin", "alice"])
@pytest.mark.parametrize("api_key", SERVED, ids=api_name)
async def test_the_work_of_a_request_grows_with_its_size(
    api_key: int, user: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Small requests are handled in steps, too, because each step counts as a call.
    monkeypatch.setattr(dispatch, "_LONG", -1)
    monkeypatch.setattr(dispatch, "_MANY", -1)
    for shape in SHAPES:
        few, some, many = await costs_of(api_key, user, shape)
        # A request has a fixed size, and from there on each byte costs as much as before.
        growth = (many.size - some.size) / max(some.size - few.size, 1)
        # A few more calls are for a buffer that is full.
        assert many.calls - some.calls <= 1.1 * growth * max(some.calls - few.calls, 0) + 100, (shape, few, some, many)


@pytest.mark.parametrize(
    "kind", [OffsetDeleteRequest, ProduceRequest, ListOffsetsRequest, OffsetFetchRequest, DescribeQuorumRequest]
)
async def test_refusing_a_partition_takes_few_calls(kind: type[Request[Any]]) -> None:
    """A request can name a hundred thousand, so what follows from its declaration is looked up once."""
    _, some, many = await costs_of(kind.api_key, "alice", "deep")
    # Three of the calls are the pause that may follow each partition, when it is authorized, divided and refused.
    assert many.calls - some.calls <= 30 * (SIZES[2] - SIZES[1])


async def test_a_request_with_more_parts_than_any_client_sends_closes_the_connection() -> None:
    """It would hold up all others for seconds, whether it is permitted or not."""
    partitions = [OffsetDeleteRequestPartition(partition_index=0)]
    topic = OffsetDeleteRequestTopic(name="t", partitions=partitions)
    # The frame ends with the number of partitions, and the partition. Encoding that many would take longer than the
    # rest of this test.
    frame = bytes(encode_request(OffsetDeleteRequest(group_id="g", topics=[topic]), 0, 1, "client"))[4:-8]
    async with user_of_a_broker("alice") as (_, wire):
        for number, closed in ((5_000, False), (600_000, True)):
            data = frame + number.to_bytes(4, "big") + bytes(4 * number)
            wire.writer.write(len(data).to_bytes(4, "big") + data)
            if closed:
                assert await wire.closed()
            else:
                await wire.frame()


def kept(broker: Broker) -> int:
    """Return the bytes of what a broker keeps."""
    running = broker._running
    parts = (running.security, running.state, running.groups, running.transactions, running.share_states)
    nodes = [(server._dispatcher, server._listener) for server in broker._servers.values()]
    return reachable_bytes(*parts, running.shares, running.telemetry, nodes)


@pytest.mark.parametrize("api_key", list(SERVED), ids=api_name)
async def test_nothing_stays_of_requests_that_are_refused(api_key: int) -> None:
    async with user_of_a_broker("alice") as (broker, _):
        sizes = []
        for turn in range(3):
            for number in range(4):
                async with logged_in(broker, "alice") as wire:
                    await exchange(wire, api_key, 10, "wide", f"{turn}-{number}-" + "x" * 500)
            await until(lambda: len(broker._servers[0]._connections) == 1)
            sizes.append(kept(broker))
        # Each turn has at least 20 KB of names.
        assert sizes[2] - sizes[1] < 2_000, sizes


class Name(str):
    """A text that counts how often it is compared."""

    __slots__ = ()
    comparisons = 0
    __hash__ = str.__hash__

    def __eq__(self, other: object) -> bool:
        Name.comparisons += 1
        return str.__eq__(self, other)


async def test_users_are_not_compared_with_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """A method of a list would compare them in one counted call, so comparisons are counted instead."""
    monkeypatch.setattr(Name, "comparisons", 0)
    users = [UserName(name=Name(f"user{number}")) for number in range(1000)]
    security = SimpleNamespace(credentials=ScramCredentials({"alice": "secret"}))
    context: Any = SimpleNamespace(security=security, each=YieldBudget().each)
    answer = await describe_user_scram_credentials.handle(DescribeUserScramCredentialsRequest(users=users), context)
    assert len(answer.results) == 1000
    assert Name.comparisons < 10_000


LONG = b"x" * 100_000
TOKENS = {
    "PLAIN": b"\0" + LONG + b"\0secret",
    "SCRAM-SHA-256": b"n,,n=" + LONG + b",r=nonce",
    "SCRAM-SHA-512": b"n,,n=alice,r=" + LONG + b",tokenauth=true",
    "OAUTHBEARER": b"n,a=" + LONG + b",\x01auth=Bearer " + LONG + b".e30.\x01\x01",
    "AWS_MSK_IAM": b'{"version":"' + LONG + b'"}',
}


@pytest.mark.parametrize("mechanism", TOKENS)
async def test_nothing_stays_of_logins_that_fail(mechanism: str) -> None:
    given: dict[str, dict[str, Any]] = {
        "OAUTHBEARER": {"unsecured_tokens": True},
        "AWS_MSK_IAM": {"aws_access_keys": {"AKIA": "secret"}},
    }
    security = Security("SASL_PLAINTEXT", **given.get(mechanism, {"users": USERS}))
    async with Broker(security=security, config={"sasl.enabled.mechanisms": mechanism}) as broker:
        sizes = []
        for _ in range(3):
            for number in range(5):
                async with connect(broker) as wire:
                    token = TOKENS[mechanism].replace(b"x", str(number).encode(), 1)
                    answer = await authenticate(wire, mechanism, token)
                    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED or b"invalid" in answer.auth_bytes
                    assert len(answer.error_message or "") < 1000
            await until(lambda: not broker._servers[0]._connections)
            sizes.append(kept(broker))
        assert sizes[2] - sizes[1] < 2_000, sizes
