"""The consumer's view of a member of a consumer group, where the broker computes the assignment (KIP-848)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    TopicPartitions,
)
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, KafkaError, UnsupportedVersionError
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.changes import Change, ChangeKind, PartitionOwner
from aiokproto.group.config import GroupConfig, LeaveMode
from aiokproto.group.epoch_member import EpochMember
from aiokproto.group.epoch_membership import EpochMembership, MemberState
from aiokproto.group.offsets import FoundOffsets
from aiokproto.group.topic_ids import TopicIdPartition, TopicNames, by_topic, from_topics
from aiokproto.net.features import CONSUMER_PROTOCOL
from aiokproto.observe.observers import Timing
from aiokproto.runtime import create_task
from aiokproto.types import GroupMetadata, OffsetAndMetadata, TopicPartition

log = logging.getLogger("aiokproto.group")

_LEAVE_TIMEOUT = 3.0

_GROUP = 32
"""The ConfigResource type for groups."""

_SESSION_TIMEOUT = "consumer.session.timeout.ms"

_DESCRIBE_CONFIGS = Situation(DescribeConfigsRequest.api_key)

_CLASSIC = 'pass group_protocol="classic", or "auto" for clusters of both kinds'

_PATTERNS_FROM = 1
"""The first version of ConsumerGroupHeartbeat with a regular expression."""


class ConsumerMember:
    """A member of a consumer group: the coordinator computes the assignment, and each member reconciles independently.

    Its heartbeats never wait for the application, so a commit that was sent in an older epoch is repeated in the
    current one even while a callback is running.
    """

    def __init__(
        self, cluster: ClusterClient, config: GroupConfig, owner: PartitionOwner, *, optional: bool = False
    ) -> None:
        """If ``optional``, the classic protocol can be used instead: if the coordinator rejects this protocol,
        :meth:`run` raises the error once the member has given up its partitions."""
        self._config = config
        self._cluster = cluster
        self._form = _Form(config)
        self._membership: EpochMembership[TopicIdPartition] = EpochMembership(
            config.group_instance_id, self._form.reports
        )
        self._owner = _Owner(TopicNames(cluster), owner, config)
        self._member: EpochMember[TopicIdPartition] = EpochMember(
            cluster,
            config.group_id,
            self._membership,
            self._form,
            self._owner,
            config.session_timeout,
            optional=optional,
        )

    # Called by the consumer

    def set_topics(self, topics: Iterable[str], pattern: str | None = None) -> None:
        """Replace the subscription. If there are no topics and no pattern, the member leaves the group."""
        if self._form.subscribe(frozenset(topics), pattern):
            self._member.reconciliation.subscription_changed()

    async def matches_patterns(self) -> bool:
        """Return whether the broker matches topic names with patterns.

        Raises:
            KafkaError: No broker could be reached.
        """
        node = min(self._cluster.snapshot.brokers, default=-1)
        try:
            return await self._cluster.version(ConsumerGroupHeartbeatRequest, node) >= _PATTERNS_FROM
        except UnsupportedVersionError:
            # The first heartbeat reports the error.
            return False

    def metadata_changed(self) -> None:
        """Do nothing: the coordinator notices new topics and partitions itself."""

    def watches(self, topic: str) -> bool:
        """Return False: if a topic is created again, the coordinator assigns it under its new id."""
        return False

    def leave_on_poll_timeout(self, reason: str) -> None:
        """Leave the group until :meth:`rejoin`: the application isn't requesting records."""
        if not self._member.reconciliation.left_reason:
            self._member.reconciliation.set_left_reason(reason)

    def rejoin(self) -> None:
        """Rejoin after :meth:`leave_on_poll_timeout`."""
        if self._member.reconciliation.left_reason:
            self._member.reconciliation.set_left_reason("")

    def enforce_rebalance(self, reason: str) -> None:
        """Only log it: the coordinator rebalances whenever there is a reason, and members can't request it."""
        log.warning("group %s: the broker decides when to rebalance; not enforced: %s", self._config.group_id, reason)

    def check_session(self) -> None:
        """Check now whether the session is still confirmed: see :class:`~aiokproto.group.session.Session`."""
        self._member.heartbeat.session.check()

    # State

    @property
    def owned(self) -> AbstractSet[TopicPartition]:
        """The partitions that this member owns."""
        return self._owner.owned

    @property
    def metadata(self) -> GroupMetadata:
        """The member's current identity, with the member epoch as generation."""
        return self._member.metadata

    @property
    def known_id(self) -> str:
        """The member id if the coordinator has accepted it and hasn't removed the member; else empty."""
        return self._membership.member_id if self._membership.joined else ""

    @property
    def outside(self) -> bool:
        """Whether it isn't a member and has no subscription to join for."""
        return self._member.reconciliation.outside

    @property
    def removed(self) -> bool:
        """Whether the group has removed the member. If so, it owns nothing, whatever it owned before."""
        return not self._membership.joined

    @property
    def rebalances(self) -> Timing:
        """How long it took to join, and to carry out each target."""
        return self._member.reconciliation.rebalances

    @property
    def joining_since(self) -> float | None:
        """When joining, or carrying out the current target, started (loop time); None if neither is in progress."""
        return self._member.reconciliation.joining_since

    @property
    def state(self) -> str:
        """The member's state in words."""
        return self._member.state

    @property
    def problem(self) -> str:
        """Why the member has no partitions; empty if nothing is wrong."""
        if self.owned or not self._form.subscribed:
            return ""
        waits = self._membership.state in (MemberState.JOINING, MemberState.FENCED)
        return self._member.problem or (f"{self.state}: no response from the coordinator" if waits else "")

    # Lifecycle

    async def run(self) -> None:
        """Be a member whenever there is a subscription, until cancelled.

        Raises:
            GroupError, FencedError, AuthorizationError: The group has permanently rejected this member.
            UnsupportedVersionError: The broker doesn't support the consumer protocol.
            ClientClosedError: The heartbeat task was cancelled.
        """
        learning = create_task(self._learn_session_timeout(), name="aiokproto-group-session-timeout")
        try:
            await self._member.run()
        except BrokerError as error:
            # The broker has the API, but as a preview or disabled (group.coordinator.rebalance.protocols), which makes
            # no difference to a user.
            if error.code is not ErrorCode.UNSUPPORTED_VERSION:
                raise
            text = f"{CONSUMER_PROTOCOL.need}, and the coordinator's broker has it disabled"
            raise UnsupportedVersionError(f"group {self._config.group_id!r}: {text}; {_CLASSIC}") from error
        except UnsupportedVersionError as error:
            # If an old coordinator can't match a pattern, the error already says what to do.
            if "classic" in str(error):
                raise
            raise UnsupportedVersionError(f"group {self._config.group_id!r}: {error}; {_CLASSIC}") from error
        finally:
            learning.cancel()
            await asyncio.wait([learning])

    async def _learn_session_timeout(self) -> None:
        """Ask the broker for the group's session timeout, which heartbeats don't return. The shorter timeout counts:
        the coordinator enforces the group's, and the application wants no more than its own."""
        name = self._config.group_id
        keys = [_SESSION_TIMEOUT]
        resource = DescribeConfigsResource(resource_type=_GROUP, resource_name=name, configuration_keys=keys)
        attempt = 0
        while True:
            try:
                response = await self._cluster.request(DescribeConfigsRequest(resources=[resource]))
                break
            except KafkaError as error:
                if classify(error, _DESCRIBE_CONFIGS) in (Action.FAIL, Action.STOP):
                    log.debug("group %s: its session timeout is not known: %s", name, error)
                    return
            attempt += 1
            await asyncio.sleep(self._cluster.backoff.delay(attempt))
        values = [each.value for result in response.results for each in result.configs if each.name == _SESSION_TIMEOUT]
        # The value is missing if the client isn't allowed to describe the group's configuration, or if the broker is
        # older than 4.0.
        if values and (value := values[0] or "").isdecimal() and int(value) > 0:
            # guard: a member of the consumer protocol follows the broker's session timeout
            self._member.heartbeat.session.limit(min(int(value) / 1000, self._config.session_timeout))

    async def leave(self, reason: str, timeout: float = _LEAVE_TIMEOUT, how: LeaveMode = "default") -> None:
        """Leave the group after :meth:`run` has ended, or stay in it until the session expires (KIP-1092). Failures are
        only logged."""
        log.debug("group %s: leaving: %s", self._config.group_id, reason)
        self._owner.owned.clear()
        if how != "remain" or self._config.group_instance_id is not None:
            await self._member.leave(timeout, for_good=how == "leave")

    # Offsets

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float, *, partly: bool = False
    ) -> FoundOffsets:
        """Look up committed offsets; see :meth:`EpochMember.committed
        <aiokproto.group.epoch_member.EpochMember.committed>`."""
        return await self._member.committed(partitions, timeout, partly=partly)

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float, *, blocked: str = ""
    ) -> dict[TopicPartition, KafkaError]:
        """Commit offsets of owned partitions; see :meth:`Commits.as_member
        <aiokproto.group.commits.Commits.as_member>`."""
        return await self._member.commits.as_member(offsets, timeout, blocked=blocked)

    async def commit_from_outside(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float
    ) -> dict[TopicPartition, KafkaError]:
        """Commit offsets of partitions that the group does not assign; see :meth:`Commits.from_outside
        <aiokproto.group.commits.Commits.from_outside>`."""
        return await self._member.commits.from_outside(offsets, timeout)


class _Form:
    """ConsumerGroupHeartbeat."""

    request_type = ConsumerGroupHeartbeatRequest
    reports = ("topic_partitions",)

    def __init__(self, config: GroupConfig) -> None:
        self._config = config
        self._topics: frozenset[str] = frozenset()
        self._pattern: str | None = None
        self._had_pattern = False

    @property
    def subscribed(self) -> bool:
        """Whether there are topics or a pattern."""
        return bool(self._topics) or self._pattern is not None

    def subscribe(self, topics: frozenset[str], pattern: str | None) -> bool:
        """Replace the subscription. Return whether it differs."""
        if (topics, pattern) == (self._topics, self._pattern):
            return False
        self._topics, self._pattern = topics, pattern
        self._had_pattern = self._had_pattern or pattern is not None
        return True

    def fields(self, owned: frozenset[TopicIdPartition], version: int) -> dict[str, Any]:
        config = self._config
        fields: dict[str, Any] = {
            "rebalance_timeout_ms": int(config.max_poll_interval * 1000),
            "subscribed_topic_names": sorted(self._topics),
            "topic_partitions": [
                TopicPartitions(topic_id=topic_id, partitions=numbers) for topic_id, numbers in by_topic(owned).items()
            ],
        }
        if config.client_rack:
            fields["rack_id"] = config.client_rack
        if config.remote_assignor is not None:
            fields["server_assignor"] = config.remote_assignor
        if self._had_pattern and version >= _PATTERNS_FROM:
            fields["subscribed_topic_regex"] = self._pattern or ""
        elif self._pattern is not None:
            raise UnsupportedVersionError(
                f"group {config.group_id!r}: the coordinator cannot match the pattern {self._pattern!r}: its broker is "
                "older than Kafka 4.0; subscribe by names, or use the classic protocol"
            )
        return fields

    def always(self, version: int, joins: bool) -> dict[str, Any]:
        return {}

    def target(self, response: ConsumerGroupHeartbeatResponse) -> frozenset[TopicIdPartition] | None:
        return None if response.assignment is None else from_topics(response.assignment.topic_partitions)


class _Owner:
    """Passes changes on to the consumer, by topic name.

    Attributes:
        owned: The partitions that the member owns.
    """

    def __init__(self, names: TopicNames, owner: PartitionOwner, config: GroupConfig) -> None:
        self.owned: set[TopicPartition] = set()
        self._items: set[TopicIdPartition] = set()
        # The items passed to the last call of known().
        self._target: frozenset[TopicIdPartition] = frozenset()
        self._names = names
        self._owner = owner
        self._config = config

    def known(self, items: frozenset[TopicIdPartition]) -> frozenset[TopicIdPartition]:
        self._target = items
        return self._names.known(items)

    async def look_up(self, items: frozenset[TopicIdPartition]) -> None:
        await self._names.look_up(items)

    async def assign(self, items: frozenset[TopicIdPartition]) -> None:
        added = self._names.named(items)
        self.owned.update(added)
        self._items |= items
        await self._owner.apply(Change(ChangeKind.ASSIGN, added))

    async def revoke(self, items: frozenset[TopicIdPartition]) -> None:
        await self._give_up(ChangeKind.REVOKE, items)

    async def lose(self, items: frozenset[TopicIdPartition]) -> None:
        await self._give_up(ChangeKind.LOST, items)

    async def left(self) -> None:
        await self._owner.apply(Change(ChangeKind.LEFT, []))

    def lost(self) -> None:
        self._owner.lost()

    def session(self, confirmed: bool) -> None:
        self._owner.session(confirmed)

    async def _give_up(self, kind: ChangeKind, items: frozenset[TopicIdPartition]) -> None:
        partitions = self._names.named(items)
        # This is less than the rebalance timeout: by then, the coordinator has to receive the heartbeat that reports
        # the revocation.
        patience = self._config.max_poll_interval * 0.9
        deadline = asyncio.get_running_loop().time() + patience
        await self._owner.apply(Change(kind, partitions, deadline))
        self.owned.difference_update(partitions)
        self._items -= items
        # Keep the names of items that are about to be assigned, too.
        self._names.retain(self._items | self._target)
