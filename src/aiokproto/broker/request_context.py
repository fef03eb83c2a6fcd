"""What a handler gets along with the request: Kafka's RequestContext, and the parts of the broker that handlers use."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from aiokproto.broker.fetch.sessions import FetchSessionCache
from aiokproto.broker.groups.coordinator import GroupCoordinator
from aiokproto.broker.metadata.cluster_state import ClusterState, Node
from aiokproto.broker.opening import OpeningThread
from aiokproto.broker.quotas.client_quota_manager import ClientQuotaManager, ControllerMutationQuota
from aiokproto.broker.security.acls import OPERATIONS, REFUSALS, Operation, ResourceType
from aiokproto.broker.security.security_state import SecurityState
from aiokproto.broker.security.session import ClientSession
from aiokproto.broker.share.coordinator import ShareCoordinator
from aiokproto.broker.share.manager import SharePartitionManager
from aiokproto.broker.share.session import ShareSessions
from aiokproto.broker.telemetry import ClientTelemetry
from aiokproto.broker.transactions.coordinator import TransactionCoordinator
from aiokproto.broker.yield_budget import YieldBudget
from aiokproto.codec.schema import Versions
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

T = TypeVar("T")

_NO_LIMIT = 1 << 31


class CloseConnection(Exception):
    """Closes the connection instead of sending a response.

    Args:
        why: The reason, for the log.
        last_bytes: Bytes to send before the connection is closed.
        bug: An unexpected exception from the handler, to be logged with its traceback.
    """

    def __init__(self, why: str, last_bytes: bytes = b"", bug: Exception | None = None) -> None:
        super().__init__(why)
        self.last_bytes = last_bytes
        self.bug = bug


@dataclass(frozen=True)
class RequestContext:
    """The context of one request.

    Attributes:
        state: The cluster's metadata and logs.
        groups: The group coordinator.
        transactions: The transaction coordinator.
        share_states: The share coordinator.
        shares: The share partitions in memory.
        share_sessions: This node's share sessions.
        sessions: This node's fetch sessions.
        node: The node that received the request.
        served: The versions that are served, by ApiKey.
        version: The version of the request and its response.
        client_id: The request's client id; empty if it has none.
        client_host: The client's IP address.
        connection: The client's connection and principal.
        security: ACLs, credentials, delegation tokens and quotas.
        quotas: This node's quota meters.
        mutation_quota: The meter of the partitions that this request creates or deletes.
        telemetry: Client metrics: subscriptions and pushes.
        opening: The thread that opens batches.
    """

    state: ClusterState
    groups: GroupCoordinator
    transactions: TransactionCoordinator
    share_states: ShareCoordinator
    shares: SharePartitionManager
    share_sessions: ShareSessions
    sessions: FetchSessionCache
    node: Node
    served: Mapping[int, Versions]
    version: int
    client_id: str
    client_host: str
    connection: ClientSession
    security: SecurityState
    quotas: ClientQuotaManager
    mutation_quota: ControllerMutationQuota
    telemetry: ClientTelemetry
    opening: OpeningThread

    @property
    def turns(self) -> YieldBudget:
        """Accounts for the connection's work, and yields to other tasks."""
        return self.connection.turns

    def each(self, items: Iterable[T]) -> AsyncIterator[T]:
        """Iterate over items of a request, yielding to other tasks in between.

        Every handler iterates over its items with this. Between two items, everything that was checked before can
        change.
        """
        return self.turns.each(items)

    def is_authorized(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Return whether the client is authorized for an operation on a resource."""
        return self.security.is_authorized(self.connection, operation, resource_type, name)

    def authorize(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """Check that the client is authorized for an operation on a resource.

        Raises:
            BrokerError: TOPIC_AUTHORIZATION_FAILED, or the corresponding code for another resource type.
        """
        if not self.is_authorized(operation, resource_type, name):
            raise BrokerError(REFUSALS[resource_type])

    def authorized_operations(self, resource_type: ResourceType, name: str) -> int:
        """Return the client's authorized operations on a resource, as a bit field (KIP-430)."""
        operations = OPERATIONS[resource_type]
        return sum(1 << operation for operation in operations if self.is_authorized(operation, resource_type, name))

    def fetch_limit(self) -> int:
        """Return the maximum size of a Fetch response that the client's quota allows, in bytes."""
        limit = self.quotas.max_in_window("consumer_byte_rate", self.connection.principal.name, self.client_id)
        return int(min(limit, _NO_LIMIT))

    def topic_name(self, name: str | None, topic_id: bytes, by_id: bool) -> str:
        """Return the name of a topic that the request identifies by name or, in later versions, by id.

        Raises:
            BrokerError: UNKNOWN_TOPIC_ID.
        """
        if not by_id:
            return name or ""
        topic = self.state.topic_by_id(topic_id)
        if topic is None or topic_id == ZERO_UUID:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic.name
