"""Clients, topics, groups and brokers come and go, and the memory of a cluster doesn't grow with their number."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from typing import Any

import pytest

from aiokproto.broker import Cluster, Security
from aiokproto.broker.server.listener import SLOT_SECONDS
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.simulation import Simulation
from tests.broker.secure import AUTHORIZER
from tests.broker.wire import connect
from tests.simulation import broker_lives
from tests.simulation.broker_lives import Round
from tests.simulation.everything import FAST
from tests.simulation.reachable import held_items
from tests.simulation.sharing import OPTIONS

SHORT = {
    **FAST,
    **OPTIONS,
    "log.cleaner.backoff.ms": 10_000,
    "log.cleaner.delete.retention.ms": 0,
    "log.cleaner.min.cleanable.ratio": 0.0,
    "log.retention.check.interval.ms": 2000,
    "log.retention.ms": 4000,
    "log.roll.ms": 1000,
    "log.segment.delete.delay.ms": 1000,
    "max.incremental.fetch.session.cache.slots": 2,
    "offsets.retention.check.interval.ms": 2000,
    "offsets.retention.minutes": 1,
    "offsets.topic.num.partitions": 1,
    "producer.id.expiration.ms": 5000,
    "share.coordinator.cold.partition.snapshot.interval.ms": 10_000,
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.state.topic.prune.interval.ms": 10_000,
    "transaction.remove.expired.transaction.cleanup.interval.ms": 2000,
    "transaction.state.log.num.partitions": 1,
    "transactional.id.expiration.ms": 5000,
}
"""Options of brokers, with which everything that ends by time ends soon."""
SETTLED = 120.0
"""Seconds after which everything has ended: sessions of members take 45, and then offsets stay for a minute."""
SECURE = {
    "authorizer.class.name": AUTHORIZER,
    "delegation.token.expiry.check.interval.ms": 600_000,
    "delegation.token.secret.key": "secret",
    # Each checkpoint is a write that waits for the disk.
    "log.flush.offset.checkpoint.interval.ms": 36_000_000,
    "super.users": "User:admin",
}
SECURE_SETTLED = 3700.0
"""Meters of quotas stay for an hour."""


def grown(
    live: Round, few: int, config: Mapping[str, Any] = SHORT, settled: float = SETTLED, **options: Any
) -> dict[str, tuple[int, int]]:
    """Return the attributes that hold more after three times as many rounds, with both numbers."""
    simulation = Simulation(1)

    async def held(cluster: Cluster, numbers: range) -> Counter[str]:
        for number in numbers:
            # Things that end with the next append or request end now. Only this may be left from this round.
            if number == numbers[-1]:
                await asyncio.sleep(settled)
            await live(cluster, number)
        await asyncio.sleep(settled)
        return held_items({"cluster": cluster}, tuples=True)

    async def main() -> dict[str, tuple[int, int]]:
        async with Cluster(2, auto_create_topics=False, config=config, **options) as cluster:
            await cluster.create_topic("stable", 2, 2)
            before = await held(cluster, range(few))
            after = await held(cluster, range(few, 3 * few))
            assert before["cluster ClusterState.topics"] >= 1, "what is held is found"
            return {place: (before[place], count) for place, count in after.items() if count > before[place]}

    return simulation.run(main())


@pytest.mark.parametrize("name", ["topics", "producers", "internal_topics", "groups", "share_groups", "brokers"])
def test_what_brokers_hold_does_not_grow_with_what_comes_and_goes(name: str) -> None:
    assert grown(getattr(broker_lives, name), 3) == {}


def test_what_brokers_hold_does_not_grow_with_connections_users_quotas_acls_and_tokens() -> None:
    security = Security("SASL_PLAINTEXT", users={"admin": "a"})
    assert grown(broker_lives.connections, 3, SECURE, SECURE_SETTLED, security=security) == {}


def test_connections_that_end_while_all_slots_are_taken_are_forgotten() -> None:
    simulation = Simulation(1)
    config = {"max.connections": 1, "max.connections.per.ip": 5}

    async def main() -> None:
        async with Cluster(1, config=config) as cluster, connect(cluster) as served:
            await served.ask(MetadataRequest(topics=[]), 9)
            before = held_items({"cluster": cluster}, tuples=True)
            for number in range(4):
                async with connect(cluster) as wire:
                    # The broker doesn't read the request, so the end of the connection stays behind it.
                    wire.send(MetadataRequest(topics=[]), 9)
                    if number == 3:
                        wire.writer.transport.abort()
            # These are all the connections that the address may have.
            async with connect(cluster) as refused:
                assert await refused.closed()
            await asyncio.sleep(SLOT_SECONDS + 1)
            assert held_items({"cluster": cluster}, tuples=True) == before
            async with connect(cluster) as waiting:
                waiting.send(MetadataRequest(topics=[]), 9)
                # The client won't send anything else, and gets its response.
                waiting.writer.write_eof()
                await asyncio.sleep(SLOT_SECONDS / 2)
                served.writer.close()
                await waiting.frame()

    simulation.run(main())
