"""The engine of a share consumer: its tasks, the subscription, the group member, and acknowledgements."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine, Iterable
from typing import TYPE_CHECKING, Any

from aiokproto.application.gates import DELIVER, Obstacle
from aiokproto.cluster import ClusterClient
from aiokproto.cluster.lifecycle import DISCONNECT, Lifecycle
from aiokproto.errors import AuthorizationError, ConfigurationError, KafkaError
from aiokproto.group.leaving import leave_group
from aiokproto.group.share_member import ShareMember
from aiokproto.observe.observers import ShareObserver
from aiokproto.running.runner import RunTotals
from aiokproto.runtime.timeouts import deadline_at, wait_until
from aiokproto.share.acknowledgement import Acknowledgement, AcknowledgeOutcome
from aiokproto.share.buffer import AcquireLimit, ShareBuffer
from aiokproto.share.config import ShareConfig
from aiokproto.share.fetcher import ShareFetcher
from aiokproto.share.ledger import Ended, QueuedAck, RecordState, ShareRecord
from aiokproto.share.outcomes import Outcomes
from aiokproto.share.reader import ShareReader
from aiokproto.share.report import metric_source
from aiokproto.share.requests import Member
from aiokproto.texts import counted
from aiokproto.types import TopicPartition

if TYPE_CHECKING:
    from aiokproto.share.runner import ShareRunner

log = logging.getLogger("aiokproto.share")

_TOPIC_RETRY = 5.0
"""Seconds between lookups of a subscribed topic that doesn't exist."""

_SILENT_FOR = 5.0
"""If a call has been waiting this many seconds without a record, and something is wrong, the cause is logged."""

_REPEATED_AFTER = 30.0
"""Seconds until the same cause is logged again."""


class ShareEngine(Lifecycle):
    """The share consumer below its public API. It creates the parts, and owns the tasks.

    Attributes:
        config: The options.
        subscription: The subscribed topics.
        buffer: Records that are acquired but not delivered.
        limit: How many records to acquire at once.
        observer: Counts fetches, delivery, acknowledgements and assignments.
        reader: Delivers records.
        fetcher: The share sessions.
        member: The group member.
        most_wanted: Maximum number of records that the application can take now; None to use ``max_poll_records``.
        runner: The call of :meth:`ShareConsumer.run`; None while there is none.
    """

    def __init__(self, cluster: ClusterClient, config: ShareConfig, topics: frozenset[str]) -> None:
        super().__init__("share consumer", cluster, log)
        self.config = config
        self.subscription = topics
        self.observer = ShareObserver(cluster.config.hooks)
        self.runs = RunTotals()
        self.limit = AcquireLimit(config.fetch.max_records)
        self.buffer = ShareBuffer(self.limit)
        self.outcomes = Outcomes(config.on_acknowledged, self.observer)
        self.most_wanted: int | None = None
        self.runner: ShareRunner | None = None
        self.reader = ShareReader(self, self.buffer, config.damaged, self.observer, cluster.config.interceptors)
        self.fetcher = ShareFetcher(self, cluster, config)
        self.member = ShareMember(cluster, config.group_id, cluster.config.client_rack, self._assigned)
        self._assignment: frozenset[TopicPartition] = frozenset()
        self._problem: KafkaError | None = None
        self._follow = asyncio.Event()

    # What the sessions ask

    def demand(self, served: int) -> int | None:
        """Return the sequence number of the application's last request for records, if it needs a fetch; else None.

        A waiting request needs fetches until it has records. A request that doesn't wait needs one fetch from each
        broker; ``served`` is the last request that the broker received a fetch for.
        """
        reader = self.reader
        # guard: a share fetch is sent when records are wanted
        #     -> self.buffer or self._closing or reader.requests == served
        if self.buffer or self._closing or not (reader.waiting or (reader.unmet and reader.requests != served)):
            return None
        return reader.requests

    def wanted_records(self) -> int:
        """Return how many records a request may acquire."""
        return self.limit.current if self.most_wanted is None else min(self.limit.current, self.most_wanted)

    def arrived(self) -> None:
        """Note that records have arrived in the buffer."""
        self.reader.wake()

    def acks_ended(self, ended: Iterable[Ended]) -> None:
        """Note that acknowledgements have an outcome."""
        self.outcomes.ended(ended)

    def partition_failed(self, error: KafkaError) -> None:
        """Note that a partition can't be read. The next read raises the error."""
        self.reader.fail(error)

    def identity(self) -> Member:
        """Return the member that the sessions send requests as."""
        return Member(self.config.group_id, self.member.member_id)

    # The subscription and the group

    def set_subscription(self, topics: frozenset[str]) -> None:
        """Replace the subscribed topics. Buffered records of other topics are released."""
        self.subscription = topics
        self._problem = None
        self._place()
        self._follow.set()

    def _assigned(self, partitions: frozenset[TopicPartition]) -> None:
        added, removed = partitions - self._assignment, self._assignment - partitions
        self._assignment = partitions
        if removed:
            self.observer.rebalanced("lost" if self.member.removed else "revoked", sorted(removed))
        if added:
            self.observer.rebalanced("assigned", sorted(added))
        self._place()

    def _place(self) -> None:
        if not self._running:
            return
        wanted = {partition for partition in self._assignment if partition.topic in self.subscription}
        self.fetcher.assign(wanted)
        self.acknowledge_rest(self.reader.drop_kept(self.subscription), Acknowledgement.RELEASE)
        # Deliver records of subscribed topics even if the group has moved the partition: their locks are held, and a
        # release would use up a delivery.
        self.buffer.release_if(
            lambda part: part.lock.acquired.partition.topic not in self.subscription,
            asyncio.get_running_loop().time(),
        )
        self.fetcher.wake()

    @property
    def assignment(self) -> frozenset[TopicPartition]:
        """The assigned partitions of subscribed topics."""
        return self.fetcher.assigned

    async def _watch_cluster(self) -> None:
        generation = -1
        while True:
            snapshot = await self.cluster.metadata.wait_for_update(generation)
            generation = snapshot.generation
            self.fetcher.metadata_changed()

    async def _follow_subscription(self) -> None:
        """Report the subscription to the group, and look up its topics, repeatedly if any are missing."""
        while True:
            self._follow.clear()
            wanted = self.subscription
            again: float | None = None
            try:
                await self._resolve(wanted)
                self._problem = None
            except KafkaError as error:
                if wanted is self.subscription:
                    self._problem = error
                    self.reader.wake()
                again = _TOPIC_RETRY
            await wait_until(self._follow, None if again is None else asyncio.get_running_loop().time() + again)

    async def _resolve(self, topics: frozenset[str]) -> None:
        """Report topics to the member, and make the cluster metadata include them. If topics fail, raise the first
        error."""
        self.member.set_topics(topics)
        answers = await asyncio.gather(*(self.cluster.topic(name) for name in sorted(topics)), return_exceptions=True)
        if refused := [answer for answer in answers if isinstance(answer, AuthorizationError)]:
            raise AuthorizationError.together(refused)
        for answer in answers:
            if isinstance(answer, BaseException):
                raise answer
        self.fetcher.metadata_changed()

    # Acknowledgements

    def acknowledge(self, record: ShareRecord, kind: Acknowledgement) -> bool:
        """Acknowledge a delivered record. Return False if that's no longer possible."""
        acquired = record._lock.acquired
        idle = acquired.queued_at is None
        now = asyncio.get_running_loop().time()
        if kind is Acknowledgement.RENEW:
            result = acquired.renew(record, now, reported=True)
            idle = True
        else:
            result = acquired.acknowledge(record, kind, now)
        if isinstance(result, QueuedAck):
            self.queued(result, wake=idle)
            return True
        if isinstance(result, Ended):
            self.outcomes.ended([result])
            if self._closing and not self._running:
                # If a handler has outlived close(), report it here: the task that would do it has ended.
                self._report_last()
        return False

    def queued(self, ack: QueuedAck, wake: bool = True) -> None:
        """Note that an acknowledgement is queued. With ``wake``, wake its session."""
        self.outcomes.queued(ack)
        if wake:
            # Wake the sessions only once for all acknowledgements until the next request.
            self.fetcher.wake()

    def acknowledge_rest(self, records: Iterable[ShareRecord], kind: Acknowledgement) -> None:
        """Acknowledge any of the records that the application hasn't acknowledged itself."""
        for record in records:
            if record._state is RecordState.HELD and record.acknowledgement is None:
                self.acknowledge(record, kind)

    async def commit(self, timeout: float) -> list[AcknowledgeOutcome]:
        """Send all acknowledgements, and return their outcomes."""
        at = asyncio.get_running_loop().time() + timeout
        commit = self.outcomes.commit()
        try:
            self.fetcher.flush()
            async with deadline_at(at, lambda: f"commit: {counted(commit.left, 'acknowledgement')} without an outcome"):
                await self._unless_failed(commit.wait)
            return commit.result()
        finally:
            self.outcomes.end(commit)

    async def _unless_failed(self, wait: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Wait, but raise if the consumer fails in the meantime."""
        waiting = asyncio.ensure_future(wait())
        try:
            await asyncio.wait([waiting, *self._tasks.values()], return_when=asyncio.FIRST_COMPLETED)
            if not waiting.done():
                # A task has ended, and the consumer with it. Let the task's callback record why.
                await asyncio.sleep(0)
                self.check_running()
        finally:
            waiting.cancel()

    # Lifecycle

    def _other_obstacles(self) -> Iterable[Obstacle]:
        return () if self.runner is None else (Obstacle.RUN,)

    def check(self) -> None:
        """Raise if records can't be delivered, even to :meth:`ShareConsumer.run`, or if a background task has
        failed."""
        self.admit(DELIVER)
        if not self.subscription:
            raise ConfigurationError("there is nothing to read: subscribe() first")
        if self._problem is not None:
            # Raise it only once per attempt to find the topics, so the other topics can still be read.
            problem, self._problem = self._problem, None
            raise problem.with_traceback(None)

    async def start(self) -> None:
        """Connect and start the tasks. If that fails, close the consumer again and raise the cause."""
        await self._connect(lambda: self._resolve(self.subscription))
        self._spawn("fetch", self.fetcher.run())
        self._spawn("metadata", self._watch_cluster())
        self._spawn("subscription", self._follow_subscription())
        self._spawn("group", self.member.run())
        self._spawn("outcomes", self.outcomes.report())
        self._spawn("silence", self._watch_silence())
        self.cluster.push_metrics(metric_source(self))

    def _failed(self) -> None:
        self.reader.wake()

    async def close(self, timeout: float) -> None:
        """Send all acknowledgements, release the remaining records, and leave the group, within ``timeout`` seconds."""
        if not await self._can_close(timeout):
            return
        if self.runner is not None:
            self.runner.check_outside("close()")
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout

        def left() -> float:
            return max(deadline - loop.time(), 0.0)

        self._start_closing()
        self.reader.stop()
        in_time = False
        try:
            if self.runner is not None:
                await self.runner.finish(deadline - left() / 2)
            await self._end_tasks(left() / 4)
            await self.fetcher.close(left() / 2)
            in_time = True
        finally:
            # If cancelled, don't wait.
            try:
                self.fetcher.abandon()
                self._report_last()
                # Leave the group: other members don't get all partitions while this member stays in it.
                wait = in_time and left() > 0
                await leave_group(self.member.leave(1000 * (min(left(), 3.0) or 3.0)), wait=wait)
                await self.fetcher.wait_closed()
            finally:
                self._running = False
                await self.cluster.close(timeout=min(left(), DISCONNECT) if in_time else 0.0)

    def _report_last(self) -> None:
        try:
            self.outcomes.report_now()
        except Exception:
            log.exception("share consumer: closing: on_acknowledged failed")

    async def _watch_silence(self) -> None:
        """Log why a waiting call isn't getting records, if something is wrong."""
        loop = asyncio.get_running_loop()
        seen, since, logged, logged_at = (-1, -1), loop.time(), "", 0.0
        while True:
            now = loop.time()
            current = (self.reader.delivered, 0 if self.reader.waiting else self.reader.requests)
            if current != seen:
                seen, since, logged = current, now, ""
            cause = self.member.problem or next(iter(self.fetcher.problems()), "")
            silent = self.reader.waiting and now - since >= _SILENT_FOR
            if silent and cause and (cause != logged or now - logged_at >= _REPEATED_AFTER):
                log.warning("share consumer: no record in %.0f s: %s", now - since, cause)
                logged, logged_at = cause, now
            await asyncio.sleep(_SILENT_FOR)
