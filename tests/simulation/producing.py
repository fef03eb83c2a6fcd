"""Producers under faults, and their guarantees."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from contextlib import nullcontext
from random import Random

from aiokproto import Producer
from aiokproto.broker import Cluster
from aiokproto.errors import ClientClosedError, KafkaError
from aiokproto.simulation import Simulation
from tests.simulation.environment import Environment, stored_records
from tests.simulation.faults import Fault, carry_out, draw, stalled
from tests.simulation.pushing import early, want_metrics

BROKERS, PARTITIONS, UNTIL = 3, 3, 4.0
MAX_BLOCK, SLACK = 30.0, 0.1
APIS = ("Produce", "InitProducerId", "Metadata")


class Ledger:
    """The values that producers were given, and their outcomes.

    Attributes:
        calls: The values of each partition, in the order of the calls.
        written: Acknowledged values, with partition and offset.
        failed: Values that failed, with the error.
        slowest: The longest time that a call took (s).
    """

    def __init__(self) -> None:
        self.calls: dict[tuple[int, int], list[bytes]] = defaultdict(list)
        self.written: dict[bytes, tuple[int, int]] = {}
        self.failed: dict[bytes, BaseException] = {}
        self.slowest = 0.0


def schedule(seed: int) -> list[Fault]:
    random = Random(f"{seed}/faults")
    return [draw(random, UNTIL, BROKERS, PARTITIONS, APIS) for _ in range(random.randint(1, 6))]


def run(seed: int, faults: list[Fault], *, pushes: bool = False) -> Simulation:
    """Produce under these faults. Raise AssertionError if a guarantee is violated. With ``pushes``, clients push
    metrics too."""
    simulation = Simulation(seed)
    with early() if pushes else nullcontext():
        simulation.run(_program(simulation, faults, pushes=pushes))
    return simulation


async def _program(simulation: Simulation, faults: list[Fault], *, pushes: bool) -> None:
    random, ledger = simulation.random, Ledger()
    async with Cluster(BROKERS, auto_create_topics=False) as cluster:
        await cluster.create_topic("t", PARTITIONS, replication=BROKERS)
        if pushes:
            want_metrics(cluster)
        # A leader that dies loses acknowledged records with acks=1, and only requests that are sent one by one keep the
        # order.
        acks = random.choice((-1, -1, -1, -1, 1))
        environment = Environment(simulation, cluster, "t", acks, unclean=random.random() < 0.3)
        # Responses come after batches have expired if the timeout is short.
        delivery_timeout = random.choice((1.5, 60.0, 60.0))
        options = {"linger_ms": random.choice((0, 5)), "batch_size": random.choice((100, 200, 16384))}
        producers = [
            Producer(
                bootstrap_servers=cluster.bootstrap_servers,
                request_timeout_ms=2000,
                delivery_timeout_ms=1000 * delivery_timeout,
                max_block_ms=1000 * MAX_BLOCK,
                acks=acks,  # type: ignore[arg-type]
                max_in_flight_requests_per_connection=1 if acks == 1 else 5,
                compression_type=random.choice(("none", "lz4")),
                **options,  # type: ignore[arg-type]
            )
            for _ in range(random.randint(1, 2))
        ]
        for producer in producers:
            await producer.start()
        happening = asyncio.create_task(carry_out(environment, faults))
        try:
            await asyncio.gather(
                *(_produce(simulation, which, producer, ledger) for which, producer in enumerate(producers))
            )
            await happening
        finally:
            happening.cancel()
            for producer in producers:
                await producer.close()
        _check(environment, ledger)
        assert ledger.slowest <= delivery_timeout + MAX_BLOCK + SLACK + stalled(faults), (
            f"a call took {ledger.slowest} s"
        )
        died = [error for error in ledger.failed.values() if isinstance(error, ClientClosedError)]
        assert not died, f"a producer has ended: {died[0]}"
        assert not any(producer._accumulator.used for producer in producers), "memory is given back"
        left = [task.get_name() for task in asyncio.all_tasks() if "aiokproto" in task.get_name()]
        assert not left, f"tasks are left behind: {left}"


async def _produce(simulation: Simulation, which: int, producer: Producer, ledger: Ledger) -> None:
    random = simulation.random
    waiting: list[asyncio.Task[None]] = []

    async def send(partition: int, value: bytes) -> None:
        ledger.calls[which, partition].append(value)
        began = simulation.time()
        try:
            found = await producer.send("t", value, partition=partition)
        except KafkaError as error:
            ledger.failed[value] = error
        else:
            ledger.written[value] = (found.partition, found.offset)
        ledger.slowest = max(ledger.slowest, simulation.time() - began)

    count = random.randint(20, 120)
    # These values are large enough to be compressed in a thread.
    large = random.random() < 0.3
    for number in range(count):
        # Some partitions get their first record from a producer that has been running for a long time.
        partition = random.randrange(1 + PARTITIONS * number // count)
        value = b"%d/%d/%d" % (which, partition, number)
        if large and random.random() < 0.2:
            value += b"/" + bytes(40_000)
        waiting.append(asyncio.create_task(send(partition, value)))
        if random.random() < 0.2:
            await asyncio.sleep(random.choice((0, 0.001, 0.1)))
    await asyncio.gather(*waiting)


def _check(environment: Environment, ledger: Ledger) -> None:
    for partition in range(PARTITIONS):
        stored = stored_records(environment.cluster, "t", partition)
        lost = environment.lost[partition] if environment.acks == 1 or environment.unclean else set[bytes | None]()
        at = dict(stored)
        for value, (where, offset) in ledger.written.items():
            if where == partition and offset >= 0 and value not in lost:
                assert at.get(offset) == value, (
                    f"{value!r} was acknowledged at {offset}, and {at.get(offset)!r} is there"
                )
        for (which, number), calls in ledger.calls.items():
            if number == partition:
                mine = [value for _, value in stored if value is not None and value.startswith(b"%d/" % which)]
                _check_calls(partition, calls, mine, ledger, lost, idempotent=environment.acks == -1)


def _check_calls(
    partition: int,
    calls: list[bytes],
    stored: list[bytes],
    ledger: Ledger,
    lost: set[bytes | None],
    *,
    idempotent: bool,
) -> None:
    """Compare the records that one producer had to write to a partition with those in the log."""
    found = list(dict.fromkeys(stored))
    twice = sorted({value for value in found if stored.count(value) > 1})
    assert not twice or not idempotent, f"written twice: {twice}"
    acknowledged = [value for value in calls if value in ledger.written and value not in lost]
    missing = [value for value in acknowledged if value not in found]
    assert not missing, f"{missing} were acknowledged, and are not in the log"
    in_log = [value for value in found if value in ledger.written and value not in lost]
    assert in_log == acknowledged, f"partition {partition}: the log has {in_log}, the calls were {acknowledged}"
    assert set(found) <= set(calls), "nothing is written that was not sent"
