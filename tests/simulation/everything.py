"""Clients of every kind at the same time, each of which repeats its work while a peer misbehaves."""

from __future__ import annotations

import asyncio
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable
from contextlib import suppress
from functools import partial
from typing import Any

from aiokproto import Client, Consumer, Producer, ShareConsumer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.broker.telemetry import ClientMetricsOptions
from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.codec.schema import Response
from aiokproto.config import ClusterConfig
from aiokproto.errors import KafkaError, TransactionAbortedError
from aiokproto.group.streams_member import StreamsListener, StreamsMember
from aiokproto.group.streams_topology import StreamsTopology, Subtopology
from aiokproto.simulation import Simulation
from tests.simulation.sharing import OPTIONS

LIMIT = 4.0
"""Seconds that a call may take according to the clients' options."""
SLACK = 0.5
"""Seconds that a call may take beyond its deadline."""
PAUSE = 1.0
"""Seconds between two calls of a client."""
RECOVERY = 60.0
"""Seconds within which all clients work again after the peer does."""
MAX_REQUESTS = 10.0
"""The most requests of one API that one client sends in a second."""

DEAD = 2
"""The number of successive steps that fail at once with the same error, after which the client counts as ended."""

OLD = "3.9"
"""A release whose transactions start with separate requests (before KIP-890)."""

FAST = {
    "group.initial.rebalance.delay.ms": 0,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.session.timeout.ms": 6000,
    "group.consumer.session.timeout.ms": 6000,
    "group.streams.heartbeat.interval.ms": 500,
}

Step = Callable[[], Awaitable[object]]


class Everything:
    """The clients.

    Attributes:
        done: How often each client has finished a step.
        failed: The error of each client's last step, until a step succeeds.
        foreign: Exceptions of steps that aren't errors of this library.
        late: Calls that took longer than they may.
        ended: The clients that have ended for good, with the error. Other clients replace them.
        requests: The requests by client and API, for each second.
    """

    def __init__(self, simulation: Simulation, cluster: Cluster, wanted: Collection[str]) -> None:
        self.done: Counter[str] = Counter()
        self.failed: dict[str, KafkaError] = {}
        self.ended: dict[str, KafkaError] = {}
        self.foreign: list[str] = []
        self.late: list[str] = []
        self.requests: dict[int, Counter[tuple[str, str]]] = defaultdict(Counter)
        self._simulation = simulation
        self._cluster = cluster
        self._wanted = wanted
        self._tasks: list[asyncio.Task[None]] = []
        self._number = 0

    async def start(self) -> None:
        """Start all clients."""
        self._cluster.faults.intercept(None, self._count)
        self._want_metrics()
        clients = {name.removeprefix("_run_"): getattr(self, name) for name in dir(self) if name.startswith("_run_")}
        for name, run in clients.items():
            if name in self._wanted:
                self._tasks.append(asyncio.create_task(run(), name=f"everything {name}"))
        await self.all_work(RECOVERY)

    async def close(self) -> None:
        """End all clients."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks, timeout=RECOVERY)
        assert all(task.done() for task in self._tasks), "a client does not end"
        for task in self._tasks:
            with suppress(asyncio.CancelledError):
                task.result()

    async def all_work(self, within: float) -> None:
        """Wait until each client has done a step. Raise AssertionError after ``within`` seconds."""
        before = dict(self.done)
        names = [task.get_name().removeprefix("everything ") for task in self._tasks]
        until = self._simulation.time() + within
        while stuck := [name for name in names if self.done[name] < before.get(name, 0) + 2]:
            why = {name: str(self.failed.get(name, "no error")) for name in stuck}
            assert self._simulation.time() < until, f"do not work again: {why}"
            await asyncio.sleep(0.1)

    def most_requests(self, since: int = 0) -> tuple[float, str, str]:
        """Return the highest number of requests of an API by a client in a second, over three successive seconds from
        ``since`` (s) on, with the client and the API."""
        return max(
            (
                (sum(self.requests[second + more][client, api] for more in range(3)) / 3, client, api)
                for second, counts in list(self.requests.items())
                if second >= since
                for client, api in counts
            ),
            default=(0.0, "", ""),
        )

    def _want_metrics(self) -> None:
        running = self._cluster._running
        wanted = {"metrics": "*", "interval.ms": "1000"}
        running.telemetry.configure("all", ClientMetricsOptions(wanted, running.state.options))

    async def _count(self, info: RequestInfo, serve: Serve) -> Response | None:
        self.requests[int(self._simulation.time())][info.client_id, info.api] += 1
        return await serve(info.request)

    # The clients

    def _options(self, name: str) -> dict[str, Any]:
        self._number += 1
        return {
            "bootstrap_servers": self._cluster.bootstrap_servers,
            "client_id": f"{name} {self._number}",
            "request_timeout_ms": 2000,
            "default_api_timeout_ms": LIMIT * 1000,
            "bootstrap_resolve_timeout_ms": LIMIT * 1000,
            "socket_connection_setup_timeout_ms": 2000,
            "metadata_max_age_ms": 2000,
        }

    async def _work(self, name: str, make: Callable[[], Any], steps: Callable[[Any], list[Step]], times: int) -> None:
        """Start a client again and again, and let it do its steps that often."""
        while True:
            client = make()
            try:
                if await self._call(name, client.start, 2 * LIMIT):
                    await self._steps(name, (step for _ in range(times) for step in steps(client)))
            finally:
                await self._call(f"{name} close", partial(client.close, timeout_ms=1000), 1.0)
            await asyncio.sleep(PAUSE)

    async def _steps(self, name: str, steps: Iterable[Step]) -> None:
        in_a_row, last = 0, ""
        for step in steps:
            begun = self._simulation.time()
            works = await self._call(name, step, LIMIT)
            error = "" if works else str(self.failed.get(name))
            in_a_row = in_a_row + 1 if error and error == last and self._simulation.time() == begun else 0
            if in_a_row == DEAD:
                self.ended[name] = self.failed[name]
                return
            last = error
            await asyncio.sleep(PAUSE)

    async def _call(self, name: str, call: Step, limit: float) -> bool:
        begun = self._simulation.time()
        try:
            await call()
        except KafkaError as error:
            self.failed[name] = error
            return False
        except Exception as error:  # noqa: BLE001 - whatever is foreign is noted
            self.foreign.append(f"{name}: {error!r}")
            return False
        else:
            self.done[name] += 1
            self.failed.pop(name, None)
            return True
        finally:
            took = self._simulation.time() - begun
            if took > limit + SLACK:
                self.late.append(f"{name}: {took:.2f} s, and not {limit:g}")

    def _producer(self, name: str, **options: Any) -> Producer[bytes, bytes]:
        return Producer(
            **self._options(name),
            linger_ms=0,
            delivery_timeout_ms=LIMIT * 1000,
            max_block_ms=LIMIT * 1000,
            **options,
        )

    async def _producing(self, name: str, times: int) -> None:
        await self._work(
            name,
            lambda: self._producer(name),
            lambda producer: [
                lambda: producer.send("t", b"x", partition=0),
                lambda: producer.send("t", b"x", partition=1),
                lambda: producer.send("t", b"x", key=b"k"),
            ],
            times,
        )

    async def _run_producer(self) -> None:
        await self._producing("producer", 1 << 30)

    async def _run_new_producer(self) -> None:
        await self._producing("new_producer", 2)

    async def _run_transactions(self) -> None:
        def steps(producer: Any) -> list[Step]:
            async def transaction() -> None:
                async with producer.transaction() as txn:
                    await txn.post("t", b"x")
                    await txn.send_offsets({("t", 0): 1}, "of transactions")

            return [transaction]

        await self._work("transactions", lambda: self._producer("transactions", transactional_id="id"), steps, 3)

    async def _run_late_transactions(self) -> None:
        """Make transactions that the coordinator aborts. The producer asks whether it has."""

        def steps(producer: Any) -> list[Step]:
            async def transaction() -> None:
                with suppress(TransactionAbortedError):
                    async with producer.transaction() as txn:
                        await txn.post("t", b"x")
                        await asyncio.sleep(SLACK - 0.1)

            return [transaction]

        options = {"transactional_id": "late", "transaction_timeout_ms": 200}
        await self._work("late_transactions", lambda: self._producer("late_transactions", **options), steps, 3)

    def _consumer(self, name: str, **options: Any) -> Consumer[bytes, bytes]:
        return Consumer(
            "t",
            **self._options(name),
            auto_offset_reset="earliest",
            retry_backoff_ms=100,
            **options,
        )

    async def _consuming(self, name: str, times: int, **options: Any) -> None:
        def steps(consumer: Any) -> list[Step]:
            async def read() -> None:
                if not await consumer.poll(3000):
                    raise KafkaError("no records")
                # The position has to be found, as for a new partition.
                consumer.seek_to_beginning(("t", 0))

            commit: list[Step] = [lambda: consumer.commit()] if "group_id" in options else []
            return [
                read,
                *commit,
                lambda: consumer.end_offsets(("t", 0), ("t", 1)),
                lambda: consumer.partitions_for_topic("t"),
            ]

        await self._work(name, lambda: self._consumer(name, **options), steps, times)

    async def _run_reader(self) -> None:
        await self._consuming("reader", 1 << 30)

    async def _run_classic(self) -> None:
        await self._consuming(
            "classic", 1 << 30, group_id="classic", session_timeout_ms=6000, heartbeat_interval_ms=500
        )

    async def _run_new_classic(self) -> None:
        await self._consuming("new_classic", 1, group_id="new", session_timeout_ms=6000, heartbeat_interval_ms=500)

    async def _run_consumer(self) -> None:
        await self._consuming("consumer", 1 << 30, group_id="consumer", group_protocol="consumer")

    async def _run_new_consumer(self) -> None:
        await self._consuming("new_consumer", 1, group_id="new 848", group_protocol="consumer")

    async def _share(self, name: str, group: str, times: int) -> None:
        def steps(consumer: Any) -> list[Step]:
            async def read() -> None:
                if not await consumer.poll(3000):
                    raise KafkaError("no records")

            return [read, lambda: consumer.commit(2000)]

        await self._work(name, lambda: ShareConsumer("t", **self._options(name), group_id=group), steps, times)

    async def _run_share(self) -> None:
        await self._share("share", "g", 1 << 30)

    async def _run_new_share(self) -> None:
        await self._share("new_share", "g", 2)

    async def _run_client(self) -> None:
        def steps(client: Any) -> list[Step]:
            return [
                lambda: client.request(ListGroupsRequest()),
                lambda: client.metadata(["t"]),
                lambda: client.versions(0),
            ]

        await self._work("client", lambda: Client(**self._options("client")), steps, 5)

    async def _run_streams(self) -> None:
        class Tasks(StreamsListener):
            async def assigned(self, tasks: object) -> None: ...
            async def revoked(self, tasks: object) -> None: ...
            async def lost(self, tasks: object) -> None: ...

        topology = StreamsTopology((Subtopology("0", source_topics=("t",)),))
        while True:
            async with ClusterClient(ClusterConfig.parse(self._options("streams"))) as cluster:
                member = StreamsMember(cluster, "streams", topology, Tasks())
                running = asyncio.create_task(member.run())
                try:
                    while not running.done():
                        await asyncio.sleep(PAUSE)
                        if member.tasks and not member.problem:
                            self.done["streams"] += 1
                        else:
                            self.failed["streams"] = KafkaError(member.problem)
                    try:
                        running.result()
                    except KafkaError as error:
                        self.failed["streams"] = error
                finally:
                    running.cancel()
                    await asyncio.wait([running])
                    await member.leave(1000)
            await asyncio.sleep(PAUSE)

    async def _run_leaders(self) -> None:
        """Move leaders, so that positions are validated."""
        while True:
            await asyncio.sleep(3)
            for partition in (0, 1):
                await self._cluster.move_leader("t", partition)
            self.done["leaders"] += 1


def cluster(release: str | None = None) -> Cluster:
    """Two brokers, and short intervals."""
    if release is None:
        return Cluster(2, config={**FAST, **OPTIONS}, auto_create_topics=False)
    return Cluster(2, config={"group.initial.rebalance.delay.ms": 0}, auto_create_topics=False, as_version=release)


SENDERS: dict[int, tuple[str, ...]] = {
    0: ("producer", "transactions"),
    1: ("reader", "classic", "leaders"),
    2: ("reader", "new_classic"),
    3: ("producer", "new_producer", "reader", "client"),
    8: ("classic", "consumer"),
    9: ("new_classic", "new_consumer"),
    10: ("new_classic", "new_share", "transactions"),
    11: ("classic", "new_classic"),
    12: ("classic", "new_classic"),
    13: ("classic", "new_classic"),
    14: ("classic", "new_classic"),
    18: ("new_producer", "new_classic"),
    22: ("new_producer", "transactions"),
    23: ("reader", "leaders"),
    24: ("transactions",),
    25: ("transactions",),
    26: ("transactions",),
    28: ("transactions",),
    65: ("late_transactions",),
    68: ("consumer", "new_consumer"),
    71: ("producer", "new_producer"),
    72: ("producer", "client"),
    76: ("share", "new_share"),
    78: ("share", "new_share", "leaders"),
    79: ("share", "new_share"),
    88: ("streams",),
}
"""The clients that send each API, by ApiKey. There are two of a kind: one that runs, and one that starts again and
again."""

WRITER = "producer"
"""The client that readers need."""

OLD_APIS = (24, 25, 65)
"""The APIs that only brokers of :data:`OLD` are sent."""
