"""Which partitions a broker is asked for."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from aiokproto.cluster import BrokerNode, ClusterSnapshot
from aiokproto.consumer.assignment import Assignment, Signals
from aiokproto.consumer.fetcher import FetchConfig, Fetcher
from aiokproto.types import TopicPartition

AT = TopicPartition("t", 0)


async def test_a_follower_is_read_from_while_the_metadata_has_no_such_topic() -> None:
    cluster: Any = SimpleNamespace(snapshot=ClusterSnapshot(brokers={1: BrokerNode(1, "localhost", 9092)}))
    assignment = Assignment(Signals(*[lambda: None] * 3))
    assignment.add([AT], 0)
    cursor = assignment.get(AT)
    cursor.locate(5)
    cursor.replica = (1, float("inf"))
    fetcher = Fetcher(cluster, assignment, FetchConfig(), lambda cursor, why: None)
    mine, asked, _ = fetcher._due(1)
    assert mine
    assert [entry.offset for entry in asked.values()] == [5]
