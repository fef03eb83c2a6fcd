"""The outcome of a batch that was split, when some of its parts are in the log."""

from __future__ import annotations

import gc

import pytest

from aiokproto import Producer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.errors import DeadlineError, KafkaError
from aiokproto.producer.delivery import Delivery
from aiokproto.simulation import Simulation


async def post_nine_and_one_too_large(producer: Producer) -> list[Delivery]:
    values = [bytes(100)] * 4 + [bytes(2000)] + [bytes(100)] * 5
    return [await producer.post("t", value) for value in values]


def test_only_records_that_failed_count_as_unobserved() -> None:
    async def main() -> int:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 1, config={"max.message.bytes": "1000"})
            async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                deliveries = await post_nine_and_one_too_large(producer)
                await producer.flush()
                del deliveries
                gc.collect()
                return producer.unobserved_failures

    assert Simulation(1).run(main()) == 1


def test_close_names_only_the_records_that_failed() -> None:
    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 1, config={"max.message.bytes": "1000"})
            producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
            await producer.start()
            deliveries = await post_nine_and_one_too_large(producer)
            with pytest.raises(KafkaError, match=r"closed with 1 record \(t-0: 1 "):
                await producer.close()
            assert sum(delivery.exception() is not None for delivery in deliveries) == 1

    Simulation(1).run(main())


def test_close_counts_a_record_once_that_was_not_delivered_in_time() -> None:
    async def main() -> None:
        async with Cluster(1) as cluster:
            await cluster.create_topic("t", 1, config={"max.message.bytes": "1000"})
            producer = Producer(bootstrap_servers=cluster.bootstrap_servers, linger_ms=1000)
            await producer.start()
            for _ in range(10):
                await producer.post("t", bytes(150))
            late = pytest.raises(DeadlineError, match=r"closed with 10 records \(t-0: 10 ")
            with cluster.faults.drop(ProduceRequest, nth=2, times=100), late:
                await producer.close(500)

    Simulation(1).run(main())
