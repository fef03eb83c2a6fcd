"""Takes what the accumulator has ready to the brokers, and judges their answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from aiokproto.cluster import Cluster
from aiokproto.codec.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    ProduceResponse,
    TopicProduceData,
)
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    DecodeError,
    KafkaError,
    UnsupportedVersionError,
    error_for,
)
from aiokproto.producer.accumulator import INFINITY, Accumulator, Drained
from aiokproto.producer.alarm import Alarm
from aiokproto.producer.batch import Batch, invalid_records
from aiokproto.producer.identity import Identity, may_pass
from aiokproto.producer.settings import Settings
from aiokproto.records import Compression

log = logging.getLogger("aiokproto.producer")

LAST_VERSION_WITH_NAMES = 12
FIRST_VERSION = {Compression.ZSTD: 7}
FIRST_VERSION_WITH_BATCHES = 3
SLOW_TO_COMPRESS = 32 * 1024
"""Batches of at least this many bytes are compressed in a thread; for smaller ones, changing threads takes as long."""
LEADERLESS_PAUSE = 0.1

_TOO_LARGE = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE})
_SEQUENCE_REFUSED = frozenset(
    {
        ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,
        ErrorCode.UNKNOWN_PRODUCER_ID,
        ErrorCode.INVALID_PRODUCER_EPOCH,
        ErrorCode.INVALID_PRODUCER_ID_MAPPING,
    }
)
_ID_REFUSED = frozenset({ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.INVALID_PRODUCER_ID_MAPPING})


class Node:
    """What the sender knows of a broker.

    Attributes:
        in_flight: Unanswered requests.
        proven: Whether it has answered since the last failure. Until then it gets one request at a time: the others
            would fail with it, and while a connection is being made nothing keeps them in order.
    """

    __slots__ = ("in_flight", "proven")

    def __init__(self) -> None:
        self.in_flight = 0
        self.proven = False


class Sender:
    """Sends batches until it is cancelled.

    It is no task but a round, which the alarm calls: a round sends what can be sent, and an answer is judged as it is
    read, so neither waits for its turn of the loop. Tasks are only what may take long: following the cluster's
    picture, asking for a producer id, connecting, compressing.

    Attributes:
        alarm: Set it when there is something to send.
    """

    def __init__(
        self,
        cluster: Cluster,
        accumulator: Accumulator,
        settings: Settings,
        request_timeout: float,
        on_settled: Callable[[], None],
    ) -> None:
        """Make a sender; must be called in the running loop.

        Args:
            cluster: The brokers.
            accumulator: What there is to send.
            settings: The producer's options.
            request_timeout: How long a broker may take to answer (s).
            on_settled: Called after batches got their outcome, so that there is room again.
        """
        self.alarm = Alarm(self._round)
        self._cluster = cluster
        self._accumulator = accumulator
        self._settings = settings
        self._request_timeout = min(request_timeout, settings.limits.delivery_timeout)
        self._request_timeout_ms = round(self._request_timeout * 1000)
        self._on_settled = on_settled
        self._loop = asyncio.get_running_loop()
        self._nodes: dict[int, Node] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._end: asyncio.Future[None] = self._loop.create_future()
        self._compressing = False
        self._identity = Identity(cluster, self._request_timeout)
        self._asking_for_id = False

    async def run(self) -> None:
        """Send until cancelled; what is in flight then has no outcome. Any other end is an unforeseen error."""
        self._spawn(self._follow())
        try:
            await self._end
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.alarm.cancel()

    def _fail_with(self, error: BaseException) -> None:
        """End :meth:`run` by an error that nobody has foreseen."""
        if not self._end.done():
            self._end.set_exception(error)

    def _round(self, now: float) -> None:
        """Expire what is too old and send what can be sent."""
        if self._end.done() or self._compressing:
            return
        try:
            expired = self._accumulator.expire(now)
            for batch in expired:
                self._identity.renew_for(self._accumulator.queue(batch))
            if expired:
                self._on_settled()
            self._send_ready(now)
        except Exception as error:  # noqa: BLE001 - whatever it is, it ends the producer and not the loop's callback
            self._fail_with(error)

    def _send_ready(self, now: float) -> None:
        accumulator = self._accumulator
        while not self._settings.idempotent or self._identity.current is not None:
            drained = accumulator.drain(now, self._has_room)
            if drained.leaderless:
                self._cluster.invalidate(f"{drained.leaderless[0]} has no leader")
                self.alarm.at(now + LEADERLESS_PAUSE)
            if drained.requests:
                self._assign_sequences(drained)
                self._begin(drained.requests)
                if self._compressing:
                    return
            if not drained.requests or not accumulator.has_ready:
                if drained.wake_at < INFINITY:
                    self.alarm.at(drained.wake_at)
                return
        if accumulator.has_due(now) and not self._asking_for_id:
            self._asking_for_id = True
            self._spawn(self._ask_for_id())
        # What has lingered long enough waits for the id: for its sake the alarm would ring in every turn of the loop.
        deadline = accumulator.next_expiry() if self._asking_for_id else accumulator.next_deadline()
        if deadline < INFINITY:
            self.alarm.at(deadline)

    def _assign_sequences(self, drained: Drained) -> None:
        """In one go with taking the batches: the producer id may be given up while another batch is compressed."""
        if self._identity.current is not None:
            for batches in drained.requests.values():
                for batch in batches:
                    self._accumulator.queue(batch).assign(batch, self._identity.current)

    def _has_room(self, node: int) -> bool:
        state = self._nodes.get(node)
        if state is None:
            state = self._nodes[node] = Node()
        return state.in_flight < (self._settings.limits.in_flight if state.proven else 1)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self._fail_with(error)

    # -- metadata

    async def _follow(self) -> None:
        """Keep the leaders in the accumulator as the cluster's picture has them."""
        while True:
            snapshot = self._cluster.snapshot
            for name, queues in self._accumulator.topics.items():
                info = snapshot.topics.get(name)
                count = len(queues.queues) if info is None else len(info.partitions)
                self._accumulator.update(name, [snapshot.leader(name, number) for number in range(count)])
            self.alarm.now()
            await self._cluster.changed(snapshot.generation)

    async def _ask_for_id(self) -> None:
        """Nothing is sent until there is an id. Batches expire meanwhile."""
        try:
            await self._identity.ask(self._note)
        except KafkaError as error:
            why = error
            self._accumulator.fail_all(lambda _: why)
            self._on_settled()
        self._asking_for_id = False
        self.alarm.now()

    def _note(self, error: KafkaError) -> None:
        for batch in self._accumulator.incomplete:
            batch.last_error = error

    # -- requests

    def _begin(self, requests: dict[int, list[Batch]]) -> None:
        """Start a request for each node. What takes long to compress holds back all that follows, to keep the order."""
        if any(_is_slow(batch) for batches in requests.values() for batch in batches):
            self._compressing = True
            self._spawn(self._compress(requests))
            return
        for node, batches in requests.items():
            self._start(node, batches)

    async def _compress(self, requests: dict[int, list[Batch]]) -> None:
        """Start requests whose batches are compressed in threads."""
        for node, batches in requests.items():
            slow = [batch for batch in batches if _is_slow(batch)]
            await asyncio.gather(*(self._loop.run_in_executor(None, batch.seal) for batch in slow))
            self._start(node, batches)
        self._compressing = False
        self.alarm.now()

    def _start(self, node: int, batches: list[Batch]) -> None:
        """Write one request. Requests to a node start in the order of the calls."""
        request, max_version = self._request(batches)
        state = self._nodes[node]
        state.in_flight += 1
        tell = partial(self._told, node, request, batches)
        if state.proven and self._settings.acks:
            try:
                state.proven = self._cluster.submit(
                    request, node, tell, timeout=self._request_timeout, max_version=max_version
                )
            except KafkaError as error:
                tell(error)
                return
            if state.proven:
                return
        self._spawn(self._send(node, request, max_version, tell))

    def _request(self, batches: list[Batch]) -> tuple[ProduceRequest, int | None]:
        """The request for batches of different partitions, and the highest version it can have."""
        topics: dict[str, TopicProduceData] = {}
        known = self._cluster.snapshot.topics
        max_version = None
        for batch in batches:
            name, partition = batch.where
            topic = topics.get(name)
            if topic is None:
                info = known.get(name)
                topic_id = info.topic_id if info is not None else ZERO_UUID
                if topic_id == ZERO_UUID:
                    max_version = LAST_VERSION_WITH_NAMES
                topic = topics[name] = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
            topic.partition_data.append(PartitionProduceData(index=partition, records=batch.seal()))
        request = ProduceRequest(
            acks=self._settings.acks,
            timeout_ms=self._request_timeout_ms,
            topic_data=list(topics.values()),
        )
        return request, max_version

    async def _send(
        self,
        node: int,
        request: ProduceRequest,
        max_version: int | None,
        tell: Callable[[ProduceResponse | KafkaError | None], None],
    ) -> None:
        """A request that has to wait: for a connection, or for room where no answer (``acks=0``) keeps it in bounds."""
        try:
            if not self._nodes[node].proven:
                await self._check_version(node)
            send = self._cluster.send if self._settings.acks else self._cluster.post
            tell(await send(request, node, timeout=self._request_timeout, max_version=max_version))
        except KafkaError as error:
            tell(error)

    async def _check_version(self, node: int) -> None:
        """What is sent are batches of magic 2; brokers before 0.11 would take them for something else."""
        version = await self._cluster.version(ProduceRequest, node)
        codec = self._settings.compression
        needed = FIRST_VERSION.get(codec, FIRST_VERSION_WITH_BATCHES)
        if version < needed:
            raise UnsupportedVersionError(
                f"broker {node} takes Produce up to version {version}; record batches"
                f"{f' with {codec.name.lower()}' if codec else ''} need {needed}"
            )

    def _request_failed(self, batches: list[Batch], error: KafkaError) -> None:
        """No answer: the batches may or may not be in the log. An idempotent producer asks again and finds out."""
        passes = may_pass(error)
        if passes:
            self._cluster.invalidate(f"Produce failed: {error}")
        for batch in batches:
            if batch.done:
                continue
            if passes:
                self._accumulator.retry(batch, error, self._retry_at(batch))
            else:
                self._fail(batch, error)

    def _retry_at(self, batch: Batch) -> float:
        return self._loop.time() + self._cluster.backoff(batch.attempts)

    # -- answers

    def _told(
        self, node: int, request: ProduceRequest, batches: list[Batch], outcome: ProduceResponse | KafkaError | None
    ) -> None:
        """What became of a request; None if it has no answer."""
        if self._end.done():
            return
        state = self._nodes[node]
        state.in_flight -= 1
        state.proven = not isinstance(outcome, KafkaError)
        try:
            if isinstance(outcome, KafkaError):
                self._request_failed(batches, outcome)
            elif outcome is not None:
                self._judge_all(node, request, batches, outcome)
            else:
                for batch in batches:
                    if not batch.done:
                        self._accumulator.finish(batch, -1)
        except Exception as error:  # noqa: BLE001 - as in a round
            self._fail_with(error)
        self._on_settled()
        # After those who wait for the batches: what they send on learning of it goes out in this turn of the loop.
        self.alarm.now()

    def _judge_all(self, node: int, request: ProduceRequest, batches: list[Batch], response: ProduceResponse) -> None:
        names = {topic.topic_id: topic.name for topic in request.topic_data}
        # Those done meanwhile have expired. That they were acknowledged after all must not be told twice.
        unanswered: dict[tuple[str | None, int], Batch] = {batch.where: batch for batch in batches if not batch.done}
        for topic in response.responses:
            name = topic.name or names.get(topic.topic_id)
            for answer in topic.partition_responses:
                batch = unanswered.pop((name, answer.index), None)
                if batch is not None:
                    self._judge(node, batch, answer)
        for batch in unanswered.values():
            error = DecodeError(f"Produce to broker {node}: the response leaves out {batch.where}")
            self._accumulator.retry(batch, error, self._retry_at(batch))

    def _judge(self, node: int, batch: Batch, answer: PartitionProduceResponse) -> None:
        """One reason for each branch: what a partition's answer means for its batch."""
        accumulator = self._accumulator
        if not answer.error_code:
            accumulator.finish(batch, answer.base_offset, answer.log_append_time_ms)
            return
        code = ErrorCode(answer.error_code)
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # An earlier attempt arrived, so long ago that the broker has forgotten where.
            accumulator.finish(batch, -1)
            return
        error = error_for(code, f"Produce to {batch.where} on broker {node}", answer.error_message)
        if code.refresh_metadata:
            self._cluster.invalidate(str(error))
        if code in _TOO_LARGE and batch.count > 1:
            log.debug("%s: split, as the broker takes no batch of %d bytes", batch, batch.wire_size)
            self._split(batch, error)
        elif code in _SEQUENCE_REFUSED and batch.sequence >= 0:
            log.warning("%s: sequence %d refused, producer %s: %s", batch, batch.sequence, batch.producer, error)
            accumulator.restart(batch, error, self._retry_at(batch))
            self._identity.renew_for(accumulator.queue(batch), refused=code in _ID_REFUSED)
        elif code.retriable:
            leader = answer.current_leader
            led = leader.leader_id >= 0 and self._cluster.hint_leader(
                *batch.where, leader.leader_id, leader.leader_epoch
            )
            # A new leader that is known already is no reason to wait.
            accumulator.retry(batch, error, self._loop.time() if led else self._retry_at(batch))
        else:
            refused = {entry.batch_index: entry.batch_index_error_message for entry in answer.record_errors}
            self._fail(batch, error, invalid_records(batch, refused, error) if refused else None)

    def _split(self, batch: Batch, error: KafkaError) -> None:
        try:
            self._accumulator.split(batch)
        except KafkaError as unreadable:
            error.__cause__ = unreadable
            self._fail(batch, error)

    def _fail(self, batch: Batch, error: KafkaError, record_errors: dict[int, KafkaError] | None = None) -> None:
        self._accumulator.fail(batch, error, record_errors)
        self._identity.renew_for(self._accumulator.queue(batch))


def _is_slow(batch: Batch) -> bool:
    """Whether to seal it means to compress much."""
    return batch.compresses and batch.size >= SLOW_TO_COMPRESS
