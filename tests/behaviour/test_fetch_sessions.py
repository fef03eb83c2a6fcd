"""Fetch sessions (KIP-227), request by request, on the embedded broker and on real Kafka."""

from __future__ import annotations

from collections.abc import Sequence

from aiokproto.codec.messages.fetch import FetchRequest, ForgottenTopic
from aiokproto.error_codes import ErrorCode
from tests.broker.wire import Wire, connect, fetch_request
from tests.clusters import BehaviourCluster

VERSION = 12


def incremental(session_id: int, epoch: int, *, forget: Sequence[int] = (), topic: str = "") -> FetchRequest:
    forgotten = [ForgottenTopic(topic=topic, partitions=list(forget))] if forget else []
    return FetchRequest(
        session_id=session_id, session_epoch=epoch, topics=[], forgotten_topics_data=forgotten, max_wait_ms=0
    )


async def begin(wire: Wire, topic: str) -> int:
    """Open a session with the topic's first partition, once its leader is elected."""
    while True:
        response = await wire.ask(fetch_request(topic, session_epoch=0, max_wait_ms=0), VERSION)
        assert response.session_id > 0
        if response.responses[0].partitions[0].error_code == 0:
            return response.session_id


async def test_a_session_without_partitions_left_ends(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with connect(cluster) as wire:
        session_id = await begin(wire, topic)
        response = await wire.ask(incremental(session_id, 1, forget=[0], topic=topic), VERSION)
        assert (response.error_code, response.session_id, response.responses) == (0, 0, [])
        response = await wire.ask(incremental(session_id, 2), VERSION)
        assert response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


async def test_a_session_may_start_without_partitions(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    async with connect(cluster) as wire:
        first = await wire.ask(incremental(0, 0), VERSION)
        assert first.error_code == 0
        assert first.session_id > 0
        request = fetch_request(topic, session_id=first.session_id, session_epoch=1, max_wait_ms=0)
        second = await wire.ask(request, VERSION)
        assert (second.session_id, len(second.responses)) == (first.session_id, 1)
