"""Transactions: the public API."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from enum import Enum, auto
from typing import TYPE_CHECKING, Protocol

from aiokproto.application.async_context import AsyncContext
from aiokproto.application.gates import TRANSACTION, Obstacle, Use, gated, refuse
from aiokproto.errors import (
    CommitError,
    ConfigurationError,
    KafkaError,
    TransactionAbortedError,
)
from aiokproto.group.arguments import Offsets, Partition, to_offsets, to_partition, to_position
from aiokproto.net.versions import BrokerVersions
from aiokproto.producer.arrow_tables import SupportsArrow
from aiokproto.producer.buffer import Buffer, WriteSession
from aiokproto.producer.handed_over import HandedOver
from aiokproto.producer.outcomes import BulkDelivery, Outcomes
from aiokproto.producer.partitioner import Partitioner
from aiokproto.producer.prepared_transaction import PreparedTransaction
from aiokproto.producer.record import ProducerRecord
from aiokproto.producer.record_sender import RecordSender
from aiokproto.producer.serializers import Serializers
from aiokproto.producer.transaction_manager import TransactionManager
from aiokproto.producer.transaction_requests import OffsetsToSend
from aiokproto.types import GroupMetadata, K, OffsetAndMetadata, TopicPartition, V

if TYPE_CHECKING:
    from typing_extensions import Self

log = logging.getLogger("aiokproto.producer")


class SupportsPositions(Protocol):
    """A consumer, as far as a transaction needs one."""

    def positions(self) -> Mapping[TopicPartition, OffsetAndMetadata]: ...
    def group_metadata(self) -> GroupMetadata: ...


def _ignore() -> None:
    """For offsets whose consumer does not learn what becomes of them."""


class TransactionStatus(Enum):
    """How far a transaction has come."""

    NEW = auto()
    OPEN = auto()
    ENDING = auto()
    """``commit()`` or ``prepare()`` waits for the outcome of the records; nothing is accepted any more."""
    PREPARED = auto()
    """Everything is written, and only ``commit()``, ``abort()`` or ``Producer.complete_transaction()`` ends it."""
    COMMITTING = auto()
    """The commit was requested, and is not confirmed: it may have taken effect or not."""
    COMMITTED = auto()
    ABORTED = auto()
    """Aborted, or being aborted: it cannot be committed any more."""


@gated(TRANSACTION)
class Transaction(AsyncContext, RecordSender[K, V]):
    """Records and offsets that become visible together, or not at all. :meth:`Producer.transaction` makes it.

    ::

        async with producer.transaction() as txn:
            await txn.post("invoices", invoice)
            await txn.post("postings", posting)

    Leaving the block commits. An exception aborts, and is raised as it is. A record that fails aborts too,
    also if the call raised its error and that was caught: then :meth:`commit`, or leaving the block, raises
    ``TransactionAbortedError``. Three kinds of errors abort only if they leave the block: wrong arguments and failed
    serializers (``InvalidRecordError``), wrong use (``ConfigurationError``), and ``BufferFullError``.

    A block that is cancelled aborts in the background: the next transaction, and :meth:`Producer.close`, wait for that.

    With ``transaction_two_phase_commit_enable`` a transaction can also be prepared first (:meth:`prepare`). From then
    on, leaving the block does not end it, with or without an exception: the decision is made elsewhere.

    Attributes:
        status: How far it has come.
    """

    def __init__(
        self,
        partitioner: Partitioner | None,
        buffer: Buffer,
        manager: TransactionManager,
        serializers: Serializers[K, V],
        old_versions: BrokerVersions | None,
    ) -> None:
        not_begun = ConfigurationError("the transaction has not begun: async with producer.transaction() as txn")
        super().__init__(partitioner, buffer, WriteSession(not_begun, manager), serializers)
        self._old_versions = old_versions
        self._manager = manager
        self.status = TransactionStatus.NEW
        # The session that decides about it; None for the application.
        self._session_of: object = None

    def _admit(self, use: Use) -> None:
        self._buffer.check_loop()
        # guard: only the session ends its transaction
        if self._session_of is not None:
            refuse(use, Obstacle.SESSION)

    async def __aenter__(self) -> Self:
        """Begin. Waits for the end of the last transaction.

        Raises:
            ConfigurationError: A transaction is open or prepared, or this one was begun before.
            TransactionOutcomeUnknownError: The commit of the last one is still not confirmed.
            DeadlineError: The abort of the last one, or the epoch after it, is still not confirmed.
            KafkaError: The producer is not started, is closed, or has failed.
        """
        self._buffer.check_open()
        if self.status is not TransactionStatus.NEW:
            raise ConfigurationError("a transaction is used once: producer.transaction() makes the next one")
        # The status changes only after it: cancelled here, the transaction is still new, and the manager has forgotten
        # it.
        await self._manager.begin(self._session)
        self.status = TransactionStatus.OPEN
        # Opened before the writer is set, whose topics become ready only while it is open.
        self._session.closed = None
        self._buffer.set_writer(self, self._session)
        return self

    async def _leave(self, error: BaseException | None) -> None:
        # The block has committed or aborted by itself, or begun to.
        if self.status is not TransactionStatus.OPEN:
            return
        if error is None:
            await self._commit()
        elif not isinstance(error, Exception):
            # Cancelled: the caller must not wait for the coordinator.
            self._end(TransactionStatus.ABORTED)
            self._manager.start_abort()
        # A producer that has failed or is closed aborts by itself, or cannot.
        elif self._buffer.closed is None:
            try:
                await self.abort()
            except KafkaError as failure:
                # Fenced, for example: it never will be, and every call says so.
                if self._buffer.closed is None:
                    log.warning("the abort of the transaction is not confirmed yet: %s", failure)

    def _end(self, status: TransactionStatus, why: KafkaError | None = None) -> None:
        """Accept nothing more: from now on calls raise ``why``, by default that the transaction was aborted."""
        self.status = status
        # It has failed already, and every call says why.
        if not isinstance(self._session.closed, TransactionAbortedError):
            # Before anything is awaited, so that no record can slip in between this decision and the end. Also for
            # calls that wait for buffer memory.
            why = why or TransactionAbortedError("the transaction was aborted")
            self._buffer.close_session(self._session, why)

    async def commit(self) -> None:
        """Send what is buffered, wait for its acknowledgement, and commit. Leaving the block does it.

        Cancelled before everything is acknowledged, the transaction is aborted. Cancelled later, it is being committed:
        then, and after ``TransactionOutcomeUnknownError``, another call waits for the outcome.

        After ``TransactionAbortedError`` nothing of the transaction is visible. After any other error it may have been
        committed. Once it is known to be committed no error is raised: what fails afterwards, such as the next epoch,
        is raised by the next call.

        Raises:
            TransactionAbortedError: A record or an offset could not be written, or ``transaction_timeout_ms`` has
                passed. The cause is its ``__cause__``.
            TransactionOutcomeUnknownError: The coordinator did not respond within ``default_api_timeout_ms``: call
                ``commit()`` again. Or :meth:`Producer.close` ended before it did.
            FencedError: Another producer has taken over the transactional id; with brokers before 3.0 also if
                ``transaction_timeout_ms`` has passed.
            ConfigurationError: The transaction has ended already, or ``complete_transaction()`` has decided about it.
            KafkaError: The producer is closed, or has failed.
        """
        await self._commit()

    async def _commit(self) -> None:
        try:
            self._buffer.check_open()
        except KafkaError:
            # Without its producer it never is committed, and leaving the block need not say so again.
            if self.status is TransactionStatus.OPEN:
                self.status = TransactionStatus.ABORTED
            raise
        if self.status is TransactionStatus.PREPARED:
            self._manager.check_undecided(self._session)
            self._session.closed = ConfigurationError("the transaction was committed")
        # COMMITTING: an earlier call was cancelled, or had no response. Only the outcome is missing.
        elif self.status is not TransactionStatus.COMMITTING:
            self._check_not_ended()
            await self._finish_records("committed")
        self.status = TransactionStatus.COMMITTING
        try:
            await self._manager.commit(self._session)
        # Unknown stays COMMITTING, and other errors are about the call or end the producer.
        except TransactionAbortedError as error:
            self._end(TransactionStatus.ABORTED, error)
            raise
        self.status = TransactionStatus.COMMITTED

    async def prepare(self) -> PreparedTransaction:
        """Write everything, so that a later :meth:`commit` cannot fail for lack of a record (KIP-939).

        Nothing is accepted any more. Neither leaving the block nor ``close()`` ends the transaction now, and no
        timeout: store the result where the decision is made, then call :meth:`commit` or :meth:`abort`. A process that
        finds a prepared transaction when it starts calls :meth:`Producer.complete_transaction
        <aiokproto.producer.Producer.complete_transaction>` with what was stored.

        Cancelled, the transaction is aborted.

        Returns:
            What names the transaction.

        Raises:
            TransactionAbortedError: A record or an offset could not be written; it is aborted.
            ConfigurationError: The producer lacks ``transaction_two_phase_commit_enable``, or the transaction has
                ended.
            KafkaError: The producer is closed, or has failed.
        """
        self._buffer.check_open()
        if not self._manager.id.two_phase:
            raise ConfigurationError("prepare() needs the option transaction_two_phase_commit_enable=True")
        self._check_not_ended()
        await self._finish_records("prepared")
        self.status = TransactionStatus.PREPARED
        return self._manager.prepare(self)

    async def hand_over(self) -> HandedOver:
        """Write everything, and leave the end to another process: see :mod:`aiokproto.producer.handed_over`.

        Nothing is accepted any more, and neither leaving the block nor ``close()`` ends the transaction. After
        ``transaction_timeout_ms`` the coordinator aborts it, unless the producer has two-phase commit. It must have
        records: the coordinator does not know an empty one.

        Cancelled, the transaction is aborted.

        Returns:
            What names the transaction.

        Raises:
            TransactionAbortedError: A record or an offset could not be written; it is aborted.
            ConfigurationError: The transaction has ended.
            KafkaError: The producer is closed, or has failed.
        """
        self._buffer.check_open()
        self._check_not_ended()
        await self._finish_records("handed over")
        self.status = TransactionStatus.PREPARED
        name = self._manager.id.name
        return HandedOver(name, *self._manager.prepare(self), v2=self._manager.v2)

    def _decided(self, committed: bool) -> None:
        # COMMITTING: its own commit() has decided.
        if self.status is TransactionStatus.PREPARED:
            self.status = TransactionStatus.COMMITTED if committed else TransactionStatus.ABORTED
            self._session.closed = ConfigurationError("complete_transaction() has decided about this transaction")

    async def _finish_records(self, what: str) -> None:
        """Wait for the outcome of everything; if that is bad, abort.

        Raises:
            TransactionAbortedError: It is aborted.
            KafkaError: The producer has failed.
        """
        # Read before the session ends, and again after the flush: a failure that is known now needs no flush.
        failed = self._manager.failure is not None
        self._end(TransactionStatus.ENDING, ConfigurationError(f"the transaction was {what}"))
        try:
            if not failed:
                await self._manager.flush()
            # A fatal error may have ended the producer meanwhile.
            self._buffer.check_open()
        # Cancelled while records are in flight: nobody will call commit() again with certainty, and a transaction must
        # not stay open until its timeout.
        except BaseException:
            self._end(TransactionStatus.ABORTED)
            self._manager.start_abort()
            raise
        if self._manager.failure is not None:
            error = self._manager.aborted()
            self._end(TransactionStatus.ABORTED)
            try:
                # Waited for: after this error the next transaction can begin at once.
                await self._manager.abort()
            except KafkaError as unconfirmed:
                # Fenced, for example.
                if self._buffer.closed is not None:
                    raise
                log.warning("the abort of the transaction is not confirmed yet: %s", unconfirmed)
            raise error

    async def abort(self) -> None:
        """Abort: records that were not sent yet fail, and what is written stays invisible to ``read_committed``.

        Waits for the outcome of records in flight, at most ``delivery_timeout_ms``. Cancelled, it goes on in the
        background. A second call does nothing.

        Raises:
            DeadlineError: The coordinator did not respond within ``default_api_timeout_ms``. The next transaction
                repeats the abort before it begins.
            FencedError: As :meth:`commit`.
            ConfigurationError: The transaction was committed, or ``complete_transaction()`` has decided about it.
            KafkaError: The producer is closed, or has failed.
        """
        self._buffer.check_open()
        if self.status is TransactionStatus.ABORTED:
            return
        if self.status is TransactionStatus.PREPARED:
            self._manager.check_undecided(self._session)
        else:
            self._check_not_ended()
        self._end(TransactionStatus.ABORTED)
        await self._manager.abort()

    @property
    def _can_only_be_aborted(self) -> bool:
        """Whether something of it was not written, and the producer can go on."""
        return (
            self.status is TransactionStatus.OPEN and self._manager.failure is not None and self._buffer.closed is None
        )

    def _check_not_ended(self) -> None:
        if self.status is not TransactionStatus.OPEN:
            assert self._session.closed is not None, "a session is open from begin to end"
            raise self._session.closed.with_traceback(None)

    async def send_many(
        self,
        topic: str,
        records: Iterable[V | ProducerRecord[K, V]] | SupportsArrow,
        *,
        partition: int | None = None,
    ) -> Outcomes:
        """As :meth:`Producer.send_many <aiokproto.producer.Producer.send_many>`; one failed record aborts."""
        outcomes = await super().send_many(topic, records, partition=partition)
        for error in outcomes.errors.values():
            # Each: the first fails the transaction, the others change nothing.
            self._manager.fail_of(self._session, error)
        return outcomes

    async def post_many(
        self,
        topic: str,
        records: Iterable[V | ProducerRecord[K, V]] | SupportsArrow,
        *,
        partition: int | None = None,
    ) -> BulkDelivery:
        """As :meth:`Producer.post_many <aiokproto.producer.Producer.post_many>`; one failed record aborts."""
        delivery = await super().post_many(topic, records, partition=partition)
        # Only these: a record that was buffered fails the transaction by itself.
        for error in delivery.rejections()[:1]:
            self._manager.fail_of(self._session, error)
        return delivery

    async def send_offsets(
        self, offsets: SupportsPositions | Offsets[Partition], group: GroupMetadata | str | None = None
    ) -> None:
        """Commit a group's offsets as part of the transaction (KIP-447). Call it once the records are sent.

        Cancelling it fails the transaction.

        Args:
            offsets: A consumer: its positions, so that everything delivered counts as processed, and its membership. Or
                partition → the offset to continue from.
            group: Whose offsets: :meth:`Consumer.group_metadata() <aiokproto.consumer.Consumer.group_metadata>`, with
                which the coordinator refuses the offsets of a member that the group has continued without. Only a group
                id turns that check off. None for the consumer's.

        Raises:
            TransactionAbortedError: The coordinator refused them, for example because the group has assigned the
                partitions to another member. Or the group has taken partitions away since their records were delivered,
                even if it has given them back: the ``__cause__`` is a ``CommitError``. The transaction can only be
                aborted.
            ConfigurationError: There is no group, the consumer has ``enable_auto_commit`` on, an offset is out of
                range, or the transaction has ended.
            KafkaError: The producer is closed, or has failed.
        """
        # Before the arguments: after the end every call says how it ended.
        self._buffer.check_open(self._session)
        if isinstance(offsets, Mapping):
            given = to_offsets("send_offsets", offsets)
            chosen = {to_partition(partition): to_position(offset) for partition, offset in given.items()}
            identity, committed = None, _ignore
        elif hasattr(offsets, "positions") and hasattr(offsets, "group_metadata"):
            if getattr(getattr(offsets, "config", None), "enable_auto_commit", False):
                raise ConfigurationError(
                    "send_offsets(consumer) needs a consumer with enable_auto_commit=False: else its offsets are "
                    "committed whether or not the transaction is"
                )
            # A consumer of this package: positions and ownership of one moment, which each attempt compares again.
            source = getattr(offsets, "_everything", lambda: offsets)()
            chosen = dict(source.positions())
            identity, committed = source.group_metadata, getattr(source, "_committed", _ignore)
            try:
                group = identity() if group is None else group
            # Its positions may be another member's by now.
            except CommitError as error:
                self._manager.fail(error)
                raise self._manager.aborted() from error
        else:
            raise ConfigurationError(
                "send_offsets() takes a consumer, or a dict of partitions, or consumer.progress(records), not "
                f"{offsets!r}"
            )
        if isinstance(group, str):
            group = GroupMetadata(group)
        if not isinstance(group, GroupMetadata) or not group.group_id:
            raise ConfigurationError(f"group={group!r}: expected consumer.group_metadata(), or a group id")
        # Nothing was read, so there is nothing to commit; an empty TxnOffsetCommit would still add the group.
        if chosen:
            given_group = group
            sent = OffsetsToSend(group.group_id, chosen, identity or (lambda: given_group), committed)
            await self._manager.add_offsets(self._session, sent)
