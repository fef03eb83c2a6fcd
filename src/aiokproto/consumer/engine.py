"""The engine of a consumer: its tasks, the subscription, the group member, and commits."""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Collection, Coroutine, Iterable, Mapping
from typing import Any

from aiokproto.application.calls import calling, check_not_awaitable
from aiokproto.application.gates import ASK, DELIVER, Obstacle
from aiokproto.cluster import ClusterClient, ClusterSnapshot, TopicInfo
from aiokproto.cluster.lifecycle import DISCONNECT, Lifecycle
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.commit_result import CommitResult
from aiokproto.consumer.config import ConsumerConfig
from aiokproto.consumer.cursor import Cursor, PartitionState, PartitionStatus
from aiokproto.consumer.fetcher import Fetcher
from aiokproto.consumer.new_partitions import SeenTopics
from aiokproto.consumer.offset_reset import OffsetReset
from aiokproto.consumer.offsets import OffsetLookup
from aiokproto.consumer.position_resolver import PositionResolver
from aiokproto.consumer.position_validator import PositionValidator
from aiokproto.consumer.reader import Reader
from aiokproto.consumer.rebalancing import Rebalancing
from aiokproto.consumer.report import SilenceWatch, metric_source
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
from aiokproto.running.runner import RunTotals
from aiokproto.runtime.timeouts import deadline_at, wait_until
from aiokproto.types import GroupMetadata, OffsetAndMetadata, TopicPartition

log = logging.getLogger("aiokproto.consumer")

_CREATE = "consumers never create topics: create it first"

_TOPIC_RETRY = 5.0
"""Seconds between lookups of a subscribed topic that doesn't exist."""


def _left(deadline: float) -> float:
    """Return the seconds until a loop time."""
    return max(deadline - asyncio.get_running_loop().time(), 0.0)


class Engine(Lifecycle):
    """The consumer below its public API. It creates the parts, and owns the tasks.

    Attributes:
        config: The consumer's options.
        assignment: The assigned partitions.
        reader: Delivers records.
        undecodable: Decides what to do with records that cannot be decoded.
        lookup: Looks up offsets in the log.
        fetcher: Fetches records.
        member: The group member, if there is a group.
        rebalancing: Carries out the changes of a rebalance.
        subscription: The topics or partitions that the application has chosen.
        session: The session that reads this consumer and commits its offsets, if any.
        observer: Counts fetches, delivery, commits and rebalances.
    """

    def __init__(self, cluster: ClusterClient, config: ConsumerConfig, subscription: SubscriptionState) -> None:
        super().__init__("consumer", cluster, log)
        self.subscription = subscription
        self.config = config
        self.session: object = None
        self.observer = ConsumerObserver(cluster.config.hooks)
        self.runs = RunTotals()
        self.assignment = Assignment(self, self.observer)
        # guard: a forked child takes no open record of its parent
        cluster.home.on_fork = self.assignment.forget_open
        cluster.last_used = self._last_used
        group = config.group
        self.undecodable = Undecodable(config.on_undecodable, group.group_id if group else None)
        self.reader = Reader(
            self,
            self.assignment,
            self.undecodable,
            check_crcs=config.fetch.check_crcs,
            interceptors=cluster.config.interceptors,
        )
        self.lookup = OffsetLookup(cluster, config.fetch.read_committed)
        self.rebalancing = Rebalancing(self, self.assignment, self.reader)
        self.member = make_member(cluster, group, self.rebalancing) if group else None
        # The topics that existed when the subscription started.
        self._seen = SeenTopics()
        self.resolver = PositionResolver(
            self, cluster, self.assignment, self.lookup, self.member, config.auto_offset_reset
        )
        self.validator = PositionValidator(cluster, self.assignment, self.resolver)
        self.fetcher = Fetcher(cluster, self.assignment, config.fetch, self.resolver, self.validator)
        # Why topics cannot be found. The subscription task sets it, and the next read raises it.
        self._problem: KafkaError | None = None
        # Whether the last lookup of the subscribed topics didn't find some of them.
        self._unfound = False
        # Set when something in the assignment has changed. Calls that wait for a specific condition wait on it.
        self._changed = asyncio.Event()
        # Set when the subscription has to be applied again.
        self._follow = asyncio.Event()
        # Why the automatic commit was rejected. The next read raises it.
        self._commit_refused: KafkaError | None = None
        # The offsets that this consumer has committed. Unchanged positions aren't committed again at each interval.
        self._committed: dict[TopicPartition, int] = {}
        # Processed offsets of partitions that assign() has dropped, until they're committed.
        self._given_up: dict[TopicPartition, OffsetAndMetadata] = {}

    # Events of the assignment

    def assignment_changed(self, cursors: Collection[Cursor] = ()) -> None:
        """Note a change to cursors: they were added, removed or moved, or whether they can be fetched or delivered has
        changed."""
        self._changed.set()
        if self.assignment.runner is not None:
            self.assignment.runner.changed(cursors)
        # Only set flags and events: this runs inside the application's calls, which must not wait.
        self.fetcher.changed(cursors)
        self.resolver.changed(cursors)
        self.validator.changed(cursors)
        self.reader.wake()

    def records_arrived(self) -> None:
        """Note that there is something to deliver."""
        self._changed.set()
        self.reader.wake()

    def position_reset(self, event: OffsetReset) -> None:
        """Call ``on_offset_reset``: the consumer has moved a position on its own."""
        if self.config.on_offset_reset is not None:
            with calling("on_offset_reset"):
                check_not_awaitable(self.config.on_offset_reset(event), "on_offset_reset")

    def buffer_has_room(self) -> None:
        """Note that buffered bytes were delivered, so more can be fetched."""
        self.fetcher.room()

    async def wait_for_change(self) -> None:
        """Wait until the assignment, or something in it, changes."""
        self._changed.clear()
        await self._changed.wait()
        self.check_running()

    async def wait_until_assigned(self, timeout: float) -> None:
        """Wait until the group has assigned a partition."""
        assert self.member is not None

        def late() -> str:
            assert self.member is not None
            return f"the group has assigned no partition in {timeout:g} s: {self.member.problem or self.member.state}"

        async with deadline_at(asyncio.get_running_loop().time() + timeout, late):
            while not self.assignment.cursors:
                self.check()
                await self.wait_for_change()

    def set_subscription(self, subscription: SubscriptionState) -> None:
        """Replace the subscription."""
        self.cluster.check_loop()
        self.subscription = subscription
        self._problem = None
        # Apply it now instead of in the task, because seek() after assign() must find the partitions. If the member is
        # still in the group, it gives up its partitions first.
        if not subscription.by_topic and (self.member is None or self.member.outside):
            self._assign(subscription.partitions or frozenset())
        self._follow.set()

    def _assign(self, partitions: Collection[TopicPartition]) -> None:
        """Read these partitions, which were chosen by the application instead of the group."""
        removed = [partition for partition in self.assignment.cursors if partition not in partitions]
        if self.member is not None and self.config.enable_auto_commit:
            # Remember them: no rebalance follows that would commit them.
            self._given_up |= self._processed(removed, last=True)
        self.assignment.remove(removed)
        self.ownership_changed(removed)
        self.assignment.add(sorted(partitions), COMMITTED)
        for partition in sorted(self._given_up.keys() & partitions):
            # If a partition is assigned again before its offset is committed, seek to that offset. The group's offset
            # is older.
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
        if not called and self.session is None and self.assignment.runner is None:
            return ()
        present = {
            Obstacle.CALLBACK: called,
            Obstacle.SESSION: self.session is not None,
            Obstacle.RUN: self.assignment.runner is not None,
        }
        return [obstacle for obstacle in present if present[obstacle]]

    def own(self, session: object) -> None:
        """Give a session control of records, positions and commits.

        Raises:
            ConfigurationError: The consumer is in ``run()``, or already belongs to a session.
        """
        # guard: a consumer that is read already gets no session
        if self.reader.owner is not None:
            raise ConfigurationError("run() or another session reads the records of this consumer: make another one")
        self.session = self.reader.owner = session
        # End the turn. An existing iterator then has to call the reader.
        self.assignment.end_turn()

    def check(self) -> None:
        """Raise if records cannot be delivered to the owner of the reader, or if a background task has failed."""
        self.admit(DELIVER)
        if self._commit_refused is not None:
            # Raise it only once per attempt, so reading and later commits can continue.
            refused, self._commit_refused = self._commit_refused, None
            raise refused.with_traceback(None)
        if not self.subscription.by_topic and self.subscription.partitions is None:
            raise ConfigurationError("there is nothing to read: subscribe() or assign() first")
        if self._problem is not None:
            # Raise it only once per attempt to find the topics, so the other topics can still be read.
            problem, self._problem = self._problem, None
            raise problem.with_traceback(None)
        if self.member is not None:
            # A member that left because the application didn't request records rejoins now.
            self.member.rejoin()
            self.member.check_session()

    async def start(self) -> None:
        """Connect and start the tasks. If that fails, close the consumer again and raise the cause."""
        await self._connect(lambda: self._resolve(self.subscription))
        self._spawn("fetch", self.fetcher.run())
        self._spawn("locate", self.resolver.run())
        self._spawn("validate", self.validator.run())
        self._spawn("metadata", self._watch_cluster())
        self._spawn("subscription", self._follow_subscription())
        self._spawn("silence", SilenceWatch(self).run())
        if self.member is not None:
            self._spawn("group", self.member.run())
            self._spawn("progress", self._watch_progress(self.member))
            if self.config.enable_auto_commit:
                self._spawn("commit", self._auto_commit())
        self.cluster.push_metrics(metric_source(self))

    def _failed(self) -> None:
        self.assignment.stop()
        if self.member is not None and self.member.removed and self.subscription.partitions is None:
            # Remove them: other members own them, and close() must not commit their offsets.
            self.assignment.remove(list(self.assignment.cursors))
        self.assignment_changed()

    async def close(self, timeout: float, *, processed: bool, leave: LeaveMode = "default") -> None:
        """Close within ``timeout`` seconds. With ``processed``, the current record counts as processed."""
        if not await self._can_close(timeout):
            return
        if self.rebalancing.in_callback():
            raise RuntimeError("a consumer cannot be closed in a rebalance callback: closing waits for the callback")
        if self.assignment.runner is not None:
            self.assignment.runner.check_outside("close()")
        deadline = asyncio.get_running_loop().time() + timeout
        self._start_closing()
        if processed:
            self.assignment.mark_processed()
        # Stop before the first await: the last commit would miss the offset of any record delivered later.
        self.assignment.stop()
        self.reader.wake()
        in_time = False
        try:
            await self._finish(deadline)
            in_time = True
        finally:
            # If cancelled, don't wait.
            try:
                await self._leave_group(deadline if in_time else 0.0, leave)
            finally:
                self._running = False
                self._changed.set()
                await self.cluster.close(timeout=min(_left(deadline), DISCONNECT))

    # The steps of closing. Each may use only part of the remaining time, so if one hangs, there's time for the next.

    async def _finish(self, deadline: float) -> None:
        try:
            if self.assignment.runner is not None:
                await self.assignment.runner.finish(deadline - _left(deadline) / 2)
            # Let a running callback finish: cancelling it would interrupt the application's own work.
            await self.rebalancing.until_idle(_left(deadline) / 2)
            # Commit before the tasks end. While members are joining a generation, the coordinator rejects commits until
            # each member has sent its SyncGroup.
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
        # Call back before LeaveGroup: after it, other members own the partitions.
        in_time = False
        try:
            error = await self.rebalancing.end(lost=self.member.removed, timeout=_left(deadline) * 3 / 4)
            in_time = True
        finally:
            # Leave even if the callback raised or was cancelled: other members are waiting for the partitions.
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
            # The leader of a group watches the topics, so a member only has to notice when a topic is deleted. While a
            # topic cannot be found, every lookup updates the metadata, so this must not trigger the next lookup: the
            # pause between lookups does.
            watches = self.member is None or self._has_lost_a_match(snapshot)
            if self.subscription.by_topic and watches and not self._unfound:
                self._follow.set()
            self.fetcher.metadata_changed()
            self.resolver.metadata_changed()
            self.validator.metadata_changed()

    def _has_lost_a_match(self, snapshot: ClusterSnapshot) -> bool:
        """Return whether a topic that the pattern had matched was deleted. If so, reading simply stops, without an
        error."""
        if self.subscription.pattern is None:
            return False
        return any(partition.topic not in snapshot.topics for partition in self.assignment.cursors)

    async def _follow_subscription(self) -> None:
        """Apply the subscription, and apply it again when it or the cluster's topics change."""
        while True:
            self._follow.clear()
            # It's compared by identity below, to drop a subscription that was replaced in the meantime.
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
                # Keep trying, because a topic may be created later. Each attempt raises the error.
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
        found, failures = await _find_topics(self.cluster, topics)
        self._unfound = bool(failures)
        existing = {name: len(info.partitions) for name, info in found.items()}
        if regex is not None and self._seen.is_new(wanted):
            # The broker matches topics. Note which topics exist now, to recognize the ones it adds later.
            everything = await self.cluster.topics()
            existing |= {name: len(everything[name].partitions) for name in wanted.matching(everything)}
        # subscribe() was called during the lookup. The task applies the new subscription next.
        if wanted is not self.subscription:
            return
        if wanted.by_topic:
            missing = [name for name, failure in failures.items() if isinstance(failure, UnknownTopicError)]
            self._seen.note(wanted, existing, missing, pattern=wanted.pattern is not None)
        if wanted.partitions is None:
            if self.member is not None:
                # Include topics that weren't found. The leader assigns them once they exist.
                self.member.set_topics(topics, regex)
            else:
                self._assign_all(topics, found)
        # If the topic of an assigned partition was deleted, the partition itself reports that.
        known = {partition.topic for partition in self.assignment.cursors}
        # If there are no tasks yet, this is start(), which raises for every topic.
        raised = [failure for name, failure in failures.items() if name not in known or not self._tasks]
        if refused := [failure for failure in raised if isinstance(failure, AuthorizationError)]:
            raise AuthorizationError.together(refused)
        for failure in raised:
            raise failure

    def may_be_new(self, partition: TopicPartition) -> bool | None:
        """Return whether a partition without a committed offset has appeared since the subscription started; None if
        this consumer hasn't seen the topic without it."""
        if not self.config.reads_new_partitions or not self.subscription.by_topic:
            return False
        return True if self._seen.lacked(partition) else None

    async def _regex(self, wanted: SubscriptionState) -> str | None:
        """Return the pattern that the broker should match; None if there is none, or if this client has to match it."""
        if self.member is None or wanted.pattern is None or not await self.member.matches_patterns():
            return None
        return wanted.broker_pattern()

    def _assign_all(self, topics: Collection[str], found: Mapping[str, TopicInfo]) -> None:
        """Assign all partitions if there's no group. Partitions of a missing topic stay, because it may be created
        again."""
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
        """Return infinity for a topic that is subscribed by name, assigned, or read by members that this one leads: if
        it's deleted and created again, it will be read again."""
        needed = (
            topic in self.subscription.topics
            or (self.member is not None and self.member.watches(topic))
            or any(partition.topic == topic for partition in self.assignment.cursors)
        )
        return math.inf if needed else -math.inf

    async def wait_until_unsubscribed(self, timeout: float) -> None:
        """Wait until the member has left the group, and processed offsets are committed."""
        at = asyncio.get_running_loop().time() + timeout
        async with deadline_at(
            at, lambda: f"unsubscribe: {self.member and self.member.state}; it goes on in the background"
        ):
            while self.member is not None and not self.member.outside:
                await self.wait_for_change()
        try:
            await self._commit_given_up(_left(at))
        except KafkaError as error:
            log.warning("consumer: unsubscribing: %s", error)

    # The group

    @property
    def group_assigns(self) -> bool:
        """Whether the group assigns the partitions. If the application has chosen them, they're never taken away."""
        return self.subscription.partitions is None

    def group_metadata(self) -> GroupMetadata:
        """Return the consumer's identity in its group. Raises the same errors as :meth:`Consumer.group_metadata`."""
        self.admit(ASK)
        assert self.member is not None, "there is a group"
        # If there's no generation, the coordinator doesn't check anything. That is right only if the group doesn't
        # assign the partitions.
        # guard: a member without a generation has no identity
        if self.group_assigns and self.member.removed:
            raise CommitError(f"the consumer is in no generation of its group: {self.member.state}")
        return self.member.metadata

    def ownership_changed(self, partitions: Collection[TopicPartition]) -> None:
        """Forget the committed offsets of partitions that were assigned or revoked: other members may have committed
        since."""
        for partition in partitions:
            # If another member moves the offset, the offset here must not count as committed.
            self._committed.pop(partition, None)
        self._changed.set()

    async def commit_before_revoking(self, partitions: Collection[TopicPartition], timeout: float) -> None:
        """Commit the processed offsets of these partitions within ``timeout`` seconds, with ``enable_auto_commit``."""
        if self.config.enable_auto_commit:
            await self.commit_processed(timeout, partitions, last=True)

    async def _watch_progress(self, member: GroupMember) -> None:
        """Leave the group if the application stops requesting records, so other members get the partitions."""
        assert self.config.group is not None
        limit = self.config.group.max_poll_interval
        loop = asyncio.get_running_loop()
        seen: tuple[int, object] = (-1, None)
        since = loop.time()
        while True:
            await asyncio.sleep(min(limit / 4, 1.0))
            runner = self.assignment.runner
            # Compare `current` by identity too: `async for` doesn't call the reader for each record.
            now = (self.reader.requests, self.assignment.current)
            # While run() isn't taking records, its oldest call shows whether the application is alive.
            # guard: a run() whose buffers are full has not stalled -> self.reader.waiting
            waiting = self.reader.waiting or (runner is not None and runner.full)
            if waiting or now[0] != seen[0] or now[1] is not seen[1]:
                seen, since = now, loop.time()
            started_at = runner.oldest() if runner is not None else None
            if started_at is not None and loop.time() - started_at > limit and member.owned:
                reason = f"a handler has run for {loop.time() - started_at:.1f} s (max_poll_interval_ms)"
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
        """Commit offsets, one request at a time. Returns and raises the same as :meth:`Consumer.commit`."""
        assert self.member is not None
        if not offsets:
            return CommitResult({})
        # Partitions chosen by assign() don't belong to a generation.
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
        # Note them after the response: offsets that weren't committed are committed again. Note only assigned
        # partitions: the automatic commit doesn't include others.
        self._committed.update(
            {partition: position.offset for partition, position in result.committed.items() if partition in cursors}
        )
        return result

    async def _observed(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        commit: Coroutine[Any, Any, dict[TopicPartition, KafkaError]],
    ) -> CommitResult:
        """Carry out a commit, and report it along with the error of a partition, if there is one. A cancelled commit
        isn't reported."""
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
                # Allow at least 5 seconds. If the interval is short and the coordinator slow, every commit would time
                # out.
                await self.commit_processed(max(interval, 5.0))
                await self._commit_given_up(max(interval, 5.0))
            # A rebalance took the partitions. That's normal: their new owner continues from the last commit.
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
            # The Java client only logs it. But then a missing permission would go unnoticed until the next restart
            # repeats records.
            self._commit_refused = error
            self.reader.wake()

    async def commit_processed(
        self, timeout: float, among: Iterable[TopicPartition] | None = None, *, last: bool = False
    ) -> None:
        """Commit the processed offsets that aren't committed yet. ``last`` means that this is the last chance."""
        (await self.commit(self._processed(among, last=last), timeout)).check()

    def _processed(
        self, among: Iterable[TopicPartition] | None, *, last: bool
    ) -> dict[TopicPartition, OffsetAndMetadata]:
        offsets = self.assignment.committable(processed=True, among=None if among is None else set(among))
        snapshot = self.cluster.snapshot
        return {
            partition: position
            for partition, position in offsets.items()
            # Leave out deleted topics, which the coordinator would reject at every interval. For the last commit, let
            # the coordinator decide: brokers that lag may not know a topic for a while.
            if self._committed.get(partition) != position.offset
            and (last or snapshot.partition(*partition) is not None)
        }

    async def _commit_given_up(self, timeout: float) -> None:
        """Commit the processed offsets of partitions that were assigned by :meth:`assign` and no longer are."""
        if not self._given_up:
            return
        assert self.member is not None
        # Take them out first: assign() may add more during the await.
        offsets, self._given_up = self._given_up, {}
        try:
            (await self._observed(offsets, self.member.commit_from_outside(offsets, timeout))).check()
        except (DeadlineError, asyncio.CancelledError):
            # If a partition was assigned again, it was already sought to its offset.
            again = {each: position for each, position in offsets.items() if each not in self.assignment.cursors}
            self._given_up = again | self._given_up
            raise


async def _find_topics(
    cluster: ClusterClient, topics: Iterable[str]
) -> tuple[dict[str, TopicInfo], dict[str, KafkaError]]:
    """Look up topics. Return the existing topics, and errors for the others, which then don't hold anything up."""
    names = sorted(topics)
    # Look up all topics concurrently: with a hundred topics, each missing one would delay the others by seconds.
    answers = await asyncio.gather(*(cluster.topic(name) for name in names), return_exceptions=True)
    found: dict[str, TopicInfo] = {}
    failures: dict[str, KafkaError] = {}
    for name, answer in zip(names, answers, strict=True):
        if isinstance(answer, UnknownTopicError):
            detail = answer.detail or f"it does not exist, or this client may not see it; {_CREATE}"
            failures[name] = UnknownTopicError(answer.code, answer.context, detail)
        elif isinstance(answer, KafkaError):
            failures[name] = answer
        elif isinstance(answer, BaseException):
            raise answer
        else:
            found[name] = answer
    return found, failures
