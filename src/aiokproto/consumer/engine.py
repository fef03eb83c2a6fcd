"""What runs in the background of a consumer: the tasks, what the group says, and commits."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection, Coroutine, Iterable, Mapping
from contextlib import aclosing, asynccontextmanager
from inspect import isawaitable
from typing import Any

from aiokproto.cluster import Cluster, TopicInfo
from aiokproto.consumer.assignment import Assignment, Signals
from aiokproto.consumer.cursor import COMMITTED, EARLIEST
from aiokproto.consumer.fetcher import Fetcher
from aiokproto.consumer.locator import Locator
from aiokproto.consumer.offsets import OffsetLookup, names
from aiokproto.consumer.options import ConsumerConfig
from aiokproto.consumer.reader import Reader
from aiokproto.consumer.subscription import Listener, Subscription
from aiokproto.errors import ClientClosedError, CommitError, ConfigurationError, KafkaError, error_for
from aiokproto.group.coordinator import Change, ChangeKind, GroupCoordinator
from aiokproto.group.offsets import GroupRequests
from aiokproto.net.timeouts import deadline as until
from aiokproto.types import OffsetAndMetadata, TopicPartition

log = logging.getLogger("aiokproto.consumer")

_TOPIC_RETRY = 5.0
"""Seconds after which a subscribed topic that does not exist is looked for again."""


class Engine:
    """A consumer without its face.

    Attributes:
        cluster: Connections.
        assignment: The partitions, and what of them is handed out.
        reader: Hands out.
        lookup: Asks for offsets.
        fetcher: Supplies the assignment.
        member: The member of the group; None without a group.
        offsets: The group's offsets; None without a group.
        subscription: What the user wants.
    """

    def __init__(self, cluster: Cluster, config: ConsumerConfig, subscription: Subscription) -> None:
        self.cluster = cluster
        self.subscription = subscription
        self._config = config
        self.assignment = Assignment(Signals(self._changed, self._arrived, self._room))
        self.reader = Reader(self.assignment, config.check_crcs, self.check)
        self.lookup = OffsetLookup(cluster, config.fetch.read_committed)
        group = config.group
        self.offsets = GroupRequests(cluster, group.group_id) if group else None
        self.locator = Locator(cluster, self.assignment, self.lookup, self.offsets, config.auto_offset_reset)
        self.fetcher = Fetcher(cluster, self.assignment, config.fetch, self.locator.reset)
        self.member = GroupCoordinator(cluster, group, config.assignors) if group else None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failure: BaseException | None = None
        self._trouble: KafkaError | None = None
        self._closed = ClientClosedError("the consumer was not started")
        self._running = False
        self._closing = False
        self._moved = asyncio.Event()
        self._follow = asyncio.Event()
        self._committing = asyncio.Lock()
        self._committed: dict[TopicPartition, int] = {}

    # Signals

    def _changed(self) -> None:
        self._moved.set()
        self.fetcher.wake()
        self.locator.wake()
        self.reader.wake()

    def _arrived(self) -> None:
        self._moved.set()
        self.reader.wake()

    def _room(self) -> None:
        self.fetcher.room()

    async def moved(self) -> None:
        """Wait until something has happened to the assignment."""
        self._moved.clear()
        await self._moved.wait()
        self.check_running()

    def set_subscription(self, subscription: Subscription) -> None:
        """Read something else from now on."""
        self.subscription = subscription
        self._trouble = None
        if subscription.partitions is not None:
            self.assignment.remove(self.assignment.cursors.keys() - subscription.partitions)
            self.assignment.add(sorted(subscription.partitions), COMMITTED)
        self._follow.set()

    # Life

    @property
    def running(self) -> bool:
        """Whether it is between start and close."""
        return self._running

    def check_running(self) -> None:
        """Raise what keeps the consumer from doing anything: it is closed, or one of its tasks has ended."""
        if self._failure is not None:
            if isinstance(self._failure, KafkaError):
                raise self._failure.with_traceback(None)
            raise ClientClosedError(f"the consumer is broken: {self._failure!r}") from self._failure
        if not self._running:
            raise ClientClosedError(str(self._closed))

    def check(self) -> None:
        """As :meth:`check_running`, for who wants records."""
        self.check_running()
        if self._closing:
            raise ClientClosedError(str(self._closed))
        if asyncio.current_task() is self._tasks.get("group"):
            raise RuntimeError("records cannot be asked for in a rebalance callback: it keeps them from coming")
        if not self.subscription.by_topic and self.subscription.partitions is None:
            raise ConfigurationError("there is nothing to read: subscribe() or assign() first")
        if self._trouble is not None:
            # Once for each attempt to find the topics: what else is subscribed is not held up.
            trouble, self._trouble = self._trouble, None
            raise trouble.with_traceback(None)
        if self.member is not None:
            self.member.come_back()

    async def start(self) -> None:
        """Connect and begin. Raises what keeps it from that; then it is closed again."""
        if self._running or self._closed.args != ("the consumer was not started",):
            raise ClientClosedError("a consumer is started once")
        try:
            await self.cluster.start()
            self._running = True
            await self._resolve(self.subscription)
        except BaseException:
            self._running = False
            self._closed = ClientClosedError("the consumer could not be started")
            await self.cluster.close()
            raise
        self._spawn("fetch", self.fetcher.run())
        self._spawn("locate", self.locator.run())
        self._spawn("metadata", self._watch_cluster())
        self._spawn("subscription", self._follow_subscription())
        if self.member is not None:
            self._spawn("group", self._serve_group(self.member))
            self._spawn("progress", self._watch_progress(self.member))
            if self._config.enable_auto_commit:
                self._spawn("commit", self._auto_commit())

    def _spawn(self, name: str, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks[name] = asyncio.create_task(work, name=f"aiokproto-consumer-{name}")
        task.add_done_callback(lambda done: self._ended(name, done))

    def _ended(self, name: str, task: asyncio.Task[None]) -> None:
        """A task has ended, which none does by itself: nothing may go on as if it still ran."""
        error = None if task.cancelled() else task.exception()
        if self._closing or not self._running or self._failure is not None:
            return
        self._failure = error or ClientClosedError(f"the consumer's {name} task was cancelled")
        log.error("consumer: the %s task has ended: %s", name, self._failure)
        self.assignment.stop()
        self._changed()

    async def close(self, timeout: float, *, finished: bool) -> None:
        """End it within ``timeout`` seconds; ``finished``: what is in hand counts as worked off."""
        if not self._running or self._closing:
            return
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        if asyncio.current_task() in self._tasks.values():
            raise RuntimeError("a consumer cannot be closed in a rebalance callback")
        self._closing = True
        self._closed = ClientClosedError("the consumer is closed")
        if finished:
            self.assignment.put_down()
        self.assignment.stop()
        self.reader.wake()
        self._moved.set()
        try:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.wait(self._tasks.values(), timeout=max(deadline - loop.time(), 0))
            if self.member is not None:
                await self._say_goodbye(self.member, deadline)
        finally:
            self._running = False
            await self.cluster.close(timeout=min(max(deadline - loop.time(), 0.1), 5.0))

    async def _say_goodbye(self, member: GroupCoordinator, deadline: float) -> None:
        """Commit, tell the user what is revoked, leave; each as far as the time allows."""
        loop = asyncio.get_running_loop()
        if self._config.enable_auto_commit:
            try:
                await self._commit_finished(max(deadline - loop.time(), 0.1) / 2)
            except KafkaError as error:
                log.warning("consumer: closing: %s", error)
        try:
            if member.owned:
                left = max(deadline - loop.time(), 0.1)
                await asyncio.wait_for(self._tell(self.subscription.on_revoked, sorted(member.owned)), left)
        except asyncio.TimeoutError:
            log.warning("consumer: closing: on_revoked took too long")
        finally:
            # Whatever the callback raised: others are waiting for the partitions.
            await member.leave("the consumer is closed", timeout=min(max(deadline - loop.time(), 0.1), 3.0))

    # Following the subscription

    async def _watch_cluster(self) -> None:
        generation = -1
        while True:
            snapshot = await self.cluster.changed(generation)
            generation = snapshot.generation
            if self.member is not None:
                self.member.look(snapshot)
            elif self.subscription.by_topic:
                self._follow.set()
            self.fetcher.wake()
            self.locator.wake()

    async def _follow_subscription(self) -> None:
        """Carry out what the user wants, and see to it when the cluster's topics change."""
        while True:
            self._follow.clear()
            wanted = self.subscription
            again: float | None = None
            try:
                await self._resolve(wanted)
                self._trouble = None
                if wanted.pattern is not None:
                    again = self.cluster.config.metadata_max_age
            except KafkaError as error:
                if wanted is self.subscription:
                    self._trouble = error
                    self.reader.wake()
                again = _TOPIC_RETRY
            try:
                await asyncio.wait_for(self._follow.wait(), again)
            except asyncio.TimeoutError:
                continue

    async def _resolve(self, wanted: Subscription) -> None:
        """Find out about the topics, and say what to read of them."""
        topics = wanted.topics
        if wanted.pattern is not None:
            topics = wanted.matching(await self.cluster.topics())
        if wanted.partitions is not None:
            topics = frozenset(partition.topic for partition in wanted.partitions)
        found, failures = await self._find(topics)
        if wanted is not self.subscription:
            return
        if wanted.partitions is None:
            if self.member is not None:
                self.member.set_topics(topics)
            else:
                self._assign_all(topics, found)
        # Partitions that are assigned say by themselves that their topic is gone.
        known = {partition.topic for partition in self.assignment.cursors}
        for name, failure in failures.items():
            if name not in known or not self._tasks:
                raise failure

    async def _find(self, topics: Iterable[str]) -> tuple[dict[str, TopicInfo], dict[str, KafkaError]]:
        """The topics, and why some of them are not to be had: those do not hold up the others."""
        names = sorted(topics)
        answers = await asyncio.gather(*(self.cluster.topic(name) for name in names), return_exceptions=True)
        found: dict[str, TopicInfo] = {}
        failures: dict[str, KafkaError] = {}
        for name, answer in zip(names, answers, strict=True):
            if isinstance(answer, KafkaError):
                failures[name] = answer
            elif isinstance(answer, BaseException):
                raise answer
            else:
                found[name] = answer
        return found, failures

    def _assign_all(self, topics: Collection[str], found: Mapping[str, TopicInfo]) -> None:
        """Without a group: read every partition. Those of a topic that is missing wait for it to come back."""
        everything = {
            TopicPartition(name, number) for name, info in found.items() for number in range(len(info.partitions))
        }
        cursors = self.assignment.cursors
        waiting = {partition for partition in cursors if partition.topic in topics and partition.topic not in found}
        known = {partition.topic for partition in cursors}
        self.assignment.remove(cursors.keys() - everything - waiting)
        for partition in sorted(everything - cursors.keys()):
            # What was written to a partition before anyone could know of it is not to be skipped.
            self.assignment.add([partition], EARLIEST if partition.topic in known else COMMITTED)

    async def unsubscribed(self) -> None:
        """Wait until the group has taken note that nothing is subscribed."""
        while self.member is not None and not self.member.outside:
            await self.moved()
        if self.member is None or not self.subscription.by_topic:
            self.assignment.remove(list(self.assignment.cursors))

    # The group

    async def _serve_group(self, member: GroupCoordinator) -> None:
        async with aclosing(member.changes()) as changes:
            async for change in changes:
                await self._carry_out(change)
                self._moved.set()

    async def _carry_out(self, change: Change) -> None:
        """Do what the group says. What is handed out and committed follows from here alone."""
        partitions = change.partitions
        wanted = self.subscription
        if change.kind is ChangeKind.ASSIGN:
            self.assignment.add(partitions, COMMITTED, held="being assigned")
            await self._tell(wanted.on_assigned, partitions)
            self.assignment.release(partitions)
        elif change.kind is ChangeKind.LOST:
            self.assignment.remove(partitions)
            await self._tell(wanted.on_lost or wanted.on_revoked, partitions)
        else:
            await self._finish(partitions, change.deadline)
            # Finishing may have taken so long that the group went on without this member.
            expelled = self.member is not None and self.member.expelled
            listener = wanted.on_lost if expelled and wanted.on_lost else wanted.on_revoked
            await self._tell(listener, partitions)
            self.assignment.remove(partitions)
        for partition in partitions:
            self._committed.pop(partition, None)

    async def _finish(self, partitions: list[TopicPartition], deadline: float) -> None:
        """Stop handing out, let the user finish what is in hand, and commit it."""
        loop = asyncio.get_running_loop()
        self.assignment.hold(partitions, "being revoked")
        while not self.assignment.in_hand().keys().isdisjoint(partitions):
            if loop.time() >= deadline:
                log.warning("consumer: %s revoked with records in hand that took too long", names(partitions))
                break
            await self.reader.put_down(deadline)
        if self._config.enable_auto_commit:
            try:
                await self._commit_finished(max(deadline - loop.time(), 1.0), partitions)
            except KafkaError as error:
                log.warning("consumer: commit before %s are revoked: %s", names(partitions), error)

    async def _tell(self, listener: Listener | None, partitions: list[TopicPartition]) -> None:
        if listener is not None:
            result = listener(list(partitions))
            if isawaitable(result):
                await result

    async def _watch_progress(self, member: GroupCoordinator) -> None:
        """Leave the group when nobody asks for records any more: others can read them meanwhile."""
        assert self._config.group is not None
        limit = self._config.group.max_poll_interval
        loop = asyncio.get_running_loop()
        seen: tuple[int, object] = (-1, None)
        since = loop.time()
        while True:
            await asyncio.sleep(min(limit / 4, 1.0))
            now = (self.reader.asked, self.assignment.hand)
            if self.reader.waiting or now[0] != seen[0] or now[1] is not seen[1]:
                seen, since = now, loop.time()
            elif loop.time() - since > limit and member.owned:
                reason = f"no record was asked for in {loop.time() - since:.1f} s (max_poll_interval_ms)"
                log.warning("consumer: %s: leaving group %s until one is", reason, self._config.group.group_id)
                member.step_away(reason)
                since = loop.time()

    # Commits

    async def commit(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float) -> None:
        """Commit, one request after the other. Raises as :meth:`Consumer.commit`."""
        assert self.offsets is not None
        assert self.member is not None
        if not offsets:
            return
        deadline = asyncio.get_running_loop().time() + timeout
        async with self._turn_to_commit(deadline):
            left = deadline - asyncio.get_running_loop().time()
            if self.subscription.partitions is None:
                await self.member.commit(offsets, left)
            else:
                _, codes = await self.offsets.commit(offsets, None, left)
                for partition, code in codes.items():
                    if code:
                        raise error_for(code, f"OffsetCommit of group {self.offsets.group_id!r} for {partition}")
        self._committed.update({partition: position.offset for partition, position in offsets.items()})

    @asynccontextmanager
    async def _turn_to_commit(self, at: float) -> AsyncIterator[None]:
        """Wait until no other commit is under way, until that loop time."""
        async with until(at, lambda: "OffsetCommit: another commit is still under way"):
            await self._committing.acquire()
        try:
            yield
        finally:
            self._committing.release()

    async def _auto_commit(self) -> None:
        interval = self._config.auto_commit_interval
        while True:
            await asyncio.sleep(interval)
            try:
                await self._commit_finished(max(interval, 5.0))
            except CommitError as error:
                log.info("consumer: commit: %s", error)
            except KafkaError as error:
                log.warning("consumer: commit, will be repeated: %s", error)

    async def _commit_finished(self, timeout: float, among: Iterable[TopicPartition] | None = None) -> None:
        """Commit what is finished and not committed yet."""
        finished = self.assignment.committable(finished=True, among=None if among is None else set(among))
        await self.commit(
            {
                partition: position
                for partition, position in finished.items()
                if self._committed.get(partition) != position.offset
            },
            timeout,
        )
