"""Consumers in a group under faults, and their guarantees."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from random import Random
from typing import Any

from aiokproto import Producer
from aiokproto.broker import Cluster
from aiokproto.errors import BrokerError
from aiokproto.simulation import Simulation
from tests.simulation.environment import (
    Environment,
    check_no_task_is_left,
    live_until_nothing_is_missing,
    run_within_turns,
    stored_records,
)
from tests.simulation.faults import WEIGHTS, Fault, carry_out, draw, draw_some
from tests.simulation.member import Ledger, Member
from tests.simulation.protocols import come_and_go
from tests.simulation.pushing import early, want_metrics

BROKERS, PARTITIONS, UNTIL = 3, 4, 12.0
APIS = (
    "Heartbeat",
    "JoinGroup",
    "SyncGroup",
    "OffsetCommit",
    "OffsetFetch",
    "Fetch",
    "ListOffsets",
    "FindCoordinator",
    "Metadata",
)
EPOCH_APIS = ("ConsumerGroupHeartbeat", *APIS[3:])
PROTOCOLS = {
    "classic": ("classic",),
    "consumer": ("consumer",),
    "mixed": ("classic", "consumer", "auto"),
    "auto": ("auto", "auto", "classic"),
}
"""The protocols of a group's members. A group with several migrates in both directions while it is read."""

CONFIG: dict[str, str | int] = {
    "group.min.session.timeout.ms": 500,
    "group.consumer.min.session.timeout.ms": 500,
    "group.consumer.session.timeout.ms": 3000,
    "group.consumer.min.heartbeat.interval.ms": 100,
    "group.consumer.heartbeat.interval.ms": 300,
}
STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky")
DEFAULT_STRATEGY = ("range", "cooperative-sticky")
RECORDS = 120
ALL_READ_WITHIN = 180.0
"""Virtual seconds after the last fault within which a group has read all records."""

OWN_TASKS = ("aiokproto-consumer", "aiokproto-fetch", "aiokproto-heartbeat", "aiokproto-locate")


def schedule(seed: int, protocol: str = "classic") -> list[Fault]:
    apis = {"classic": APIS, "consumer": EPOCH_APIS, "mixed": (EPOCH_APIS[0], *APIS), "auto": (EPOCH_APIS[0], *APIS)}[
        protocol
    ]
    return draw_some(seed, UNTIL, BROKERS, PARTITIONS, apis)


def unclean_schedule(seed: int) -> list[Fault]:
    """Like :func:`schedule`, with many elections after which logs lack records that all replicas had."""
    random = Random(f"{seed}/unclean")
    return [
        draw(random, UNTIL, BROKERS, PARTITIONS, (EPOCH_APIS[0], *APIS), weights=WEIGHTS | {"lose_tail": 40})
        for _ in range(random.choice((1, 2, 4, 8)))
    ]


def run(
    seed: int,
    faults: list[Fault],
    protocol: str = "classic",
    *,
    unclean: bool = False,
    pushes: bool = False,
    protocol_goes: bool = False,
    **options: Any,
) -> Simulation:
    """Consume under these faults, with more options. Raise AssertionError if a guarantee is violated.

    With ``unclean``, elections may be unclean; every record that is in the logs in the end has to be processed then.
    With ``pushes``, clients push metrics. With ``protocol_goes``, the cluster loses the consumer protocol and gets it
    back, more than once.
    """
    protocols = PROTOCOLS[protocol]
    with early() if pushes else nullcontext():
        return run_within_turns(
            seed,
            lambda simulation: _program(
                simulation, faults, protocols, options, unclean=unclean, pushes=pushes, protocol_goes=protocol_goes
            ),
        )


async def _program(
    simulation: Simulation,
    faults: list[Fault],
    protocols: tuple[str, ...],
    more: dict[str, Any],
    *,
    unclean: bool,
    pushes: bool,
    protocol_goes: bool,
) -> None:
    random, ledger = simulation.random, Ledger()
    # When the last member of the consumer protocol leaves, the group becomes a classic one, in a generation that
    # members of the classic protocol haven't joined yet. Kafka makes them lose their partitions, even without a fault.
    calm = not faults and len(protocols) == 1
    async with Cluster(BROKERS, auto_create_topics=False, config=CONFIG) as cluster:
        await cluster.create_topic("t", PARTITIONS, replication=BROKERS)
        if pushes:
            want_metrics(cluster)
        options = {
            "bootstrap_servers": cluster.bootstrap_servers,
            "group_id": "g",
            "auto_offset_reset": "earliest",
            "enable_auto_commit": random.random() < 0.5,
            "auto_commit_interval_ms": 300,
            "session_timeout_ms": 3000,
            "heartbeat_interval_ms": 300,
            "max_poll_interval_ms": 20_000,
            "request_timeout_ms": 2000,
            **more,
        }
        # Members that fall back have the default assignors. The others need the same, because a coordinator that has
        # loaded the group knows only the assignor in use of each member.
        strategy = DEFAULT_STRATEGY if protocol_goes else random.choice(STRATEGIES)

        def member(number: int) -> Member:
            static = {"group_instance_id": f"static-{number}"} if random.random() < 0.2 else {}
            protocol = protocols[number % len(protocols)]
            own = {"group_protocol": protocol} | (
                {"partition_assignment_strategy": strategy} if protocol == "classic" else {}
            )
            return Member(simulation, ledger, faults, {**options, **own, **static}, calm=calm)

        async def live(number: int) -> None:
            await asyncio.sleep(random.uniform(0, UNTIL / 2))
            for life in range(random.randint(1, 2)):
                until = simulation.time() + random.uniform(0.5, UNTIL / 2)
                await member(10 * number + life).live(until, random.choice((0, 0.01, 0.1)))
                check_commits(cluster, ledger.processed)

        environment = Environment(simulation, cluster, "t", unclean=unclean)
        happening = asyncio.create_task(_happen(environment, faults, protocol_goes=protocol_goes))
        try:
            await asyncio.gather(
                produce(cluster, random, may_fail=unclean),
                *(live(number) for number in range(random.randint(1, 4))),
            )
            await happening
            check_commits(cluster, ledger.processed)
            await _read_the_rest(cluster, ledger, member(99), by_value=unclean)
        finally:
            happening.cancel()
        check_commits(cluster, ledger.processed)
        if calm:
            twice = sorted(where for where, count in ledger.deliveries.items() if count > 1)
            assert not twice, f"without a fault, nothing is handed out twice: {twice}"
        assert faults or bool(cluster.pushed_metrics()) is pushes, "metrics are pushed if they are wanted"
        check_no_task_is_left(OWN_TASKS)


async def _happen(environment: Environment, faults: list[Fault], *, protocol_goes: bool) -> None:
    going = [come_and_go(environment.simulation, environment.cluster, UNTIL)] if protocol_goes else []
    await asyncio.gather(carry_out(environment, faults), *going)


async def produce(
    cluster: Cluster,
    random: Random,
    keys: Sequence[bytes | None] = (None,),
    count: int = RECORDS,
    *,
    may_fail: bool = False,
) -> None:
    """Write the numbers below ``count`` to random partitions, and cycle through the keys."""
    async with Producer(
        bootstrap_servers=cluster.bootstrap_servers, request_timeout_ms=2000, delivery_timeout_ms=60_000
    ) as producer:
        for number in range(count):
            key = keys[number % len(keys)]
            try:
                await producer.send("t", b"%d" % number, key=key, partition=random.randrange(PARTITIONS))
            except BrokerError:
                # A log that lost the previous records expects another sequence number.
                assert may_fail
            await asyncio.sleep(random.choice((0, 0.01, 0.1)))


async def _read_the_rest(cluster: Cluster, ledger: Ledger, last: Member, *, by_value: bool = False) -> None:
    """One more member reads the remaining records."""

    def missing() -> list[tuple[int, int]]:
        return missing_values(cluster, ledger) if by_value else missing_records(cluster, ledger.processed)

    await live_until_nothing_is_missing(last, missing, ALL_READ_WITHIN)


def missing_records(cluster: Cluster, done: Mapping[int, set[int]]) -> list[tuple[int, int]]:
    """Return partition and offset of the stored records that aren't in ``done``, which has the offsets by partition."""
    return [
        (partition, offset)
        for partition in range(PARTITIONS)
        for offset, _ in stored_records(cluster, "t", partition)
        if offset not in done[partition]
    ]


def missing_values(cluster: Cluster, ledger: Ledger) -> list[tuple[int, int]]:
    """Return partition and offset of the stored records whose values were never processed, at any offset."""
    return [
        (partition, offset)
        for partition in range(PARTITIONS)
        for offset, value in stored_records(cluster, "t", partition)
        if value not in ledger.values
    ]


def check_commits(cluster: Cluster, done: Mapping[int, set[int]]) -> None:
    """Assert that committed records are done."""
    group = cluster._running.groups.entry("g")
    for (_, partition), committed in (group.offsets if group else {}).items():
        missing = set(range(committed.offset)) - done[partition]
        assert not missing, f"{partition}: {committed.offset} is committed, without {sorted(missing)}"
