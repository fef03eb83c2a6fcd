"""The life of a transactional id, as a pure state machine: producer may do what next, and what it becomes by that.

A :class:`Transaction` never changes: each step checks producer asks and returns the next one, which counts once it is
in the log. So a coordinator that fails between two steps is followed by one that knows all that was promised.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import NamedTuple

from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

NO_PRODUCER_ID = NO_EPOCH = -1

MAX_EPOCH = 0x7FFF
LAST_EPOCH = MAX_EPOCH - 1
"""The last epoch that a producer is given: the one after it is left for fencing."""

EPOCH_BUMP = 2
"""The transaction version in which each transaction has an epoch of its own (KIP-890)."""

NewId = Callable[[], int]

TopicPartition = tuple[str, int]


class TransactionStatus(Enum):
    """Kafka's states, by their number in the log and the name that tools see."""

    EMPTY = (0, "Empty")
    ONGOING = (1, "Ongoing")
    PREPARE_COMMIT = (2, "PrepareCommit")
    PREPARE_ABORT = (3, "PrepareAbort")
    COMPLETE_COMMIT = (4, "CompleteCommit")
    COMPLETE_ABORT = (5, "CompleteAbort")
    DEAD = (6, "Dead")
    PREPARE_EPOCH_FENCE = (7, "PrepareEpochFence")

    @property
    def number(self) -> int:
        """As it is in the log."""
        return self.value[0]

    @property
    def text(self) -> str:
        """As tools see it."""
        return self.value[1]


_ENDING = (TransactionStatus.PREPARE_COMMIT, TransactionStatus.PREPARE_ABORT)


class ProducerIdAndEpoch(NamedTuple):
    """A producer as it names itself."""

    producer_id: int
    epoch: int


@dataclass(frozen=True)
class TransactionMetadata:
    """What is known of a transactional id.

    Attributes:
        transactional_id: The id.
        producer_id: The producer that may use it.
        producer_epoch: The epoch that it must have; -1 before the first was given.
        timeout_ms: How long a transaction may take before it is aborted.
        status: Where it is.
        partitions: Where the open or ending transaction has written, or is about to.
        updated: When it changed last (ms).
        started: When the transaction began (ms); -1 while there is none.
        last_epoch: The epoch before, with which a producer may come back that has not heard of the new one.
        previous_producer_id: The id before, likewise.
        next_producer_id: The id that follows when the transaction is complete, as epochs ran out; -1 for none.
        client_version: The transaction version that its producer last spoke.
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
    client_version: int = 0

    @property
    def identity(self) -> ProducerIdAndEpoch:
        """The producer that may use it from now on, or will once the transaction is complete."""
        if self.next_producer_id != NO_PRODUCER_ID:
            return ProducerIdAndEpoch(self.next_producer_id, 0)
        return ProducerIdAndEpoch(self.producer_id, self.producer_epoch)

    @property
    def ending(self) -> bool:
        """Whether it is decided, but not all partitions know."""
        return self.status in _ENDING

    @property
    def commits(self) -> bool:
        """Whether it is, or was, to be committed."""
        return self.status in (TransactionStatus.PREPARE_COMMIT, TransactionStatus.COMPLETE_COMMIT)

    @property
    def deadline(self) -> int | None:
        """When it is aborted (ms), if it is open."""
        return self.started + self.timeout_ms if self.status is TransactionStatus.ONGOING else None

    # ---- InitProducerId

    def initialized(
        self, timeout_ms: int, known: ProducerIdAndEpoch | None, new_id: NewId, now: int
    ) -> TransactionMetadata:
        """A producer begins to use the id, and fences whoever did before.

        An open transaction is aborted first: then the result is ending, and the producer has to ask again.

        Args:
            timeout_ms: How long its transactions may take.
            known: What the producer was before, if it goes on after an error (KIP-360).
            new_id: Gives a producer id never given before.
            now: The time (ms).

        Raises:
            BrokerError: PRODUCER_FENCED or CONCURRENT_TRANSACTIONS.
        """
        self._check_complete()
        if known is not None and not self._continues(known):
            raise self._fenced(known)
        if self.status is TransactionStatus.ONGOING:
            return self.fenced(now)
        fresh = replace(
            self, status=TransactionStatus.EMPTY, partitions=frozenset(), timeout_ms=timeout_ms, started=-1, updated=now
        )
        if self.producer_epoch >= LAST_EPOCH and (known is None or known.epoch == self.producer_epoch):
            last = NO_EPOCH if known is None else self.producer_epoch
            return replace(
                fresh,
                producer_id=new_id(),
                producer_epoch=0,
                last_epoch=last,
                previous_producer_id=self.producer_id,
            )
        if known is None:
            return replace(fresh, producer_epoch=self.producer_epoch + 1, last_epoch=NO_EPOCH)
        if known.epoch == self.producer_epoch or self.producer_epoch == NO_EPOCH:
            return replace(fresh, producer_epoch=self.producer_epoch + 1, last_epoch=self.producer_epoch)
        if known.epoch == self.last_epoch:
            # It has asked before, and the answer was lost.
            return fresh
        raise self._fenced(known)

    def _continues(self, known: ProducerIdAndEpoch) -> bool:
        return (
            self.producer_epoch == NO_EPOCH
            or known.producer_id == self.producer_id
            or (known.producer_id == self.previous_producer_id and known.epoch >= LAST_EPOCH)
        )

    # ---- AddPartitionsToTxn, AddOffsetsToTxn, and what is added by writing

    def with_partitions(
        self, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition], client_version: int, now: int
    ) -> TransactionMetadata:
        """Partitions become a part of the transaction, which begins with the first ones.

        Returns:
            Itself, if there is nothing new.

        Raises:
            BrokerError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED or CONCURRENT_TRANSACTIONS.
        """
        self._check(producer)
        new = self.partitions.union(partitions) if self.status is TransactionStatus.ONGOING else frozenset(partitions)
        if self.status is TransactionStatus.ONGOING and new == self.partitions:
            return self
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
        """Which of the partitions are no part of the transaction (KIP-890, part 1).

        Raises:
            BrokerError: As :meth:`with_partitions`.
        """
        self._check(producer)
        return [partition for partition in partitions if partition not in self.partitions]

    def _check(self, producer: ProducerIdAndEpoch) -> None:
        # First: the producer may already use the id that follows when the transaction is complete.
        self._check_complete()
        if producer.producer_id != self.producer_id:
            raise BrokerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if producer.epoch != self.producer_epoch:
            raise self._fenced(producer)

    def _check_complete(self) -> None:
        if self.ending:
            raise BrokerError(ErrorCode.CONCURRENT_TRANSACTIONS)

    # ---- EndTxn

    def ended(
        self, producer: ProducerIdAndEpoch, commit: bool, client_version: int, new_id: NewId, now: int
    ) -> TransactionMetadata:
        """The producer commits or aborts.

        Args:
            producer: The producer.
            commit: Whether it commits.
            client_version: The transaction version that it speaks. From 2 on the epoch grows with each transaction.
            new_id: Gives a producer id never given before.
            now: The time (ms).

        Returns:
            The ending transaction; itself, if this was done before and the answer was lost.

        Raises:
            BrokerError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS or INVALID_TXN_STATE.
        """
        bumps = client_version >= EPOCH_BUMP
        if bumps:
            self._check_complete()
        again = self._ended_before(producer, bumps)
        if producer.producer_id != self.producer_id and not again:
            raise BrokerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if producer.epoch != self.producer_epoch and not again:
            raise self._fenced(producer)
        self._check_complete()
        if self.status is TransactionStatus.ONGOING:
            return self._ending_with(commit, bumps, client_version, new_id, now)
        if again and commit == self.commits:
            return self
        if bumps and not again and not commit:
            # Nothing was added, as far as is known here; what was written all the same is fenced by the new epoch.
            idle = replace(self, partitions=frozenset(), started=now)
            return idle._ending_with(commit, bumps, client_version, new_id, now)
        raise BrokerError(
            ErrorCode.INVALID_TXN_STATE, detail=f"{self.status.text}, to be {'committed' if commit else 'aborted'}"
        )

    def _ended_before(self, producer: ProducerIdAndEpoch, bumps: bool) -> bool:
        """Whether the producer may have ended this transaction before, and not have heard of it."""
        if self.status not in (TransactionStatus.COMPLETE_COMMIT, TransactionStatus.COMPLETE_ABORT):
            return False
        if not bumps:
            return producer == (self.producer_id, self.producer_epoch)
        # With an epoch for each transaction, the current one already means the next.
        bumped = producer == (self.producer_id, self.producer_epoch - 1)
        rotated = producer == (self.previous_producer_id, LAST_EPOCH) and self.producer_epoch == 0
        return bumped or rotated

    def _ending_with(
        self, commit: bool, bumps: bool, client_version: int, new_id: NewId, now: int
    ) -> TransactionMetadata:
        # The markers carry the new epoch, so that nothing sent before can come after them.
        exhausted = bumps and self.producer_epoch >= LAST_EPOCH
        return replace(
            self,
            status=TransactionStatus.PREPARE_COMMIT if commit else TransactionStatus.PREPARE_ABORT,
            producer_epoch=self.producer_epoch + 1 if bumps else self.producer_epoch,
            last_epoch=self.producer_epoch if bumps else self.last_epoch,
            next_producer_id=new_id() if exhausted else NO_PRODUCER_ID,
            client_version=client_version,
            updated=now,
        )

    def fenced(self, now: int) -> TransactionMetadata:
        """The open transaction is aborted without its producer, whose epoch ends by that."""
        assert self.status is TransactionStatus.ONGOING
        return replace(
            self,
            status=TransactionStatus.PREPARE_ABORT,
            producer_epoch=self.producer_epoch + 1,
            last_epoch=NO_EPOCH,
            updated=now,
        )

    def completed(self, now: int) -> TransactionMetadata:
        """All partitions have the marker."""
        assert self.ending
        producer = self.identity
        rotated = producer.producer_id != self.producer_id
        return replace(
            self,
            status=TransactionStatus.COMPLETE_COMMIT if self.commits else TransactionStatus.COMPLETE_ABORT,
            partitions=frozenset(),
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            previous_producer_id=self.producer_id if rotated else self.previous_producer_id,
            next_producer_id=NO_PRODUCER_ID,
            updated=now,
        )

    def expired(self, before: int) -> bool:
        """Whether nothing is open, and nothing happened since ``before`` (ms)."""
        return self.status is not TransactionStatus.ONGOING and not self.ending and self.updated <= before

    def _fenced(self, producer: ProducerIdAndEpoch) -> BrokerError:
        return BrokerError(
            ErrorCode.PRODUCER_FENCED,
            detail=f"{self.transactional_id!r} is used by producer {self.producer_id} with epoch "
            f"{self.producer_epoch}, not by {producer.producer_id} with {producer.epoch}",
        )


def fencing_code(code: ErrorCode, known: bool) -> ErrorCode:
    """PRODUCER_FENCED, or what clients of before KIP-588 know in its place; other codes as they are."""
    return ErrorCode.INVALID_PRODUCER_EPOCH if code is ErrorCode.PRODUCER_FENCED and not known else code
