"""Takes what the accumulator has ready to the brokers, and judges their answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from aiokproto.cluster import Cluster
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
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
    AuthenticationError,
    AuthorizationError,
    BrokerConnectionError,
    BrokerError,
    DeadlineError,
    DecodeError,
    KafkaError,
    UnsupportedVersionError,
    error_for,
)
from aiokproto.producer.accumulator import Accumulator, Drained
from aiokproto.producer.alarm import Alarm
from aiokproto.producer.batch import Batch, invalid_records
from aiokproto.producer.queue import PartitionQueue
from aiokproto.producer.settings import Settings
from aiokproto.records import Compression
from aiokproto.records.varint import INT32_MAX
from aiokproto.types import TopicPartition

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


class ProducerId(NamedTuple):
    """Who an idempotent producer is to the brokers."""

    id: int
    epoch: int


class Sender:
    """Sends batches until it is cancelled. :meth:`run` is its only task of long life; a request is a task of its own.

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
        self.alarm = Alarm()
        self._cluster = cluster
        self._accumulator = accumulator
        self._settings = settings
        self._request_timeout = min(request_timeout, settings.limits.delivery_timeout)
        self._on_settled = on_settled
        self._loop = asyncio.get_running_loop()
        self._nodes: dict[int, Node] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._producer_id: ProducerId | None = None
        self._asking_for_id = False

    async def run(self) -> None:
        """Send until cancelled; what is in flight then has no outcome. Any other end is an unforeseen error."""
        self._spawn(self._follow())
        try:
            while True:
                await self._round()
                await self.alarm.wait()
        finally:
            tasks = list(self._tasks)
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            self.alarm.cancel()

    async def _round(self) -> None:
        """Expire what is too old and send what can be sent."""
        if self._failure is not None:
            raise self._failure
        accumulator = self._accumulator
        expired = accumulator.expire(self._loop.time())
        for batch in expired:
            self._renew_id(accumulator.queue(batch))
        if expired:
            self._on_settled()
        while not self._settings.idempotent or self._producer_id is not None:
            drained = accumulator.drain(self._loop.time(), self._has_room)
            self._assign_sequences(drained)
            for node, batches in drained.requests.items():
                await self._begin(node, batches)
            if drained.leaderless:
                self._cluster.invalidate(f"{drained.leaderless[0]} has no leader")
                self.alarm.at(self._loop.time() + LEADERLESS_PAUSE)
            if not drained.requests:
                self._alarm_at(drained.wake_at)
                return
        if accumulator.has_due(self._loop.time()) and not self._asking_for_id:
            self._asking_for_id = True
            self._spawn(self._ask_for_id())
        self._alarm_at(accumulator.next_deadline())

    def _alarm_at(self, when: float) -> None:
        if when < float("inf"):
            self.alarm.at(when)

    def _assign_sequences(self, drained: Drained) -> None:
        """In one go with taking the batches: the producer id may be given up while another batch is compressed."""
        if self._producer_id is not None:
            for batches in drained.requests.values():
                for batch in batches:
                    self._accumulator.queue(batch).assign(batch, self._producer_id)

    def _has_room(self, node: int) -> bool:
        state = self._nodes.setdefault(node, Node())
        return state.in_flight < (self._settings.limits.in_flight if state.proven else 1)

    def _spawn(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            self._failure = task.exception()
            self.alarm.now()

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
        """Become known to the brokers (InitProducerId): tried until it works or cannot; batches expire meanwhile."""
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT32_MAX)
        attempt = 0
        try:
            while True:
                attempt += 1
                try:
                    response = await self._cluster.request(request, timeout=self._request_timeout)
                    if response.error_code:
                        raise error_for(response.error_code, "InitProducerId")
                    self._producer_id = ProducerId(response.producer_id, response.producer_epoch)
                    return
                except KafkaError as error:
                    if not _may_pass(error):
                        self._give_up(_no_producer_id(error))
                        return
                    for batch in self._accumulator.incomplete:
                        batch.last_error = error
                    log.warning("no producer id yet, attempt %d: %s", attempt, error)
                    await asyncio.sleep(self._cluster.backoff(attempt))
        finally:
            self._asking_for_id = False
            self.alarm.now()

    def _give_up(self, error: KafkaError) -> None:
        self._accumulator.fail_all(lambda _: error)
        self._on_settled()

    # -- requests

    async def _begin(self, node: int, batches: list[Batch]) -> None:
        """Finish the batches and start the request; requests to a node start in the order of the calls."""
        slow = [batch for batch in batches if batch.compresses and batch.size >= SLOW_TO_COMPRESS]
        if slow:
            await asyncio.gather(*(self._loop.run_in_executor(None, batch.seal) for batch in slow))
        request, max_version = self._request(batches)
        self._nodes[node].in_flight += 1
        self._spawn(self._send(node, batches, request, max_version))

    def _request(self, batches: list[Batch]) -> tuple[ProduceRequest, int | None]:
        """The request for batches of different partitions, and the highest version it can have."""
        topics: dict[str, TopicProduceData] = {}
        max_version = None
        for batch in batches:
            name, partition = batch.where
            topic = topics.get(name)
            if topic is None:
                info = self._cluster.snapshot.topics.get(name)
                topic_id = info.topic_id if info is not None else ZERO_UUID
                if topic_id == ZERO_UUID:
                    max_version = LAST_VERSION_WITH_NAMES
                topic = topics[name] = TopicProduceData(name=name, topic_id=topic_id, partition_data=[])
            topic.partition_data.append(PartitionProduceData(index=partition, records=batch.seal()))
        request = ProduceRequest(
            acks=self._settings.acks,
            timeout_ms=round(self._request_timeout * 1000),
            topic_data=list(topics.values()),
        )
        return request, max_version

    async def _send(self, node: int, batches: list[Batch], request: ProduceRequest, max_version: int | None) -> None:
        """One request from its sending to its judgement."""
        state = self._nodes[node]
        try:
            if not state.proven:
                await self._check_version(node)
            if self._settings.acks:
                response = await self._cluster.send(
                    request, node, timeout=self._request_timeout, max_version=max_version
                )
                self._judge_all(node, request, batches, response)
            else:
                await self._cluster.post(request, node, timeout=self._request_timeout, max_version=max_version)
                for batch in batches:
                    if not batch.done:
                        self._accumulator.finish(batch, -1)
            state.proven = True
        except KafkaError as error:
            state.proven = False
            self._request_failed(batches, error)
        finally:
            state.in_flight -= 1
            self._on_settled()
            self.alarm.now()

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
        passes = _may_pass(error)
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

    def _judge_all(self, node: int, request: ProduceRequest, batches: list[Batch], response: ProduceResponse) -> None:
        names = {topic.topic_id: topic.name for topic in request.topic_data}
        answers = {
            TopicPartition(topic.name or names.get(topic.topic_id, ""), answer.index): answer
            for topic in response.responses
            for answer in topic.partition_responses
        }
        for batch in batches:
            if batch.done:
                # It expired meanwhile. That it was acknowledged after all must not be told twice.
                continue
            answer = answers.get(batch.where)
            if answer is None:
                error = DecodeError(f"Produce to broker {node}: the response leaves out {batch.where}")
                self._accumulator.retry(batch, error, self._retry_at(batch))
            else:
                self._judge(node, batch, answer)

    def _judge(self, node: int, batch: Batch, answer: PartitionProduceResponse) -> None:
        """One reason for each branch: what a partition's answer means for its batch."""
        code = ErrorCode(answer.error_code)
        accumulator = self._accumulator
        if code is ErrorCode.NONE:
            accumulator.finish(batch, answer.base_offset, answer.log_append_time_ms)
            return
        if code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER:
            # An earlier attempt arrived, so long ago that the broker has forgotten where.
            accumulator.finish(batch, -1)
            return
        error = error_for(code, f"Produce to {batch.where} on broker {node}", answer.error_message)
        if code.refresh_metadata:
            self._cluster.invalidate(str(error))
        if code in _TOO_LARGE and batch.count > 1:
            log.debug("%s: split, as the broker takes no batch of %d bytes", batch, batch.wire_size)
            accumulator.split(batch)
        elif code in _SEQUENCE_REFUSED and batch.sequence >= 0:
            log.warning("%s: sequence %d refused, producer %s: %s", batch, batch.sequence, batch.producer, error)
            accumulator.restart(batch, error, self._retry_at(batch))
            self._renew_id(accumulator.queue(batch), refused=code in _ID_REFUSED)
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

    def _fail(self, batch: Batch, error: KafkaError, record_errors: dict[int, KafkaError] | None = None) -> None:
        self._accumulator.fail(batch, error, record_errors)
        self._renew_id(self._accumulator.queue(batch))

    def _renew_id(self, queue: PartitionQueue, refused: bool = False) -> None:
        """Ask for a new id where the partition cannot go on with the next epoch of its own."""
        current = self._producer_id
        if current is not None and queue.producer[0] == current.id and (refused or queue.epochs_used_up):
            self._producer_id = None


def _may_pass(error: KafkaError) -> bool:
    """Whether what failed so may succeed later."""
    if isinstance(error, AuthenticationError):
        return False
    if isinstance(error, BrokerError):
        return error.retriable
    return isinstance(error, BrokerConnectionError | DeadlineError | DecodeError)


def _no_producer_id(error: KafkaError) -> KafkaError:
    """What to tell who never asked for idempotence, where it is the default that fails."""
    advice = "enable_idempotence=False does without a producer id"
    if isinstance(error, AuthorizationError):
        return AuthorizationError(error.code, error.context, f"the right IdempotentWrite is missing; {advice}")
    if isinstance(error, UnsupportedVersionError):
        return UnsupportedVersionError(f"{error}; {advice}")
    return error
