"""A partition that does not exist: its error says which there are."""

from __future__ import annotations

import pytest

from aiokproto import Broker, Consumer
from aiokproto.consumer import position_resolver
from aiokproto.errors import UnknownTopicError


async def test_assigning_a_partition_that_is_not_there_names_how_many_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(position_resolver, "MISSING_FOR", 1e-6)
    async with Broker() as broker:
        await broker.create_topic("t", partitions=2)
        async with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign(("t", 7))
            with pytest.raises(UnknownTopicError, match=r"t-7: .*the topic has 2 partitions"):
                await anext(consumer)
