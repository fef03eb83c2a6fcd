"""Each public coroutine ends at its deadline, even if brokers fail."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import pytest

from aiokproto import Client, Consumer, ExactlyOnce, Producer, ShareConsumer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.codec.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from aiokproto.errors import KafkaError
from aiokproto.producer import Transaction
from aiokproto.records import BatchBuilder
from aiokproto.simulation import Link, Simulation
from tests.simulation.sharing import OPTIONS, configure

LIMIT = 1.0
"""The deadline of each call (s), by its argument or by the option that is its default."""
SLACK = 0.5
T0 = ("t", 0)

SERVERS: dict[str, Callable[[Link], object]] = {
    "silent": lambda link: link.silence(),
    "half-open": lambda link: link.silence(to_server=False),
    "slow": lambda link: link.slow(1),
    "none": lambda link: link.cut(),
}

MS = LIMIT * 1000
DEFAULTS: dict[str, Any] = {
    "default_api_timeout_ms": MS,
    "bootstrap_resolve_timeout_ms": MS,
    "request_timeout_ms": 30_000,
    "socket_connection_setup_timeout_ms": 10_000,
    "metadata_max_age_ms": 60_000,
}
WRITES: dict[str, Any] = {"max_block_ms": MS, "delivery_timeout_ms": MS, "request_timeout_ms": MS, "linger_ms": 0}


def batch() -> bytes:
    builder = BatchBuilder()
    builder.append(0, None, b"x", [])
    return bytes(builder.close())


async def delivered(posted: Awaitable[Any]) -> None:
    await (await posted)


LEADERS = ListOffsetsRequest(topics=[ListOffsetsTopic(name="t", partitions=[ListOffsetsPartition(partition_index=0)])])

CALLS: dict[type, dict[str, Callable[[Any], Awaitable[Any]]]] = {
    Consumer: {
        "beginning_offsets": lambda consumer: consumer.beginning_offsets(T0),
        "end_offsets": lambda consumer: consumer.end_offsets(T0, timeout_ms=MS),
        "offsets_for_times": lambda consumer: consumer.offsets_for_times({T0: 1}),
        "committed": lambda consumer: consumer.committed(T0),
        "partitions_for_topic": lambda consumer: consumer.partitions_for_topic("other"),
        "position": lambda consumer: (consumer.seek_to_end(T0), consumer.position(T0))[1],
        "poll": lambda consumer: consumer.poll(MS),
        "commit": lambda consumer: consumer.commit({T0: 1}),
        "unsubscribe": lambda consumer: consumer.unsubscribe(MS),
        "close": lambda consumer: consumer.close(MS),
    },
    ShareConsumer: {
        "poll": lambda consumer: consumer.poll(MS),
        "commit": lambda consumer: consumer.commit(MS),
        "close": lambda consumer: consumer.close(MS),
    },
    Producer: {
        "partitions_for": lambda producer: producer.partitions_for("other"),
        "send": lambda producer: producer.send("t", b"x"),
        "post": lambda producer: delivered(producer.post("t", b"x")),
        "post_batch": lambda producer: delivered(producer.post_batch("t", batch(), partition=0)),
        "post_many": lambda producer: delivered(producer.post_many("t", [b"x"])),
        "send_batch": lambda producer: producer.send_batch("t", batch(), partition=0),
        "send_many": lambda producer: producer.send_many("t", [b"x"]),
        "flush": lambda producer: producer.flush(MS),
        "close": lambda producer: producer.close(MS),
    },
    Client: {
        "metadata": lambda client: client.metadata(["other"]),
        "request": lambda client: client.request(ListGroupsRequest()),
        "request to leaders": lambda client: client.request(LEADERS),
        "request to a broker": lambda client: client.request(ApiVersionsRequest(), node=0),
        "version": lambda client: client.version(ListGroupsRequest, 0),
        "versions": lambda client: client.versions(0),
        "close": lambda client: client.close(MS),
    },
}
"""The calls with a deadline, in the order in which they are made."""

WITHOUT: dict[type, set[str]] = {
    # These run as long as the application wants.
    Consumer: {"run", "deserialize"},
    ShareConsumer: {"run"},
    # Tests of transactions below call these. `post_bytes` is `post` with serializers.
    Producer: {"abort", "complete_transaction", "post_bytes"},
    Client: set(),
}
START = {"start"}


@pytest.mark.parametrize("kind", CALLS)
def test_every_coroutine_with_a_deadline_is_called(kind: type) -> None:
    names = {name for base in kind.__mro__ for name in vars(base) if not name.startswith("_")}
    found = set()
    for name in names:
        member = inspect.getattr_static(kind, name)
        # The gate is a plain function around a decorated one. Compiled coroutines aren't recognised.
        if inspect.iscoroutinefunction(inspect.unwrap(getattr(member, "__func__", member))):
            found.add(name)
    assert found - WITHOUT[kind] - START <= {name.split()[0] for name in CALLS[kind]}


def made(kind: type, servers: str) -> Any:
    options = {**DEFAULTS, "bootstrap_servers": servers}
    if kind is Consumer:
        return Consumer("t", **options, group_id="g", auto_offset_reset="earliest")
    if kind is ShareConsumer:
        return ShareConsumer("t", **options, group_id="g")
    if kind is Producer:
        return Producer(**{**options, **WRITES})
    return kind(**options)


async def used(client: Any) -> None:
    """Use a client once, so that it has connections."""
    if isinstance(client, Consumer):
        await client.poll(2000)
        await client.committed(T0)
    elif isinstance(client, ShareConsumer):
        await client.poll(2000)
    elif isinstance(client, Producer):
        await client.send("t", b"x")
    else:
        await client.metadata(["t"])


def broken(server: str, program: Callable[[Simulation, str, Callable[[], None]], Awaitable[None]]) -> None:
    """Run a program with the address of a broker, and a function that breaks it."""
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1, config=OPTIONS) as cluster:
            await cluster.create_topic("t")
            await configure(cluster)
            async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
                await producer.send("t", b"x")
            host, _, port = cluster.bootstrap_servers.rpartition(":")

            def end() -> None:
                for link in simulation.network.links(server=(host, int(port))):
                    SERVERS[server](link)

            await program(simulation, cluster.bootstrap_servers, end)
            for link in simulation.network.links():
                link.restore()

    simulation.run(main())


async def timed(simulation: Simulation, what: str, call: Awaitable[Any], late: list[str], limit: float = LIMIT) -> None:
    begun = simulation.time()
    try:
        await asyncio.wait_for(asyncio.ensure_future(call), 60)
    except KafkaError:
        pass
    except asyncio.TimeoutError:
        late.append(f"{what}: never")
        return
    took = simulation.time() - begun
    if took > limit + SLACK:
        late.append(f"{what}: {took:.2f} s, and not {limit:g}")


@pytest.mark.parametrize("server", SERVERS)
@pytest.mark.parametrize("kind", CALLS)
def test_calls_end_at_their_deadline(kind: type, server: str) -> None:
    late: list[str] = []

    async def program(simulation: Simulation, servers: str, end: Callable[[], None]) -> None:
        client = made(kind, servers)
        await client.start()
        await used(client)
        end()
        for name, call in CALLS[kind].items():
            await timed(simulation, name, call(client), late)

    broken(server, program)
    assert not late


@pytest.mark.parametrize("server", SERVERS)
def test_starts_end_at_their_deadline(server: str) -> None:
    late: list[str] = []

    async def program(simulation: Simulation, servers: str, end: Callable[[], None]) -> None:
        end()
        for kind in CALLS:
            client = made(kind, servers)
            # The client tries each address once, however short the option is.
            await timed(simulation, kind.__name__, client.start(), late, limit=10 + 1)
        await timed(simulation, "Client with a timeout", made(Client, servers).start(MS), late)

    broken(server, program)
    assert not late


@pytest.mark.parametrize("server", SERVERS)
def test_transactions_end_at_their_deadline(server: str) -> None:
    late: list[str] = []

    async def program(simulation: Simulation, servers: str, end: Callable[[], None]) -> None:
        options = {**DEFAULTS, **WRITES, "bootstrap_servers": servers}
        producer = Producer(**options, transactional_id="x")
        await producer.start()
        async with producer.transaction() as transaction:
            await transaction.send("t", b"x")
        transaction = producer.transaction()
        await transaction.__aenter__()
        await transaction.post("t", b"x")
        end()
        await timed(simulation, "send", transaction.send("t", b"x"), late)
        await timed(simulation, "send_many", transaction.send_many("t", [b"x"]), late)
        await timed(simulation, "send_batch", transaction.send_batch("t", batch(), partition=0), late)
        await timed(simulation, "send_offsets", transaction.send_offsets({T0: 1}, "g"), late)
        await timed(simulation, "commit", transaction.commit(), late)
        await timed(simulation, "abort", transaction.abort(), late)
        with suppress(KafkaError):
            await transaction.__aexit__(None, None, None)
        await timed(simulation, "close", producer.close(MS), late)

    broken(server, program)
    assert not late


@pytest.mark.parametrize("server", SERVERS)
def test_a_loop_of_transactions_closes_at_its_deadline(server: str) -> None:
    late: list[str] = []

    async def program(simulation: Simulation, servers: str, end: Callable[[], None]) -> None:
        options = {**DEFAULTS, "bootstrap_servers": servers}
        consumer = Consumer("t", **options, group_id="g", enable_auto_commit=False, isolation_level="read_committed")
        producer = Producer(**{**options, **WRITES}, transactional_id="x")
        loop = ExactlyOnce(consumer, producer)
        await loop.start()
        end()
        # The session closes two clients, one after the other, with the default of `close`.
        await timed(simulation, "close", loop.close(), late, limit=2 * 5)

    broken(server, program)
    assert not late


def test_transactions_have_no_other_coroutines() -> None:
    names = {name for name, member in vars(Transaction).items() if inspect.iscoroutinefunction(inspect.unwrap(member))}
    assert {name for name in names if not name.startswith("_")} <= {
        "abort",
        "commit",
        "hand_over",
        "post_batch",
        "post_bytes",
        "post_many",
        "prepare",
        "send",
        "send_batch",
        "send_many",
        "send_offsets",
    }
