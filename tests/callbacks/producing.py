"""Callbacks of producers, of all clients, and of transactions, walked on an embedded broker in virtual time."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokproto import Consumer, ExactlyOnce, Producer
from aiokproto.broker import Cluster
from aiokproto.hooks import Hooks
from aiokproto.interceptors import Interceptor
from tests.callbacks.cases import Misbehaving, Outcome, attempt
from tests.callbacks.environment import PARTITIONS, RECORDS, in_time, written
from tests.observe.test_telemetry import subscribe

Options = dict[str, Any]

TEXT = {"key_serializer": str.encode, "value_serializer": str.encode}


async def _sent(cluster: Cluster, **options: Any) -> Outcome:
    producer: Producer[Any, Any] = Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=0, **options)
    async with in_time(producer):
        outcome = Outcome(
            await attempt(producer.send("d", "a", key="k")), await attempt(producer.send("d", "b", key="k"))
        )
        if outcome.again is None:
            # Other records aren't held up.
            assert await attempt(producer.send("d", "c", partition=0)) is None
    values = written(cluster)
    assert b"b" in values or outcome.again is not None
    if not isinstance(outcome.error, asyncio.CancelledError):
        assert (b"a" in values) == (outcome.error is None), "what was sent is written, and what was refused is not"
    return outcome


async def serializer(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _sent(cluster, key_serializer=str.encode, value_serializer=misbehaving.plain)


async def awaited_serializer(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _sent(cluster, key_serializer=str.encode, value_serializer=misbehaving.awaited, max_block_ms=5000)


async def partitioner(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _sent(cluster, **TEXT, partitioner=misbehaving.plain)


async def process(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    options.update(enable_auto_commit=False, isolation_level="read_committed")
    seen: list[bytes | None] = []
    producer = Producer(bootstrap_servers=cluster.bootstrap_servers, transactional_id="x")

    async def handle(records: Any, txn: Any) -> None:
        for record in records:
            await txn.post("d", record.value)
        await misbehaving.awaited()
        seen.extend(record.value for record in records)
        if len(seen) == PARTITIONS * RECORDS:
            session.stop()

    async with ExactlyOnce(Consumer("t", **options), producer) as session:
        first = await attempt(session.run(handle), within=20)
        again = None if len(seen) == PARTITIONS * RECORDS else await attempt(session.run(handle), within=20)
        assert len(seen) == PARTITIONS * RECORDS or again is not None
        return Outcome(first, again)


def hooking(misbehaving: Misbehaving, method: str) -> Hooks:
    made: Hooks = type("Hooking", (Hooks,), {method: lambda self, event: misbehaving.plain(event)})()
    return made


async def hook(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _sent(
        cluster,
        **TEXT,
        hooks=hooking(misbehaving, "on_batch_written"),
    )


def intercepting(misbehaving: Misbehaving, method: str) -> Interceptor:
    made: Interceptor = type("Intercepting", (Interceptor,), {method: lambda self, *given: misbehaving.plain(*given)})()
    return made


async def on_send(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _sent(
        cluster,
        **TEXT,
        interceptors=intercepting(misbehaving, "on_send"),
    )


async def on_acknowledgement(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    return await _sent(
        cluster,
        **TEXT,
        interceptors=intercepting(misbehaving, "on_acknowledgement"),
    )


async def on_records(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    async with Consumer("t", **options, interceptors=intercepting(misbehaving, "on_records")) as consumer:
        first, again = await attempt(anext(consumer)), await attempt(anext(consumer))
        read = [record for _ in range(3) for record in await consumer.poll(1000)]
        taken = (first is None) + (again is None) + len(read)
        assert taken == PARTITIONS * RECORDS, f"{taken} records were delivered"
        return Outcome(first, again)


async def application_metrics(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    assert await subscribe(cluster, metrics="*", interval_ms="100") == 0
    async with Producer(bootstrap_servers=cluster.bootstrap_servers, application_metrics=misbehaving.plain) as producer:
        first = await attempt(producer.send("d", b"a"))
        # A client requests subscriptions some time after its start.
        await asyncio.sleep(40)
        again = await attempt(producer.send("d", b"b"))
    assert cluster.pushed_metrics()
    return Outcome(first, again)
