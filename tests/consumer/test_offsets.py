"""Offset lookups for partitions that do not exist."""

from __future__ import annotations

import itertools

import pytest

from aiokproto import Consumer, TopicPartition
from aiokproto.broker import Broker
from aiokproto.errors import UnknownTopicError

PARTITIONS = [TopicPartition("flights", number) for number in (0, 1, 7)]


@pytest.mark.parametrize("partitions", list(itertools.permutations(PARTITIONS)))
async def test_a_partition_that_does_not_exist_is_named_in_any_order(
    partitions: tuple[TopicPartition, ...],
) -> None:
    async with Broker() as broker:
        await broker.create_topic("flights", partitions=2)
        async with Consumer(bootstrap_servers=broker.bootstrap_servers, default_api_timeout_ms=5_000) as consumer:
            with pytest.raises(UnknownTopicError, match="flights-7"):
                await consumer.end_offsets(*partitions)
