"""The state machine of one transactional id (Kafka's TransactionMetadata). It is pure.

A :class:`TransactionMetadata` is immutable. Each step validates the producer and the current status, and returns the
next value, which takes effect once the coordinator has appended it to the log. So a new coordinator finds every state
in the log that a producer may have seen in a response.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

# Kafka's RecordBatch.NO_PRODUCER_ID and NO_PRODUCER_EPOCH, also used in requests and stored values.
NO_PRODUCER_ID = NO_EPOCH = -1

MAX_EPOCH = 0x7FFF
LAST_EPOCH = MAX_EPOCH - 1
"""The last epoch that a producer can get. The next one is reserved for fencing this producer."""

EPOCH_BUMP = 2
"""The first transaction version in which every transaction increments the epoch (KIP-890)."""

NO_TIMEOUT_MS = 0x7FFFFFFF
"""The timeout of transactions with two-phase commit, which never time out (KIP-939)."""

NewId = Callable[[], int]

TopicPartition = tuple[str, int]


class TransactionStatus(Enum):
    """Kafka's transaction states. Each value is the number in the log and the name in ListTransactions."""

    EMPTY = (0, "Empty")
    ONGOING = (1, "Ongoing")
    PREPARE_COMMIT = (2, "PrepareCommit")
    PREPARE_ABORT = (3, "PrepareAbort")
    COMPLETE_COMMIT = (4, "CompleteCommit")
    COMPLETE_ABORT = (5, "CompleteAbort")
    DEAD = (6, "Dead")
    # In Kafka, Dead and PrepareEpochFence exist only in memory. They are listed here because ListTransactions can
    # filter by them.
    PREPARE_EPOCH_FENCE = (7, "PrepareEpochFence")

    @property
    def number(self) -> int:
        """The number in the log."""
        return self.value[0]

    @property
    def text(self) -> str:
        """The name in responses and tools."""
        return self.value[1]


_ENDING = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)


class ProducerIdAndEpoch(NamedTuple):
    """The producer id and epoch that a request carries."""

    producer_id: int
    epoch: int


@dataclass(frozen=True)
class TransactionMetadata:
    """The state of a transactional id.

    Attributes:
        transactional_id: The id.
        producer_id: The current producer id.
        producer_epoch: The current epoch; -1 before the first InitProducerId.
        timeout_ms: How long a transaction can stay ongoing before it is aborted.
        status: The transaction state.
        partitions: The partitions of the ongoing or ending transaction.
        updated: When the state last changed (ms).
        started: When the transaction started (ms); -1 if there is none.
        last_epoch: The previous epoch. If a producer retries with it, the response with the current epoch was lost.
        previous_producer_id: The previous producer id, for the same reason.
        next_producer_id: The producer id after this transaction, if the epochs of the current one are exhausted; or the
            id of the producer that has found the transaction and will commit or abort it (KIP-939). -1 otherwise.
        next_producer_epoch: The epoch that belongs to ``next_producer_id``; -1 means that the id's first epoch is next.
        client_version: The transaction version of its last request.
    """

    transactional_id: str
    producer_id: int
    timeout_ms: int
    producer_epoch: int = NO_EPOCH
    status: TransactionStatus = TransactionStatus.EMPTY
    partitions: frozenset[TopicPartition] = frozenset()
    updated: int = -1
    started: int = -1
    last_epoch: int = NO_EPOCH
    previous_producer_id: int = NO_PRODUCER_ID
    next_producer_id: int = NO_PRODUCER_ID
    next_producer_epoch: int = NO_EPOCH
    client_version: int = 0

    @property
    def identity(self) -> ProducerIdAndEpoch:
        """The producer id and epoch for the next transaction; valid once an ending transaction is complete."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdAndEpoch(self.next_producer_id, max(self.next_producer_epoch, 0))
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def ongoing(self) -> ProducerIdAndEpoch | None:
        """The producer id and epoch of the ongoing transaction's records; None if no transaction is ongoing."""
        if self.status is not TransactionStatus.ONGOING:
            return None
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def ending(self) -> bool:
        """Whether the transaction is decided, but some partitions don't have a marker yet."""
        return self.status in _ENDING

    @property
    def commits(self) -> bool:
        """Whether the decision is, or was, to commit."""
        return self.status in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)

    @property
    def deadline(self) -> int | None:
        """When the transaction times out (ms); None if none is ongoing, or for two-phase commit."""
        times_out = self.status is TransactionStatus.ONGOING and self.timeout_ms != NO_TIMEOUT_MS
        return self.started + self.timeout_ms if times_out else None

    # ---- InitProducerId

    def initialized(
        self, timeout_ms: int, known: ProducerIdAndEpoch | None, new_id: NewId, now: int, *, keep: bool = False
    ) -> TransactionMetadata:
        """Assign the next epoch, which fences the previous user of the id.

        An ongoing transaction is aborted first. If so, the result is in an ending state, and the producer must retry.
        If ``keep`` is set, the transaction is kept, and the producer with the next epoch commits or aborts it.

        Args:
            timeout_ms: The timeout of its transactions.
            known: The producer's current id and epoch, if it recovers from an error (KIP-360); None for a new producer.
            new_id: Returns an unused producer id.
            now: The current time (ms).
            keep: Whether an ongoing transaction is kept (KIP-939).

        Raises:
            BrokerError: PRODUCER_FENCED or CONCURRENT_TRANSACTIONS.
        """
        # Check this before the ids, like Kafka, where an ending transaction has a pending transition: even a producer
        # that will be fenced gets CONCURRENT_TRANSACTIONS first.
        self._check_complete()
        if known is not None and not self._continues(known):
            raise self._fenced(known)
        # The previous user may be alive and writing. Its transaction is aborted with an epoch that isn't given to any
        # producer.
        if self.status is TransactionStatus.ONGOING:
            return self._kept(new_id, now) if keep else self.fenced(now)
        fresh = replace(
            self, status=TransactionStatus.EMPTY, partitions=frozenset(), timeout_ms=timeout_ms, started=-1, updated=now
        )
        # The epochs are exhausted, so a new producer id is needed. A retry with the previous epoch doesn't need another
        # id.
        if self.producer_epoch >= LAST_EPOCH and (known is None or known.epoch == self.producer_epoch):
            last = NO_EPOCH if known is None else self.producer_epoch
            return replace(
                fresh,
                producer_id=new_id(),
                producer_epoch=0,
                last_epoch=last,
                previous_producer_id=self.producer_id,
            )
        # A new producer doesn't get a last epoch: the fenced producer must not continue as if its response had been
        # lost.
        if known is None:
            return replace(fresh, producer_epoch=self.producer_epoch + 1, last_epoch=NO_EPOCH)
        # NO_EPOCH means that the id had expired and that no other producer has used it since (KIP-360).
        if known.epoch == self.producer_epoch or self.producer_epoch == NO_EPOCH:
            return replace(fresh, producer_epoch=self.producer_epoch + 1, last_epoch=self.producer_epoch)
        if known.epoch == self.last_epoch:
            # This is a retry: the epoch has been incremented already, and the response was lost.
            return fresh
        raise self._fenced(known)

    def _kept(self, new_id: NewId, now: int) -> TransactionMetadata:
        """Keep the ongoing transaction for a producer with the next epoch. The transaction's records keep their
        epoch."""
        producer = self.identity
        if producer.epoch >= LAST_EPOCH - 1:
            return replace(self, next_producer_id=new_id(), next_producer_epoch=0, updated=now)
        return replace(self, next_producer_id=producer.producer_id, next_producer_epoch=producer.epoch + 1, updated=now)

    def _continues(self, known: ProducerIdAndEpoch) -> bool:
        return (
            # The id had expired, and this request has just created it. There is no other producer to protect.
            self.producer_epoch == NO_EPOCH
            or known.producer_id == self.producer_id
            # The id was replaced because its epochs were exhausted, and the response with the new id was lost.
            or (known.producer_id == self.previous_producer_id and known.epoch >= LAST_EPOCH)
        )

    #     # ---- AddPartitionsToTxn, AddOffsetsToTxn, and Produce (since transaction version 2)

    def with_partitions(
        self, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition], client_version: int, now: int
    ) -> TransactionMetadata:
        """Add partitions to the transaction. The first ones start it.

        Returns:
            The next value, or ``self`` if all partitions had been added already.

        Raises:
            BrokerError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or CONCURRENT_TRANSACTIONS.
        """
        self._check(producer)
        # The partitions of a transaction that is over don't carry over into the next.
        new = self.partitions.union(partitions) if self.status is TransactionStatus.ONGOING else frozenset(partitions)
        if self.status is TransactionStatus.ONGOING and new == self.partitions:
            return self
        # The timeout starts with the first partition. Adding more doesn't extend it.
        started = self.started if self.status is TransactionStatus.ONGOING else now
        return replace(
            self,
            status=TransactionStatus.ONGOING,
            partitions=new,
            started=started,
            updated=now,
            client_version=client_version,
        )

    def verify(self, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
        """Return the partitions that are not part of the transaction (KIP-890, part 1).

        Raises:
            BrokerError: The same errors as :meth:`with_partitions`.
        """
        self._check(producer)
        return [partition for partition in partitions if partition not in self.partitions]

    def _check(self, producer: ProducerIdAndEpoch) -> None:
        # This is checked before the ids: while the transaction completes, the producer may already use its next
        # producer id.
        self._check_complete()
        # The id is checked before the epoch: epochs of different producer ids cannot be compared.
        if producer.producer_id != self.identity.producer_id:
            raise BrokerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if producer.epoch != self.identity.epoch:
            raise self._fenced(producer)

    def _check_complete(self) -> None:
        if self.ending:
            raise BrokerError(ErrorCode.CONCURRENT_TRANSACTIONS)

    # ---- EndTxn

    def ended(
        self, producer: ProducerIdAndEpoch, commit: bool, client_version: int, new_id: NewId, now: int
    ) -> TransactionMetadata:
        """Commit or abort.

        Args:
            producer: The producer.
            commit: Whether to commit.
            client_version: The transaction version of the request. The epoch is incremented in version 2 and higher.
            new_id: Returns an unused producer id.
            now: The current time (ms).

        Returns:
            The ending transaction, or ``self`` if this is a retry and the transaction has already ended.

        Raises:
            BrokerError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS or INVALID_TXN_STATE.
        """
        bumps = client_version >= EPOCH_BUMP
        # This is checked before the ids: a Prepare state already contains the next epoch. If the response was lost, the
        # retry of EndTxn carries the previous epoch, and must be retried again, not fenced.
        if bumps:
            self._check_complete()
        again = self._ended_before(producer, bumps)
        if producer.producer_id != self.identity.producer_id and not again:
            raise BrokerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if producer.epoch != self.identity.epoch and not again:
            raise self._fenced(producer)
        self._check_complete()
        if self.status is TransactionStatus.ONGOING:
            return self._ending_with(commit, bumps, client_version, new_id, now)
        # A retry must repeat the decision: a commit after an abort is INVALID_TXN_STATE.
        if again and commit == self.commits:
            return self
        if bumps and not again and not commit:
            # This is an abort without partitions. A Produce request may still be on its way to a leader, and the new
            # epoch fences it.
            idle = replace(self, partitions=frozenset(), started=now)
            return idle._ending_with(commit, bumps, client_version, new_id, now)
        raise BrokerError(
            ErrorCode.INVALID_TXN_STATE, detail=f"cannot {'commit' if commit else 'abort'} in state {self.status.text}"
        )

    def _ended_before(self, producer: ProducerIdAndEpoch, bumps: bool) -> bool:
        """Return whether this is a retry: the EndTxn was applied, but the response was lost."""
        if self.status not in (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT):
            return False
        if not bumps:
            # If there is no new epoch, a retry looks like the original request.
            return producer == (self.producer_id, self.producer_epoch)
        # The epoch was incremented when the transaction ended, so the retry carries the previous one.
        bumped = producer == (self.producer_id, self.producer_epoch - 1)
        rotated = producer == (self.previous_producer_id, LAST_EPOCH) and self.producer_epoch == 0
        return bumped or rotated

    def _ending_with(
        self, commit: bool, bumps: bool, client_version: int, new_id: NewId, now: int
    ) -> TransactionMetadata:
        status = TransactionStatus.PREPARE_COMMIT if commit else TransactionStatus.PREPARE_ABORT
        ending = replace(self, status=status, client_version=client_version, updated=now)
        # The markers carry the incremented epoch: partitions then reject a delayed Produce request of this transaction.
        if self.next_producer_id not in (NO_PRODUCER_ID, self.producer_id):
            # The producer that commits or aborts has a different id, because the epochs of this one are exhausted.
            return replace(
                ending,
                producer_epoch=self.producer_epoch + 1,
                last_epoch=self.next_producer_epoch,
                next_producer_epoch=self.next_producer_epoch + 1 if bumps else self.next_producer_epoch,
            )
        epoch = self.identity.epoch
        # The marker may use the reserved epoch. If so, the next transaction uses a new producer id with epoch 0.
        exhausted = bumps and epoch >= LAST_EPOCH
        return replace(
            ending,
            producer_epoch=epoch + 1 if bumps else epoch,
            last_epoch=epoch if bumps else self.last_epoch,
            next_producer_id=new_id() if exhausted else NO_PRODUCER_ID,
            next_producer_epoch=NO_EPOCH,
        )

    def fenced(self, now: int) -> TransactionMetadata:
        """Abort the ongoing transaction and fence its producer with an incremented epoch, because of a timeout or a new
        producer."""
        assert self.status is TransactionStatus.ONGOING
        # There is no last epoch: the fenced producer must not be able to continue with it as if this were a retry.
        ending = replace(self, status=TransactionStatus.PREPARE_ABORT, last_epoch=NO_EPOCH, updated=now)
        if self.next_producer_id not in (NO_PRODUCER_ID, self.producer_id):
            return replace(
                ending, producer_epoch=self.producer_epoch + 1, next_producer_epoch=self.next_producer_epoch + 1
            )
        return replace(
            ending,
            producer_epoch=self.identity.epoch + 1,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_EPOCH,
        )

    def completed(self, now: int) -> TransactionMetadata:
        """Complete the transaction: all partitions have their marker."""
        assert self.ending
        producer = self.identity
        rotated = producer.producer_id != self.producer_id
        return replace(
            self,
            status=TransactionStatus.COMPLETE_COMMIT if self.commits else TransactionStatus.COMPLETE_ABORT,
            partitions=frozenset(),
            # The next id takes effect only now: the markers had to carry the id that the transaction's records were
            # written with.
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            previous_producer_id=self.producer_id if rotated else self.previous_producer_id,
            next_producer_id=NO_PRODUCER_ID,
            next_producer_epoch=NO_EPOCH,
            updated=now,
        )

    def expired(self, before: int) -> bool:
        """Return whether no transaction is open and the id hasn't been used since ``before`` (ms)."""
        # ``updated`` is enough: if the id is in use, each transaction writes a state.
        return self.status is not TransactionStatus.ONGOING and not self.ending and self.updated <= before

    def _fenced(self, producer: ProducerIdAndEpoch) -> BrokerError:
        return BrokerError(
            ErrorCode.PRODUCER_FENCED,
            detail=f"{self.transactional_id!r} is used by producer {self.identity.producer_id} with epoch "
            f"{self.identity.epoch}, not by {producer.producer_id} with {producer.epoch}",
        )


def fencing_code(code: ErrorCode, known: bool) -> ErrorCode:
    """Replace PRODUCER_FENCED with INVALID_PRODUCER_EPOCH unless the client knows it (KIP-588). Other codes stay as
    they are."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED and not known else code
