"""The connection pool: one connection per broker and channel, with reconnect backoff per broker.

Connections to a broker that left the cluster, or moved to another address, are retired: they take no new requests and
close once the last response has arrived. The backoff is per broker, not per channel: all channels fail together.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from aiokproto.cluster.backoff import Backoff
from aiokproto.cluster.hedge import HEDGE_DELAY
from aiokproto.cluster.single_flight import SingleFlight
from aiokproto.cluster.snapshot import BrokerNode
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.config import Address
from aiokproto.errors import BrokerConnectionError, KafkaError, copied
from aiokproto.failures import Action, Situation, classify
from aiokproto.net.addresses import canonical_names
from aiokproto.net.connection import Connection
from aiokproto.net.open import open_connection
from aiokproto.net.versions import ANYONE, Identity
from aiokproto.observe.stats import ConnectionStats
from aiokproto.runtime import uniform
from aiokproto.runtime.timeouts import timeout_at
from aiokproto.texts import counted

if TYPE_CHECKING:
    from aiokproto.cluster.cluster_client import ClusterClient

MAIN = "main"
"""The channel for requests that brokers answer at once."""

_WARN_EVERY = 30.0
"""Minimum seconds between two warnings that ``broker_version`` may be wrong."""

logger = logging.getLogger("aiokproto.cluster")


class _DialState:
    """Counts one broker's consecutive failed dials. A broker that can be reached has no entry."""

    __slots__ = ("failures", "last_error", "retry_at")

    def __init__(self) -> None:
        self.failures = 0
        self.retry_at = 0.0
        self.last_error: KafkaError | None = None


def _bootstrap_nodes(addresses: Iterable[Address]) -> dict[int, BrokerNode]:
    return {-1 - number: BrokerNode(-1 - number, *address) for number, address in enumerate(addresses)}


class Pool:
    """At most one connection per broker and channel.

    A channel is a name. Responses on one connection are in order, so a request whose response can be delayed for a long
    time (Fetch, JoinGroup) uses a separate channel.
    """

    def __init__(self, client: ClusterClient) -> None:
        self._client = client
        self._config = config = client.config
        self._backoff = Backoff(config.reconnect_backoff, config.reconnect_backoff_max, uniform)
        # Bootstrap addresses get made-up ids, since their node ids are unknown. This way they can be dialled, ranked
        # and backed off like brokers.
        self._bootstrap = _bootstrap_nodes(config.bootstrap_servers)
        self._brokers: Mapping[int, BrokerNode] = {}
        self._cluster_id: str | None = None
        self._connections: dict[tuple[int, str], Connection] = {}
        # Retired connections are kept only to be closed with the client. The next dial removes those that have closed.
        self._retired: set[Connection] = set()
        self._dial_states: dict[int, _DialState] = {}
        # If a hundred requests need a connection at once, they share one dial, and cancelling one of them doesn't end
        # it.
        self._dialling: SingleFlight[tuple[int, str], Connection] = SingleFlight()
        self._close_error: KafkaError | None = None
        # Address → the release of a broker that doesn't report its versions, and when to probe it again (s, the loop's
        # clock). Probing takes seconds and several connections, but the broker may be upgraded at some point.
        self._releases: dict[tuple[str, int], tuple[str, float]] = {}
        # Broker and channel → the API of the request on which the broker closed the last connection. That happens if
        # the broker's release isn't broker_version.
        self._refusals: dict[tuple[int, str], str] = {}
        self._doubted_at = -math.inf
        # Addresses where a broker has reported its versions. Such a broker is never taken for one that is too old to do
        # so.
        self._answering: set[tuple[str, int]] = set()
        # Addresses where a broker has been reached.
        self._reached: set[tuple[str, int]] = set()

    @property
    def bootstrap_nodes(self) -> list[int]:
        """The node ids of the bootstrap addresses, all negative, as in Java."""
        return list(self._bootstrap)

    async def resolve_bootstrap(self, deadline: float) -> None:
        """Replace the hosts of the bootstrap addresses with their canonical names, if the options say so (KIP-235).

        An address that can't be resolved stays as it is: connecting to it will fail, and that error says why.
        """
        if not self._config.canonical_bootstrap:
            return
        found: list[Address] = []
        for host, port in self._config.bootstrap_servers:
            try:
                names = await canonical_names(host, port, deadline, self._client.threads)
            except BrokerConnectionError as error:
                logger.debug("%s", error)
                names = [host]
            found += [(name, port) for name in names]
        nodes = _bootstrap_nodes(dict.fromkeys(found))
        if nodes != self._bootstrap:
            self.release_bootstrap()
            self._bootstrap = nodes

    def node(self, node_id: int) -> BrokerNode:
        """Return a broker's address.

        Raises:
            BrokerConnectionError: No such broker is known.
        """
        # BrokerNode is a non-empty tuple, so even node 0 is truthy.
        node = self._brokers.get(node_id) or self._bootstrap.get(node_id)
        if node is None:
            raise BrokerConnectionError(f"broker {node_id} is not known (known: {sorted(self._brokers)})")
        return node

    def update(self, brokers: Mapping[int, BrokerNode], cluster_id: str | None) -> None:
        """Use the brokers of a new snapshot. Connections to brokers that left the cluster or moved are retired."""
        before, self._brokers = self._brokers, brokers
        self._cluster_id = cluster_id
        known = {(node.host, node.port) for node in (*brokers.values(), *self._bootstrap.values())}
        self._releases = {address: found for address, found in self._releases.items() if address in known}
        self._refusals = {key: api for key, api in self._refusals.items() if key[0] in brokers or key[0] < 0}
        self._answering &= known
        self._reached &= known
        for node_id, node in before.items():
            now = brokers.get(node_id)
            if now is None or (now.host, now.port) != (node.host, node.port):
                # Failures at the old address say nothing about the new one.
                self._dial_states.pop(node_id, None)
                self._retire(node_id)

    def release_bootstrap(self) -> None:
        """Retire the connections to bootstrap addresses, and use only the brokers' advertised addresses from here on.

        Does nothing if no broker is known (0.8 lists none until the first topic exists).
        """
        if not self._brokers:
            return
        for node_id in self._bootstrap:
            self._retire(node_id)

    @property
    def unproven(self) -> bool:
        """Whether none of the addresses in the metadata was ever reached."""
        return bool(self._brokers) and all(
            (node.host, node.port) not in self._reached for node in self._brokers.values()
        )

    def address(self, node_id: int) -> str:
        """Return a broker's id and address, as errors show them; empty if the broker is not known (any more)."""
        node = self._brokers.get(node_id) or self._bootstrap.get(node_id)
        return "" if node is None else str(node)

    def failures(self, node_id: int) -> tuple[int, KafkaError | None]:
        """Return how many consecutive dials of a broker have failed, and the last error."""
        state = self._dial_states.get(node_id)
        return (0, None) if state is None else (state.failures, state.last_error)

    def connections(self, node_id: int) -> tuple[ConnectionStats, ...]:
        """Return the open connections to a broker."""
        return tuple(
            ConnectionStats(channel, connection.in_flight, connection.silent_for)
            for (node, channel), connection in self._connections.items()
            if node == node_id and not connection.closed
        )

    def ready(self, node_id: int, channel: str = MAIN) -> Connection | None:
        """Return the open connection, if any."""
        connection = self._connections.get((node_id, channel))
        return None if connection is None or connection.closed else connection

    async def connection(self, node_id: int, channel: str, timeout: float) -> Connection:
        """Return an open connection, dialling if there is none.

        A dial after a failed one waits for the broker's backoff.

        Raises:
            BrokerConnectionError: The dial failed, or the broker is unknown.
            DeadlineError: No connection in ``timeout`` seconds. The message includes the last failure.
            KafkaError: The pool was closed with this error.
        """
        if self._close_error is not None:
            raise copied(self._close_error)
        connection = self.ready(node_id, channel)
        if connection is not None:
            return connection
        # Look up the node before creating the task: an unknown broker is the caller's error, not a failed dial.
        node = self.node(node_id)
        return await self._dialling.run(
            (node_id, channel), lambda: self._dial(node, channel), timeout, lambda: self._deadline_text(node, timeout)
        )

    def by_preference(self, avoid: Collection[int] = ()) -> list[int]:
        """Return all brokers, starting with the one that will probably respond soonest; ties are in random order.

        If no broker is known yet (0.8 lists none until the first topic exists), return the bootstrap addresses.
        """

        def rank(node_id: int) -> tuple[bool, int, bool, int, float]:
            connection = self.ready(node_id)
            failures = self._dial_states[node_id].failures if node_id in self._dial_states else 0
            silent = connection is not None and connection.silent_for > HEDGE_DELAY
            # A missing connection counts as one request in flight: an idle connection is preferred to a dial, and a
            # dial to a busy connection.
            load = connection.in_flight if connection is not None else 1
            # Most important first.
            return (node_id in avoid, failures, silent, load, uniform(0, 1))

        return sorted(self._brokers or self._bootstrap, key=rank)

    def disconnect(self, node_id: int, channel: str) -> None:
        """Close a connection, failing all requests in flight on it. The next request connects again."""
        connection = self._connections.pop((node_id, channel), None)
        if connection is not None:
            # Call close() first, for its reason: abort() alone would fail the other requests with ClientClosedError.
            connection.close(BrokerConnectionError(f"the connection to {connection.peer} was given up"))
            connection.abort()

    async def close(self, reason: KafkaError, timeout: float) -> None:
        """Fail the requests in flight, flush and close. Connections that do not close in time are aborted."""
        # Fail before the wait, so nothing is dialled in the meantime.
        self.fail(reason)
        await self._dialling.wait_closed()
        late = self._all()
        until = asyncio.get_running_loop().time() + timeout
        try:
            async with timeout_at(until):
                # They are all closing already, so waiting for one at a time takes no longer than the slowest.
                while late:
                    await late[0].wait_closed()
                    late.pop(0)
        except asyncio.TimeoutError:
            # If there's no time at all, as after a failed start, the pool isn't expected to close them.
            logger.log(
                logging.WARNING if timeout else logging.DEBUG,
                "%s not closed in %.3g s, aborted",
                counted(len(late), "connection"),
                timeout,
            )
        self.drop(reason)

    def fail(self, reason: KafkaError) -> None:
        """Fail the requests in flight and start closing."""
        self._close_error = reason
        self._dialling.close(reason)
        for connection in self._all():
            connection.close(reason)

    def drop(self, reason: KafkaError) -> None:
        """Abort all connections; unsent data is lost."""
        self.fail(reason)
        for connection in self._all():
            connection.abort()

    async def _dial(self, node: BrokerNode, channel: str) -> Connection:
        # All channels of the broker share this state.
        state = self._dial_states.setdefault(node.id, _DialState())
        loop = asyncio.get_running_loop()
        if state.retry_at > loop.time():
            await asyncio.sleep(state.retry_at - loop.time())
        config, observer, started = self._config, self._client.observer.node(node.id), loop.time()
        release, known_until = self._releases.get((node.host, node.port), (None, 0.0))
        ended = self._connections.get((node.id, channel))
        # If the new connection replaces one that has ended, the broker may have been restarted for an upgrade.
        if started >= known_until or ended is not None:
            release = None
        if config.broker_version is not None and ended is not None:
            self._doubt_version(node, channel, ended.refused)
        try:
            connection = await open_connection(
                node.host,
                node.port,
                str(node),
                config,
                config.connect_timeout,
                self._client.threads,
                observer,
                self._handle_failure,
                self._identity(node),
                release,
                (node.host, node.port) in self._answering,
            )
        except KafkaError as failure:
            error = self._explained(node, failure)
            # The broker is stopping, or gone. That also explains why the previous connection ended.
            self._refusals.pop((node.id, channel), None)
            state.failures += 1
            state.last_error = error
            state.retry_at = loop.time() + self._backoff.delay(state.failures)
            logger.debug("connecting to %s failed (%d in a row): %s", node, state.failures, error)
            observer.not_connected(str(node), channel, state.failures, error)
            self._handle_failure(error)
            raise error from error.__cause__
        self._reached.add((node.host, node.port))
        connection.report_open(channel, loop.time() - started)
        found = connection.versions.assumed_release
        if found is None:
            self._answering.add((node.host, node.port))
            self._releases.pop((node.host, node.port), None)
        elif release is None:
            self._releases[node.host, node.port] = found, loop.time() + config.metadata_max_age
        # The broker was reached, so the next failure starts with the shortest pause again.
        self._dial_states.pop(node.id, None)
        self._retired = {old for old in self._retired if not old.closed}
        # The pool was closed during the dial. Still register the connection: close() waits for all of them.
        if self._close_error is not None:
            connection.abort()
        self._connections[node.id, channel] = connection
        logger.debug("connected to %s for %s", node, channel)
        return connection

    def _explained(self, node: BrokerNode, error: KafkaError) -> KafkaError:
        """Mention ``advertised.listeners`` in the error of an advertised address that has never worked, if a bootstrap
        address has."""
        address = (node.host, node.port)
        bootstrap = {(node.host, node.port): str(node) for node in self._bootstrap.values()}
        worked = next((text for reached, text in bootstrap.items() if reached in self._reached), None)
        if (
            type(error) is not BrokerConnectionError
            or worked is None
            or address in bootstrap
            or address in self._reached
        ):
            return error
        explained = BrokerConnectionError(
            f"{error}; {worked} can be reached, and the metadata from there names {node.host}:{node.port} "
            "(the broker's advertised.listeners): have it advertise an address that leads to it from here, or set "
            "address_map"
        )
        explained.__cause__ = error.__cause__
        return explained

    def _doubt_version(self, node: BrokerNode, channel: str, api: str) -> None:
        """Warn about ``broker_version`` if a broker closes two consecutive connections on the same request.

        Otherwise nothing would point to it until a call times out. Once isn't enough: a broker that is stopping does
        the same, but then the next dial fails.
        """
        before, self._refusals[node.id, channel] = self._refusals.get((node.id, channel), ""), api
        now = asyncio.get_running_loop().time()
        if api and api == before and now - self._doubted_at >= _WARN_EVERY:
            self._doubted_at = now
            logger.warning(
                "%s closes the connection on %s in the version of Kafka %s: broker_version=%r is probably wrong; "
                "without it, 0.10 and later are asked",
                node,
                api,
                self._config.broker_version,
                self._config.broker_version,
            )

    def _identity(self, node: BrokerNode) -> Identity:
        # A bootstrap address may be a load balancer's, and may have been moved to another cluster on purpose.
        known = node.id >= 0 and self._config.cluster_check
        return Identity(self._cluster_id, node.id) if known else ANYONE

    def _handle_failure(self, error: KafkaError) -> None:
        # Handle it here, not in the callers: maybe none is waiting any more, and the client would keep dialling with a
        # certificate or credentials that no broker accepts.
        action = classify(error, Situation(ApiVersionsRequest.api_key))
        if action is Action.STOP:
            self._client.fail(error)
        elif action is Action.REBOOTSTRAP:
            self._client.metadata.rebootstrap(str(error))

    def _all(self) -> list[Connection]:
        return [*self._connections.values(), *self._retired]

    def _retire(self, node_id: int) -> None:
        for key in [key for key in self._connections if key[0] == node_id]:
            connection = self._connections.pop(key)
            # It still receives the pending responses; then the idle timeout closes it.
            if connection.in_flight:
                self._retired.add(connection)
            else:
                connection.close()

    def _deadline_text(self, node: BrokerNode, timeout: float) -> str:
        state = self._dial_states.get(node.id)
        last = f"; last failure: {state.last_error}" if state is not None and state.last_error is not None else ""
        return f"no connection to {node} in {timeout:.3g} s{last}"
