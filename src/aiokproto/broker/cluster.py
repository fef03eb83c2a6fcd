"""The face of the embedded broker: a cluster of nodes in this process."""

from __future__ import annotations

import asyncio
import logging
import shutil
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from aiokproto.broker.dispatch import Dispatcher
from aiokproto.broker.groups.coordinator import GroupCoordinator
from aiokproto.broker.lock import DirectoryLock
from aiokproto.broker.options import BrokerOptions, Value
from aiokproto.broker.server import Server
from aiokproto.broker.state import Node, State, wall_clock
from aiokproto.broker.topics import OFFSETS_TOPIC, Partition
from aiokproto.errors import ConfigurationError

if TYPE_CHECKING:
    from typing_extensions import Self

log = logging.getLogger("aiokproto.broker")


class Cluster:
    """Kafka brokers in this process: real sockets, real log files, no replication.

    ::

        async with Cluster(brokers=3) as cluster:
            await cluster.create_topic("flights", partitions=6, replication=3)
            ...  # any Kafka client, at cluster.bootstrap_servers

    All nodes share one copy of the data, and each serves only what it leads, so clients have to behave as with a real
    cluster. It is started and closed in one event loop, and not from several tasks at once.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        data_dir: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        auto_create_topics: bool = False,
        default_partitions: int = 1,
        config: Mapping[str, Value] | None = None,
    ) -> None:
        """Check the options; nothing is started yet.

        Args:
            brokers: How many nodes; their ids count from 0.
            data_dir: Where the data is, and stays for the next start; None: in a temporary directory that is removed at
                the end.
            host: The address to listen on, and the one that clients are told.
            port: The first node's port, the others' follow; 0: free ones are picked.
            auto_create_topics: Whether a client that asks for a topic brings it into being
                (``auto.create.topics.enable``).
            default_partitions: Partitions of a topic for which no number is given (``num.partitions``).
            config: Other options by Kafka's names; those that a broker takes and this one has no use for are errors.

        Raises:
            ConfigurationError: An option is unknown, or its value cannot be used.
        """
        if brokers < 1:
            raise ConfigurationError(f"brokers: {brokers}, there must be at least one")
        if not 0 <= port <= 65536 - brokers:
            raise ConfigurationError(f"port: {port} does not leave room for {brokers} brokers")
        options: dict[str, Value] = {
            "auto.create.topics.enable": auto_create_topics,
            "num.partitions": default_partitions,
        }
        self._options = BrokerOptions({**options, **(config or {})})
        self._data_dir = Path(data_dir) if data_dir is not None else None
        self._nodes = [Node(number, host, port + number if port else 0) for number in range(brokers)]
        self._temporary: str | None = None
        self._lock: DirectoryLock | None = None
        self._state: State | None = None
        self._groups: GroupCoordinator | None = None
        self._servers: dict[int, Server] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}

    # ---- life

    async def start(self) -> None:
        """Open the data and listen.

        If this fails or is cancelled, what was begun is undone.

        Raises:
            ConfigurationError: ``data_dir`` is in use by another process, or not a broker's.
            OSError: The address cannot be listened on, or the directory not be used.
        """
        if self._state is not None:
            raise RuntimeError("the cluster is already started")
        try:
            self._open()
            for server in self._servers.values():
                await server.start()
            self._running.nodes_up(list(self._servers))
            assert self._groups is not None
            self._groups.start()
            self._running.on_leader_change = self._leader_changed
        except BaseException:
            await self.close()
            raise
        self._every("log.retention.check.interval.ms", self._retain)
        self._every("offsets.retention.check.interval.ms", self._groups.expire)
        log.debug("cluster %s listens at %s", self._running.cluster_id, self.bootstrap_servers)

    async def close(self) -> None:
        """Cut all connections, also those with requests under way, write what is in memory and close the logs.

        Does nothing the second time. If it is cancelled the logs are closed all the same.
        """
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        try:
            await asyncio.gather(*(server.close() for server in self._servers.values()))
        finally:
            self._release()

    def _release(self) -> None:
        self._servers.clear()
        if self._groups is not None:
            self._groups.close()
            self._groups = None
        if self._state is not None:
            for node in self._nodes:
                node.alive = False
            if self._temporary is None:
                self._state.close()
            else:
                self._state.abandon()
            self._state = None
        if self._lock is not None:
            self._lock.release()
            self._lock = None
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    def _open(self) -> None:
        root = self._data_dir
        if root is None:
            self._temporary = tempfile.mkdtemp(prefix="aiokproto-broker-")
            root = Path(self._temporary)
        root.mkdir(parents=True, exist_ok=True)
        self._lock = DirectoryLock(root)
        self._state = State(root, self._nodes, self._options)
        self._groups = GroupCoordinator(self._state)
        self._state.on_delete = self._groups.topic_deleted
        for node in self._nodes:
            self._servers[node.node_id] = self._new_server(node)

    def _new_server(self, node: Node) -> Server:
        assert self._groups is not None
        dispatcher = Dispatcher(self._running, self._groups, node)
        return Server(node, dispatcher, self._options.number("socket.request.max.bytes"))

    # ---- what tests and tools do with it

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of all nodes, as clients take it. Raises RuntimeError while ports are still to be picked."""
        if not all(node.port for node in self._nodes):
            raise RuntimeError("the cluster is not started, so its ports are not known yet")
        return ",".join(f"{node.host}:{node.port}" for node in self._nodes)

    @property
    def broker_ids(self) -> list[int]:
        """The ids of all nodes, those that are stopped included."""
        return [node.node_id for node in self._nodes]

    async def create_topic(
        self, name: str, partitions: int = 1, replication: int = 1, config: Mapping[str, Value] | None = None
    ) -> None:
        """Create a topic.

        Args:
            name: Its name.
            partitions: Number of partitions.
            replication: Replicas of each: the nodes that can lead it.
            config: Topic options by Kafka's names.

        Raises:
            BrokerError: It cannot be created; the code says why, as it would over the wire.
        """
        configs: dict[str, str | None] = {key: str(value) for key, value in (config or {}).items()}
        self._running.create_topic(name, partitions, replication, configs)

    def leader(self, topic: str, partition: int) -> int:
        """The node that leads a partition, -1 if none can. Raises :class:`BrokerError` if there is no such one."""
        return self._running.partition(topic, partition).leader

    async def move_leader(self, topic: str, partition: int, to_node: int | None = None) -> int:
        """Have another node lead a partition, as an election would: the leader epoch grows.

        Args:
            topic: The topic.
            partition: The partition.
            to_node: The node; if it has no replica yet it gets one. None: the next replica in sync, else any node.

        Returns:
            The id of the new leader.

        Raises:
            BrokerError: There is no such partition, or no other node that is up.
        """
        return self._running.move_leader(topic, partition, to_node)

    def coordinator(self, group_id: str) -> int:
        """The node that coordinates a group, -1 if none can."""
        assert self._groups is not None
        return self._groups.partition_of(group_id).leader

    async def move_coordinator(self, group_id: str, to_node: int | None = None) -> int:
        """Have another node coordinate a group, and all that share its partition of the offsets topic.

        Returns:
            The id of the new coordinator.

        Raises:
            BrokerError: There is no other node that is up.
        """
        assert self._groups is not None
        return await self.move_leader(OFFSETS_TOPIC, self._groups.partition_of(group_id).index, to_node)

    async def stop_broker(self, broker_id: int) -> None:
        """Stop a node: its connections are cut, and what it led goes to replicas that are up."""
        server = self._servers.pop(broker_id, None)
        if server is None:
            raise ValueError(f"broker {broker_id} is not running; running are {sorted(self._servers)}")
        # Leaders move first: a client that reconnects elsewhere must not be sent back here.
        self._running.node_down(broker_id)
        await server.close()

    async def start_broker(self, broker_id: int) -> None:
        """Start a stopped node again, at the port it had. It leads again what nobody else could take over.

        Raises:
            OSError: The port was taken by somebody else meanwhile.
        """
        node = next((node for node in self._nodes if node.node_id == broker_id), None)
        if node is None or broker_id in self._servers:
            raise ValueError(f"broker {broker_id} is {'running' if node else 'unknown'}")
        server = self._new_server(node)
        await server.start()
        self._servers[broker_id] = server
        self._running.nodes_up([broker_id])

    # ---- inside

    @property
    def _running(self) -> State:
        if self._state is None:
            raise RuntimeError("the cluster is not started")
        return self._state

    def _leader_changed(self, partition: Partition) -> None:
        if partition.topic == OFFSETS_TOPIC and self._groups is not None:
            self._groups.leader_changed(partition)

    def _every(self, option: str, act: Callable[[], None]) -> None:
        def fire() -> None:
            self._every(option, act)
            act()

        self._timers[option] = asyncio.get_running_loop().call_later(self._options.seconds(option), fire)

    def _retain(self) -> None:
        now = wall_clock()
        for partition in self._running.partitions():
            partition.log.retain(now)
            partition.log.forget_producers(now - self._options.number("producer.id.expiration.ms"))


class Broker(Cluster):
    """A single broker in this process; see :class:`Cluster`, of which it is one with one node.

    ::

        async with Broker(data_dir="data", port=9092) as broker: ...
    """

    def __init__(
        self,
        *,
        data_dir: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        auto_create_topics: bool = False,
        default_partitions: int = 1,
        config: Mapping[str, Value] | None = None,
    ) -> None:
        """As :class:`Cluster`."""
        super().__init__(
            1,
            data_dir=data_dir,
            host=host,
            port=port,
            auto_create_topics=auto_create_topics,
            default_partitions=default_partitions,
            config=config,
        )
