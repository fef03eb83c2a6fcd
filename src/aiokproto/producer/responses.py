"""Apply Produce responses, and errors without a response, to batches: complete, retry, split, restart or fail them.

:func:`aiokproto.failures.classify` decides which of these to do (see the table in ``failures/producing.py``), and this
module does it. For NOT_LEADER_OR_FOLLOWER, ``_partition_responded`` refreshes the metadata, and ``_retry`` applies the
new leader if the response includes one (KIP-951).
"""

from __future__ import annotations

import asyncio
import logging

from aiokproto.cluster import ClusterClient
from aiokproto.cluster.coordinator_requests import concurrent_pause
from aiokproto.codec.messages.produce import NodeEndpoint, PartitionProduceResponse, ProduceRequest, ProduceResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DecodeError, KafkaError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.producer.accumulator import Accumulator
from aiokproto.producer.batch import ProducerBatch, invalid_records
from aiokproto.producer.producer_id import ProducerIds
from aiokproto.producer.sink import Result
from aiokproto.producer.transaction_manager import TransactionManager

log = logging.getLogger("aiokproto.producer")


class ProduceResponseHandler:
    """Gives each batch of a request its outcome, or returns it to its queue."""

    def __init__(
        self,
        cluster: ClusterClient,
        accumulator: Accumulator,
        producer_ids: ProducerIds,
        transactions: TransactionManager | None = None,
    ) -> None:
        """Create a handler in the running loop; ``transactions`` is None without a transactional id."""
        self._transactional = transactions is not None
        self._transactions = transactions
        self._cluster = cluster
        self._accumulator = accumulator
        self._producer_ids = producer_ids
        self._loop = asyncio.get_running_loop()

    def handle(self, node: int, request: ProduceRequest, batches: list[ProducerBatch], result: Result) -> None:
        """Apply the result of a request to its batches.

        Raises:
            KafkaError: The error ends the producer.
        """
        # A batch that is already done has expired: its outcome was reported and can't change.
        # guard: an expired batch is not reported as written -> list(batches)
        batches = [batch for batch in batches if not batch.done]
        if isinstance(result, ProduceResponse):
            self._responded(node, request, batches, result)
        elif isinstance(result, KafkaError):
            self._failed(batches, result)
        # The request was written to the socket. With acks=0, that's all the client will ever know.
        else:
            for batch in batches:
                self._accumulator.complete(batch, -1)

    def fail(self, batch: ProducerBatch, error: KafkaError, record_errors: dict[int, KafkaError] | None = None) -> None:
        """Fail a batch, and discard the producer id if its partition has no epoch left."""
        self._accumulator.fail(batch, error, record_errors)
        self._producer_ids.discard_for(self._accumulator.queue(batch))

    def _failed(self, batches: list[ProducerBatch], error: KafkaError) -> None:
        """Handle an error without a response. The batches may or may not be in the log; a retry finds out."""
        action = classify(error, Situation(ProduceRequest.api_key, transactional=self._transactional))
        # The error propagates out of the callback, and ends the sender and with it the producer.
        if action is Action.STOP:
            raise error
        if action is Action.REFRESH_METADATA:
            self._cluster.metadata.invalidate(f"Produce failed: {error}")
        for batch in batches:
            if action in (Action.FAIL, Action.ABORT_TRANSACTION):
                self.fail(batch, error)
            else:
                # The partition doesn't need a backoff here: the sink has one for the broker, and there's no need to
                # wait for a new leader.
                self._accumulator.retry(batch, error, self._loop.time())

    def _responded(
        self, node: int, request: ProduceRequest, batches: list[ProducerBatch], response: ProduceResponse
    ) -> None:
        # The response contains topic ids only since v13 (KIP-516). The request contains both.
        names = {topic.topic_id: topic.name for topic in request.topic_data}
        # Batches that the response doesn't mention stay in this dict.
        missing: dict[tuple[str | None, int], ProducerBatch] = {batch.topic_partition: batch for batch in batches}
        for topic in response.responses:
            name = topic.name or names.get(topic.topic_id)
            for partition in topic.partition_responses:
                # A partition that wasn't sent, or that appears twice, is ignored: the first response counts.
                batch = missing.pop((name, partition.index), None)
                if batch is not None:
                    self._partition_responded(node, request.transactional_id, batch, partition, response.node_endpoints)
        # It isn't known whether they were written. With idempotence the retry is safe. Without it, the retry may
        # duplicate records, like any retry.
        for batch in missing.values():
            error = DecodeError(f"Produce to broker {node}: the response lacks {batch.topic_partition}")
            self._accumulator.retry(batch, error, self._retry_at(batch))

    def _partition_responded(
        self,
        node: int,
        transactional_id: str | None,
        batch: ProducerBatch,
        response: PartitionProduceResponse,
        endpoints: list[NodeEndpoint],
    ) -> None:
        accumulator = self._accumulator
        if not response.error_code:
            accumulator.complete(batch, response.base_offset, response.log_append_time_ms)
            return
        code = ErrorCode(response.error_code)
        # Create the error before the action is known: a retry remembers it as the batch's last error.
        error = error_for(
            code,
            f"Produce to {batch.topic_partition} on broker {node}",
            response.error_message,
            self._cluster.asked(ProduceRequest, batch.topic_partition.topic, transactional_id=transactional_id or ""),
        )
        action = classify(code, self._situation(batch))
        # DUPLICATE_SEQUENCE_NUMBER: an earlier attempt was written, but the broker no longer knows at which offset.
        if action is Action.ACCEPT:
            accumulator.complete(batch, -1)
        elif action is Action.SPLIT_BATCH:
            log.debug("%s: too large for the broker (%d bytes), split", batch, batch.wire_size)
            self._split(batch, error)
        elif action in (Action.RESTART_SEQUENCE, Action.NEW_PRODUCER_ID):
            log.warning("%s: sequence %d rejected, producer %s: %s", batch, batch.sequence, batch.producer, error)
            accumulator.restart(batch, error, self._retry_at(batch))
            self._producer_ids.discard_for(accumulator.queue(batch), refused=action is Action.NEW_PRODUCER_ID)
        elif action is Action.CHECK_EPOCH and self._transactions is not None:
            self._transactions.epoch_refused(batch, error)
        elif action is Action.STOP:
            raise error
        elif action in (Action.FAIL, Action.ABORT_TRANSACTION):
            rejected = {entry.batch_index: entry.batch_index_error_message for entry in response.record_errors}
            self.fail(batch, error, invalid_records(batch, rejected, error) if rejected else None)
        else:
            if action is Action.REFRESH_METADATA:
                self._cluster.metadata.invalidate(str(error))
            self._retry(batch, response, error, endpoints)

    def _situation(self, batch: ProducerBatch) -> Situation:
        # Don't check the option: a batch that was sent without idempotence doesn't have a sequence number that a broker
        # could object to.
        numbered = batch.sequence >= 0
        return Situation(
            ProduceRequest.api_key,
            idempotent=numbered and not self._transactional,
            transactional=self._transactional,
            divisible=batch.count > 1,
            # If there are no transactions, restart() makes the same distinction, with the same test.
            overtaken=self._transactional and self._accumulator.queue(batch).oldest_sequenced is not batch,
        )

    def _retry(
        self,
        batch: ProducerBatch,
        response: PartitionProduceResponse,
        error: KafkaError,
        endpoints: list[NodeEndpoint],
    ) -> None:
        # The field has its default, -1, before v10.
        leader = response.current_leader
        new_leader = leader.leader_id >= 0 and self._cluster.metadata.update_leader(
            *batch.topic_partition, leader.leader_id, leader.leader_epoch, endpoints
        )
        at = self._retry_at(batch)
        # The new leader is ready, so there's nothing to wait for.
        if new_leader:
            at = self._loop.time()
        elif response.error_code == ErrorCode.CONCURRENT_TRANSACTIONS:
            at = self._loop.time() + concurrent_pause(batch.attempts, self._cluster.backoff.delay(batch.attempts))
        self._accumulator.retry(batch, error, at)

    def _split(self, batch: ProducerBatch, error: KafkaError) -> None:
        try:
            self._accumulator.split(batch)
        except KafkaError as unreadable:
            # The broker's complaint is the error. The client's failure to split the batch is the cause.
            error.__cause__ = unreadable
            self.fail(batch, error)

    def _retry_at(self, batch: ProducerBatch) -> float:
        return self._loop.time() + self._cluster.backoff.delay(batch.attempts)
