"""The background of a consumer: its tasks, the subscription, the group member, and commits."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection, Coroutine, Iterable, Mapping
from typing import Any

from aiokproto.application.calls import calling, check_not_awaitable
from aiokproto.application.gates import DELIVER, READ, Obstacle
from aiokproto.cluster import ClusterClient, ClusterSnapshot, TopicInfo
from aiokproto.cluster.lifecycle import DISCONNECT, Lifecycle
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.consumer.assignment import Assignment, Signals
from aiokproto.consumer.commit_result import CommitResult
from aiokproto.consumer.config import ConsumerConfig
from aiokproto.consumer.cursor import Cursor, PartitionState, PartitionStatus
from aiokproto.consumer.fetcher import Fetcher
from aiokproto.consumer.find_topics import find_topics
from aiokproto.consumer.metric_source import metric_source
from aiokproto.consumer.new_partitions import SeenTopics
from aiokproto.consumer.offset_reset import OffsetReset
from aiokproto.consumer.offsets import OffsetLookup
from aiokproto.consumer.position_resolver import PositionResolver
from aiokproto.consumer.position_validator import PositionValidator
from aiokproto.consumer.reader import Reader
from aiokproto.consumer.rebalancing import Rebalancing
from aiokproto.consumer.silence import SilenceWatch
from aiokproto.consumer.start_lookup import COMMITTED, EARLIEST
from aiokproto.consumer.subscription import SubscriptionState
from aiokproto.consumer.undecodable import Undecodable
from aiokproto.errors import (
    AuthorizationError,
    CommitError,
    ConfigurationError,
    DeadlineError,
    KafkaError,
    UnknownTopicError,
)
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.config import LeaveMode
from aiokproto.group.leaving import leave_group
from aiokproto.group.member import GroupMember, make_member
from aiokproto.observe.observers import ConsumerObserver
from aiokproto.running.totals import RunTotals
from aiokproto.runtime.timeouts import deadline_at, wait_until
from aiokproto.types import OffsetAndMetadata, TopicPartition

log = logging.getLogger("aiokproto.consumer")

_TOPIC_RETRY = 5.0
"""Seconds after which a subscribed topic that does not exist is looked up again."""


def _left(deadline: float) -> float:
    """Return the seconds until a loop time."""
    return max(deadline - asyncio.get_running_loop().time(), 0.0)


class Engine(Lifecycle):
    """A consumer below its public API: creates the parts, owns the tasks, and joins them.

    Attributes:
        config: The consumer's options.
        assignment: The assigned partitions.
        reader: Delivers records.
        undecodable: What becomes of records that cannot be decoded.
        lookup: Looks up offsets in the log.
        fetcher: Fetches records.
        member: The group member; None without a group.
        rebalancing: Carries out what a rebalance changes.
        subscription: What the application has subscribed to or assigned.
        session: The session that reads this consumer and commits its offsets; None without one.
        observer: Counts fetches, delivery, commits and rebalances.
    """

    def __init__(self, cluster: ClusterClient, config: ConsumerConfig, subscription: SubscriptionState) -> None:
        super().__init__("consumer", cluster, log)
        self.subscription = subscription
        self.config = config
        self.session: object = None
        self.observer = ConsumerObserver(cluster.config.hooks)
        self.runs = RunTotals()
        signals = Signals(self._changed, self._arrived, self._room, self._reset_happened)
        self.assignment = Assignment(signals, self.observer)
        # guard: a forked child takes no open record of its parent
        cluster.home.on_fork = self.assignment.forget_open
        cluster.last_used = self._last_used
        group = config.group
        self.undecodable = Undecodable(config.on_undecodable, group.group_id if group else None)
        self.reader = Reader(
            self.assignment,
            config.fetch.check_crcs,
            self.check,
            cluster.run_in_thread,
            self.undecodable,
            cluster.config.interceptors,
            lambda: self.admit(READ),
        )
        self.lookup = OffsetLookup(cluster, config.fetch.read_committed)
        self.rebalancing = Rebalancing(
            self.assignment,
            self.reader,
            lambda: self.subscription,
            self._commit_before_revoking,
            self._ownership_changed,
        )
        self.member = make_member(cluster, group, self.rebalancing) if group else None
        # What the topics were when the subscription began.
        self._seen = SeenTopics()
        self.resolver = PositionResolver(
            cluster, self.assignment, self.lookup, self.member, config.auto_offset_reset, self._may_be_new
        )
        self.validator = PositionValidator(cluster, self.assignment, self.resolver.truncated)
        self.fetcher = Fetcher(cluster, self.assignment, config.fetch, self.resolver.reset, self.validator)
        # From the subscription task: topics that cannot be found. Raised by the next read.
        self._problem: KafkaError | None = None
        # Whether the last lookup of the subscribed topics has not found all of them.
        self._unfound = False
        # Something in the assignment has changed; for calls that wait for a condition of their own.
        self._moved = asyncio.Event()
        # The subscription has to be applied again.
        self._follow = asyncio.Event()
        # From the automatic commit, for the next read.
        self._commit_refused: KafkaError | None = None
        # What this consumer has committed, so that unchanged positions are not committed at each interval.
        self._committed: dict[TopicPartition, int] = {}
        # Processed, not yet committed offsets of partitions that assign() has dropped.
        self._given_up: dict[TopicPartition, OffsetAndMetadata] = {}

    # Signals

    def _changed(self, cursors: Collection[Cursor] = ()) -> None:
        self._moved.set()
        if self.assignment.handling is not None:
            self.assignment.handling.changed(cursors)
        # Only marks and events: the signal comes from inside calls of the application, which must not wait.
        self.fetcher.changed(cursors)
        self.resolver.changed(cursors)
        self.validator.changed(cursors)
        self.reader.wake()

    def _arrived(self) -> None:
        self._moved.set()
        self.reader.wake()

    def _reset_happened(self, event: OffsetReset) -> None:
        if self.config.on_offset_reset is not None:
            with calling("on_offset_reset"):
                check_not_awaitable(self.config.on_offset_reset(event), "on_offset_reset")

    def _room(self) -> None:
        self.fetcher.room()

    async def moved(self) -> None:
        """Wait until the assignment, or something in it, changes."""
        self._moved.clear()
        await self._moved.wait()
        self.check_running()

    async def assigned(self, timeout: float) -> None:
        """Wait until the group has assigned a partition."""
        assert self.member is not None

        def late() -> str:
            assert self.member is not None
            return f"the group has assigned no partition in {timeout:g} s: {self.member.problem or self.member.state}"

        async with deadline_at(asyncio.get_running_loop().time() + timeout, late):
            while not self.assignment.cursors:
                self.check()
                await self.moved()

    def set_subscription(self, subscription: SubscriptionState) -> None:
        """Replace what is read."""
        self.cluster.check_loop()
        self.subscription = subscription
        self._problem = None
        # Applied at once, without the task: assign() and then seek() must find the partitions. A member that is still
        # in the group gives up its partitions first.
        if not subscription.by_topic and (self.member is None or self.member.outside):
            self._assign(subscription.partitions or frozenset())
        self._follow.set()

    def _assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, independent of the group's assignment."""
        removed = [partition for partition in self.assignment.cursors if partition not in partitions]
        if self.member is not None and self.config.enable_auto_commit:
            # No rebalance follows that would commit them.
            self._given_up |= self._processed(removed, last=True)
        self.assignment.remove(removed)
        self._ownership_changed(removed)
        self.assignment.add(sorted(partitions), COMMITTED)
        for partition in sorted(self._given_up.keys() & partitions):
            # Assigned again before the offset was committed: the group's offset is older.
            self.assignment.seek(partition, self._given_up.pop(partition).offset)

    def state(self, partition: TopicPartition) -> PartitionState:
        """Return what the consumer is doing about a partition."""
        cursor = self.assignment.cursors.get(partition)
        if cursor is None:
            return PartitionState(PartitionStatus.UNASSIGNED, self.member.state if self.member else "")
        if not self._running:
            return PartitionState(PartitionStatus.IDLE, "the consumer is not running")
        return self.fetcher.state(cursor)

    # Lifecycle

    def _other_obstacles(self) -> Iterable[Obstacle]:
        called = self.rebalancing.in_callback()
        if not called and self.session is None and self.assignment.handling is None:
            return ()
        present = {
            Obstacle.CALLBACK: called,
            Obstacle.SESSION: self.session is not None,
            Obstacle.RUN: self.assignment.handling is not None,
        }
        return [obstacle for obstacle in present if present[obstacle]]

    def own(self, session: object) -> None:
        """Give the records, positions and commits to a session, from now on.

        Raises:
            ConfigurationError: The consumer runs, or belongs to a session already.
        """
        # guard: a consumer that is read already gets no session
        if self.reader.owner is not None:
            raise ConfigurationError("run() or another session reads the records of this consumer: make another one")
        self.session = self.reader.owner = session
        # So that an iterator of before comes to the reader.
        self.assignment.end_turn()

    def check(self) -> None:
        """Raise what keeps records from being delivered to the owner of the reader, and what background tasks have to
        report."""
        self.admit(DELIVER)
        if self._commit_refused is not None:
            # Once per attempt, so that reading and other commits go on.
            refused, self._commit_refused = self._commit_refused, None
            raise refused.with_traceback(None)
        if not self.subscription.by_topic and self.subscription.partitions is None:
            raise ConfigurationError("there is nothing to read: subscribe() or assign() first")
        if self._problem is not None:
            # Once per attempt to find the topics, so that the other topics are read.
            problem, self._problem = self._problem, None
            raise problem.with_traceback(None)
        if self.member is not None:
            # Reading is what brings a member back that left because nothing was read.
            self.member.rejoin()
            self.member.check_session()

    async def start(self) -> None:
        """Connect and start the tasks. If that fails, the consumer is closed again, and the cause raised."""
        await self._connect(lambda: self._resolve(self.subscription))
        self._spawn("fetch", self.fetcher.run())
        self._spawn("locate", self.resolver.run())
        self._spawn("validate", self.validator.run())
        self._spawn("metadata", self._watch_cluster())
        self._spawn("subscription", self._follow_subscription())
        self._spawn("silence", SilenceWatch(self.assignment, self.fetcher, self.reader, self.member).run())
        if self.member is not None:
            self._spawn("group", self.member.run())
            self._spawn("progress", self._watch_progress(self.member))
            if self.config.enable_auto_commit:
                self._spawn("commit", self._auto_commit())
        self.cluster.push_metrics(metric_source(self.cluster, self.observer, self.assignment, self.member))

    def _failed(self) -> None:
        self.assignment.stop()
        if self.member is not None and self.member.removed and self.subscription.partitions is None:
            # Other members own them: nothing of them is committed when the consumer is closed.
            self.assignment.remove(list(self.assignment.cursors))
        self._changed()

    async def close(self, timeout: float, *, processed: bool, leave: LeaveMode = "default") -> None:
        """Close within ``timeout`` seconds; with ``processed`` the current record counts as processed."""
        if not await self._can_close(timeout):
            return
        if self.rebalancing.in_callback():
            raise RuntimeError("a consumer cannot be closed in a rebalance callback: closing waits for the callback")
        if self.assignment.handling is not None:
            self.assignment.handling.check_outside("close()")
        deadline = asyncio.get_running_loop().time() + timeout
        self._start_closing()
        if processed:
            self.assignment.mark_processed()
        # Before the first await: no record is delivered whose offset the last commit would miss.
        self.assignment.stop()
        self.reader.wake()
        in_time = False
        try:
            await self._finish(deadline)
            in_time = True
        finally:
            # After a cancellation, do only what needs no waiting.
            try:
                await self._leave_group(deadline if in_time else 0.0, leave)
            finally:
                self._running = False
                self._moved.set()
                await self.cluster.close(timeout=min(_left(deadline), DISCONNECT))

    # The steps of closing. Each may use a part of the time that is left, so that a step that hangs leaves some to the
    # next.

    async def _finish(self, deadline: float) -> None:
        try:
            if self.assignment.handling is not None:
                await self.assignment.handling.finish(deadline - _left(deadline) / 2)
            # A callback that runs may finish; cancelling it would cut the application's own work.
            await self.rebalancing.until_idle(_left(deadline) / 2)
            # Before the tasks end: while members join a generation, the coordinator refuses commits until each has
            # sent its SyncGroup.
            await self._last_commit(deadline)
        finally:
            await self._end_tasks(_left(deadline) / 2)

    async def _last_commit(self, deadline: float) -> None:
        if self.member is not None and self.config.enable_auto_commit:
            try:
                await self.commit_processed(_left(deadline) / 2, last=True)
                await self._commit_given_up(_left(deadline) / 2)
            except KafkaError as error:
                log.warning("consumer: closing: %s", error)

    async def _leave_group(self, deadline: float, how: LeaveMode) -> None:
        if self.member is None:
            return
        # Before LeaveGroup: after it other members own the partitions.
        in_time = False
        try:
            error = await self.rebalancing.end(lost=self.member.removed, timeout=_left(deadline) * 3 / 4)
            in_time = True
        finally:
            # Even if the callback raised or was cancelled: other members wait for the partitions.
            left = min(_left(deadline), 3.0)
            wait = in_time and left > 0
            await leave_group(self.member.leave("the consumer is closed", left or 3.0, how), wait=wait)
        if error is not None:
            raise error

    # Following the subscription

    async def _watch_cluster(self) -> None:
        generation = -1
        while True:
            snapshot = await self.cluster.metadata.wait_for_update(generation)
            generation = snapshot.generation
            self.assignment.losses.retain(snapshot.topics)
            if self.member is not None:
                self.member.metadata_changed()
            # With a group the leader watches the topics; this member only has to notice that one is gone. While a topic
            # cannot be found, each lookup is an update, too, and the next one has to come after a pause.
            watches = self.member is None or self._has_lost_a_match(snapshot)
            if self.subscription.by_topic and watches and not self._unfound:
                self._follow.set()
            self.fetcher.metadata_changed()
            self.resolver.metadata_changed()
            self.validator.metadata_changed()

    def _has_lost_a_match(self, snapshot: ClusterSnapshot) -> bool:
        """Whether a topic that the pattern had found is gone: not to read it any more is no failure."""
        if self.subscription.pattern is None:
            return False
        return any(partition.topic not in snapshot.topics for partition in self.assignment.cursors)

    async def _follow_subscription(self) -> None:
        """Apply the subscription, and apply it again when it or the cluster's topics change."""
        while True:
            self._follow.clear()
            # Compared by identity below: one that was replaced meanwhile is dropped.
            wanted = self.subscription
            again: float | None = None
            try:
                await self._resolve(wanted)
                self._problem = None
                if self._unfound:
                    again = _TOPIC_RETRY
                elif wanted.pattern is not None:
                    again = self.cluster.config.metadata_max_age
            except KafkaError as error:
                if wanted is self.subscription:
                    self._problem = error
                    self.reader.wake()
                # Without end: a topic may be created later, and the error is raised each time.
                again = _TOPIC_RETRY
            await wait_until(self._follow, None if again is None else asyncio.get_running_loop().time() + again)

    async def _resolve(self, wanted: SubscriptionState) -> None:
        """Look up the subscribed topics, and assign their partitions or report them to the group member."""
        self._unfound = True
        topics, regex = wanted.topics, await self._regex(wanted)
        if wanted.pattern is not None and regex is None:
            topics = wanted.matching(await self.cluster.topics())
        if wanted.partitions is not None:
            topics = frozenset(partition.topic for partition in wanted.partitions)
        found, failures = await find_topics(self.cluster, topics)
        self._unfound = bool(failures)
        existing = {name: len(info.partitions) for name, info in found.items()}
        if regex is not None and self._seen.begins(wanted):
            # The broker matches topics: those that it adds later are not among these.
            everything = await self.cluster.topics()
            existing |= {name: len(everything[name].partitions) for name in wanted.matching(everything)}
        # subscribe() was called during the lookup; the task applies the new one next.
        if wanted is not self.subscription:
            return
        if wanted.by_topic:
            missing = [name for name, failure in failures.items() if isinstance(failure, UnknownTopicError)]
            self._seen.note(wanted, existing, missing, pattern=wanted.pattern is not None)
        if wanted.partitions is None:
            if self.member is not None:
                # Also topics that were not found: the leader assigns them once they exist.
                self.member.set_topics(topics, regex)
            else:
                self._assign_all(topics, found)
        # An assigned partition reports by itself that its topic is gone.
        known = {partition.topic for partition in self.assignment.cursors}
        # Without tasks start() is running: it raises for every topic.
        raised = [failure for name, failure in failures.items() if name not in known or not self._tasks]
        if refused := [failure for failure in raised if isinstance(failure, AuthorizationError)]:
            raise AuthorizationError.together(refused)
        for failure in raised:
            raise failure

    def _may_be_new(self, partition: TopicPartition) -> bool | None:
        """Return whether a partition without a committed offset has appeared since the subscription began; None if this
        consumer has not seen its topic without it."""
        if not self.config.reads_new_partitions or not self.subscription.by_topic:
            return False
        return True if self._seen.lacked(partition) else None

    async def _regex(self, wanted: SubscriptionState) -> str | None:
        """Return the pattern for the broker to match; None if there is none, or this client has to match it."""
        if self.member is None or wanted.pattern is None or not await self.member.matches_patterns():
            return None
        return wanted.broker_pattern()

    def _assign_all(self, topics: Collection[str], found: Mapping[str, TopicInfo]) -> None:
        """Without a group: assign all partitions. Those of a topic that is missing stay, as it may be created again."""
        everything = {
            TopicPartition(name, number) for name, info in found.items() for number in range(len(info.partitions))
        }
        cursors = self.assignment.cursors
        waiting = {partition for partition in cursors if partition.topic in topics and partition.topic not in found}
        self.assignment.remove(cursors.keys() - everything - waiting)
        for partition in sorted(everything - cursors.keys()):
            is_new = self.config.reads_new_partitions and self._seen.lacked(partition)
            self.assignment.add([partition], EARLIEST if is_new else COMMITTED)

    def _last_used(self, topic: str) -> float:
        """Return infinity for a topic that is subscribed by name, assigned, or of members that this one leads: it is
        read again once it is created again."""
        needed = (
            topic in self.subscription.topics
            or (self.member is not None and self.member.watches(topic))
            or any(partition.topic == topic for partition in self.assignment.cursors)
        )
        return math.inf if needed else -math.inf

    async def unsubscribed(self, timeout: float) -> None:
        """Wait until the member has left the group, and what is processed is committed."""
        at = asyncio.get_running_loop().time() + timeout
        async with deadline_at(
            at, lambda: f"unsubscribe: {self.member and self.member.state}; it goes on in the background"
        ):
            while self.member is not None and not self.member.outside:
                await self.moved()
        try:
            await self._commit_given_up(_left(at))
        except KafkaError as error:
            log.warning("consumer: unsubscribing: %s", error)

    # The group

    def _ownership_changed(self, partitions: Collection[TopicPartition]) -> None:
        """Forget what was committed of partitions that were assigned or revoked: others may commit for them
        meanwhile."""
        for partition in partitions:
            # Else an offset that another member has moved would count as committed.
            self._committed.pop(partition, None)
        self._moved.set()

    async def _commit_before_revoking(self, partitions: Collection[TopicPartition], timeout: float) -> None:
        if self.config.enable_auto_commit:
            await self.commit_processed(timeout, partitions, last=True)

    async def _watch_progress(self, member: GroupMember) -> None:
        """Leave the group if the application stops requesting records, so that other members get the partitions."""
        assert self.config.group is not None
        limit = self.config.group.max_poll_interval
        loop = asyncio.get_running_loop()
        seen: tuple[int, object] = (-1, None)
        since = loop.time()
        while True:
            await asyncio.sleep(min(limit / 4, 1.0))
            handling = self.assignment.handling
            # `current` by identity: `async for` requests records without a call of the reader for each.
            now = (self.reader.requests, self.assignment.current)
            # While run() takes nothing more, its oldest call says whether the application is alive.
            # guard: a run() whose buffers are full has not stalled -> self.reader.waiting
            waiting = self.reader.waiting or (handling is not None and handling.full)
            if waiting or now[0] != seen[0] or now[1] is not seen[1]:
                seen, since = now, loop.time()
            began = handling.oldest() if handling is not None else None
            if began is not None and loop.time() - began > limit and member.owned:
                reason = f"a handler has run for {loop.time() - began:.1f} s (max_poll_interval_ms)"
            elif loop.time() - since > limit and member.owned:
                why = f": {self.reader.awaited}" if self.reader.awaited else ""
                reason = f"no record was requested in {loop.time() - since:.1f} s (max_poll_interval_ms){why}"
                since = loop.time()
            else:
                continue
            log.warning("consumer: %s: leaving group %s until the next request", reason, self.config.group.group_id)
            member.leave_on_poll_timeout(reason)

    # Commits

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float) -> CommitResult:
        """Commit offsets, one request at a time. Returns and raises as :meth:`Consumer.commit`."""
        assert self.member is not None
        if not offsets:
            return CommitResult({})
        # Partitions from assign() belong to no generation.
        if self.subscription.partitions is None:
            commit = self.member.commit(offsets, timeout, blocked=self._rebalance_blocked())
        else:
            commit = self.member.commit_from_outside(offsets, timeout)
        cursors = self.assignment.cursors
        owned = {partition: cursors[partition] for partition in offsets if partition in cursors}
        result = await self._observed(offsets, commit)
        for partition, position in result.committed.items():
            if partition in owned:
                owned[partition].committed(position.offset)
        # After the response: what was not committed is committed again.
        # Only what is assigned: of others nothing is committed by itself.
        self._committed.update(
            {partition: position.offset for partition, position in result.committed.items() if partition in cursors}
        )
        return result

    async def _observed(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        commit: Coroutine[Any, Any, dict[TopicPartition, KafkaError]],
    ) -> CommitResult:
        """Carry out a commit, and report it with the error of a partition, if there is one. A cancelled one is not
        reported."""
        loop = asyncio.get_running_loop()
        started = loop.time()
        try:
            failures = await commit
        except KafkaError as error:
            self.observer.committed(len(offsets), loop.time() - started, error)
            raise
        self.observer.committed(len(offsets), loop.time() - started, next(iter(failures.values()), None))
        return CommitResult.of(offsets, failures)

    def _rebalance_blocked(self) -> str:
        """Return why a rebalance cannot end before this task continues; empty if it can."""
        if self.rebalancing.in_callback():
            return "a rebalance waits for the callback that commits"
        group = self._tasks.get("group")
        return "a rebalance was under way when the consumer ended" if group is not None and group.done() else ""

    async def _auto_commit(self) -> None:
        interval = self.config.auto_commit_interval
        while True:
            await asyncio.sleep(interval)
            try:
                # Not the interval alone: with a short one every commit would time out on a slow coordinator.
                await self.commit_processed(max(interval, 5.0))
                await self._commit_given_up(max(interval, 5.0))
            # A rebalance took the partitions: ordinary, and their new owner goes on from the last commit.
            except CommitError as error:
                log.info("consumer: commit: %s", error)
            except KafkaError as error:
                self._auto_commit_failed(error)

    def _auto_commit_failed(self, error: KafkaError) -> None:
        action = classify(error, Situation(OffsetCommitRequest.api_key, member=True))
        if action is Action.STOP:
            raise error
        log.warning("consumer: commit, will be repeated: %s", error)
        if action is Action.FAIL:
            # The Java client only logs it. A missing permission would show at the next restart, as repeated records.
            self._commit_refused = error
            self.reader.wake()

    async def commit_processed(
        self, timeout: float, among: Iterable[TopicPartition] | None = None, *, last: bool = False
    ) -> None:
        """Commit the processed offsets that are not committed yet; ``last``: there is no later chance."""
        (await self.commit(self._processed(among, last=last), timeout)).check()

    def _processed(
        self, among: Iterable[TopicPartition] | None, *, last: bool
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        offsets = self.assignment.committable(processed=True, among=None if among is None else set(among))
        snapshot = self.cluster.snapshot
        return {
            partition: position
            for partition, position in offsets.items()
            # Leave out deleted topics: the coordinator would refuse them at every interval. The last time it decides:
            # brokers that lag behind do not know a topic for a while.
            if self._committed.get(partition) != position.offset
            and (last or snapshot.partition(*partition) is not None)
        }

    async def _commit_given_up(self, timeout: float) -> None:
        """Commit the processed offsets of partitions that were assigned by :meth:`assign`, and are not any more."""
        if not self._given_up:
            return
        assert self.member is not None
        # Taken out first: assign() may add to it during the await.
        offsets, self._given_up = self._given_up, {}
        try:
            (await self._observed(offsets, self.member.commit_from_outside(offsets, timeout))).check()
        except (DeadlineError, asyncio.CancelledError):
            # One that was assigned again has been sought to its offset already.
            again = {each: position for each, position in offsets.items() if each not in self.assignment.cursors}
            self._given_up = again | self._given_up
            raise
