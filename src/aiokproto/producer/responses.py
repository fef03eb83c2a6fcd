"""What the answers of brokers, and their absence, mean for batches."""

from __future__ import annotations

import asyncio
import logging

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.produce import PartitionProduceResponse, ProduceRequest, ProduceResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DecodeError, KafkaError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.producer.accumulator import Accumulator
from aiokproto.producer.batch import ProducerBatch, invalid_records
from aiokproto.producer.producer_id import ProducerIdManager
from aiokproto.producer.sink import Result

log = logging.getLogger("aiokproto.producer")


class ProduceResponseHandler:
    """Finishes, retries, splits or fails batches."""

    def __init__(self, cluster: ClusterClient, accumulator: Accumulator, producer_ids: ProducerIdManager) -> None:
        """Make a handler; must be called in the running loop."""
        self._cluster = cluster
        self._accumulator = accumulator
        self._producer_ids = producer_ids
        self._loop = asyncio.get_running_loop()

    def handle(self, node: int, request: ProduceRequest, batches: list[ProducerBatch], result: Result) -> None:
        """Apply the result of a request to its batches.

        Raises:
            KafkaError: The producer cannot go on.
        """
        # Those done meanwhile have expired. That they were acknowledged after all must not be reported any more.
        batches = [batch for batch in batches if not batch.done]
        if isinstance(result, ProduceResponse):
            self._answered(node, request, batches, result)
        elif isinstance(result, KafkaError):
            self._failed(batches, result)
        else:
            for batch in batches:
                self._accumulator.complete(batch, -1)

    def fail(self, batch: ProducerBatch, error: KafkaError, record_errors: dict[int, KafkaError] | None = None) -> None:
        """Give up a batch."""
        self._accumulator.fail(batch, error, record_errors)
        self._producer_ids.renew_for(self._accumulator.queue(batch))

    def _failed(self, batches: list[ProducerBatch], error: KafkaError) -> None:
        """No answer: the batches may or may not be in the log. An idempotent producer asks again and finds out."""
        action = classify(error, Situation(ProduceRequest.api_key))
        if action is Action.STOP:
            raise error
        if action is Action.REFRESH_METADATA:
            self._cluster.invalidate(f"Produce failed: {error}")
        for batch in batches:
            if action is Action.FAIL:
                self.fail(batch, error)
            else:
                # The sink waits before it tries the broker again. A new leader is no reason to wait.
                self._accumulator.retry(batch, error, self._loop.time())

    def _answered(
        self, node: int, request: ProduceRequest, batches: list[ProducerBatch], response: ProduceResponse
    ) -> None:
        names = {topic.topic_id: topic.name for topic in request.topic_data}
        unanswered: dict[tuple[str | None, int], ProducerBatch] = {batch.where: batch for batch in batches}
        for topic in response.responses:
            name = topic.name or names.get(topic.topic_id)
            for answer in topic.partition_responses:
                batch = unanswered.pop((name, answer.index), None)
                if batch is not None:
                    self._partition_answered(node, batch, answer)
        for batch in unanswered.values():
            error = DecodeError(f"Produce to broker {node}: the response leaves out {batch.where}")
            self._accumulator.retry(batch, error, self._retry_at(batch))

    def _partition_answered(self, node: int, batch: ProducerBatch, answer: PartitionProduceResponse) -> None:
        accumulator = self._accumulator
        if not answer.error_code:
            accumulator.complete(batch, answer.base_offset, answer.log_append_time_ms)
            return
        code = ErrorCode(answer.error_code)
        error = error_for(code, f"Produce to {batch.where} on broker {node}", answer.error_message)
        idempotent, divisible = batch.sequence >= 0, batch.count > 1
        action = classify(code, Situation(ProduceRequest.api_key, idempotent=idempotent, divisible=divisible))
        if action is Action.ACCEPT:
            accumulator.complete(batch, -1)
        elif action is Action.SPLIT_BATCH:
            log.debug("%s: split, as the broker takes no batch of %d bytes", batch, batch.wire_size)
            self._split(batch, error)
        elif action in (Action.RESTART_SEQUENCE, Action.NEW_PRODUCER_ID):
            log.warning("%s: sequence %d refused, producer %s: %s", batch, batch.sequence, batch.producer, error)
            accumulator.restart(batch, error, self._retry_at(batch))
            self._producer_ids.renew_for(accumulator.queue(batch), refused=action is Action.NEW_PRODUCER_ID)
        elif action is Action.STOP:
            raise error
        elif action is Action.FAIL:
            refused = {entry.batch_index: entry.batch_index_error_message for entry in answer.record_errors}
            self.fail(batch, error, invalid_records(batch, refused, error) if refused else None)
        else:
            self._retry(batch, answer, error, refresh=action is Action.REFRESH_METADATA)

    def _retry(
        self, batch: ProducerBatch, answer: PartitionProduceResponse, error: KafkaError, *, refresh: bool
    ) -> None:
        if refresh:
            self._cluster.invalidate(str(error))
        leader = answer.current_leader
        led = leader.leader_id >= 0 and self._cluster.update_leader(*batch.where, leader.leader_id, leader.leader_epoch)
        # A new leader that is known already is no reason to wait.
        self._accumulator.retry(batch, error, self._loop.time() if led else self._retry_at(batch))

    def _split(self, batch: ProducerBatch, error: KafkaError) -> None:
        try:
            self._accumulator.split(batch)
        except KafkaError as unreadable:
            error.__cause__ = unreadable
            self.fail(batch, error)

    def _retry_at(self, batch: ProducerBatch) -> float:
        return self._loop.time() + self._cluster.backoff(batch.attempts)
