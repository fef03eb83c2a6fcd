"""The consumer's view of a group member, and the choice of its protocol."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Protocol

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokproto.errors import KafkaError
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.changes import PartitionOwner
from aiokproto.group.classic_member import ClassicMember
from aiokproto.group.config import GroupConfig, LeaveMode
from aiokproto.group.consumer_member import ConsumerMember
from aiokproto.group.offsets import FoundOffsets
from aiokproto.observe.observers import Timing
from aiokproto.types import GroupMetadata, OffsetAndMetadata, TopicPartition

log = logging.getLogger("aiokproto.group")

_OPTIONAL = Situation(ConsumerGroupHeartbeatRequest.api_key, member=True, optional=True)


class GroupMember(Protocol):
    """A group member with either protocol: the interface that the consumer uses.

    :class:`~aiokproto.group.classic_member.ClassicMember` and :class:`~aiokproto.group.consumer_member.ConsumerMember`
    document the methods.
    """

    def set_topics(self, topics: Iterable[str], pattern: str | None = None) -> None: ...

    async def matches_patterns(self) -> bool: ...

    def metadata_changed(self) -> None: ...

    def watches(self, topic: str) -> bool: ...

    def leave_on_poll_timeout(self, reason: str) -> None: ...

    def rejoin(self) -> None: ...

    def enforce_rebalance(self, reason: str) -> None: ...

    def check_session(self) -> None: ...

    @property
    def owned(self) -> AbstractSet[TopicPartition]: ...

    @property
    def metadata(self) -> GroupMetadata: ...

    @property
    def outside(self) -> bool: ...

    @property
    def removed(self) -> bool: ...

    @property
    def rebalances(self) -> Timing: ...

    @property
    def joining_since(self) -> float | None: ...

    @property
    def state(self) -> str: ...

    @property
    def problem(self) -> str: ...

    async def run(self) -> None: ...

    async def leave(self, reason: str, timeout: float = 3.0, how: LeaveMode = "default") -> None: ...

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float, *, partly: bool = False
    ) -> FoundOffsets: ...

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float, *, blocked: str = ""
    ) -> dict[TopicPartition, KafkaError]: ...

    async def commit_from_outside(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float
    ) -> dict[TopicPartition, KafkaError]: ...


def make_member(cluster: ClusterClient, config: GroupConfig, owner: PartitionOwner) -> GroupMember:
    """Return a member that uses the protocol of ``config``."""
    if config.protocol == "auto":
        return AutoMember(cluster, config, owner)
    if config.protocol == "consumer":
        return ConsumerMember(cluster, config, owner)
    return ClassicMember(cluster, config, config.assignors, owner)


class AutoMember:
    """A member with the consumer protocol, or with the classic protocol if the group's coordinator rejects the consumer
    protocol.

    The coordinator may reject it at the start or later, if the group moves to a broker without the protocol, or the
    cluster's ``group.version`` is lowered. (In that case, Java's consumer ends, and franz-go's falls back only before
    its first join.) The member gives up its partitions, commits processed offsets, and continues as a classic member
    with the same id. If the coordinator still has the group, it lets the new member replace the former one, instead of
    reserving the partitions until the former member's session expires; any other coordinator sees a new member. It
    stays a classic member: once the consumer protocol is back, the coordinator handles both kinds in one group.

    Invariant: the protocol changes only while the member owns nothing.
    """

    def __init__(self, cluster: ClusterClient, config: GroupConfig, owner: PartitionOwner) -> None:
        self._cluster = cluster
        self._config = config
        self._owner = owner
        self._first = ConsumerMember(cluster, config, owner, optional=True)
        self._member: GroupMember = self._first
        self._topics: frozenset[str] = frozenset()

    def set_topics(self, topics: Iterable[str], pattern: str | None = None) -> None:
        self._topics = frozenset(topics)
        self._member.set_topics(self._topics)

    async def matches_patterns(self) -> bool:
        """Return False: this member may fall back to the classic protocol, where the broker doesn't match patterns."""
        return False

    async def run(self) -> None:
        try:
            await self._first.run()
        except KafkaError as error:
            if self._first.owned or classify(error, _OPTIONAL) is not Action.FALL_BACK:
                raise
            group = self._config.group_id
            log.info("group %s: classic protocol, as the consumer protocol is refused: %s", group, error)
        self._member = ClassicMember(
            self._cluster, self._config, self._config.assignors, self._owner, self._first.known_id
        )
        # The former session may have ended unconfirmed. The new session starts with the first join, and reports only
        # changes.
        self._owner.session(confirmed=True)
        self._member.set_topics(self._topics)
        await self._member.run()

    def metadata_changed(self) -> None:
        self._member.metadata_changed()

    def watches(self, topic: str) -> bool:
        return self._member.watches(topic)

    def leave_on_poll_timeout(self, reason: str) -> None:
        self._member.leave_on_poll_timeout(reason)

    def rejoin(self) -> None:
        self._member.rejoin()

    def enforce_rebalance(self, reason: str) -> None:
        self._member.enforce_rebalance(reason)

    def check_session(self) -> None:
        self._member.check_session()

    @property
    def owned(self) -> AbstractSet[TopicPartition]:
        return self._member.owned

    @property
    def metadata(self) -> GroupMetadata:
        return self._member.metadata

    @property
    def outside(self) -> bool:
        return self._member.outside

    @property
    def removed(self) -> bool:
        return self._member.removed

    @property
    def rebalances(self) -> Timing:
        return self._member.rebalances

    @property
    def joining_since(self) -> float | None:
        return self._member.joining_since

    @property
    def state(self) -> str:
        return self._member.state

    @property
    def problem(self) -> str:
        return self._member.problem

    async def leave(self, reason: str, timeout: float = 3.0, how: LeaveMode = "default") -> None:
        await self._member.leave(reason, timeout, how)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float, *, partly: bool = False
    ) -> FoundOffsets:
        return await self._member.committed(partitions, timeout, partly=partly)

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float, *, blocked: str = ""
    ) -> dict[TopicPartition, KafkaError]:
        return await self._member.commit(offsets, timeout, blocked=blocked)

    async def commit_from_outside(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float
    ) -> dict[TopicPartition, KafkaError]:
        return await self._member.commit_from_outside(offsets, timeout)
