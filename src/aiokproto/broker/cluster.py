"""The face of the embedded broker: a cluster of nodes in this process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

from aiokproto.broker.clock import Clock, SystemClock, Timer
from aiokproto.broker.cluster_runtime import ClusterRuntime
from aiokproto.broker.config.options import BrokerOptions, Value
from aiokproto.broker.control import Faults, GroupView, PartitionView, damage
from aiokproto.broker.control.releases import versions_of_release
from aiokproto.broker.handlers import SERVED
from aiokproto.broker.metadata.cluster_state import Node
from aiokproto.broker.metadata.topics import OFFSETS_TOPIC
from aiokproto.broker.quotas.client_quota_manager import ClientQuotaManager
from aiokproto.broker.security.settings import Security
from aiokproto.broker.server.dispatch import Dispatcher
from aiokproto.broker.server.listener import Listener
from aiokproto.broker.server.reserved_port import ReservedPort
from aiokproto.broker.server.socket_server import SocketServer
from aiokproto.errors import BrokerError, ConfigurationError

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

    Attributes:
        faults: What goes wrong: requests that fail or get lost, connections that break, a slow network.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        data_dir: str | Path | None = None,
        host: str = "127.0.0.1",
        port: int = 0,
        auto_create_topics: bool = True,
        default_partitions: int = 1,
        config: Mapping[str, Value] | None = None,
        clock: Clock | None = None,
        as_version: str | None = None,
        security: Security | None = None,
    ) -> None:
        """Check the options; nothing is started yet.

        Args:
            brokers: How many nodes; their ids count from 0.
            data_dir: Where the data is, and stays for the next start; None: in a temporary directory that is removed at
                the end.
            host: The address to listen on, and the one that clients are told.
            port: The first node's port, the others' follow; 0: free ones are picked.
            auto_create_topics: Whether a Metadata request for a topic that does not exist creates it
                (``auto.create.topics.enable``). False makes a test notice a misspelled topic.
            default_partitions: Partitions of a topic for which no number is given (``num.partitions``).
            config: Other options by Kafka's names; those that a broker takes and this one has no use for are errors.
            clock: A :class:`~aiokproto.broker.clock.VirtualClock`, which stands still until a test advances it. None:
                the system's.
            as_version: A release of Kafka, ``"0.8.2"`` to ``"4.4"``: of what this broker serves, only the versions that
                a broker of that release did. None: all of it.
            security: How clients connect, and the secrets by which they prove who they are. None: ``PLAINTEXT``, and
                nobody has to.

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
        self._host = host
        self._port = port
        self._nodes = {number: self._new_node(number) for number in range(brokers)}
        self._clock: Clock = clock or SystemClock()
        self._served = SERVED if as_version is None else versions_of_release(as_version, SERVED)
        self._security = security or Security()
        self._runtime: ClusterRuntime | None = None
        self._servers: dict[int, SocketServer] = {}
        self._ports: dict[int, ReservedPort] = {}
        self._deaths: dict[int, Timer] = {}
        self.faults = Faults(self._clock)

    # ---- life

    async def start(self) -> None:
        """Open the data and listen.

        If this fails or is cancelled, what was begun is undone.

        Raises:
            ConfigurationError: ``data_dir`` is in use by another process, or not a broker's.
            OSError: The address cannot be listened on, or the directory not be used.
        """
        if self._runtime is not None:
            raise RuntimeError("the cluster is already started")
        self._runtime = runtime = ClusterRuntime(
            self._data_dir, self._nodes, self._options, self._clock, self._security
        )
        try:
            for node in self._nodes.values():
                self._servers[node.node_id] = self._new_server(node)
            for server in self._servers.values():
                await server.start()
            runtime.state.nodes_up(list(self._servers))
            runtime.start()
        except BaseException:
            await self.close()
            raise
        log.debug("cluster %s listens at %s", runtime.state.cluster_id, self.bootstrap_servers)

    async def close(self) -> None:
        """Cut all connections, also those with requests under way, write what is in memory and close the logs.

        Does nothing the second time. If it is cancelled the logs are closed all the same.
        """
        await self._end(in_order=True)

    async def crash(self) -> None:
        """End as ``kill -9`` would: connections are cut, and nothing more is written.

        What is in ``data_dir`` can be started from again, here or in another process.
        """
        await self._end(in_order=False)

    async def _end(self, in_order: bool) -> None:
        if self._runtime is None:
            return
        for timer in self._deaths.values():
            timer.cancel()
        self._deaths.clear()
        try:
            await asyncio.gather(*(server.close() for server in self._servers.values()))
        finally:
            runtime, self._runtime = self._runtime, None
            self._servers.clear()
            for port in self._ports.values():
                port.release()
            self._ports.clear()
            for node in self._nodes.values():
                node.alive = False
            await runtime.close(in_order)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    # ---- what tests and tools do with it

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of all nodes, as clients take it. Raises RuntimeError while ports are still to be picked."""
        if not all(node.port for node in self._nodes.values()):
            raise RuntimeError("the cluster is not started, so its ports are not known yet")
        return ",".join(f"{node.host}:{node.port}" for node in self._nodes.values())

    @property
    def broker_ids(self) -> list[int]:
        """The ids of all nodes, those that are stopped included."""
        return list(self._nodes)

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
        self._running.state.create_topic(name, partitions, replication, configs)

    async def compact(self, topic: str) -> None:
        """Compact all that was written to a topic with ``cleanup.policy=compact`` so far.

        Unlike what a broker does by itself from time to time, this begins a new segment first, and asks neither for
        ``min.cleanable.dirty.ratio`` nor whether the topic is to be compacted. Cancelling it leaves some partitions as
        they were.

        Raises:
            BrokerError: There is no such topic.
        """
        state = self._running.state
        first = state.partition(topic, 0)
        await self._running.log_manager.compact(state.topics[first.topic].partitions)

    async def topics(self) -> list[str]:
        """The names of all topics, Kafka's own among them."""
        return list(self._running.state.topics)

    def leader(self, topic: str, partition: int) -> int:
        """The node that leads a partition, -1 if none can. Raises :class:`BrokerError` if there is no such one."""
        return self._running.state.partition(topic, partition).leader

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
        return self._running.state.move_leader(topic, partition, to_node)

    def coordinator(self, group_id: str) -> int:
        """The node that coordinates a group, -1 if none can."""
        return self._running.groups.partition_of(group_id).leader

    async def move_coordinator(self, group_id: str, to_node: int | None = None) -> int:
        """Have another node coordinate a group, and all that share its partition of the offsets topic.

        Returns:
            The id of the new coordinator.

        Raises:
            BrokerError: There is no other node that is up.
        """
        return await self.move_leader(OFFSETS_TOPIC, self._running.groups.partition_of(group_id).index, to_node)

    def group(self, group_id: str) -> GroupView | None:
        """A group as it is now, whichever node coordinates it; None if there is no such group."""
        entry = self._running.groups.entry(group_id)
        return GroupView.of(entry.group) if entry is not None else None

    async def wait_for_group(self, group_id: str, members: int | None = None) -> GroupView:
        """Wait until a group is stable: all its members have what is theirs. It need not be there yet.

        Args:
            group_id: The group.
            members: With so many members, no more and no less; 0: until it is empty. None: with one or more.

        Returns:
            The group as it was at that moment. Cancelling it changes nothing.

        Raises:
            RuntimeError: The cluster is not started, or was closed meanwhile.
        """
        group = await self._running.groups.wait_for(group_id, lambda each: GroupView.of(each).is_stable(members))
        return GroupView.of(group)

    def partition(self, topic: str, partition: int) -> PartitionView:
        """A partition as it is now. Raises :class:`BrokerError` if there is no such one."""
        return PartitionView.of(self._running.state.partition(topic, partition))

    async def stop_broker(self, broker_id: int) -> None:
        """Stop a node: its connections are cut, and what it led goes to replicas that are up."""
        server = self._server_of(broker_id)
        # Leaders move first: a client that reconnects elsewhere must not be sent back here.
        self._running.state.node_down(broker_id)
        await server.close()

    async def start_broker(self, broker_id: int) -> None:
        """Start a stopped node again, at the port it had. It leads again what nobody else could take over.

        Raises:
            OSError: It cannot be listened on.
        """
        node = self._nodes.get(broker_id)
        if node is None or broker_id in self._servers:
            raise ValueError(f"broker {broker_id} is {'running' if node else 'unknown'}")
        server = self._new_server(node)
        await server.start()
        self._servers[broker_id] = server
        self._running.state.nodes_up([broker_id])

    async def add_broker(self) -> int:
        """Have another node join the cluster. It has nothing yet: partitions come with new topics, or are moved there.

        Returns:
            Its id, one more than the highest.

        Raises:
            OSError: Its port is taken.
        """
        node = self._new_node(max(self._nodes) + 1)
        server = self._new_server(node)
        await server.start()
        self._nodes[node.node_id] = node
        self._servers[node.node_id] = server
        self._running.state.nodes_up([node.node_id])
        return node.node_id

    async def remove_broker(self, broker_id: int) -> None:
        """Have a node leave for good, running or not; others get the replicas that it had.

        Raises:
            ValueError: There is no such node, or it is the only one.
        """
        if broker_id not in self._nodes or len(self._nodes) == 1:
            raise ValueError(f"broker {broker_id} cannot leave brokers {self.broker_ids}")
        if broker_id in self._servers:
            await self.stop_broker(broker_id)
        self._running.state.remove_node(broker_id)
        self._ports.pop(broker_id).release()

    # ---- mishaps

    async def kill_broker(self, broker_id: int, noticed_after: float = 0.0) -> None:
        """End a node without a word, as a crash of its machine does; :meth:`stop_broker` is the orderly way.

        Args:
            broker_id: The node.
            noticed_after: Seconds, on the cluster's clock, in which the others still take it for alive: what it leads
                has a leader whom nobody can reach. Kafka's ``broker.session.timeout.ms`` is 9 seconds.
        """
        server = self._server_of(broker_id)
        await server.close()

        def notice() -> None:
            if broker_id not in self._servers:
                self._running.state.node_down(broker_id)

        if noticed_after > 0:
            self._deaths[broker_id] = self._clock.call_at(self._clock.time() + noticed_after, notice)
        else:
            notice()

    def corrupt_batch(self, topic: str, partition: int, offset: int) -> None:
        """Damage the stored batch that has the record at ``offset``: its checksum is wrong from then on.

        Raises:
            BrokerError: There is no such partition or record.
        """
        damage.corrupt_batch(self._running.state.partition(topic, partition), offset)

    def diverge_log(self, topic: str, partition: int, to_offset: int, values: Iterable[bytes] = ()) -> None:
        """Have a leader take over that lacks the newest records, as an unclean election does (KIP-320).

        Args:
            topic: The topic.
            partition: The partition.
            to_offset: The first offset that is lost; a batch must begin there.
            values: What the new leader writes instead, in its own epoch.

        Raises:
            BrokerError: There is no such partition or offset, or it lies within a batch.
        """
        found = self._running.state.partition(topic, partition)
        damage.diverge_log(self._running.state.topics[topic], found, to_offset, values, self._clock.wall())
        self._running.leader_changed(found)

    def expire_session(self, group_id: str, member_id: str) -> None:
        """End a group member's session now, as if it had not been heard of for too long.

        Raises:
            BrokerError: There is no such group or member.
        """
        error = self._running.groups.expire_session(group_id, member_id)
        if error:
            raise BrokerError(error, detail=f"group {group_id!r} has no member {member_id!r}")

    # ---- inside

    def _server_of(self, broker_id: int) -> SocketServer:
        """Take out the server of a node that runs."""
        server = self._servers.pop(broker_id, None)
        if server is None:
            raise ValueError(f"broker {broker_id} is not running; running are {sorted(self._servers)}")
        return server

    def _new_node(self, number: int) -> Node:
        return Node(number, self._host, self._port + number if self._port else 0)

    def _new_server(self, node: Node) -> SocketServer:
        runtime = self._running
        quotas = ClientQuotaManager(runtime.security.client_quotas, self._options)
        listener = Listener(runtime.security, quotas, runtime.tls, self._options, self._clock)
        dispatcher = Dispatcher(runtime, node, self.faults, self._served, quotas)
        port = self._ports.setdefault(node.node_id, ReservedPort())
        return SocketServer(node, port, dispatcher, listener, self.faults.network)

    @property
    def _running(self) -> ClusterRuntime:
        if self._runtime is None:
            raise RuntimeError("the cluster is not started")
        return self._runtime


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
        auto_create_topics: bool = True,
        default_partitions: int = 1,
        config: Mapping[str, Value] | None = None,
        clock: Clock | None = None,
        as_version: str | None = None,
        security: Security | None = None,
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
            clock=clock,
            as_version=as_version,
            security=security,
        )
