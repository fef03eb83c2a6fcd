"""A member of a consumer group, and what it says of itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from aiokproto.broker.groups.assignment import TopicIdPartition, TopicIdPartitions
from aiokproto.broker.groups.classic_member import Protocols
from aiokproto.broker.groups.reconciliation import JOIN_GROUP_MEMBER_EPOCH, ReconciledMember


@dataclass(frozen=True)
class ClassicProtocolMetadata:
    """What is known of a member that came with JoinGroup. The session's timeout in seconds."""

    session_timeout: float
    protocols: Protocols


@dataclass(frozen=True)
class ConsumerHeartbeat:
    """A ConsumerGroupHeartbeat request: None means that nothing changed since the last. The timeout in seconds.

    Attributes:
        describable: Which topics the member may know of, by name; None: it does not ask for topics by patterns.
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
        """Whether it says everything: then the answer does so, too."""
        all_given = self.rebalance_timeout is not None and self.topics is not None and self.owned is not None
        return self.epoch == JOIN_GROUP_MEMBER_EPOCH or all_given


@dataclass(eq=False)
class ConsumerMember(ReconciledMember[TopicIdPartition]):
    """A member of a consumer group.

    Attributes:
        topics: The topics it names.
        regex: The pattern of the topics it wants besides; empty for none.
        classic: Set while it speaks the classic protocol.
    """

    topics: frozenset[str] = frozenset()
    regex: str = ""
    assignor: str | None = None
    classic: ClassicProtocolMetadata | None = None
