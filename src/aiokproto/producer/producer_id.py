"""The idempotent producer's id and epoch (InitProducerId; KIP-98, KIP-360)."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, NamedTuple, Protocol

from aiokproto.authorization import Asked
from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.errors import AuthorizationError, KafkaError, UnsupportedVersionError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.queue import MAX_EPOCH, PartitionQueue
from aiokproto.records.varint import INT32_MAX

if TYPE_CHECKING:
    from aiokproto.producer.buffer import Buffer

log = logging.getLogger("aiokproto.producer")


class ProducerId(NamedTuple):
    """A producer id and its first epoch, as returned by InitProducerId.

    Each partition bumps the epoch on its own. The first epoch rises above the epochs of forgotten partitions.
    """

    id: int
    epoch: int


class ProducerIds(Protocol):
    """The source of producer ids, epochs and sequence numbers for an idempotent or a transactional producer."""

    @property
    def current(self) -> ProducerId | None:
        """The id and epoch. While it's None, nothing can be sent."""
        ...

    def assign(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Assign a sequence number to a batch that is about to be sent."""
        ...

    def discard_for(self, queue: PartitionQueue, *, refused: bool = False) -> None:
        """Discard the id if the partition can't continue with it."""
        ...

    def may_forget(self, queue: PartitionQueue) -> bool:
        """Return whether a partition's sequence numbers can be forgotten: if the partition is written to again, they
        must not repeat in the same epoch."""
        ...


class ProducerIdManager:
    """Acquires the producer id, and discards it when a partition can't continue with it.

    Attributes:
        current: The id; None before it's acquired and after it's discarded.
    """

    def __init__(self, cluster: ClusterClient, buffer: Buffer, request_timeout: float) -> None:
        self.current: ProducerId | None = None
        self._cluster = cluster
        self._buffer = buffer
        self._request_timeout = request_timeout

    async def acquire(self) -> None:
        """Request an id until there is one, or until the broker rejects the request and every waiting batch fails.

        Cancelling leaves :attr:`current` None.

        Raises:
            KafkaError: The error ends the producer.
        """
        # The broker ignores the timeout if there's no transactional id. Java also sends the maximum value.
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT32_MAX)
        attempt = 0
        # The request doesn't need a deadline: waiting batches expire, and their errors include the last failure.
        while self.current is None:
            attempt += 1
            try:
                # Any broker can assign an id, and an unused id costs nothing, so the request can be hedged.
                response = await self._cluster.request(request, timeout=self._request_timeout, hedged=True)
                if response.error_code:
                    asked = self._cluster.asked(InitProducerIdRequest)
                    raise error_for(response.error_code, "InitProducerId", None, asked)
                self.current = ProducerId(response.producer_id, response.producer_epoch)
            except KafkaError as error:
                action = classify(error, Situation(request.api_key))
                if action is Action.STOP:
                    raise _advised(error) from error
                if action is Action.FAIL:
                    # Fail the waiting batches. Later batches request an id again, since the ACL may have been granted
                    # by then.
                    self._fail_waiting(_advised(error))
                    return
                # If batches expire without an id, their error shows the cause.
                for batch in self._buffer.accumulator.incomplete:
                    batch.last_error = error
                log.warning("no producer id yet, attempt %d: %s", attempt, error)
                await asyncio.sleep(self._cluster.backoff.delay(attempt))

    def _fail_waiting(self, error: KafkaError) -> None:
        self._buffer.accumulator.fail_all(lambda _: error)
        self._buffer.memory_freed()

    def assign(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Assign a sequence number to a batch that is about to be sent."""
        assert self.current is not None, "nothing is sent without a producer id"
        queue.assign(batch, self.current)

    def discard_for(self, queue: PartitionQueue, *, refused: bool = False) -> None:
        """Discard the id if the partition can't bump its epoch, or if the broker rejected the id."""
        current = self.current
        # A partition that still uses an earlier id says nothing about the current one.
        if current is not None and queue.producer[0] == current.id and (refused or queue.epochs_exhausted):
            self.current = None

    def may_forget(self, queue: PartitionQueue) -> bool:
        """Return True. Partitions without sequence numbers will now start with a later epoch.

        The topic may be the same one, if it merely hasn't been used for long. If sequence numbers restarted in the same
        epoch, a broker that still has state for the topic's partitions would take new batches for old ones.
        """
        current, (producer_id, epoch) = self.current, queue.producer
        if current is not None and current.id == producer_id and epoch >= current.epoch:
            self.current = ProducerId(producer_id, epoch + 1) if epoch < MAX_EPOCH else None
        return True


def _advised(error: KafkaError) -> KafkaError:
    """Add advice to the error: idempotence is on by default, so users may not know that they use it."""
    advice = "use enable_idempotence=False, which needs no producer id"
    if isinstance(error, AuthorizationError):
        clearer: KafkaError = AuthorizationError(
            error.code,
            error.context,
            f"WRITE on any topic suffices too; or {advice}",
            Asked(InitProducerIdRequest.api_key, principal=error.principal),
        )
    elif isinstance(error, UnsupportedVersionError):
        clearer = UnsupportedVersionError(f"{error}; {advice}")
    else:
        return error
    clearer.__cause__ = error
    return clearer
