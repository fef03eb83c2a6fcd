"""The share session with one broker: it fetches, acknowledges and renews, with one request at a time.

The session's epoch doesn't allow a second request in flight. The next request is the first of these that applies:

1. Renewals that are due, in a separate request (see ``ledger``).
2. A ShareFetch, if the application is waiting for records; it includes all acknowledgements that are due by then.
    Records are never fetched ahead: their locks would expire while they wait, and use up deliveries.
3. A ShareAcknowledge, if acknowledgements have waited for ``acknowledge_linger_ms``, or a commit is waiting for them.
4. An empty ShareAcknowledge, if the connection would otherwise be closed as idle, which would release the locked
    records.

A lock's time is counted from when the request was sent. The broker's lock starts later, so this side gives it up first.
A fetch may wait for at most a quarter of the lock's duration, to leave most of it when the records arrive.

If the outcome of a request is unknown, or a whole response is an error, the session ends: see ``session``.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages import share_acknowledge, share_fetch
from aiokproto.codec.messages.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
from aiokproto.codec.messages.share_fetch import ShareFetchRequest, ShareFetchResponse
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ClientClosedError, KafkaError, UnsupportedVersionError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.fetched.time_slice import TimeSlice
from aiokproto.runtime.timeouts import wait_until
from aiokproto.share.buffer import FetchedPart, acquired_ranges, release
from aiokproto.share.config import ShareConfig
from aiokproto.share.ledger import AcquiredPartition, AcquisitionLock, Ended, QueuedAck, is_divisible
from aiokproto.share.requests import Acks, share_acknowledge_request, share_fetch_request
from aiokproto.share.session import FINAL_EPOCH, ShareSessionHandler, TopicIdPartition
from aiokproto.texts import counted, repr_of
from aiokproto.types import TopicPartition

if TYPE_CHECKING:
    from aiokproto.share.engine import ShareEngine

log = logging.getLogger("aiokproto.share")

CHANNEL = "share"
"""The connection for share sessions. They use their own, because the broker delays the responses to fetches."""

MAX_ACKS = 5000
"""Maximum number of acknowledgements per request. Encoding that many and handling their outcomes takes a few
milliseconds. The rest go into the next request, which is sent immediately."""

_FIRST_VERSION = 1
"""The lowest supported version of ShareFetch, introduced in Kafka 4.1. Version 0 was a preview, and doesn't say how
long records are locked."""

_RENEW_VERSION = 2
"""The first version of ShareAcknowledge that can renew locks (KIP-1222)."""

_SHORTEST_LOCK = 1.0
"""The shortest acquisition lock that a broker can be configured for, in seconds."""

_LATE = 2.0
"""A broker is reported as not responding if it's this many seconds over the wait of a fetch."""

_FETCH = Situation(ShareFetchRequest.api_key)
_ACKNOWLEDGE = Situation(ShareAcknowledgeRequest.api_key)


class _Suspension(NamedTuple):
    """A partition that is left out of fetches for a while.

    Attributes:
        until: The loop time when it ends.
        attempts: The number of consecutive refusals.
        error: Why the broker refused it.
    """

    until: float
    attempts: int
    error: str


class BrokerSession:
    """The share session with one broker, for as long as the consumer is running.

    Attributes:
        node: The broker's id.
        failure: Why the last request failed; empty if it didn't.
    """

    def __init__(self, engine: ShareEngine, node: int, cluster: ClusterClient, config: ShareConfig) -> None:
        self.node = node
        self.failure = ""
        self._cluster = cluster
        self._config = config
        self._engine = engine
        self._handler = ShareSessionHandler()
        self._wanted: dict[TopicIdPartition, TopicPartition] = {}
        self._acquired: dict[TopicIdPartition, AcquiredPartition] = {}
        self._suspended: dict[TopicIdPartition, _Suspension] = {}
        self._lock_duration = _SHORTEST_LOCK
        self._can_renew = False
        self._served = -1
        self._failures = 0
        self._retry_at = 0.0
        # Consecutive fetches that came back immediately without records, and the earliest loop time for the next fetch.
        self._empty = 0
        self._fetch_at = 0.0
        self._flushing = False
        self._closing = False
        self._requested_at: float | None = None
        self._sent_at = 0.0
        self._fetched_bytes = self._fetched_records = 0
        # Acknowledgements that were sent but have no outcome yet.
        self._in_flight: dict[TopicIdPartition, Sequence[QueuedAck]] = {}
        self._wake = asyncio.Event()

    # Calls of the consumer

    def place(self, partitions: Mapping[TopicIdPartition, TopicPartition], moved: Iterable[TopicIdPartition]) -> None:
        """Fetch these partitions. Partitions that have ``moved`` to another broker no longer have locked records."""
        self._wanted = dict(partitions)
        for key in moved:
            self._lose_leadership(key)
        self._wake.set()

    def _lose_leadership(self, key: TopicIdPartition) -> None:
        """Note that another broker now leads a partition, so its records are no longer locked."""
        if (acquired := self._acquired.pop(key, None)) is not None:
            error = error_for(
                ErrorCode.NOT_LEADER_OR_FOLLOWER,
                str(acquired.partition),
                f"broker {self.node}, from which the records were acquired, is not the leader any more",
            )
            self._engine.acks_ended(acquired.lose(error))

    @property
    def holds(self) -> frozenset[TopicIdPartition]:
        """The partitions that may have locked records."""
        return frozenset(self._acquired)

    def wake(self) -> None:
        """Check again what to send: records are wanted, or were acknowledged."""
        self._wake.set()

    def flush(self) -> None:
        """Send all acknowledgements now."""
        self._flushing = True
        self._wake.set()

    @property
    def acquired(self) -> Iterable[AcquiredPartition]:
        """The partitions with records that this member has acquired from the broker."""
        return self._acquired.values()

    def problems(self) -> list[str]:
        """Return why the broker, or any of its partitions, isn't delivering records."""
        if self.failure:
            return [self.failure]
        since = self._requested_at
        if since is not None and asyncio.get_running_loop().time() - since > self._config.fetch.max_wait + _LATE:
            return [f"broker {self.node} does not respond"]
        return [suspension.error for key, suspension in self._suspended.items() if key in self._wanted]

    # The loop

    async def run(self) -> None:
        """Run until cancelled or closed. Raises errors that end the consumer."""
        loop = asyncio.get_running_loop()
        try:
            while not self._closing:
                self._wake.clear()
                now = loop.time()
                self._expire(now)
                if self._retry_at > now:
                    await wait_until(self._wake, self._retry_at)
                elif not await self._step(now):
                    await wait_until(self._wake, self._next_due(now))
        except Exception as error:
            # Give all sent acknowledgements an outcome now: the application may never close the consumer.
            bug = ClientClosedError(f"the share session has failed: {repr_of(error)}")
            self._end_session(error if isinstance(error, KafkaError) else bug)
            raise

    async def _step(self, now: float) -> bool:
        """Send the next request if one is due. Return whether it was."""
        if self._handler.is_open and (renewals := self._take_renewals(now)):
            await self._acknowledge(renewals, renew=True)
            return True
        # Send these acknowledgements first: the broker may have no records to acquire until it has received all of
        # them, which would make a fetch wait.
        many = sum(each.queued for each in self._acquired.values()) > MAX_ACKS
        demand = None if many else self._engine.demand(self._served)
        if demand is not None and (keys := self._fetchable(now)):
            self._served = demand
            await self._fetch(keys, now)
            return True
        if (self._acks_due(now) or many) and (acks := self._take_acks(now)):
            await self._acknowledge(acks)
            return True
        if (at := self._keep_alive_at()) is not None and at <= now:
            await self._acknowledge({})
            return True
        return False

    def _keep_alive_at(self) -> float | None:
        """Return when a request is due to keep the connection from being idle for too long; None if no records are
        locked."""
        if not self._handler.is_open or not (self._engine.buffer or any(each.held for each in self._acquired.values())):
            return None
        return self._sent_at + self._cluster.config.connections_max_idle / 2

    def _fetchable(self, now: float) -> dict[TopicIdPartition, TopicPartition]:
        if self._fetch_at > now:
            return {}
        return {
            key: partition
            for key, partition in self._wanted.items()
            if key not in self._suspended or self._suspended[key].until <= now
        }

    def _acks_due(self, now: float) -> bool:
        times = [each.queued_at for each in self._acquired.values() if each.queued_at is not None]
        if not times:
            self._flushing = False
            return False
        return self._flushing or min(times) + self._config.linger <= now

    def _next_due(self, now: float) -> float | None:
        times: list[float | None] = [self._engine.buffer.next_check(now), self._keep_alive_at()]
        for acquired in self._acquired.values():
            times.append(acquired.next_expiry())
            if self._config.renew and self._can_renew:
                times.append(acquired.next_renewal(self._config.max_processing))
            if acquired.queued_at is not None:
                due = now if self._flushing else acquired.queued_at + self._config.linger
                times.append(max(due, acquired.retry_at))
        if self._engine.demand(self._served) is not None:
            times += [each.until for key, each in self._suspended.items() if key in self._wanted and each.until > now]
            if self._fetch_at > now:
                times.append(self._fetch_at)
        return min((each for each in times if each is not None), default=None)

    def _expire(self, now: float) -> None:
        self._engine.buffer.drop_lost(now)
        for acquired in self._acquired.values():
            if count := acquired.forget_expired(now):
                self._engine.observer.expired += count
                log.warning(
                    "share consumer: %s: the locks of %s expired before they were acknowledged",
                    acquired.partition,
                    counted(count, "record"),
                )

    # Acknowledgements

    def _take_acks(self, now: float) -> dict[TopicIdPartition, list[QueuedAck]]:
        found: dict[TopicIdPartition, list[QueuedAck]] = {}
        most = MAX_ACKS
        for key, acquired in self._acquired.items():
            acks, ended = acquired.take(now, most)
            most -= len(acks) + len(ended)
            self._engine.acks_ended(ended)
            if acks:
                found[key] = acks
        return found

    def _take_renewals(self, now: float) -> dict[TopicIdPartition, list[QueuedAck]]:
        found: dict[TopicIdPartition, list[QueuedAck]] = {}
        most = MAX_ACKS
        for key, acquired in self._acquired.items():
            if self._config.renew and self._can_renew:
                for record in acquired.due_renewals(now, self._config.max_processing):
                    acquired.renew(record, now, reported=False)
            acks, ended = acquired.take_renewals(now, most)
            most -= len(acks) + len(ended)
            self._engine.acks_ended(ended)
            if acks:
                found[key] = acks
        if found and not self._can_renew:
            error = UnsupportedVersionError(f"broker {self.node} cannot renew locks: that needs Kafka 4.2 (KIP-1222)")
            self._engine.acks_ended(Ended(ack, error) for acks in found.values() for ack in acks)
            return {}
        return found

    async def _acknowledge(
        self, acks: Acks, *, renew: bool = False, final: bool = False, timeout: float | None = None
    ) -> None:
        sent_at = asyncio.get_running_loop().time()
        epoch = FINAL_EPOCH if final else self._handler.epoch
        request = share_acknowledge_request(self._engine.identity(), epoch, acks, renew=renew)
        most = self._cluster.config.request_timeout
        response = await self._send(request, acks, most if timeout is None else min(timeout, most))
        if not isinstance(response, ShareAcknowledgeResponse):
            return
        code = ErrorCode(response.error_code)
        if code:
            asked = self._cluster.asked(ShareAcknowledgeRequest, group=self._config.group_id)
            self._lost(error_for(code, f"ShareAcknowledge to broker {self.node}", response.error_message, asked))
            return
        self._succeeded(response.acquisition_lock_timeout_ms)
        parts = {
            (topic.topic_id, part.partition_index): part for topic in response.responses for part in topic.partitions
        }
        for key, of_partition in acks.items():
            part = parts.get(key)
            self._answered(key, of_partition, part.error_code if part else None, part, sent_at if renew else None)

    def _answered(
        self,
        key: TopicIdPartition,
        acks: Sequence[QueuedAck],
        error_code: int | None,
        part: share_acknowledge.PartitionData | share_fetch.PartitionData | None,
        renewed_at: float | None = None,
    ) -> None:
        """Handle the result of one partition's acknowledgements. A missing result is an error."""
        self._in_flight.pop(key, None)
        acquired = acks[0].lock.acquired
        now = asyncio.get_running_loop().time()
        context = f"ShareAcknowledge of {acquired.partition} to broker {self.node}"
        if error_code is None or part is None:
            missing = KafkaError(f"{context}: the response lacks the partition")
            # A renewal without a result is due again, but not immediately.
            unknown = (
                acquired.answered(acks, missing) if renewed_at is None else acquired.not_renewed(acks, missing, now)
            )
            self._engine.acks_ended(unknown)
            return
        code = ErrorCode(error_code)
        if not code:
            if renewed_at is not None:
                self._engine.acks_ended(acquired.renewed(acks, renewed_at, self._lock_duration))
            else:
                self._engine.acks_ended(acquired.answered(acks, None))
            return
        detail = part.acknowledge_error_message if isinstance(part, share_fetch.PartitionData) else part.error_message
        error = error_for(code, context, detail, self._cluster.asked(ShareAcknowledgeRequest, acquired.partition.topic))
        self._note_leader(acquired.partition, part)
        if classify(code, _FETCH) is Action.REFRESH_METADATA:
            self._cluster.metadata.invalidate(str(error))
        action = classify(code, _ACKNOWLEDGE._replace(divisible=is_divisible(acks)))
        if action is Action.STOP:
            self._engine.acks_ended(acquired.answered(acks, error))
            raise error
        if renewed_at is not None:
            self._engine.acks_ended(acquired.not_renewed(acks, error, now))
        elif acquired.lost is not None:
            self._engine.acks_ended(acquired.answered(acks, error))
        elif action is Action.SPLIT_BATCH:
            acquired.separate(acks, now)
        elif action in (Action.BACKOFF, Action.REFRESH_METADATA) and not self._closing:
            acquired.retry(acks, now + self._cluster.backoff.delay(acquired.attempts + 1), now)
        else:
            self._engine.acks_ended(acquired.answered(acks, error))

    def _note_leader(
        self, partition: TopicPartition, part: share_acknowledge.PartitionData | share_fetch.PartitionData
    ) -> None:
        leader = part.current_leader
        if leader.leader_id >= 0:
            self._cluster.metadata.update_leader(*partition, leader.leader_id, leader.leader_epoch)

    # Fetches

    async def _fetch(self, keys: Mapping[TopicIdPartition, TopicPartition], now: float) -> None:
        acks = self._take_acks(now) if self._handler.is_open else {}
        if not acks and not self._handler.is_open and not await self._check_version():
            return
        now = asyncio.get_running_loop().time()
        config = self._config.fetch
        max_wait = min([config.max_wait, self._lock_duration / 4, *self._until_renewal(now)])
        wanted = self._engine.wanted_records()
        # While the application is slow, acquire individual records: whole batches would expire in the buffer.
        strict = config.record_limit or wanted < config.max_records
        plan = self._handler.plan(keys, acks)
        request = share_fetch_request(
            self._engine.identity(), plan, acks, config, max_records=wanted, strict=strict, max_wait=max_wait
        )
        response = await self._send(request, acks, max_wait + self._cluster.config.request_timeout)
        if not isinstance(response, ShareFetchResponse):
            self._engine.observer.failed_fetches += 1
            return
        code = ErrorCode(response.error_code)
        if code:
            self._engine.observer.failed_fetches += 1
            asked = self._cluster.asked(ShareFetchRequest, group=self._config.group_id)
            self._lost(error_for(code, f"ShareFetch from broker {self.node}", response.error_message, asked))
            return
        self._succeeded(response.acquisition_lock_timeout_ms)
        observer = self._engine.observer
        observer.fetches.add(asyncio.get_running_loop().time() - now)
        observer.throttle.add(response.throttle_time_ms / 1000)
        bytes_before, records_before = self._fetched_bytes, self._fetched_records
        try:
            await self._handle(response, keys, acks, now)
        finally:
            observer.sizes.add(self._fetched_bytes - bytes_before)
            observer.acquired.add(self._fetched_records - records_before)
        # A response without records is normal if it suspended a partition, was held back for a while, or responded to
        # acknowledgements.
        took = asyncio.get_running_loop().time() - now
        suspended = any(each.until > now for each in self._suspended.values())
        news = acks or suspended or response.throttle_time_ms or self._fetched_records > records_before
        self._paced(due=bool(news) or took >= max_wait / 2)

    def _paced(self, *, due: bool) -> None:
        """Pause before the next fetch if the broker keeps responding immediately without records. ``due`` means that
        the response contained something, or that the broker held it back."""
        self._empty = 0 if due else self._empty + 1
        self._fetch_at = 0.0
        if self._empty > 1:
            self.failure = f"broker {self.node} responds at once, and without records"
            self._fetch_at = asyncio.get_running_loop().time() + self._cluster.backoff.delay(self._empty - 1)

    async def _check_version(self) -> bool:
        """Connect, and return whether that succeeded. Raises UnsupportedVersionError if the broker is too old."""
        try:
            version = await self._cluster.version(ShareFetchRequest, self.node, channel=CHANNEL)
            acknowledge = await self._cluster.version(ShareAcknowledgeRequest, self.node, channel=CHANNEL)
        except KafkaError as error:
            self._lost(error)
            return False
        if version < _FIRST_VERSION:
            raise UnsupportedVersionError(
                f"broker {self.node} has share groups as a preview only (ShareFetch v{version}): they need Kafka 4.1"
            )
        self._can_renew = acknowledge >= _RENEW_VERSION
        return True

    def _until_renewal(self, now: float) -> list[float]:
        """Return the seconds until the next renewal is due: a fetch that waits longer would delay it."""
        if not (self._config.renew and self._can_renew):
            return []
        times = [each.next_renewal(self._config.max_processing) for each in self._acquired.values()]
        return [max(at - now, 0.0) for at in times if at is not None]

    async def _handle(
        self, response: ShareFetchResponse, keys: Mapping[TopicIdPartition, TopicPartition], acks: Acks, sent_at: float
    ) -> None:
        # Use only the first result for each partition: repeated results must not be delivered twice.
        parts: dict[TopicIdPartition, share_fetch.PartitionData] = {}
        for topic in response.responses:
            for part in topic.partitions:
                parts.setdefault((topic.topic_id, part.partition_index), part)
        # Handle the acknowledgements before the first await: a cancellation must not leave any without an outcome.
        for key, of_partition in acks.items():
            answer = parts.get(key)
            self._answered(key, of_partition, answer.acknowledge_error_code if answer else None, answer)
        time_slice, epoch = TimeSlice(), self._handler.epoch
        for key, part in parts.items():
            if part.error_code:
                self._refused(key, keys.get(key), part)
            elif key in keys:
                self._suspended.pop(key, None)
                if part.acquired_records and self._handler.epoch == epoch:
                    self._received(key, keys[key], part, sent_at)
            await time_slice.pause()

    def _received(
        self, key: TopicIdPartition, partition: TopicPartition, part: share_fetch.PartitionData, sent_at: float
    ) -> None:
        ranges = acquired_ranges(part.acquired_records)
        if not ranges:
            return
        acquired = self._acquired.get(key)
        now = asyncio.get_running_loop().time()
        if acquired is not None and acquired.holds_any(ranges, now):
            self._lose_leadership(key)
            acquired = None
        if acquired is None:
            acquired = self._acquired[key] = AcquiredPartition(self._engine, partition)
        # guard: a lock counts from when it was requested
        #     -> AcquisitionLock(acquired, sent_at + 5, sent_at + 5, self._lock_duration)
        lock = AcquisitionLock(acquired, sent_at, sent_at, self._lock_duration)
        if key not in self._wanted:
            # The partition is no longer assigned.
            release(lock, ranges, sent_at)
            return
        data = memoryview(part.records or b"")
        count = sum(each.last - each.first + 1 for each in ranges)
        self._fetched_bytes += len(data)
        self._fetched_records += count
        observer = self._engine.observer
        observer.redelivered += sum(each.last - each.first + 1 for each in ranges if each.delivery_count > 1)
        observer.fetched(self.node, partition, ranges[0].first, count, len(data))
        self._engine.buffer.put(FetchedPart(lock, ranges, data, self._config.check_crcs, self._config.limits))
        self._engine.arrived()

    def _refused(
        self, key: TopicIdPartition, partition: TopicPartition | None, part: share_fetch.PartitionData
    ) -> None:
        """Handle a partition's error, and leave the partition out of the session for a while."""
        if partition is None:
            return
        code = ErrorCode(part.error_code)
        asked = self._cluster.asked(ShareFetchRequest, partition.topic)
        error = error_for(code, f"ShareFetch of {partition} from broker {self.node}", part.error_message, asked)
        action = classify(code, _FETCH)
        if action is Action.STOP:
            raise error
        self._note_leader(partition, part)
        if action is Action.REFRESH_METADATA:
            self._cluster.metadata.invalidate(str(error))
        elif action is Action.FAIL:
            self._engine.partition_failed(error)
        attempts = self._suspended[key].attempts + 1 if key in self._suspended else 1
        at = asyncio.get_running_loop().time() + self._cluster.backoff.delay(attempts)
        self._suspended[key] = _Suspension(at, attempts, str(error))

    # Requests

    async def _send(
        self, request: ShareFetchRequest | ShareAcknowledgeRequest, acks: Acks, timeout: float
    ) -> Response | None:
        """Send a request, and return the response. If it failed, the session ends, and this returns None."""
        self._requested_at = self._sent_at = asyncio.get_running_loop().time()
        self._in_flight = dict(acks)
        self._engine.observer.sent += sum(ack.last - ack.first + 1 for each in acks.values() for ack in each)
        try:
            return await self._cluster.send(request, self.node, timeout=timeout, channel=CHANNEL)
        except KafkaError as error:
            self._lost(error)
            return None
        except asyncio.CancelledError:
            self.abandon()
            raise
        finally:
            self._requested_at = None

    def _succeeded(self, lock_timeout_ms: int) -> None:
        self._handler.answered()
        self._failures, self.failure, self._retry_at = 0, "", 0.0
        # A response without the timeout says nothing about the locks. If 0 were used, they would expire immediately.
        if lock_timeout_ms > 0:
            self._lock_duration = lock_timeout_ms / 1000

    def _lost(self, error: KafkaError) -> None:
        """End the session after an error. A new session opens immediately or after a backoff."""
        self._end_session(error)
        action = classify(error, _FETCH)
        if action in (Action.STOP, Action.FAIL):
            raise error
        log.debug("share session with broker %d: %s", self.node, error)
        self._failures += 1
        # Any records fetched for this request are lost.
        self._served = -1
        if action is not Action.NEW_SESSION or self._failures > 1:
            self.failure = str(error)
            self._retry_at = asyncio.get_running_loop().time() + self._cluster.backoff.delay(self._failures)
        if action is not Action.NEW_SESSION:
            self._cluster.metadata.invalidate(f"share session: {error}")

    def _end_session(self, error: KafkaError) -> None:
        """Give up all locks of this session. Close the connection to make the broker give them up, too."""
        self._handler.reset()
        self._cluster.pool.disconnect(self.node, CHANNEL)
        acquired = list(self._acquired.values())
        self._acquired.clear()
        in_flight, self._in_flight = self._in_flight, {}
        for of_partition in in_flight.values():
            self._engine.acks_ended(of_partition[0].lock.acquired.answered(of_partition, error))
        for partition in acquired:
            # guard: what a lost session has acquired is lost
            self._engine.acks_ended(partition.lose(error))

    # The end

    def stop(self) -> None:
        """Make :meth:`run` end after the request in flight."""
        self._closing = True
        self._wake.set()

    async def close(self, timeout: float) -> None:
        """After :meth:`run` has ended, send the acknowledgements that are due, and close the session, which releases
        all other records."""
        now = asyncio.get_running_loop().time
        deadline = now() + timeout
        while self._handler.is_open:
            for acquired in self._acquired.values():
                # There's no time to back off.
                acquired.retry_at = 0.0
            acks = self._take_acks(now())
            final = not any(each.queued_at is not None for each in self._acquired.values())
            await self._acknowledge(acks, final=final, timeout=max(deadline - now(), 0.0))
            if final:
                break

    def abandon(self) -> None:
        """End the session without a request. Acknowledgements that weren't sent get the end of the session as their
        outcome."""
        self._end_session(ClientClosedError("the share consumer was closed"))
