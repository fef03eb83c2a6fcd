"""The public API of transactions."""

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
from aiokproto.producer.handed_over import HandedOver, PreparedTransaction
from aiokproto.producer.outcomes import BulkDelivery, Outcomes
from aiokproto.producer.partitioner import Partitioner
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
    """The methods of a consumer that a transaction needs."""

    def positions(self) -> Mapping[TopicPartition, OffsetAndMetadata]: ...
    def group_metadata(self) -> GroupMetadata: ...


def _ignore() -> None:
    """The ``committed`` callback for offsets whose consumer isn't notified of the outcome."""


class TransactionStatus(Enum):
    """How far a transaction has progressed."""

    NEW = auto()
    OPEN = auto()
    ENDING = auto()
    """``commit()`` or ``prepare()`` is waiting for the outcome of the records. Nothing more is accepted."""
    PREPARED = auto()
    """Everything is written. Only ``commit()``, ``abort()`` or ``Producer.complete_transaction()`` ends it."""
    COMMITTING = auto()
    """The commit was requested but hasn't been confirmed: it may or may not have taken effect."""
    COMMITTED = auto()
    ABORTED = auto()
    """Aborted, or being aborted. It can no longer be committed."""


@gated(TRANSACTION)
class Transaction(AsyncContext, RecordSender[K, V]):
    """Records and offsets that become visible together, or not at all. :meth:`Producer.transaction` creates it.

    ::

        async with producer.transaction() as txn:
            await txn.post("invoices", invoice)
            await txn.post("postings", posting)

    Leaving the block commits. An exception aborts, and propagates unchanged. A record that fails also aborts, even if
    the call raised its error and the application caught it: :meth:`commit`, or leaving the block, then raises
    ``TransactionAbortedError``. Three kinds of errors abort only if they leave the block: wrong arguments and failed
    serializers (``InvalidRecordError``), wrong use (``ConfigurationError``), and ``BufferFullError``.

    If the block is cancelled, it aborts in the background: the next transaction and :meth:`Producer.close` wait for
    that.

    With ``transaction_two_phase_commit_enable`` a transaction can also be prepared first (:meth:`prepare`). After that,
    leaving the block doesn't end it, with or without an exception: the decision is made elsewhere.

    Attributes:
        status: How far it has progressed.
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
        # The session that decides when it ends; None if the application does.
        self._session_of: object = None

    def _admit(self, use: Use) -> None:
        self._buffer.check_loop()
        # guard: only the session ends its transaction
        if self._session_of is not None:
            refuse(use, Obstacle.SESSION)

    async def __aenter__(self) -> Self:
        """Start the transaction, once the last one has ended.

        Raises:
            ConfigurationError: A transaction is open or prepared, or this one was started before.
            TransactionOutcomeUnknownError: The commit of the last one is still not confirmed.
            DeadlineError: The abort of the last one, or the epoch after it, is still not confirmed.
            KafkaError: The producer is not started, is closed, or has failed.
        """
        self._buffer.check_open()
        if self.status is not TransactionStatus.NEW:
            raise ConfigurationError("a transaction is used once: producer.transaction() makes the next one")
        # Change the status only afterwards. If the call is cancelled here, the transaction is still new, and the
        # manager has forgotten it.
        await self._manager.begin(self._session)
        self.status = TransactionStatus.OPEN
        # Open the session before setting the writer: the writer's topics become ready only while the session is open.
        self._session.close_error = None
        self._buffer.set_writer(self, self._session)
        return self

    async def _leave(self, error: BaseException | None) -> None:
        # The block may have already committed or aborted, or have started to.
        if self.status is not TransactionStatus.OPEN:
            return
        if error is None:
            await self._commit()
        elif not isinstance(error, Exception):
            # The block was cancelled, and its task must not wait for the coordinator.
            self._end(TransactionStatus.ABORTED)
            self._manager.start_abort()
        # A producer that is closed or has failed aborts on its own, or can't abort.
        elif self._buffer.close_error is None:
            try:
                await self.abort()
            except KafkaError as failure:
                # The producer may be fenced, for example. If so, the abort is never confirmed, and every call raises
                # that error.
                if self._buffer.close_error is None:
                    log.warning("the abort of the transaction is not confirmed yet: %s", failure)

    def _end(self, status: TransactionStatus, why: KafkaError | None = None) -> None:
        """Accept nothing more. Later calls raise ``why``, which by default says that the transaction was aborted."""
        self.status = status
        # If the transaction has already failed, keep that error, so every call gives the cause.
        if not isinstance(self._session.close_error, TransactionAbortedError):
            # Close the session before awaiting anything, so no record can slip in between this decision and the end.
            # This also ends calls that wait for buffer memory.
            why = why or TransactionAbortedError("the transaction was aborted")
            self._buffer.close_session(self._session, why)

    async def commit(self) -> None:
        """Send what is buffered, wait until it's acknowledged, and commit. Leaving the block does this.

        If the call is cancelled before everything is acknowledged, the transaction is aborted. If it's cancelled later,
        the transaction is already being committed. In this case, and after ``TransactionOutcomeUnknownError``, another
        call waits for the outcome.

        After ``TransactionAbortedError`` nothing of the transaction is visible. After any other error it may have been
        committed. Once it's known to be committed, no error is raised: if something fails afterwards, such as getting
        the next epoch, the next call raises that error.

        Raises:
            TransactionAbortedError: A record or an offset could not be written, or ``transaction_timeout_ms`` has
                passed. ``__cause__`` is the reason.
            TransactionOutcomeUnknownError: The coordinator did not respond within ``default_api_timeout_ms``: call
                ``commit()`` again. Or :meth:`Producer.close` ended before the coordinator responded.
            FencedError: Another producer has taken over the transactional id. With brokers before 3.0, this is also
                raised if ``transaction_timeout_ms`` has passed.
            ConfigurationError: The transaction has already ended, or ``complete_transaction()`` has decided how.
            KafkaError: The producer is closed, or has failed.
        """
        await self._commit()

    async def _commit(self) -> None:
        try:
            self._buffer.check_open()
        except KafkaError:
            # A transaction without its producer is never committed. Leaving the block doesn't have to raise that again.
            if self.status is TransactionStatus.OPEN:
                self.status = TransactionStatus.ABORTED
            raise
        if self.status is TransactionStatus.PREPARED:
            self._manager.check_undecided(self._session)
            self._session.close_error = ConfigurationError("the transaction was committed")
        # COMMITTING means that an earlier call was cancelled or got no response. Only the outcome is missing.
        elif self.status is not TransactionStatus.COMMITTING:
            self._check_not_ended()
            await self._finish_records("committed")
        self.status = TransactionStatus.COMMITTING
        try:
            await self._manager.commit(self._session)
        # After an unknown outcome, the status stays COMMITTING. Other errors concern the call, or end the producer.
        except TransactionAbortedError as error:
            self._end(TransactionStatus.ABORTED, error)
            raise
        self.status = TransactionStatus.COMMITTED

    async def prepare(self) -> PreparedTransaction:
        """Write everything, so a later :meth:`commit` can't fail because a record is missing (KIP-939).

        Nothing more is accepted. From then on neither leaving the block, nor ``close()``, nor a timeout ends the
        transaction: store the result where the decision is made, then call :meth:`commit` or :meth:`abort`. If a
        process finds a prepared transaction when it starts, it calls :meth:`Producer.complete_transaction
        <aiokproto.producer.Producer.complete_transaction>` with the stored value.

        If cancelled, the transaction is aborted.

        Returns:
            The identifier of the transaction.

        Raises:
            TransactionAbortedError: A record or an offset could not be written; the transaction is aborted.
            ConfigurationError: The producer doesn't have ``transaction_two_phase_commit_enable``, or the transaction
                has ended.
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
        """Write everything, and let another process end the transaction: see :mod:`aiokproto.producer.handed_over`.

        Nothing more is accepted, and neither leaving the block nor ``close()`` ends the transaction. After
        ``transaction_timeout_ms`` the coordinator aborts it, unless the producer has two-phase commit. It must contain
        records: the coordinator doesn't know an empty transaction.

        If cancelled, the transaction is aborted.

        Returns:
            The identifier of the transaction.

        Raises:
            TransactionAbortedError: A record or an offset could not be written; the transaction is aborted.
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
        # If the status is COMMITTING, the transaction's own commit() has decided.
        if self.status is TransactionStatus.PREPARED:
            self.status = TransactionStatus.COMMITTED if committed else TransactionStatus.ABORTED
            self._session.close_error = ConfigurationError("complete_transaction() has decided about this transaction")

    async def _finish_records(self, what: str) -> None:
        """Wait for the outcome of everything, and abort if anything has failed.

        Raises:
            TransactionAbortedError: The transaction is aborted.
            KafkaError: The producer has failed.
        """
        # Check for a failure before the session ends, and again after the flush. If there's already one, there's no
        # need to flush.
        failed = self._manager.failure is not None
        self._end(TransactionStatus.ENDING, ConfigurationError(f"the transaction was {what}"))
        try:
            if not failed:
                await self._manager.flush()
            # A fatal error may have ended the producer during the flush.
            self._buffer.check_open()
        # If this is cancelled while records are in flight, commit() may never be called again, and a transaction must
        # not stay open until its timeout.
        except BaseException:
            self._end(TransactionStatus.ABORTED)
            self._manager.start_abort()
            raise
        if self._manager.failure is not None:
            error = self._manager.aborted()
            self._end(TransactionStatus.ABORTED)
            try:
                # Wait for the abort, so the next transaction can start right after this error.
                await self._manager.abort()
            except KafkaError as unconfirmed:
                # The producer may be fenced, for example.
                if self._buffer.close_error is not None:
                    raise
                log.warning("the abort of the transaction is not confirmed yet: %s", unconfirmed)
            raise error

    async def abort(self) -> None:
        """Abort: records that haven't been sent yet fail, and what is written stays invisible to ``read_committed``.

        Waits for the outcome of records in flight, at most ``delivery_timeout_ms``. If cancelled, the abort continues
        in the background. A second call does nothing.

        Raises:
            DeadlineError: The coordinator did not respond within ``default_api_timeout_ms``. The next transaction
                repeats the abort before it starts.
            FencedError: For the same reasons as :meth:`commit`.
            ConfigurationError: The transaction was committed, or ``complete_transaction()`` has decided its outcome.
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
        """Whether part of the transaction wasn't written, and the producer is still usable."""
        return (
            self.status is TransactionStatus.OPEN
            and self._manager.failure is not None
            and self._buffer.close_error is None
        )

    def _check_not_ended(self) -> None:
        if self.status is not TransactionStatus.OPEN:
            assert self._session.close_error is not None, "a session is open from start to end"
            raise self._session.close_error.with_traceback(None)

    async def send_many(
        self,
        topic: str,
        records: Iterable[V | ProducerRecord[K, V]] | SupportsArrow,
        *,
        partition: int | None = None,
    ) -> Outcomes:
        """Like :meth:`Producer.send_many <aiokproto.producer.Producer.send_many>`; one failed record aborts."""
        outcomes = await super().send_many(topic, records, partition=partition)
        for error in outcomes.errors.values():
            # The first error fails the transaction. The rest have no effect.
            self._manager.fail_of(self._session, error)
        return outcomes

    async def post_many(
        self,
        topic: str,
        records: Iterable[V | ProducerRecord[K, V]] | SupportsArrow,
        *,
        partition: int | None = None,
    ) -> BulkDelivery:
        """Like :meth:`Producer.post_many <aiokproto.producer.Producer.post_many>`; one failed record aborts."""
        delivery = await super().post_many(topic, records, partition=partition)
        # If a buffered record fails, its batch fails the transaction. So only rejected records are handled here.
        for error in delivery.rejections()[:1]:
            self._manager.fail_of(self._session, error)
        return delivery

    async def send_offsets(
        self, offsets: SupportsPositions | Offsets[Partition], group: GroupMetadata | str | None = None
    ) -> None:
        """Commit a group's offsets as part of the transaction (KIP-447). Call it after sending the records.

        Cancelling it fails the transaction.

        Args:
            offsets: A consumer, for its membership and its positions; everything that it has delivered counts as
                processed. Or a mapping of partitions to the offsets to continue from.
            group: The group that the offsets belong to: :meth:`Consumer.group_metadata()
                <aiokproto.consumer.Consumer.group_metadata>`. With this, the coordinator refuses the offsets of a
                member that the group has continued without; with only a group id it doesn't check that. None means the
                consumer's group.

        Raises:
            TransactionAbortedError: The coordinator refused the offsets, for example because the group has assigned the
                partitions to another member. Or the group has taken partitions away since their records were delivered,
                even if it has given them back; in this case ``__cause__`` is a ``CommitError``. The transaction can
                only be aborted.
            ConfigurationError: There is no group, the consumer has ``enable_auto_commit`` on, an offset is out of
                range, or the transaction has ended.
            KafkaError: The producer is closed, or has failed.
        """
        # Check this before the arguments: after the end, every call says how the transaction ended.
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
            # A consumer of this package returns its positions and ownership at the same moment. Each attempt compares
            # them again.
            source = getattr(offsets, "_everything", lambda: offsets)()
            chosen = dict(source.positions())
            identity, committed = source.group_metadata, getattr(source, "_committed", _ignore)
            try:
                group = identity() if group is None else group
            # Another member may already own its partitions.
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
