"""Connections by broker and channel: dialled once for all callers, with backoff per broker."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor

from aiokproto.cluster.backoff import Backoff
from aiokproto.cluster.hedge import PATIENCE
from aiokproto.cluster.single_flight import SingleFlight
from aiokproto.cluster.snapshot import BrokerNode
from aiokproto.config import ClusterConfig
from aiokproto.errors import BrokerConnectionError, KafkaError, copied
from aiokproto.failures import Action, Situation, classify
from aiokproto.net.connection import Connection
from aiokproto.net.open import open_connection
from aiokproto.net.timeouts import timeout_at
from aiokproto.runtime import uniform

MAIN = "main"
"""The channel for requests that are answered at once."""

logger = logging.getLogger("aiokproto.cluster")


class _Health:
    """Failed attempts in a row to reach a broker."""

    __slots__ = ("failures", "last", "retry_at")

    def __init__(self) -> None:
        self.failures = 0
        self.retry_at = 0.0
        self.last: KafkaError | None = None


class Pool:
    """At most one connection per broker and channel.

    A channel is a name: requests on one connection are answered in order, so those that a broker may hold back for
    long get a connection of their own.

    Args:
        config: The options.
        threads: Where names are looked up.
        stop: Called with a failure after which no broker will let this client in.
    """

    def __init__(self, config: ClusterConfig, threads: ThreadPoolExecutor, stop: Callable[[KafkaError], None]) -> None:
        self._config = config
        self._threads = threads
        self._stop = stop
        self._backoff = Backoff(config.reconnect_backoff, config.reconnect_backoff_max, uniform)
        self._bootstrap = {-1 - i: BrokerNode(-1 - i, *address) for i, address in enumerate(config.bootstrap_servers)}
        self._brokers: Mapping[int, BrokerNode] = {}
        self._connections: dict[tuple[int, str], Connection] = {}
        self._retired: set[Connection] = set()
        self._health: dict[int, _Health] = {}
        self._dialling: SingleFlight[tuple[int, str], Connection] = SingleFlight()
        self._closed: KafkaError | None = None

    @property
    def bootstrap_nodes(self) -> list[int]:
        """The ids, all negative, under which the bootstrap addresses can be connected to."""
        return list(self._bootstrap)

    def node(self, node_id: int) -> BrokerNode:
        """Where a broker is.

        Raises:
            BrokerConnectionError: No such broker is known.
        """
        node = self._brokers.get(node_id) or self._bootstrap.get(node_id)
        if node is None:
            raise BrokerConnectionError(f"broker {node_id} is not known (known: {sorted(self._brokers)})")
        return node

    def update(self, brokers: Mapping[int, BrokerNode]) -> None:
        """Take in the brokers of a new snapshot: connections to brokers that are gone, or have moved, are retired."""
        before, self._brokers = self._brokers, brokers
        for node_id, node in before.items():
            now = brokers.get(node_id)
            if now is None or (now.host, now.port) != (node.host, node.port):
                self._health.pop(node_id, None)
                self._retire(node_id)

    def release_bootstrap(self) -> None:
        """Let go of the connections to bootstrap addresses: the brokers are known by their own names now."""
        for node_id in self._bootstrap:
            self._retire(node_id)

    def ready(self, node_id: int, channel: str = MAIN) -> Connection | None:
        """The open connection, if there is one."""
        connection = self._connections.get((node_id, channel))
        return None if connection is None or connection.closed else connection

    async def connection(self, node_id: int, channel: str, timeout: float) -> Connection:
        """An open connection, made if need be; after failures not before the broker's backoff is over.

        Raises:
            BrokerConnectionError: It cannot be made, or the broker is not known.
            DeadlineError: Not made in ``timeout`` seconds; names the last failure.
            KafkaError: The one that the pool was closed with.
        """
        if self._closed is not None:
            raise copied(self._closed)
        connection = self.ready(node_id, channel)
        if connection is not None:
            return connection
        node = self.node(node_id)
        return await self._dialling.run(
            (node_id, channel), lambda: self._dial(node, channel), timeout, lambda: self._too_late(node, timeout)
        )

    def by_preference(self, nodes: Iterable[int], avoid: Collection[int] = ()) -> list[int]:
        """The same nodes, those that are likeliest to answer soon first; by chance among equals."""

        def rank(node_id: int) -> tuple[bool, int, bool, int, float]:
            connection = self.ready(node_id)
            failures = self._health[node_id].failures if node_id in self._health else 0
            silent = connection is not None and connection.silent_for > PATIENCE
            load = connection.in_flight if connection is not None else 1
            return (node_id in avoid, failures, silent, load, uniform(0, 1))

        return sorted(nodes, key=rank)

    def hang_up(self, node_id: int, channel: str) -> None:
        """Close a connection; what is under way on it is lost. The next request makes another."""
        connection = self._connections.pop((node_id, channel), None)
        if connection is not None:
            connection.close(BrokerConnectionError(f"the connection to {connection.peer} was given up"))
            connection.abort()

    async def close(self, reason: KafkaError, timeout: float) -> None:
        """Fail what is under way, flush what is written, and close; what does not close in time is dropped."""
        self.fail(reason)
        await self._dialling.wait_closed()
        late = self._all()
        until = asyncio.get_running_loop().time() + timeout
        try:
            async with timeout_at(until):
                while late:
                    await late[0].wait_closed()
                    late.pop(0)
        except asyncio.TimeoutError:
            logger.warning("%d connections did not close in %.3g s and are dropped", len(late), timeout)
        self.drop(reason)

    def fail(self, reason: KafkaError) -> None:
        """Fail what is under way and begin to close."""
        self._closed = reason
        self._dialling.close(reason)
        for connection in self._all():
            connection.close(reason)

    def drop(self, reason: KafkaError) -> None:
        """Close all at once, written or not."""
        self.fail(reason)
        for connection in self._all():
            connection.abort()

    async def _dial(self, node: BrokerNode, channel: str) -> Connection:
        health = self._health.setdefault(node.id, _Health())
        loop = asyncio.get_running_loop()
        if health.retry_at > loop.time():
            await asyncio.sleep(health.retry_at - loop.time())
        config = self._config
        try:
            connection = await open_connection(
                node.host, node.port, str(node), config, config.connect_timeout, self._threads
            )
        except KafkaError as error:
            health.failures += 1
            health.last = error
            health.retry_at = loop.time() + self._backoff.delay(health.failures)
            logger.debug("connecting to %s failed (%d in a row): %s", node, health.failures, error)
            if classify(error, Situation()) is Action.STOP:
                self._stop(error)
            raise
        self._health.pop(node.id, None)
        self._retired = {old for old in self._retired if not old.closed}
        if self._closed is not None:
            connection.abort()
        self._connections[node.id, channel] = connection
        logger.debug("connected to %s for %s", node, channel)
        return connection

    def _all(self) -> list[Connection]:
        return [*self._connections.values(), *self._retired]

    def _retire(self, node_id: int) -> None:
        for key in [key for key in self._connections if key[0] == node_id]:
            connection = self._connections.pop(key)
            # With answers still to come it stays until these are there, and then for as long as idle ones may.
            if connection.in_flight:
                self._retired.add(connection)
            else:
                connection.close()

    def _too_late(self, node: BrokerNode, timeout: float) -> str:
        health = self._health.get(node.id)
        last = f"; last failure: {health.last}" if health is not None and health.last is not None else ""
        return f"no connection to {node} in {timeout:.3g} s{last}"
