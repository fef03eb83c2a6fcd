"""What a handler gets besides the request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from aiokproto.broker.fetch.sessions import FetchSessionCache
from aiokproto.broker.groups.coordinator import GroupCoordinator
from aiokproto.broker.metadata.cluster_state import ClusterState, Node
from aiokproto.broker.quotas.client_quota_manager import ClientQuotaManager, ControllerMutationQuota
from aiokproto.broker.security.acls import OPERATIONS, REFUSALS, Operation, ResourceType
from aiokproto.broker.security.security_state import SecurityState
from aiokproto.broker.security.session import ClientSession
from aiokproto.broker.share.coordinator import ShareCoordinator
from aiokproto.broker.share.manager import SharePartitionManager
from aiokproto.broker.share.session import ShareSessions
from aiokproto.broker.transactions.coordinator import TransactionCoordinator
from aiokproto.codec.schema import Versions
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

_NO_LIMIT = 1 << 31


class CloseConnection(Exception):
    """The connection must be closed without an answer; the text says why. ``last_bytes`` are sent before."""

    def __init__(self, why: str, last_bytes: bytes = b"") -> None:
        super().__init__(why)
        self.last_bytes = last_bytes


@dataclass(frozen=True)
class RequestContext:
    """A request's surroundings.

    Attributes:
        state: What the cluster's nodes share.
        groups: The groups.
        transactions: The transactions.
        share_states: What is kept of share partitions.
        shares: The share partitions.
        share_sessions: This node's share sessions.
        sessions: This node's fetch sessions.
        node: The node that was asked.
        served: Which versions of which ApiKey are served.
        version: The version of the request, and so of the answer.
        client_id: What the client calls itself.
        client_host: Where it is.
        connection: What is known of its connection: whom it speaks for.
        security: Who may do what.
        quotas: What each client has used of this node.
        mutation_quota: The topics and partitions that the request makes or removes.
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

    def is_authorized(self, operation: Operation, resource_type: ResourceType, name: str) -> bool:
        """Whether the client may do something to a resource."""
        return self.security.is_authorized(self.connection, operation, resource_type, name)

    def authorize(self, operation: Operation, resource_type: ResourceType, name: str) -> None:
        """Refuse what the client may not do.

        Raises:
            BrokerError: TOPIC_AUTHORIZATION_FAILED or its like.
        """
        if not self.is_authorized(operation, resource_type, name):
            raise BrokerError(REFUSALS[resource_type])

    def authorized_operations(self, resource_type: ResourceType, name: str) -> int:
        """All that the client may do to a resource, a bit for each operation (KIP-430)."""
        return sum(1 << each for each in OPERATIONS[resource_type] if self.is_authorized(each, resource_type, name))

    def fetch_limit(self) -> int:
        """The most bytes that the client's quota lets it have at once."""
        most = self.quotas.max_in_window("consumer_byte_rate", self.connection.principal.name, self.client_id)
        return int(min(most, _NO_LIMIT))

    def topic_name(self, name: str | None, topic_id: bytes, by_id: bool) -> str:
        """The name of a topic that the request gives by name or, in later versions, by id.

        Raises:
            BrokerError: UNKNOWN_TOPIC_ID.
        """
        if not by_id:
            return name or ""
        topic = self.state.topic_by_id(topic_id)
        if topic is None or topic_id == ZERO_UUID:
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_ID)
        return topic.name
