"""Statistics of a client, as immutable values. Pure.

Totals count from the creation of the client and never decrease. Durations are seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aiokproto.observe.observers import Timing


@dataclass(frozen=True)
class Durations:
    """The durations of something that happens repeatedly.

    Attributes:
        count: How often it happened.
        total: The sum of the durations (s).
        max: The longest duration (s).
    """

    count: int = 0
    total: float = 0.0
    max: float = 0.0

    @property
    def mean(self) -> float:
        """The average (s); 0 if it never happened."""
        return self.total / self.count if self.count else 0.0

    @classmethod
    def of(cls, timing: Timing) -> Durations:
        """Return a copy of the durations so far."""
        return cls(timing.count, timing.total, timing.max)


@dataclass(frozen=True)
class ConnectionStats:
    """An open connection.

    Attributes:
        channel: The purpose: ``"main"``, ``"fetch"`` or ``"group"``.
        in_flight: Requests without a response, including requests that are held back because of a throttle.
        silent_for: How long the oldest of these requests has been waiting (s).
    """

    channel: str
    in_flight: int
    silent_for: float


@dataclass(frozen=True)
class BrokerStats:
    """The client's statistics for one broker.

    Attributes:
        node: The broker's id; negative for a bootstrap address.
        address: Host and port, and the rack, if any; empty after the broker has left the cluster.
        connections: The open connections.
        connections_opened: Connections opened so far.
        connections_closed: Connections that have ended.
        connection_failures: How often the broker couldn't be reached.
        failures_in_a_row: How many attempts to reach the broker have failed since the last success.
        last_error: The last reason why the broker couldn't be reached; empty while it can be reached.
        requests: Requests that were written.
        request_errors: Requests without a response: deadlines, and lost connections.
        bytes_sent: Bytes of requests.
        bytes_received: Bytes of responses.
        latency: Time from writing a request to its response. Fetch responses may wait for records, and JoinGroup
            responses for other members.
        throttled: Pauses that the broker's quotas imposed (KIP-219).
    """

    node: int
    address: str
    connections: tuple[ConnectionStats, ...]
    connections_opened: int
    connections_closed: int
    connection_failures: int
    failures_in_a_row: int
    last_error: str
    requests: int
    request_errors: int
    bytes_sent: int
    bytes_received: int
    latency: Durations
    throttled: Durations

    @property
    def state(self) -> str:
        """``"connected"``, ``"unreachable"``, or ``"idle"`` if no connection is needed at the moment."""
        if self.connections:
            return "connected"
        return "unreachable" if self.failures_in_a_row else "idle"

    @property
    def in_flight(self) -> int:
        """Requests without a response, over all connections."""
        return sum(connection.in_flight for connection in self.connections)


@dataclass(frozen=True)
class ClientStats:
    """The statistics common to all clients: connections, requests, metadata.

    Attributes:
        client_id: The option ``client_id``.
        client_instance_id: The id that brokers know the client's metrics by (KIP-714); empty until they have assigned
            it.
        brokers: The brokers by id, including brokers that have left the cluster. Bootstrap addresses have negative ids.
        metadata_age: Seconds since a broker last sent metadata; None if none has yet.
        metadata_refreshes: Metadata refreshes, whether or not they succeeded.
        metadata_failures: Metadata refreshes that failed.
        retries: Requests that were sent again.
    """

    client_id: str
    client_instance_id: str
    brokers: Mapping[int, BrokerStats]
    metadata_age: float | None
    metadata_refreshes: int
    metadata_failures: int
    retries: int

    @property
    def in_flight(self) -> int:
        """Requests without a response."""
        return sum(broker.in_flight for broker in self.brokers.values())

    @property
    def connections(self) -> int:
        """Open connections."""
        return sum(len(broker.connections) for broker in self.brokers.values())

    @property
    def requests(self) -> int:
        """Requests that were written."""
        return sum(broker.requests for broker in self.brokers.values())

    @property
    def bytes_sent(self) -> int:
        """Bytes of requests."""
        return sum(broker.bytes_sent for broker in self.brokers.values())

    @property
    def bytes_received(self) -> int:
        """Bytes of responses."""
        return sum(broker.bytes_received for broker in self.brokers.values())
