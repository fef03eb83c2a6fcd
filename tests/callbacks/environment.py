"""The environment in which callbacks misbehave: an embedded broker with records, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from typing import Any

from aiokproto import Consumer
from aiokproto.broker import Cluster, Security
from aiokproto.simulation import Simulation
from tests.callbacks.cases import Misbehaving, Outcome
from tests.simulation.environment import Environment, stored_records
from tests.simulation.sharing import OPTIONS, configure

PARTITIONS, RECORDS = 2, 20

Scenario = Callable[[Misbehaving, Cluster, dict[str, Any]], Awaitable[Outcome]]


MakeSecurity = Callable[[Misbehaving], Security]
"""The security of a broker, which may have the callback."""


def walked(
    scenario: Scenario, make: Callable[[], Misbehaving], make_security: MakeSecurity | None = None
) -> tuple[Outcome, int]:
    """Return what a scenario ends with, and how often its callback was called."""
    simulation = Simulation(1)

    async def main() -> tuple[Outcome, int]:
        misbehaving = make()
        security = Security() if make_security is None else make_security(misbehaving)
        config: dict[str, Any] = {**OPTIONS, "group.min.session.timeout.ms": 500}
        if security.aws_access_keys:
            config["sasl.enabled.mechanisms"] = "AWS_MSK_IAM"
        async with Cluster(1, config=config, security=security) as cluster:
            await cluster.create_topic("t", PARTITIONS)
            await cluster.create_topic("d", PARTITIONS)
            if make_security is None:
                await configure(cluster)
            environment = Environment(simulation, cluster, "t")
            for partition in range(PARTITIONS):
                for number in range(RECORDS):
                    environment.append(partition, b"%d" % number)
            options = {
                "bootstrap_servers": cluster.bootstrap_servers,
                "group_id": "g",
                "auto_offset_reset": "earliest",
                "session_timeout_ms": 3000,
                "heartbeat_interval_ms": 300,
                "default_api_timeout_ms": 5000,
            }
            try:
                return await scenario(misbehaving, cluster, options), misbehaving.calls
            finally:
                misbehaving.release()
                await asyncio.sleep(3)

    return simulation.run(main())


@asynccontextmanager
async def in_time(client: AbstractAsyncContextManager[object]) -> AsyncIterator[None]:
    """Start a client, and close it, which must not wait for what misbehaves."""
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(client)
        try:
            yield
        finally:
            began = asyncio.get_running_loop().time()
            await stack.aclose()
            assert asyncio.get_running_loop().time() - began < 10, "closing is bounded"


async def read(consumer: Consumer) -> None:
    """Let a consumer read, as long as it may have something to report."""
    for _ in range(5):
        await consumer.poll(200)


def written(cluster: Cluster, topic: str = "d") -> list[bytes | None]:
    """The values of all records in a topic."""
    return [value for number in range(PARTITIONS) for _, value in stored_records(cluster, topic, number)]
