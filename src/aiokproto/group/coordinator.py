"""The driver of a group member: joins, keeps the member alive, and tells what that changes, one thing at a time."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from aiokproto.cluster import Cluster, ClusterSnapshot, CoordinatorKind
from aiokproto.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokproto.codec.messages.join_group import JoinGroupRequest
from aiokproto.errors import (
    BrokerConnectionError,
    BrokerError,
    ClientClosedError,
    CommitError,
    ConfigurationError,
    DeadlineError,
    DecodeError,
    KafkaError,
    error_for,
)
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.assignors import Assignor, Subscription
from aiokproto.group.membership import Membership, Phase, Verdict
from aiokproto.group.offsets import MISSING, GroupRequests
from aiokproto.group.protocol import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from aiokproto.types import OffsetAndMetadata, TopicPartition

log = logging.getLogger("aiokproto.group")

_JOIN_MARGIN = 5.0
"""Seconds that the answer to JoinGroup may take beyond the rebalance timeout, which the coordinator sees to."""

_LEAVE_TIMEOUT = 3.0
_TOPIC_TIMEOUT = 5.0


class ChangeKind(Enum):
    """What happens to partitions."""

    REVOKE = auto()
    """They are to be given up: finish what is in hand, commit. Until the driver goes on they are this member's, unless
    it is expelled meanwhile."""
    LOST = auto()
    """They are somebody else's by now. Nothing of them can be committed."""
    ASSIGN = auto()
    """They are this member's from now on. May be empty: a generation that brings nothing new."""


class Change(NamedTuple):
    """News of the group.

    Attributes:
        kind: What happens.
        partitions: To which partitions.
        deadline: Loop time by which a REVOKE has to be done, so as to join in time.
    """

    kind: ChangeKind
    partitions: list[TopicPartition]
    deadline: float = 0.0


@dataclass(frozen=True)
class GroupConfig:
    """What a member is set up with; durations in seconds."""

    group_id: str
    group_instance_id: str | None = None
    session_timeout: float = 45.0
    heartbeat_interval: float = 3.0
    max_poll_interval: float = 300.0
    client_rack: str | None = None


class GroupCoordinator:
    """One member of a group.

    :meth:`changes` does the work, step by step: whoever iterates it carries out what it says before asking for the
    next, and in that time nothing else happens to the partitions. Heartbeats go on meanwhile, in a task of their own.

    Attributes:
        owned: What this member reads.
        rebalances: How many generations it has entered.
        outside: Whether it is no member, and does not want to be.
    """

    def __init__(self, cluster: Cluster, config: GroupConfig, assignors: Sequence[Assignor]) -> None:
        self.owned: set[TopicPartition] = set()
        self.rebalances = 0
        self.outside = True
        self._cluster = cluster
        self._config = config
        self._assignors = {assignor.name: assignor for assignor in assignors}
        # A strategy that wants all revoked first decides for all: the group may agree on it.
        self._cooperative = all(assignor.cooperative for assignor in assignors)
        self._member = Membership(
            config.group_id, config.group_instance_id, config.session_timeout, config.max_poll_interval
        )
        self._requests = GroupRequests(cluster, config.group_id)
        self._topics: frozenset[str] = frozenset()
        self._sizes: dict[str, int] = {}
        self._away: str = ""
        self._rejoin_reason = "first join"
        self._lost_reason = ""
        self._assigned: set[TopicPartition] = set()
        self._wake = asyncio.Event()
        self._settled = asyncio.Event()

    # What the owner says

    def set_topics(self, topics: Iterable[str]) -> None:
        """Say which topics to read; none to leave the group."""
        if (wanted := frozenset(topics)) != self._topics:
            self._topics = wanted
            self.outside = self.outside and not wanted
            self._request_rejoin("the subscription changed")

    def look(self, snapshot: ClusterSnapshot) -> None:
        """Compare the cluster with what the assignment was made from, where this member made it."""
        if not self._member.leads or self._member.phase is not Phase.STABLE:
            return
        for topic, size in self._sizes.items():
            info = snapshot.topics.get(topic)
            if info is not None and len(info.partitions) != size:
                self._request_rejoin(f"topic {topic!r} has {len(info.partitions)} partitions, not {size}")
                return

    def step_away(self, reason: str) -> None:
        """Leave the group for now: whoever reads the records has stopped asking for them. :meth:`come_back` ends it."""
        if not self._away:
            self._away = reason
            self._wake.set()

    def come_back(self) -> None:
        """Be a member again after :meth:`step_away`."""
        if self._away:
            self._away = ""
            self._request_rejoin("records are asked for again")

    @property
    def expelled(self) -> bool:
        """Whether the group has gone on without this member: what it owns is somebody else's."""
        return bool(self._lost_reason)

    @property
    def state(self) -> str:
        """What the member is doing, for people."""
        if self._away:
            return f"out of group {self._config.group_id!r}: {self._away}"
        return f"{self._member.phase.name.lower()} in group {self._config.group_id!r}"

    # The driver

    async def changes(self) -> AsyncGenerator[Change, None]:
        """What happens to this member's partitions, for ever. Close the iterator when done with it (``aclosing``).

        Raises:
            GroupError, FencedError, AuthorizationError: The group refuses this member for good.
            ConfigurationError: The group agreed on an assignor that cannot be used.
        """
        beating = asyncio.create_task(self._beat(), name="aiokproto-heartbeat")
        beating.add_done_callback(lambda _: self._wake.set())
        try:
            while True:
                if beating.cancelled():
                    raise ClientClosedError("the heartbeat task was cancelled")
                if beating.done():
                    beating.result()
                async for change in self._round():
                    yield change
        finally:
            beating.cancel()
            with suppress(asyncio.CancelledError, KafkaError):
                await beating

    async def _round(self) -> AsyncIterator[Change]:
        """From one wish to rejoin to the next."""
        if self._lost_reason:
            log.warning("group %s: lost all partitions: %s", self._config.group_id, self._lost_reason)
            self._lost_reason = ""
            if self.owned:
                yield self._change(ChangeKind.LOST, self.owned)
            self.owned = set()
        if self._away or not self._topics:
            if self.owned:
                kind = ChangeKind.LOST if self._away else ChangeKind.REVOKE
                yield self._change(kind, self.owned)
                self.owned = set()
            await self.leave(self._away or "unsubscribed")
            if self._away or not self._topics:
                self.outside = not self._topics
                yield self._change(ChangeKind.ASSIGN, [])
                await self._next_wish()
            return
        if gone := self._given_up_before_joining():
            yield self._change(ChangeKind.REVOKE, gone)
            self.owned -= gone
        if self._lost_reason or self._away:
            return
        given = await self._enter()
        if given is None:
            return
        revoked, added = self.owned - given, given - self.owned
        if revoked:
            yield self._change(ChangeKind.REVOKE, revoked)
            self.owned -= revoked
        self.owned |= added
        self._announce(added, revoked)
        yield self._change(ChangeKind.ASSIGN, added)
        if revoked:
            # What was given up can be given to its new owner only now (KIP-429).
            self._request_rejoin("partitions were given up")
        await self._next_wish()

    def _change(self, kind: ChangeKind, partitions: Iterable[TopicPartition]) -> Change:
        # Less than all of the rebalance timeout: the news took up to a heartbeat to come.
        patience = max(self._config.max_poll_interval * 0.9 - self._config.heartbeat_interval, 0.1)
        return Change(kind, sorted(partitions), asyncio.get_running_loop().time() + patience)

    def _given_up_before_joining(self) -> set[TopicPartition]:
        if self._cooperative:
            return {partition for partition in self.owned if partition.topic not in self._topics}
        return set(self.owned)

    def _request_rejoin(self, reason: str) -> None:
        self._rejoin_reason = reason
        self._wake.set()

    async def _next_wish(self) -> None:
        await self._wake.wait()
        self._wake.clear()

    def _announce(self, added: set[TopicPartition], revoked: set[TopicPartition]) -> None:
        self.rebalances += 1
        member = self._member
        log.info(
            "group %s: generation %d as %s%s with %s: %d partitions, %d more, %d given up (%s)",
            self._config.group_id,
            member.generation,
            member.member_id,
            " (leader)" if member.leads else "",
            member.protocol,
            len(self.owned),
            len(added),
            len(revoked),
            self._rejoin_reason,
        )

    async def _enter(self) -> set[TopicPartition] | None:
        """Join the next generation; None when what was read is lost, or the wish to join is gone."""
        attempt = 0
        self._settled.clear()
        try:
            while self._topics and not self._away:
                self._wake.clear()
                judged, failure = await self._join_once()
                if judged is Verdict.PROCEED:
                    self._lost_reason = ""
                    return self._assigned
                attempt += 1
                if judged is Verdict.LOST:
                    if self.owned:
                        self._lost_reason = str(failure)
                        return None
                elif judged is Verdict.REJOIN:
                    attempt = 0
                    continue
                elif judged is Verdict.FATAL:
                    raise failure
                else:
                    log.log(
                        logging.WARNING if attempt % 10 == 3 else logging.DEBUG,
                        "group %s: cannot join, attempt %d: %s",
                        self._config.group_id,
                        attempt,
                        failure,
                    )
                await asyncio.sleep(self._cluster.backoff(attempt))
            return None
        finally:
            self._settled.set()

    async def _join_once(self) -> tuple[Verdict, Exception]:
        """JoinGroup and SyncGroup; what came of it, and the failure if it did not work."""
        context = f"group {self._config.group_id!r}"
        try:
            node = await self._cluster.coordinator(CoordinatorKind.GROUP, self._config.group_id)
            joined = await self._cluster.send(
                self._member.join(self._protocols(), self._rejoin_reason),
                node,
                timeout=self._config.max_poll_interval + _JOIN_MARGIN,
                channel="group",
            )
            judged = self._member.joined(joined)
            if judged is not Verdict.PROCEED:
                return self._failed(judged, joined.error_code, f"JoinGroup of {context}")
            assignments = await self._deal() if self._member.leads else {}
            synced = await self._cluster.send(
                self._member.sync(assignments),
                node,
                timeout=self._config.max_poll_interval + _JOIN_MARGIN,
                channel="group",
            )
            judged = self._member.synced(synced.error_code)
            if judged is not Verdict.PROCEED:
                return self._failed(judged, synced.error_code, f"SyncGroup of {context}")
            self._assigned = set(decode_assignment(bytes(synced.assignment)))
            self._assignor.on_assignment(sorted(self._assigned), self._member.generation)
        except (BrokerConnectionError, DeadlineError) as error:
            if classify(error, Situation(api=JoinGroupRequest.api_key)) is Action.STOP:
                raise
            self._cluster.forget_coordinator(CoordinatorKind.GROUP, self._config.group_id)
            return Verdict.FIND_COORDINATOR, error
        return Verdict.PROCEED, KafkaError()

    def _failed(self, judged: Verdict, code: int, context: str) -> tuple[Verdict, Exception]:
        if judged is Verdict.FIND_COORDINATOR:
            self._cluster.forget_coordinator(CoordinatorKind.GROUP, self._config.group_id)
        return judged, error_for(code, context)

    def _protocols(self) -> dict[str, bytes]:
        rack = self._config.client_rack
        return {
            name: encode_subscription(
                self._topics, assignor.user_data(self._topics), self.owned, self._member.generation, rack
            )
            for name, assignor in self._assignors.items()
        }

    @property
    def _assignor(self) -> Assignor:
        if self._member.protocol not in self._assignors:
            raise ConfigurationError(
                f"group {self._config.group_id!r} agreed on the assignor {self._member.protocol!r}, "
                f"which is not in partition_assignment_strategy"
            )
        return self._assignors[self._member.protocol]

    async def _deal(self) -> dict[str, bytes]:
        """As leader: who reads what."""
        if self._member.skip_assignment:
            return {}
        members = {member_id: self._read(member_id, *said) for member_id, said in self._member.members.items()}
        wanted = sorted({topic for said in members.values() for topic in said.topics})
        found = await asyncio.gather(*(self._size(topic) for topic in wanted))
        self._sizes = dict(zip(wanted, found, strict=True))
        existing = {topic: size for topic, size in self._sizes.items() if size}
        dealt = self._assignor.assign(existing, members)
        return {member_id: encode_assignment(dealt.get(member_id, [])) for member_id in members}

    def _read(self, member_id: str, instance_id: str | None, data: bytes) -> Subscription:
        """What a member said. One that speaks gibberish gets nothing; the others must not suffer from it."""
        try:
            return decode_subscription(data, instance_id)
        except DecodeError as error:
            log.warning("group %s: subscription of member %s: %s", self._config.group_id, member_id, error)
            return Subscription(frozenset(), group_instance_id=instance_id)

    async def _size(self, topic: str) -> int:
        """Number of partitions; 0 for a topic that is not there: one member's mistake is not the others' trouble."""
        try:
            info = await self._cluster.topic(topic, timeout=_TOPIC_TIMEOUT)
        except (BrokerError, DeadlineError) as error:
            log.warning("group %s: a member asks for topic %s: %s", self._config.group_id, topic, error)
            return 0
        return len(info.partitions)

    # Staying in

    async def _beat(self) -> None:
        """Heartbeats, independent of how fast records are worked off."""
        loop = asyncio.get_running_loop()
        member = self._member
        failures = 0
        while True:
            due = loop.time() + (self._cluster.backoff(failures) if failures else self._config.heartbeat_interval)
            await asyncio.sleep(due - loop.time())
            if (late := loop.time() - due) > self._config.session_timeout:
                log.warning("group %s: the event loop stood still for %.1f s", self._config.group_id, late)
            # While a JoinGroup or SyncGroup waits at the coordinator, that is the sign of life.
            if member.phase is not Phase.STABLE:
                continue
            generation = member.generation
            try:
                code = await self._one_beat()
            except (BrokerConnectionError, DeadlineError) as error:
                if classify(error, Situation(api=HeartbeatRequest.api_key)) is Action.STOP:
                    raise
                failures += 1
                log.debug("group %s: heartbeat: %s", self._config.group_id, error)
                self._cluster.forget_coordinator(CoordinatorKind.GROUP, self._config.group_id)
                continue
            failures = 0
            # The member has moved on while the heartbeat was under way.
            if member.phase is not Phase.STABLE:
                continue
            if self._heard(member.beaten(code, generation), code, "Heartbeat") is Verdict.FIND_COORDINATOR:
                failures = 1

    async def _one_beat(self) -> int:
        node = await self._cluster.coordinator(CoordinatorKind.GROUP, self._config.group_id)
        answer: HeartbeatResponse = await self._cluster.send(
            self._member.heartbeat(), node, timeout=self._config.session_timeout, channel="group"
        )
        return answer.error_code

    def _heard(self, judged: Verdict, code: int, api: str) -> Verdict:
        """Act on what a heartbeat's or commit's answer says about the group."""
        error = error_for(code, f"{api} of group {self._config.group_id!r}") if code else None
        if judged is Verdict.FATAL and api == "Heartbeat":
            raise error or KafkaError()
        if judged is Verdict.FIND_COORDINATOR:
            self._cluster.forget_coordinator(CoordinatorKind.GROUP, self._config.group_id)
        elif judged is Verdict.REJOIN:
            self._request_rejoin("the group is rebalancing")
        elif judged is Verdict.LOST:
            self._lost_reason = str(error)
            self._request_rejoin(str(error))
        return judged

    async def leave(self, reason: str, timeout: float = _LEAVE_TIMEOUT) -> None:
        """Leave the group at once, so that others need not wait for the session to end. Failures are only logged.

        A static member stays: it is expected back (KIP-345).
        """
        request = self._member.leave(reason)
        self._member.forget()
        self.owned = set()
        if request is None:
            return
        try:
            node = await self._cluster.coordinator(CoordinatorKind.GROUP, self._config.group_id, timeout=timeout)
            version = await self._cluster.version(type(request), node)
            if version >= 3:
                request.member_id = ""
            else:
                request.members = []
            await self._cluster.send(request, node, timeout=timeout)
        except KafkaError as error:
            log.info("group %s: could not leave, the session will time out: %s", self._config.group_id, error)

    # Offsets

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float) -> None:
        """Commit as this member, whatever it owns of ``offsets``; while the group rebalances, after that.

        Raises:
            CommitError: Some partitions are no longer this member's; the others were committed.
            UnknownTopicError: The topics of some were deleted; the others were committed.
            BrokerError: The commit is refused for another reason.
            DeadlineError: The coordinator did not take it in time.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        while True:
            mine = {partition: position for partition, position in offsets.items() if partition in self.owned}
            if not mine:
                break
            # Without a generation it would pass as a commit from outside, which an empty group takes from anyone.
            if self._member.generation < 0:
                raise CommitError(f"group {self._config.group_id!r}: not a member now; {_names(mine)} not committed")
            left = max(deadline - loop.time(), 0.001)
            judged, codes = await self._requests.commit(mine, self._member, left)
            failed = {partition: code for partition, code in codes.items() if code}
            if not failed:
                break
            code = next(iter(failed.values()))
            self._heard(judged, code, "OffsetCommit")
            if judged is Verdict.FATAL or MISSING.issuperset(failed.values()):
                raise error_for(code, f"OffsetCommit of group {self._config.group_id!r} for {next(iter(failed))}")
            # PROCEED: it was refused for a generation that is over. What is still owned can be committed in the next.
            if judged not in (Verdict.REJOIN, Verdict.PROCEED):
                raise CommitError(f"group {self._config.group_id!r}: {error_for(code)}; {_names(mine)} not committed")
            await asyncio.sleep(self._cluster.backoff(1))
            try:
                await asyncio.wait_for(self._settled.wait(), deadline - loop.time())
            except asyncio.TimeoutError:
                raise DeadlineError(
                    f"OffsetCommit of group {self._config.group_id!r}: the rebalance did not end in {timeout:g} s"
                ) from None
        if gone := offsets.keys() - mine.keys():
            raise CommitError(
                f"group {self._config.group_id!r}: {_names(gone)} not committed: not assigned to this member"
            )


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(partition) for partition in sorted(partitions))
