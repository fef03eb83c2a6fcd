"""Into Kafka: every flight, keyed by its carrier, with a live rate."""

from __future__ import annotations

from collections import defaultdict

from dataset import Flight
from rich.progress import Progress

from aiokproto import Client, Producer
from aiokproto.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokproto.errors import check

STEP = 2_000


async def create_topic(bootstrap: str, topic: str, partitions: int) -> None:
    """A new topic, by a plain protocol request."""
    async with Client(bootstrap_servers=bootstrap) as client:
        new = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=-1)
        response = await client.request(CreateTopicsRequest(topics=[new], timeout_ms=30_000))
        for result in response.topics:
            check(result.error_code, f"creating topic {result.name}", result.error_message)


async def send_all(bootstrap: str, topic: str, flights: list[Flight], progress: Progress) -> dict[int, list[bytes]]:
    """Send every flight; returns what each partition must hold now, in order.

    ``post`` returns as soon as a record is buffered, and waits while the buffer is full; the deliveries are awaited
    afterwards, and each says where its record is.
    """
    bar = progress.add_task("produce", total=len(flights))
    deliveries = []
    async with Producer(bootstrap_servers=bootstrap, linger_ms=5, compression_type="lz4") as producer:
        for number, flight in enumerate(flights, 1):
            deliveries.append(await producer.post(topic, flight.value, key=flight.key))
            if number % STEP == 0:
                progress.update(bar, completed=number)
        where = [await delivery for delivery in deliveries]
    progress.update(bar, completed=len(flights))

    partitions: dict[int, dict[int, bytes]] = defaultdict(dict)
    for flight, place in zip(flights, where, strict=True):
        partitions[place.partition][place.offset] = flight.value
    for partition, records in partitions.items():
        if sorted(records) != list(range(len(records))):
            raise AssertionError(f"{topic}-{partition}: the offsets of {len(records)} records are not contiguous")
    return {partition: [records[offset] for offset in sorted(records)] for partition, records in partitions.items()}
