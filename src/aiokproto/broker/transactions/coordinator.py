"""The transaction coordinator (Kafka's TransactionCoordinator and TransactionStateManager). It doesn't use asyncio.

Every step of a transaction is appended to ``__transaction_state`` before it takes effect. After EndTxn the coordinator
writes a marker to each partition, and completes the transaction when all of them have it. A partition without a leader
gets its marker once it has a leader again. Until then the transaction stays in a ``Prepare`` state, and its producer
gets CONCURRENT_TRANSACTIONS, which it retries.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aiokproto.broker.clock import Timer
from aiokproto.broker.groups.coordinator import GroupCoordinator
from aiokproto.broker.metadata.cluster_state import ClusterState
from aiokproto.broker.metadata.internal_topics import InternalRecord, Take, internal_topic_records, partition_for
from aiokproto.broker.metadata.topics import NO_LEADER, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Partition, Topic
from aiokproto.broker.transactions.records import decode_key, decode_value, encode_key, encode_value
from aiokproto.broker.transactions.transaction_metadata import (
    EPOCH_BUMP,
    NO_TIMEOUT_MS,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionMetadata,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records import BatchBuilder
from aiokproto.records.control import encode_end_transaction

_ENDED_THERE = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
"""If a partition rejects a marker with one of these codes, it has seen a newer epoch: the transaction has already ended
there."""


_RETRY_SECONDS = 10.0
"""Delay before retrying to abort a transaction that timed out, if the abort couldn't be replicated: Kafka's
``transaction.abort.timed.out.transaction.cleanup.interval.ms``."""

_STEP_MS = 20
"""The minimum delay of a timer. It's longer than the step of a coarse clock (16 ms on Windows), so the wall clock has
advanced when the timer fires."""


class TransactionCoordinator:
    """All transactional ids of the cluster, whichever node coordinates them."""

    def __init__(self, state: ClusterState, groups: GroupCoordinator) -> None:
        self._state = state
        self._groups = groups
        self._transactions: dict[str, TransactionMetadata] = {}
        # For transactions in a Prepare state: the partitions without a marker so far, by transactional id.
        self._pending_markers: dict[str, set[TopicPartition]] = {}
        self._timers: dict[str, Timer] = {}
        # The timer of each partition's load. Requests for the partition's ids fail until it fires.
        self._loading: dict[Partition, Timer] = {}
        # What has been read so far, between reading() and start().
        self._found = _Found()

    def reading(self) -> Iterator[tuple[Partition, Take]]:
        """Yield the partitions of ``__transaction_state`` to read before :meth:`start`, each with the function that
        takes its records."""
        topic = self._state.topics.get(TRANSACTIONS_TOPIC)
        for partition in topic.partitions if topic is not None else ():
            yield partition, self._found.take

    def start(self) -> None:
        """Load the transactions that were read, and finish those in a ``Prepare`` state."""
        found, self._found = self._found, _Found()
        # Unlike in leader_changed(), this is synchronous: no request is served between the leader election and this
        # call.
        self._restore(found)

    def close(self) -> None:
        """Cancel the timers and drop all state."""
        for timer in (*self._timers.values(), *self._loading.values()):
            timer.cancel()
        self._timers.clear()
        self._loading.clear()
        self._transactions.clear()
        self._pending_markers.clear()

    # ---- partitions of __transaction_state

    def partition_of(self, transactional_id: str) -> Partition:
        """Return the partition that an id hashes to. The topic is created on first use."""
        return partition_for(transactional_id, self._state.internal_topic(TRANSACTIONS_TOPIC).partitions)

    def check(self, transactional_id: str, node_id: int) -> None:
        """Check that a node coordinates an id.

        Raises:
            BrokerError: INVALID_REQUEST, NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not transactional_id:
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail="the transactional id is empty")
        # The node is checked first: a client at the wrong node must look for the coordinator, not wait for the load.
        partition = self.partition_of(transactional_id)
        if partition.leader != node_id:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)
        if partition in self._loading:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def leader_changed(self, partition: Partition) -> None:
        """Reload the transactions of a ``__transaction_state`` partition that moved, or write pending markers to
        another partition."""
        if partition.topic == TRANSACTIONS_TOPIC:
            # The transactions are reloaded even if the same node leads again: there is a new leader epoch, and memory
            # must match the log.
            self._drop(partition)
            if partition.leader != NO_LEADER:
                # Loading isn't synchronous: as in Kafka, requests that arrive before it get
                # COORDINATOR_LOAD_IN_PROGRESS.
                clock = self._state.clock
                self._loading[partition] = clock.call_at(clock.time(), self._load, partition)
        elif partition.leader != NO_LEADER:
            led = (partition.topic, partition.index)
            # This is a list because transactions that get their last marker are removed from the dict.
            for transactional_id in [each for each, pending in self._pending_markers.items() if led in pending]:
                self._write_pending_markers(transactional_id)

    def topic_deleted(self, topic: Topic) -> None:
        """Drop pending markers of a deleted topic's partitions."""
        if topic.name == TRANSACTIONS_TOPIC:
            self.close()
            return
        # A partition that doesn't exist doesn't need a marker, so this completes transactions that were only waiting
        # for such markers.
        for transactional_id in list(self._pending_markers):
            self._write_pending_markers(transactional_id)

    def check_enough_replicas(self, transactional_id: str) -> None:
        """Check ``transaction.state.log.min.isr``: a decision must be replicated before the producer gets its response.

        Raises:
            BrokerError: COORDINATOR_NOT_AVAILABLE if too few replicas are in sync.
        """
        try:
            self._state.check_in_sync(self.partition_of(transactional_id))
        except BrokerError as error:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, detail=error.detail) from None

    # ---- queries

    def find(self, transactional_id: str) -> TransactionMetadata | None:
        """Return the metadata of an id, or None."""
        return self._transactions.get(transactional_id)

    def transactions_of(self, node_id: int) -> Iterator[TransactionMetadata]:
        """Yield the transactions that a node coordinates.

        Raises:
            BrokerError: COORDINATOR_LOAD_IN_PROGRESS if the node has not loaded all of them.
        """
        if any(partition.leader == node_id for partition in self._loading):
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return (each for key, each in self._transactions.items() if self.partition_of(key).leader == node_id)

    # ---- requests of producers; handlers call ``check`` first

    def init_producer_id(
        self,
        transactional_id: str,
        timeout_ms: int,
        known: ProducerIdAndEpoch | None,
        *,
        two_phase: bool = False,
        keep_prepared: bool = False,
    ) -> TransactionMetadata:
        """Assign a producer id and epoch to a transactional id (InitProducerId).

        Args:
            transactional_id: The id.
            timeout_ms: The timeout of its transactions.
            known: The producer's current id and epoch; None for a new producer.
            two_phase: Whether its transactions don't have a timeout (KIP-939).
            keep_prepared: Whether to keep an ongoing transaction for this producer to commit or abort.

        Raises:
            BrokerError: INVALID_TRANSACTION_TIMEOUT, TRANSACTIONAL_ID_AUTHORIZATION_FAILED (two-phase commit is not
                enabled), PRODUCER_FENCED, COORDINATOR_NOT_AVAILABLE (:meth:`check_enough_replicas`);
                CONCURRENT_TRANSACTIONS if the previous transaction is being aborted or completed: the producer must
                retry.
        """
        if two_phase and not self._state.options.value("transaction.two.phase.commit.enable"):
            raise BrokerError(
                ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, detail="transaction.two.phase.commit.enable is false"
            )
        limit = self._state.options.number("transaction.max.timeout.ms")
        if two_phase:
            timeout_ms = NO_TIMEOUT_MS
        elif not 0 < timeout_ms <= limit:
            raise BrokerError(
                ErrorCode.INVALID_TRANSACTION_TIMEOUT,
                detail=f"a transaction timeout of {timeout_ms} ms, transaction.max.timeout.ms is {limit}",
            )
        # A function, so an id is allocated only if needed. If the request fails, the id is lost, which is harmless.
        new_id = self._state.new_producer_id
        transaction = self._transactions.get(transactional_id) or TransactionMetadata(
            transactional_id, new_id(), timeout_ms
        )
        # Compute the step before checking the replicas: a fenced producer must not be made to retry.
        after = transaction.initialized(timeout_ms, known, new_id, self._state.clock.wall(), keep=keep_prepared)
        self.check_enough_replicas(transactional_id)
        self._write(after)
        if after.ending:
            self._write_pending_markers(transactional_id)
            # The producer must retry even if the abort is complete by now: the abort's epoch fences the previous
            # producer, and isn't given to any producer. The retry gets the next epoch.
            raise BrokerError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return after

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        client_version: int = 0,
    ) -> None:
        """Add partitions to the ongoing transaction, or start one.

        Raises:
            BrokerError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, or
                COORDINATOR_NOT_AVAILABLE (see :meth:`check_enough_replicas`).
        """
        before = self._known(transactional_id)
        after = before.with_partitions(producer, partitions, client_version, self._state.clock.wall())
        # If it's a retry, or the transaction already includes the partitions, there's nothing to write.
        if after is not before:
            self.check_enough_replicas(transactional_id)
            self._write(after)

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Return the partitions that are not part of the ongoing transaction.

        Raises:
            BrokerError: The same errors as :meth:`add_partitions`.
        """
        # This doesn't write anything or extend the transaction. It only rejects batches that don't belong to a
        # transaction (KIP-890, part 1).
        return self._known(transactional_id).verify(producer, partitions)

    def verify_or_add_partition(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partition: Partition, *, adds: bool, abortable: bool
    ) -> None:
        """Verify or add a partition before a leader appends a transaction's first batch to it (KIP-890).

        Args:
            transactional_id: The producer's transactional id.
            producer: The producer.
            partition: The partition that it writes to.
            adds: Whether Produce adds the partition (transaction version 2). Otherwise AddPartitionsToTxn must have
                added it.
            abortable: Whether the code TRANSACTION_ABORTABLE exists in the request's version.

        Raises:
            BrokerError: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, INVALID_PRODUCER_ID_MAPPING,
                INVALID_PRODUCER_EPOCH, CONCURRENT_TRANSACTIONS; TRANSACTION_ABORTABLE or INVALID_TXN_STATE if the
                partition was not added.
        """
        # This doesn't call check(), because the caller is the leader of the data partition, not a client that must find
        # the coordinator. In Kafka, the leader sends AddPartitionsToTxn v4 to the coordinator.
        coordinator = self.partition_of(transactional_id)
        if coordinator.leader == NO_LEADER:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if coordinator in self._loading:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        partitions = [(partition.topic, partition.index)]
        try:
            if adds:
                self.add_partitions(transactional_id, producer, partitions, EPOCH_BUMP)
            elif self._state.options.value("transaction.partition.verification.enable") and self.verify(
                transactional_id, producer, partitions
            ):
                code = ErrorCode.TRANSACTION_ABORTABLE if abortable else ErrorCode.INVALID_TXN_STATE
                raise BrokerError(code, detail=f"{partition.topic}-{partition.index} was not added to the transaction")
        except BrokerError as error:
            # PRODUCER_FENCED is fatal for a producer. In a Produce response, the cause may be stale coordinator state.
            # So, like Kafka, return INVALID_PRODUCER_EPOCH, after which the producer sends InitProducerId.
            if error.code is ErrorCode.PRODUCER_FENCED:
                raise BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH, detail=error.detail) from None
            raise

    def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, commit: bool, client_version: int = 0
    ) -> TransactionMetadata:
        """Commit or abort the ongoing transaction (EndTxn).

        Returns:
            The transaction. Its ``identity`` is the producer's next id and epoch.

        Raises:
            BrokerError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE, or
                COORDINATOR_NOT_AVAILABLE (see :meth:`check_enough_replicas`).
        """
        before = self._known(transactional_id)
        after = before.ended(producer, commit, client_version, self._state.new_producer_id, self._state.clock.wall())
        # If this is a retry of an EndTxn that was applied, there's nothing to write.
        if after is not before:
            self.check_enough_replicas(transactional_id)
            self._write(after)
            self._write_pending_markers(transactional_id)
        return after

    # ---- markers

    def write_marker(
        self, partition: Partition, producer: ProducerIdAndEpoch, commit: bool, coordinator_epoch: int
    ) -> None:
        """Append a commit or abort marker to a partition.

        Raises:
            BrokerError: INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED.
        """
        now = self._state.clock.wall()
        marker = encode_end_transaction(
            committed=commit,
            producer_id=producer.producer_id,
            producer_epoch=producer.epoch,
            coordinator_epoch=coordinator_epoch,
            timestamp=now,
        )
        # If the coordinator was replaced or the epoch is older, the log rejects the marker before anything has changed.
        partition.append(marker, now)
        # Write the marker first: a group coordinator that loads this partition must arrive at the same offsets from the
        # log alone.
        if partition.topic == OFFSETS_TOPIC:
            self._groups.transaction_ended(partition, producer.producer_id, commit)

    # ---- timeouts and expiration

    def expire(self) -> None:
        """Remove ids that haven't been used for ``transactional.id.expiration.ms``."""
        before = self._state.clock.wall() - self._state.options.number("transactional.id.expiration.ms")
        for transactional_id in [each for each, known in self._transactions.items() if known.expired(before)]:
            # The tombstone makes compaction remove the id. Write it before removing the id from memory: the id must not
            # reappear at a new coordinator.
            self._append(transactional_id, None)
            del self._transactions[transactional_id]

    def _time_out(self, transactional_id: str) -> None:
        now = self._state.clock.wall()
        transaction = self._transactions[transactional_id]
        deadline = transaction.deadline
        if deadline is not None and now < deadline:
            # The timer runs on the monotonic clock. The deadline is wall time, and that clock may have been set back,
            # or may be coarser.
            self._set_timer(transaction)
        elif deadline is not None:
            try:
                self.check_enough_replicas(transactional_id)
            except BrokerError:
                clock = self._state.clock
                due = clock.time() + _RETRY_SECONDS
                self._timers[transactional_id] = clock.call_at(due, self._time_out, transactional_id)
                return
            self._write(transaction.fenced(now))
            self._write_pending_markers(transactional_id)

    def _set_timer(self, transaction: TransactionMetadata) -> None:
        transactional_id = transaction.transactional_id
        # Kafka checks all transactions every ten seconds. With one timer per transaction, each is aborted on time, and
        # idle clusters do no work.
        timer = self._timers.pop(transactional_id, None)
        if timer is not None:
            timer.cancel()
        if transaction.deadline is not None:
            clock = self._state.clock
            # The deadline is stored and outlives the process, so it's wall time. Timers run on the monotonic clock.
            due = clock.time() + max(transaction.deadline - clock.wall(), _STEP_MS) / 1000
            self._timers[transactional_id] = clock.call_at(due, self._time_out, transactional_id)

    # ---- inside

    def _known(self, transactional_id: str) -> TransactionMetadata:
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise BrokerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    def _write(self, transaction: TransactionMetadata) -> None:
        # Write to the log first: what requests see in memory must survive a crash of the coordinator.
        self._append(transaction.transactional_id, encode_value(transaction))
        self._cache(transaction)

    def _cache(self, transaction: TransactionMetadata) -> None:
        self._transactions[transaction.transactional_id] = transaction
        self._set_timer(transaction)
        if transaction.ending:
            self._pending_markers[transaction.transactional_id] = set(transaction.partitions)

    def _append(self, transactional_id: str, value: bytes | None) -> None:
        now = self._state.clock.wall()
        builder = BatchBuilder()
        builder.append(now, encode_key(transactional_id), value)
        self.partition_of(transactional_id).append(builder.close(), now)

    def _write_pending_markers(self, transactional_id: str) -> None:
        """Write markers to the partitions that have a leader. Complete the transaction if no marker is pending."""
        transaction = self._transactions[transactional_id]
        pending = self._pending_markers[transactional_id]
        # With this epoch, partitions can reject markers from a coordinator that has been replaced (zombie fencing).
        epoch = self.partition_of(transactional_id).leader_epoch
        producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
        # The partitions are sorted because the order of a set of strings differs between processes, and a simulation
        # must be reproducible.
        for topic_partition in sorted(pending):
            partition = self._state.find_partition(*topic_partition)
            # leader_changed() will continue. Until then the transaction stays in its Prepare state, as in Kafka.
            if partition is not None and partition.leader == NO_LEADER:
                continue
            if partition is not None:
                try:
                    self.write_marker(partition, producer, transaction.commits, epoch)
                except BrokerError as error:
                    if error.code not in _ENDED_THERE:
                        raise
            pending.discard(topic_partition)
        if not pending:
            del self._pending_markers[transactional_id]
            # The transaction completes only now: a new coordinator that finds a Complete state doesn't write any more
            # markers.
            self._write(transaction.completed(self._state.clock.wall()))

    def _drop(self, partition: Partition) -> None:
        loading = self._loading.pop(partition, None)
        if loading is not None:
            loading.cancel()
        # The timers are dropped too. The new coordinator sets its own, and both would abort the transaction.
        for transactional_id in [each for each in self._transactions if self.partition_of(each) is partition]:
            del self._transactions[transactional_id]
            self._pending_markers.pop(transactional_id, None)
            timer = self._timers.pop(transactional_id, None)
            if timer is not None:
                timer.cancel()

    def _load(self, partition: Partition) -> None:
        # The partition counts as loaded already: there is no await below, so no request can see a partial load.
        self._loading.pop(partition, None)
        found = _Found()
        for offset, record in internal_topic_records(partition):
            found.take(offset, record)
        self._restore(found)

    def _restore(self, found: _Found) -> None:
        for transaction in found.transactions.values():
            self._cache(transaction)
        # The previous coordinator may have written some of the markers. Write them to all partitions again.
        for transaction in found.transactions.values():
            if transaction.ending:
                self._write_pending_markers(transaction.transactional_id)


class _Found:
    """The transactions that have been read from ``__transaction_state`` so far."""

    def __init__(self) -> None:
        self.transactions: dict[str, TransactionMetadata] = {}

    def take(self, offset: int, record: InternalRecord) -> None:
        """Take the next record."""
        transactional_id = decode_key(record.key)
        if record.value is None:
            self.transactions.pop(transactional_id, None)
        else:
            self.transactions[transactional_id] = decode_value(transactional_id, record.value)
