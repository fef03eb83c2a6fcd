"""A member of a consumer group, and its heartbeat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiokproto.broker.groups.assignment import TopicIdPartition, TopicIdPartitions
from aiokproto.broker.groups.classic_member import Protocols
from aiokproto.broker.groups.reconciliation import JOIN_GROUP_MEMBER_EPOCH, ReconciledMember


@dataclass(frozen=True)
class ClassicProtocolMetadata:
    """The data that a member sent in JoinGroup if it uses the classic protocol. The session timeout is in seconds."""

    session_timeout: float
    protocols: Protocols


@dataclass(frozen=True)
class ConsumerHeartbeat:
    """A ConsumerGroupHeartbeat request. A field that is None hasn't changed since the last heartbeat. Timeouts are in
    seconds.

    Attributes:
        describable: Returns whether the member is permitted to describe a topic, which is needed to resolve its regular
            expression. None if the request cannot contain one.
    """

    member_id: str
    epoch: int
    instance_id: str | None = None
    rack_id: str | None = None
    rebalance_timeout: float | None = None
    topics: frozenset[str] | None = None
    regex: str | None = None
    assignor: str | None = None
    owned: TopicIdPartitions | None = None
    client_id: str = ""
    client_host: str = ""
    describable: Callable[[str], bool] | None = None

    @property
    def full(self) -> bool:
        """Whether all fields are set, as they are after an error. If so, the response contains the assignment."""
        all_given = self.rebalance_timeout is not None and self.topics is not None and self.owned is not None
        return self.epoch == JOIN_GROUP_MEMBER_EPOCH or all_given


@dataclass(eq=False)
class ConsumerMember(ReconciledMember[TopicIdPartition]):
    """A member of a consumer group.

    Attributes:
        topics: The topic names it subscribes to.
        regex: The regular expression it subscribes to, or an empty string.
        assignor: The server-side assignor it prefers, if any.
        classic: Set while the member uses the classic protocol.
    """

    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    classic: ClassicProtocolMetadata | None = None
