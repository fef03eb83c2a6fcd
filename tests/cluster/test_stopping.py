"""An error that ends the client ends every call: those that wait, and later ones."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.config import Address
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerConnectionError,
    ClientClosedError,
    ConfigurationError,
    copied,
    error_for,
)
from tests.cluster.fake import brokers, started
from tests.net.peer import Peer, config
from tests.net.waiting import until
from tests.patience import PATIENCE

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


class Gate:
    """Replaces the connection factory: refuses the credentials once it is shut."""

    def __init__(self) -> None:
        self.shut = False

    def __call__(self, host: str, port: int) -> Address:
        if self.shut:
            raise AuthenticationError("the certificate was revoked")
        return host, port


@asynccontextmanager
async def waiting_calls(gate: Gate) -> AsyncIterator[tuple[ClusterClient, Peer, list[asyncio.Future[Any]]]]:
    """A cluster whose broker does not answer heartbeats, and calls that wait for it in different ways."""
    async with (
        brokers(1, {HeartbeatRequest: lambda request, version: None}) as (_, (broker,)),
        started(broker.port, address_map=gate) as cluster,
    ):
        calls: list[asyncio.Future[Any]] = [
            asyncio.ensure_future(cluster.send(BEAT, 1, channel="held")),
            asyncio.ensure_future(cluster.metadata.wait_for_update(10**9)),
            asyncio.ensure_future(cluster.topic("missing")),
        ]
        await until(lambda: any(isinstance(request, HeartbeatRequest) for request, _ in broker.requests))
        yield cluster, broker, calls


async def test_a_cancelled_metadata_task_ends_every_call(caplog: pytest.LogCaptureFixture) -> None:
    async with waiting_calls(Gate()) as (cluster, _, calls):
        (task,) = (task for task in asyncio.all_tasks() if task.get_name() == "aiokproto metadata")
        task.cancel()
        results = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), PATIENCE)
        for result in results:
            assert isinstance(result, ClientClosedError)
            assert "was cancelled" in str(result)
            assert isinstance(result.__cause__, asyncio.CancelledError)
        with pytest.raises(ClientClosedError, match="was cancelled"):
            await cluster.topic("t")
        assert "metadata task" in caplog.text


async def test_lost_credentials_end_every_call() -> None:
    gate = Gate()
    async with waiting_calls(gate) as (cluster, broker, calls):
        gate.shut = True
        with pytest.raises(AuthenticationError, match="revoked"):
            await cluster.send(BEAT, 1, channel="another")
        results = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), PATIENCE)
        assert [type(result) for result in results] == [AuthenticationError] * 3
        connections = broker.connections
        for _ in range(3):
            with pytest.raises(AuthenticationError, match="revoked"):
                await cluster.request(BEAT, node=1)
        assert broker.connections == connections, "nothing is tried again"


async def test_lost_credentials_are_noticed_by_the_metadata_task() -> None:
    gate = Gate()
    async with waiting_calls(gate) as (_, broker, calls):
        gate.shut = True
        broker.drop_all()
        sent, *others = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), PATIENCE)
        assert isinstance(sent, BrokerConnectionError), "the request was in flight when the connection broke"
        assert [type(result) for result in others] == [AuthenticationError] * 2


async def test_refused_credentials_at_the_start_are_raised_from_it(caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    gate.shut = True
    async with brokers() as (_, (broker,)):
        with pytest.raises(AuthenticationError, match="revoked"):
            async with started(broker.port, address_map=gate):
                pass
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_a_call_from_another_event_loop_is_refused_at_once() -> None:
    """A client's tasks run in the loop that it was started in: in another loop its calls would wait for ever."""
    async with brokers() as (fake, (broker,)), started(broker.port) as cluster:
        fake.leaders = {"t": [(1, 0)]}

        def elsewhere(call: Callable[[], Awaitable[object]]) -> None:
            async def main() -> None:
                await call()

            with pytest.raises(ConfigurationError, match="another event loop"):
                asyncio.run(main())

        for call in (
            lambda: cluster.topic("t"),
            lambda: cluster.request(BEAT),
            lambda: cluster.metadata.wait_for_update(0),
            cluster.close,
        ):
            await asyncio.to_thread(elsewhere, call)
        assert (await cluster.topic("t")).name == "t"


def test_a_client_whose_event_loop_is_closed_refuses_calls() -> None:
    """For example in a session fixture, when each test has its own loop."""
    clusters: list[ClusterClient] = []

    async def first() -> None:
        async with brokers() as (_, (broker,)):
            clusters.append(ClusterClient(config(bootstrap_servers=(("127.0.0.1", broker.port),))))
            await clusters[0].start()

    async def second() -> None:
        await clusters[0].topic("t")

    asyncio.run(first())
    with pytest.raises(ConfigurationError, match="another event loop"):
        asyncio.run(second())


def test_an_error_raised_again_differs_only_in_its_traceback() -> None:
    cause = OSError("the cause")
    first = error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "Fetch of t-0", "no right")
    first.__cause__ = cause
    again = copied(first)
    assert again is not first
    assert isinstance(again, AuthorizationError)
    assert (str(again), again.code, again.__cause__, again.__traceback__) == (str(first), first.code, cause, None)
    assert copied(again).__cause__ is cause
    plain = ClientClosedError("closed")
    assert copied(plain).__cause__ is plain
