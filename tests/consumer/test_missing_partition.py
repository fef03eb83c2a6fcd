"""A partition that does not exist: its error says which there are."""

from __future__ import annotations

import pytest

from aiokproto import Broker, Consumer
from aiokproto.errors import UnknownTopicError
from aiokproto.simulation import Simulation


def test_assigning_a_partition_that_is_not_there_names_how_many_there_are() -> None:
    async def main() -> None:
        async with Broker() as broker:
            await broker.create_topic("t", partitions=2)
            async with Consumer(bootstrap_servers=broker.bootstrap_servers, auto_offset_reset="earliest") as consumer:
                consumer.assign(("t", 7))
                with pytest.raises(UnknownTopicError, match=r"t-7: .*the topic has 2 partitions"):
                    await anext(consumer)

    Simulation().run(main())
