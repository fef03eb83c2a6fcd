"""The public API of the embedded broker: a cluster of nodes in this process."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from aiokproto.application.async_context import AsyncContext
from aiokproto.broker.clock import Clock, SystemClock, Timer
from aiokproto.broker.cluster_runtime import ClusterRuntime
from aiokproto.broker.config.options import BrokerOptions, Value
from aiokproto.broker.control import Faults, GroupView, PartitionView, damage
from aiokproto.broker.control.releases import AsVersion, versions_served
from aiokproto.broker.handlers import SERVED, UNSTABLE
from aiokproto.broker.metadata.cluster_state import Node
from aiokproto.broker.metadata.topics import OFFSETS_TOPIC
from aiokproto.broker.quotas.client_quota_manager import ClientQuotaManager
from aiokproto.broker.security.effects import check_effects
from aiokproto.broker.security.mechanisms import SecurityConfig
from aiokproto.broker.security.settings import Security
from aiokproto.broker.server.dispatch import Dispatcher
from aiokproto.broker.server.listener import Listener
from aiokproto.broker.server.socket_server import ReservedPort, SocketServer
from aiokproto.broker.telemetry import PushedMetrics
from aiokproto.config.values import integer, positive
from aiokproto.errors import BrokerError, ConfigurationError, error_for
from aiokproto.texts import address, counted

if TYPE_CHECKING:
    from typing_extensions import Self

log = logging.getLogger("aiokproto.broker")


_UNROUTABLE = ("", "0.0.0.0", "::")
"""Wildcard addresses, which stand for all of the machine's addresses. Kafka refuses to advertise them."""


class Cluster(AsyncContext):
    """Kafka brokers in this process: real sockets, real log files, no replication.

    ::

        async with Cluster(brokers=3) as cluster:
            await cluster.create_topic("flights", partitions=6, replication=3)
            ...  # any Kafka client, at cluster.bootstrap_servers

    All nodes share one copy of the data, but each serves only the partitions it leads, so clients find and follow
    leaders as in a real cluster. Start and close it in the same event loop; its methods aren't safe to call from
    several tasks at once. Use :class:`~aiokproto.broker.threaded.ThreadedCluster` for code in another thread, or
    without an event loop.

    Attributes:
        faults: Injects faults: failed or lost requests, broken connections, a slow network.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        data_dir: str | Path | None = None,
        host: str = "127.0.0.1",
        advertised_host: str | None = None,
        port: int = 0,
        auto_create_topics: bool = True,
        default_partitions: int = 1,
        config: Mapping[str, Value] | None = None,
        clock: Clock | None = None,
        as_version: AsVersion | None = None,
        security: Security | None = None,
        racks: Sequence[str] | None = None,
    ) -> None:
        """Check the options. Nothing runs until :meth:`start`.

        Args:
            brokers: The number of nodes. Their ids start at 0.
            data_dir: The data directory. :meth:`close` keeps it for the next start. None uses a temporary directory
                that :meth:`close` removes.
            host: The address to listen on: ``"0.0.0.0"`` for all IPv4 addresses, ``"::"`` for all addresses.
            advertised_host: The host or address that clients get from metadata, along with the node's port
                (``advertised.listeners``). None means ``host``, which must then be an address that clients can connect
                to.
            port: The port of the first node. The other nodes use the following ports. 0 picks free ports.
            auto_create_topics: Whether a Metadata request for a topic that doesn't exist creates it
                (``auto.create.topics.enable``). If False, a misspelled topic makes a test fail.
            default_partitions: The number of partitions of topics that are created without one (``num.partitions``).
            config: Other options, with Kafka's names and defaults. Options that this broker doesn't implement are
                errors.
            clock: A :class:`~aiokproto.broker.clock.VirtualClock`, which stands still until a test advances it. None
                uses the system's clock.
            as_version: A release of Kafka, ``"0.8.2"`` to ``"4.4"``: only the APIs and versions of that release are
                served. To imitate another implementation, pass the versions of each API, by request class or ApiKey:
                ``{0: "3-7", 1: "4-6", 3: "0-5", …}``. None serves everything.
            security: The security protocol, users and secrets. None means ``PLAINTEXT`` without authentication.
            racks: The rack of each broker (``broker.rack``). Leaders then direct consumers to the replica in their own
                rack, like Kafka's ``RackAwareReplicaSelector`` (KIP-392).

        Raises:
            ConfigurationError: An option is unknown or its value is invalid.
        """
        positive("brokers", brokers)
        integer("port", port)
        if port > 65536 - brokers:
            raise ConfigurationError(f"port={port} leaves no room for {counted(brokers, 'broker')} below 65536")
        if clock is not None and not isinstance(clock, Clock):
            raise ConfigurationError(f"clock={clock!r}: expected a VirtualClock, or None for the system's")
        if security is not None and not isinstance(security, Security):
            raise ConfigurationError(f"security={security!r}: expected a Security, or None for PLAINTEXT")
        options: dict[str, Value] = {
            "auto.create.topics.enable": auto_create_topics,
            "num.partitions": default_partitions,
        }
        self._options = BrokerOptions({**options, **(config or {})})
        self._data_dir = Path(data_dir) if data_dir is not None else None
        self._host = host
        self._advertised_host = host if advertised_host is None else advertised_host
        if self._advertised_host in _UNROUTABLE:
            raise ConfigurationError(
                f"{self._advertised_host!r} is no host to connect to: set advertised_host to what clients should use"
            )
        self._port = port
        if racks is not None and (isinstance(racks, str) or len(racks) != brokers):
            raise ConfigurationError(f"racks={racks!r}: expected a list with the rack of each of {brokers} brokers")
        self._nodes = {number: self._new_node(number) for number in range(brokers)}
        for node, rack in zip(self._nodes.values(), racks or (), strict=racks is not None):
            node.rack = rack
        self._clock: Clock = clock or SystemClock()
        served = UNSTABLE if self._options.value("unstable.api.versions.enable") else SERVED
        self._served = served if as_version is None else versions_served(as_version, SERVED)
        self._security = security or Security()
        check_effects(SecurityConfig(self._security, self._options))
        self._runtime: ClusterRuntime | None = None
        self._servers: dict[int, SocketServer] = {}
        self._ports: dict[int, ReservedPort] = {}
        self._failure_timers: dict[int, Timer] = {}
        self.faults = Faults(self._clock, self._nodes)

    # ---- starting and closing

    async def start(self) -> None:
        """Open the data directory and listen. If that fails or is cancelled, everything is closed again.

        Raises:
            ConfigurationError: Another process is using ``data_dir``, its files weren't written by a broker, or the
                keys for OAUTHBEARER can't be loaded.
            OSError: The address can't be bound, or the directory can't be read or written.
        """
        if self._runtime is not None:
            raise RuntimeError("the cluster is already started")
        self._runtime = runtime = ClusterRuntime(
            self._data_dir, self._nodes, self._options, self._clock, self._security
        )
        try:
            await runtime.security.start()
            # Read the whole state before any server starts, because reading yields to other tasks, and no request may
            # see half the state.
            await runtime.read()
            for node in self._nodes.values():
                self._servers[node.node_id] = self._new_server(node)
            for server in self._servers.values():
                # Open all ports before electing leaders, because a client may request metadata right away, and metadata
                # lists every node's port.
                await server.start()
            # There is no await from here to the end, so requests see either a cluster without leaders or one with
            # loaded coordinators, nothing in between.
            runtime.state.nodes_up(list(self._servers))
            runtime.start()
        except BaseException:
            await self.close()
            raise
        log.debug("cluster %s listens at %s", runtime.state.cluster_id, self.bootstrap_servers)

    async def close(self) -> None:
        """Close all connections, including those with requests in flight, flush the logs and close them.

        A second call does nothing. If cancelled, the logs are still closed.
        """
        await self._shut_down(clean=True)

    async def crash(self) -> None:
        """Stop as if by ``kill -9``: connections are closed, and nothing more is written.

        A cluster can be started from ``data_dir`` again, in this process or another. It then recovers its logs.
        """
        await self._shut_down(clean=False)

    async def _shut_down(self, clean: bool) -> None:
        if self._runtime is None:
            return
        for timer in self._failure_timers.values():
            timer.cancel()
        self._failure_timers.clear()
        try:
            # Close the connections first, so no request finds closed coordinators or logs.
            await asyncio.gather(*(server.close() for server in self._servers.values()))
        finally:
            runtime, self._runtime = self._runtime, None
            self._servers.clear()
            for port in self._ports.values():
                port.release()
            self._ports.clear()
            for node in self._nodes.values():
                node.alive = False
            await runtime.close(clean)

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def _leave(self, error: BaseException | None) -> None:
        await self.close()

    # ---- topics, leaders and groups

    @property
    def bootstrap_servers(self) -> str:
        """``host:port`` of each node (``[host]:port`` for IPv6), as clients' ``bootstrap_servers`` option expects it.

        Raises RuntimeError until free ports have been picked.
        """
        if not all(node.port for node in self._nodes.values()):
            raise RuntimeError("the cluster is not started, so its ports are not known yet")
        return ",".join(address(node.host, node.port) for node in self._nodes.values())

    @property
    def broker_ids(self) -> list[int]:
        """The ids of all nodes, including stopped ones."""
        return list(self._nodes)

    async def create_topic(
        self, name: str, partitions: int = 1, replication: int = 1, config: Mapping[str, Value] | None = None
    ) -> None:
        """Create a topic.

        Args:
            name: The topic's name.
            partitions: The number of partitions.
            replication: The replication factor: how many nodes can lead each partition.
            config: Topic options by Kafka's names.

        Raises:
            TopicExistsError: The topic exists.
            BrokerError: The topic can't be created for another reason, with the code that CreateTopics would return.
        """
        configs: dict[str, str | None] = {key: str(value) for key, value in (config or {}).items()}
        try:
            self._running.state.create_topic(name, partitions, replication, configs)
        except BrokerError as error:
            raise error_for(error.code, "create_topic", error.detail) from None

    async def compact(self, topic: str) -> None:
        """Compact a topic up to its current end, immediately.

        Unlike the periodic cleaner, this rolls the active segment first, and ignores ``min.cleanable.dirty.ratio`` and
        ``cleanup.policy``. If cancelled, the partitions that haven't been compacted yet keep their segments.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION.
        """
        state = self._running.state
        first = state.partition(topic, 0)
        await self._running.log_manager.compact(state.topics[first.topic].partitions)

    async def topics(self) -> list[str]:
        """The names of all topics, including internal ones."""
        return list(self._running.state.topics)

    def leader(self, topic: str, partition: int) -> int:
        """The id of a partition's leader, or -1 if it has none. Raises :class:`BrokerError` if the partition is
        unknown."""
        return self._running.state.partition(topic, partition).leader

    async def move_leader(self, topic: str, partition: int, to_node: int | None = None) -> int:
        """Elect another leader for a partition. The leader epoch is incremented.

        Args:
            topic: The topic.
            partition: The partition.
            to_node: The new leader; a node that isn't a replica becomes one. None picks the next in-sync replica or, if
                there is none, any running node.

        Returns:
            The id of the new leader.

        Raises:
            BrokerError: The partition is unknown, or no other node is running.
        """
        return self._running.state.move_leader(topic, partition, to_node)

    def coordinator(self, group_id: str) -> int:
        """The id of a group's coordinator, or -1 if it has none."""
        return self._running.groups.partition_of(group_id).leader

    async def move_coordinator(self, group_id: str, to_node: int | None = None) -> int:
        """Move the coordinator of a group, and of all groups in the same partition of ``__consumer_offsets``.

        Returns:
            The id of the new coordinator.

        Raises:
            BrokerError: No other node is running.
        """
        return await self.move_leader(OFFSETS_TOPIC, self._running.groups.partition_of(group_id).index, to_node)

    def group(self, group_id: str) -> GroupView | None:
        """A snapshot of a group, whichever node coordinates it, or None if the group is unknown."""
        entry = self._running.groups.entry(group_id)
        return GroupView.of(entry.group) if entry is not None else None

    async def wait_for_group(self, group_id: str, members: int | None = None) -> GroupView:
        """Wait until a group is stable: all members have their assignments. The group doesn't have to exist yet.

        There is no deadline: wrap the call in ``asyncio.timeout``. Cancelling has no side effects.

        Args:
            group_id: The group.
            members: The exact number of members to wait for. 0 waits until the group is empty, None until it has at
                least one member.

        Returns:
            A snapshot of the group at that moment.

        Raises:
            RuntimeError: The cluster is not started, or was closed during the wait.
        """
        group = await self._running.groups.wait_for(group_id, lambda found: GroupView.of(found).is_stable(members))
        return GroupView.of(group)

    def partition(self, topic: str, partition: int) -> PartitionView:
        """A snapshot of a partition. Raises :class:`BrokerError` if the partition is unknown."""
        return PartitionView.of(self._running.state.partition(topic, partition))

    def pushed_metrics(self) -> list[PushedMetrics]:
        """The last thousand pushes of client metrics to any node, oldest first, up to 32 MiB in total (KIP-714).

        Clients push the metrics that a subscription lists. To create a subscription, use ``IncrementalAlterConfigs``
        with resource type 16 and the options ``metrics``, ``interval.ms`` and ``match``.
        """
        return list(self._running.telemetry.pushes)

    async def stop_broker(self, broker_id: int) -> None:
        """Stop a node: its partitions get new leaders, and its connections are closed."""
        server = self._server_of(broker_id)
        # Move leaders first, so a client that reconnects elsewhere isn't sent back here.
        self._running.state.node_down(broker_id)
        await server.close()

    async def start_broker(self, broker_id: int) -> None:
        """Restart a stopped node on its port. It becomes the leader again of partitions that have no other replica.

        Raises:
            ValueError: The node is already running, or is unknown.
            OSError: The port can't be bound.
        """
        node = self._nodes.get(broker_id)
        if node is None or broker_id in self._servers:
            raise ValueError(f"broker {broker_id} is {'running' if node else 'unknown'}")
        server = self._new_server(node)
        await server.start()
        self._servers[broker_id] = server
        failure = self._failure_timers.pop(broker_id, None)
        # The node is back before the controller has noticed the failure.
        if failure is not None:
            failure.cancel()
        self._running.state.nodes_up([broker_id])

    async def add_broker(self) -> int:
        """Add a node. It holds no partitions until topics are created or partitions are reassigned to it.

        Returns:
            The id of the node, one more than the highest so far.

        Raises:
            OSError: The port can't be bound.
        """
        node = self._new_node(max(self._nodes) + 1)
        server = self._new_server(node)
        await server.start()
        # Add the node only after its port is bound: metadata must not list a node that failed to start.
        self._nodes[node.node_id] = node
        self._servers[node.node_id] = server
        self._running.state.nodes_up([node.node_id])
        return node.node_id

    async def remove_broker(self, broker_id: int) -> None:
        """Remove a node, running or stopped. Its replicas move to other nodes.

        Raises:
            ValueError: The node is unknown, or is the only node.
        """
        if broker_id not in self._nodes or len(self._nodes) == 1:
            raise ValueError(
                f"broker {broker_id} cannot be removed: it is unknown, or the only one of brokers {self.broker_ids}"
            )
        if broker_id in self._servers:
            await self.stop_broker(broker_id)
        # First, elect other leaders for the node's partitions.
        self._notice_failure(broker_id)
        self._running.state.remove_node(broker_id)
        self._ports.pop(broker_id).release()

    # ---- failures

    async def kill_broker(self, broker_id: int, noticed_after: float = 0.0) -> None:
        """Stop a node without moving its leaders first, like a machine failure. See also :meth:`stop_broker`.

        Args:
            broker_id: The node.
            noticed_after: Seconds, on the cluster's clock, until the controller notices. Until then, metadata lists
                leaders that clients can't reach. In Kafka this is ``broker.session.timeout.ms``, 9 seconds.
        """
        server = self._server_of(broker_id)
        # Unlike in stop_broker(), the leaders stay for now.
        await server.close()
        if noticed_after > 0:
            due = self._clock.time() + noticed_after
            self._failure_timers[broker_id] = self._clock.call_at(due, self._notice_failure, broker_id)
        else:
            self._running.state.node_down(broker_id)

    def corrupt_batch(self, topic: str, partition: int, offset: int) -> None:
        """Corrupt the stored batch that contains ``offset``: its CRC no longer matches.

        Raises:
            BrokerError: The partition or the offset is unknown.
        """
        damage.corrupt_batch(self._running.state.partition(topic, partition), offset)

    def diverge_log(self, topic: str, partition: int, to_offset: int, values: Iterable[bytes] = ()) -> None:
        """Truncate a partition's log and elect a new leader, like an unclean election (KIP-320).

        Args:
            topic: The topic.
            partition: The partition.
            to_offset: The first lost offset. A batch must start there.
            values: The values of records that the new leader appends there, in its own epoch.

        Raises:
            BrokerError: The partition or the offset is unknown, or the offset is in the middle of a batch.
        """
        found = self._running.state.partition(topic, partition)
        damage.diverge_log(self._running.state.topics[topic], found, to_offset, values, self._clock.wall())
        self._running.leader_changed(found)

    def expire_session(self, group_id: str, member_id: str) -> None:
        """Expire a group member's session now, as if its heartbeats had stopped.

        Raises:
            BrokerError: The group or the member is unknown.
        """
        error = self._running.groups.expire_session(group_id, member_id)
        if error:
            raise BrokerError(error, detail=f"group {group_id!r} has no member {member_id!r}")

    # ---- inside

    def _server_of(self, broker_id: int) -> SocketServer:
        """Remove and return the server of a running node."""
        server = self._servers.pop(broker_id, None)
        if server is None:
            raise ValueError(f"broker {broker_id} is not running; running brokers: {sorted(self._servers)}")
        return server

    def _notice_failure(self, broker_id: int) -> None:
        """Make the controller notice a failure caused by :meth:`kill_broker`, unless it already has."""
        timer = self._failure_timers.pop(broker_id, None)
        if timer is not None:
            timer.cancel()
            self._running.state.node_down(broker_id)

    def _new_node(self, number: int) -> Node:
        port = self._port + number if self._port else 0
        return Node(number, self._advertised_host, port, listens=self._host)

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
    """A :class:`Cluster` of one node.

    ::

        async with Broker(data_dir="data", port=9092) as broker: ...
    """

    def __init__(
        self,
        *,
        data_dir: str | Path | None = None,
        host: str = "127.0.0.1",
        advertised_host: str | None = None,
        port: int = 0,
        auto_create_topics: bool = True,
        default_partitions: int = 1,
        config: Mapping[str, Value] | None = None,
        clock: Clock | None = None,
        as_version: AsVersion | None = None,
        security: Security | None = None,
    ) -> None:
        """See :class:`Cluster` for the arguments."""
        super().__init__(
            1,
            data_dir=data_dir,
            host=host,
            advertised_host=advertised_host,
            port=port,
            auto_create_topics=auto_create_topics,
            default_partitions=default_partitions,
            config=config,
            clock=clock,
            as_version=as_version,
            security=security,
        )
