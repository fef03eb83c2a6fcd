"""Callbacks of share consumers and of members of other groups, walked on an embedded broker in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from aiokproto import ShareConsumer
from aiokproto.broker import Cluster
from aiokproto.cluster import ClusterClient
from aiokproto.config import ClusterConfig
from aiokproto.group.share_member import ShareMember
from aiokproto.group.streams_member import StreamsListener, StreamsMember
from aiokproto.group.streams_topology import StreamsTopology, Subtopology
from aiokproto.share import ShareRecord
from tests.callbacks.cases import HeldError, Misbehaving, Outcome, attempt
from tests.callbacks.consuming import Running
from tests.callbacks.environment import read

Options = dict[str, Any]


def shared(cluster: Cluster, **options: Any) -> Any:
    return ShareConsumer("t", bootstrap_servers=cluster.bootstrap_servers, group_id="g", **options)


async def share_handler(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    async with shared(cluster) as consumer:
        running = Running(consumer)

        def handle(record: ShareRecord) -> Any:
            return running.after(misbehaving.started(record), record)

        return await running.run(handle, redelivery_backoff_ms=10)


async def on_error(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    async with shared(cluster) as consumer:
        running = Running(consumer)

        async def handle(record: ShareRecord) -> None:
            if record.offset == 0 and record.delivery_count == 1:
                raise OSError("down")
            running.finish(record)

        return await running.run(handle, redelivery_backoff_ms=10, on_error=misbehaving.plain)


async def on_acknowledged(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    async with shared(cluster, on_acknowledged=misbehaving.plain) as consumer:
        await attempt(anext(consumer))
        await attempt(anext(consumer))
        await asyncio.sleep(2)
        return Outcome(await attempt(read(consumer)), await attempt(read(consumer)))


async def _joined(cluster: Cluster, make: Callable[[ClusterClient], Any]) -> Outcome:
    """Be a member for some time; what lasts until it is cancelled has not failed."""
    config = ClusterConfig.parse({"bootstrap_servers": cluster.bootstrap_servers})
    async with ClusterClient(config) as client:
        member = make(client)
        outcome = await attempt(member.run(), within=30)
        began = asyncio.get_running_loop().time()
        assert await attempt(member.leave()) is None
        assert asyncio.get_running_loop().time() - began < 10
        return Outcome(None if isinstance(outcome, HeldError) else outcome)


async def share_member_assigned(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    def make(client: ClusterClient) -> ShareMember:
        member = ShareMember(client, "s", "", misbehaving.plain)
        member.set_topics(frozenset({"t"}))
        return member

    return await _joined(cluster, make)


async def _listened(cluster: Cluster, method: str, call: Any, *topics: str) -> Outcome:
    listener = type("Listening", (StreamsListener,), {method: call})()
    topology = StreamsTopology((Subtopology("0", source_topics=("t", *topics)),), 0)
    return await _joined(cluster, lambda client: StreamsMember(client, "streams", topology, listener))


async def streams_assigned(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    async def call(self: Any, *given: Any) -> Any:
        return await misbehaving.awaited(*given)

    return await _listened(cluster, "assigned", call)


async def streams_status(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    def call(self: Any, *given: Any) -> Any:
        return misbehaving.plain(*given)

    return await _listened(cluster, "status_changed", call, "missing")


async def awaited_streams_status(misbehaving: Misbehaving, cluster: Cluster, options: Options) -> Outcome:
    async def call(self: Any, *given: Any) -> Any:
        return await misbehaving.awaited(*given)

    return await _listened(cluster, "status_changed", call, "missing")
