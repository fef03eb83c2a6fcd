"""What an application does with a cluster, whichever broker serves it. Each function returns what it saw."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable
from typing import Any

from aiokproto import Consumer, Producer
from aiokproto.types import TopicPartition

VALUES = [b"value %d" % number for number in range(30)]


async def produce(servers: str, topic: str, values: list[bytes] | None = None, **options: Any) -> int:
    """Write values to all partitions; return how many offsets were acknowledged."""
    async with Producer(bootstrap_servers=servers, **options) as producer:
        outcomes = await producer.send_many(topic, VALUES if values is None else values)
        for error in outcomes.errors.values():
            raise error
        return len(outcomes)


async def consume(servers: str, topic: str, count: int = len(VALUES), **options: Any) -> list[bytes]:
    """Read so many values from the start; return them sorted."""
    defaults: dict[str, Any] = {"auto_offset_reset": "earliest"}
    async with Consumer(topic, bootstrap_servers=servers, **defaults | options) as consumer:
        return sorted([(await anext(consumer)).value or b"" for _ in range(count)])


async def read_across_a_move(servers: str, topic: str, move: Callable[[], Awaitable[object]]) -> list[bytes | None]:
    """Write to a partition and read it; have its leader moved; write and read on, when the position is validated."""
    at = TopicPartition(topic, 0)
    options: dict[str, Any] = {"bootstrap_servers": servers, "metadata_max_age_ms": 200}
    async with (
        Producer(bootstrap_servers=servers) as producer,
        Consumer(topic, auto_offset_reset="earliest", **options) as consumer,
    ):
        seen: list[bytes | None] = []
        for values in (VALUES[:10], VALUES[10:]):
            for value in values:
                await producer.send(topic, value, partition=0)
            while len(seen) < 10 or seen[-1] != values[-1]:
                seen += [record.value for record in await consumer.poll(100)]
            epoch = consumer._engine.cluster.snapshot.leader_epoch(*at)
            await move()
            while consumer._engine.assignment.cursors[at].fetch.leader_epoch <= epoch:
                seen += [record.value for record in await consumer.poll(100)]
        return seen


async def consume_in_turn(servers: str, topic: str, **options: Any) -> list[bytes]:
    """Read with a group: two thirds with one member, and the rest with the next; return all sorted."""
    group = f"group-{secrets.token_hex(4)}"
    # A short session is safe, because members of other tests and groups never wait for each other. Servers that ignore
    # LeaveGroup need it.
    options = {"group_id": group, "session_timeout_ms": 6000, "heartbeat_interval_ms": 100} | options
    part = len(VALUES) * 2 // 3
    first = await consume(servers, topic, part, **options)
    return sorted(first + await consume(servers, topic, len(VALUES) - part, **options))


async def transact(servers: str, topic: str) -> None:
    """Write all values twice: in a transaction that is aborted, and in one that is committed."""
    async with Producer(bootstrap_servers=servers, transactional_id=f"id-{secrets.token_hex(4)}") as producer:
        for commit in (False, True):
            async with producer.transaction() as transaction:
                for value in VALUES:
                    await transaction.post(topic, value)
                # Flush, because an abort would drop records that weren't sent.
                await producer.flush()
                if not commit:
                    await transaction.abort()


async def commit_in_transaction(servers: str, topic: str) -> int:
    """Commit an offset of partition 0 for a group in a transaction; return what the group then has."""
    group = f"group-{secrets.token_hex(4)}"
    async with (
        Producer(bootstrap_servers=servers, transactional_id=f"id-{secrets.token_hex(4)}") as producer,
        producer.transaction() as transaction,
    ):
        await transaction.send_offsets({(topic, 0): 7}, group)
    async with Consumer(bootstrap_servers=servers, group_id=group) as consumer:
        found = (await consumer.committed((topic, 0)))[TopicPartition(topic, 0)]
        return -1 if found is None else found.offset
