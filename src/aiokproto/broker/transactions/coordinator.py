"""The transaction coordinator: what becomes of each transactional id, kept in the topic of transactions. No asyncio.

An id belongs to the partition of the topic which it hashes to, and is coordinated by that partition's leader. A step of
a transaction is written to the log before it counts; one that is decided is brought to all its partitions, and complete
once they have their markers. What cannot be brought anywhere, because the partition has no leader, waits for one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aiokproto.broker.clock import Timer
from aiokproto.broker.groups.coordinator import GroupCoordinator
from aiokproto.broker.internal_topics import internal_topic_records, partition_for
from aiokproto.broker.metadata.cluster_state import ClusterState
from aiokproto.broker.metadata.topics import NO_LEADER, OFFSETS_TOPIC, TRANSACTIONS_TOPIC, Partition, Topic
from aiokproto.broker.transactions.records import decode_key, decode_value, encode_key, encode_value
from aiokproto.broker.transactions.transaction_metadata import (
    EPOCH_BUMP,
    ProducerIdAndEpoch,
    TopicPartition,
    TransactionMetadata,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records import BatchBuilder
from aiokproto.records.control import encode_end_transaction

_SETTLED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.TRANSACTION_COORDINATOR_FENCED)
"""A partition that refuses a marker so has seen a newer one: the transaction is over there."""


_RETRY_SECONDS = 10.0
"""When an abort that could not be kept is tried again: how often Kafka looks for transactions that are overdue."""

_STEP_MS = 20
"""The least to wait for the wall clock to go on: for a loop with a coarse clock, less than its step is no time."""


class TransactionCoordinator:
    """All transactions of the cluster, whichever node coordinates them."""

    def __init__(self, state: ClusterState, groups: GroupCoordinator) -> None:
        self._state = state
        self._groups = groups
        self._transactions: dict[str, TransactionMetadata] = {}
        # Of transactions that are ending: the partitions without a marker.
        self._pending_markers: dict[str, set[TopicPartition]] = {}
        self._timers: dict[str, Timer] = {}
        self._loading: dict[int, Timer] = {}

    def start(self) -> None:
        """Read the transactions from their topic, if there is one, and go on with what was decided."""
        topic = self._state.topics.get(TRANSACTIONS_TOPIC)
        for partition in topic.partitions if topic is not None else ():
            self._load(partition)

    def close(self) -> None:
        """Stop the timers and forget everything."""
        for timer in (*self._timers.values(), *self._loading.values()):
            timer.cancel()
        self._timers.clear()
        self._loading.clear()
        self._transactions.clear()
        self._pending_markers.clear()

    # ---- producer coordinates what

    def partition_of(self, transactional_id: str) -> Partition:
        """The partition of their topic that an id belongs to; the topic is created when first asked for."""
        topic = self._state.topics.get(TRANSACTIONS_TOPIC)
        if topic is None:
            number = self._state.options.number
            replicas = min(number("transaction.state.log.replication.factor"), len(self._state.nodes))
            configs = {
                "cleanup.policy": "compact",
                "compression.type": "uncompressed",
                "min.insync.replicas": str(min(number("transaction.state.log.min.isr"), replicas)),
                "segment.bytes": "104857600",
            }
            partitions = number("transaction.state.log.num.partitions")
            topic = self._state.create_topic(TRANSACTIONS_TOPIC, partitions, replicas, configs)
        return partition_for(transactional_id, topic.partitions)

    def check(self, transactional_id: str, node_id: int) -> None:
        """Check that a node coordinates the id.

        Raises:
            BrokerError: INVALID_REQUEST, NOT_COORDINATOR or COORDINATOR_LOAD_IN_PROGRESS.
        """
        if not transactional_id:
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail="the transactional id is empty")
        partition = self.partition_of(transactional_id)
        if partition.leader != node_id:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)
        if partition.index in self._loading:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    def leader_changed(self, partition: Partition) -> None:
        """A partition has a new leader: its transactions are read anew, and it gets the markers it has missed."""
        if partition.topic == TRANSACTIONS_TOPIC:
            self._drop(partition)
            if partition.leader != NO_LEADER:
                # Not at once: as with a real coordinator, whoever asks meanwhile hears that it is loading.
                clock = self._state.clock
                self._loading[partition.index] = clock.call_at(clock.time(), self._load, partition)
        elif partition.leader != NO_LEADER:
            where = (partition.topic, partition.index)
            for transactional_id in [each for each, pending in self._pending_markers.items() if where in pending]:
                self._write_pending_markers(transactional_id)

    def topic_deleted(self, topic: Topic) -> None:
        """Nothing waits for its partitions any more."""
        if topic.name == TRANSACTIONS_TOPIC:
            self.close()
            return
        for transactional_id in list(self._pending_markers):
            self._write_pending_markers(transactional_id)

    def check_enough_replicas(self, transactional_id: str) -> None:
        """Check that what is decided of a transaction would have the replicas it is to have before anybody is told.

        Raises:
            BrokerError: COORDINATOR_NOT_AVAILABLE: too few are in sync (``transaction.state.log.min.isr``).
        """
        try:
            self._state.check_in_sync(self.partition_of(transactional_id))
        except BrokerError as error:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE, detail=error.detail) from None

    # ---- what is known

    def find(self, transactional_id: str) -> TransactionMetadata | None:
        """What is known of an id, or None."""
        return self._transactions.get(transactional_id)

    def transactions_of(self, node_id: int) -> Iterator[TransactionMetadata]:
        """What a node coordinates.

        Raises:
            BrokerError: COORDINATOR_LOAD_IN_PROGRESS.
        """
        if self._loading:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        return (each for key, each in self._transactions.items() if self.partition_of(key).leader == node_id)

    # ---- what producers ask for; ``check`` comes before

    def init_producer_id(
        self, transactional_id: str, timeout_ms: int, known: ProducerIdAndEpoch | None
    ) -> TransactionMetadata:
        """A producer begins to use an id.

        Raises:
            BrokerError: INVALID_TRANSACTION_TIMEOUT, PRODUCER_FENCED, COORDINATOR_NOT_AVAILABLE
                (:meth:`check_enough_replicas`);
                CONCURRENT_TRANSACTIONS: a transaction had to be aborted first, or has not ended yet, and the producer
                has to ask again.
        """
        if not 0 < timeout_ms <= self._state.options.number("transaction.max.timeout.ms"):
            raise BrokerError(ErrorCode.INVALID_TRANSACTION_TIMEOUT, detail=f"{timeout_ms} ms")
        new_id = self._state.new_producer_id
        transaction = self._transactions.get(transactional_id) or TransactionMetadata(
            transactional_id, new_id(), timeout_ms
        )
        after = transaction.initialized(timeout_ms, known, new_id, self._state.clock.wall())
        self.check_enough_replicas(transactional_id)
        self._write(after)
        if after.ending:
            self._write_pending_markers(transactional_id)
            raise BrokerError(ErrorCode.CONCURRENT_TRANSACTIONS)
        return after

    def add_partitions(
        self,
        transactional_id: str,
        producer: ProducerIdAndEpoch,
        partitions: Iterable[TopicPartition],
        client_version: int = 0,
    ) -> None:
        """Partitions become a part of the open transaction, or begin one.

        Raises:
            BrokerError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, or
                COORDINATOR_NOT_AVAILABLE (as :meth:`check_enough_replicas`).
        """
        before = self._known(transactional_id)
        after = before.with_partitions(producer, partitions, client_version, self._state.clock.wall())
        if after is not before:
            self.check_enough_replicas(transactional_id)
            self._write(after)

    def verify(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partitions: Iterable[TopicPartition]
    ) -> list[TopicPartition]:
        """Which partitions are no part of the open transaction.

        Raises:
            BrokerError: As :meth:`add_partitions`.
        """
        return self._known(transactional_id).verify(producer, partitions)

    def verify_or_add_partition(
        self, transactional_id: str, producer: ProducerIdAndEpoch, partition: Partition, *, adds: bool, abortable: bool
    ) -> None:
        """What a leader asks before a producer's first batch in a partition (KIP-890).

        Args:
            transactional_id: The producer's.
            producer: The producer.
            partition: Where it writes.
            adds: Writing adds the partition to the transaction; else it must have been added before.
            abortable: Whether the producer knows TRANSACTION_ABORTABLE.

        Raises:
            BrokerError: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS, INVALID_PRODUCER_ID_MAPPING,
                INVALID_PRODUCER_EPOCH, CONCURRENT_TRANSACTIONS; TRANSACTION_ABORTABLE or INVALID_TXN_STATE, if it was
                not added.
        """
        coordinator = self.partition_of(transactional_id)
        if coordinator.leader == NO_LEADER:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        if coordinator.index in self._loading:
            raise BrokerError(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
        where = (partition.topic, partition.index)
        try:
            if adds:
                self.add_partitions(transactional_id, producer, [where], EPOCH_BUMP)
            elif self._state.options.value("transaction.partition.verification.enable") and self.verify(
                transactional_id, producer, [where]
            ):
                code = ErrorCode.TRANSACTION_ABORTABLE if abortable else ErrorCode.INVALID_TXN_STATE
                raise BrokerError(code, detail=f"{where[0]}-{where[1]} was not added to the transaction")
        except BrokerError as error:
            # A producer that is fenced by a partition may recover, one that is fenced by its coordinator may not.
            if error.code is ErrorCode.PRODUCER_FENCED:
                raise BrokerError(ErrorCode.INVALID_PRODUCER_EPOCH, detail=error.detail) from None
            raise

    def end(
        self, transactional_id: str, producer: ProducerIdAndEpoch, commit: bool, client_version: int = 0
    ) -> TransactionMetadata:
        """Commit or abort.

        Returns:
            The transaction; its ``identity`` is the producer's from now on.

        Raises:
            BrokerError: INVALID_PRODUCER_ID_MAPPING, PRODUCER_FENCED, CONCURRENT_TRANSACTIONS, INVALID_TXN_STATE, or
                COORDINATOR_NOT_AVAILABLE (as :meth:`check_enough_replicas`).
        """
        before = self._known(transactional_id)
        after = before.ended(producer, commit, client_version, self._state.new_producer_id, self._state.clock.wall())
        if after is not before:
            self.check_enough_replicas(transactional_id)
            self._write(after)
            self._write_pending_markers(transactional_id)
        return after

    # ---- markers

    def write_marker(
        self, partition: Partition, producer: ProducerIdAndEpoch, commit: bool, coordinator_epoch: int
    ) -> None:
        """End a producer's transaction in a partition.

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
        partition.append(marker, now)
        if partition.topic == OFFSETS_TOPIC:
            self._groups.transaction_ended(partition, producer.producer_id, commit)

    # ---- time

    def expire(self) -> None:
        """Forget the ids that nobody used for ``transactional.id.expiration.ms``."""
        before = self._state.clock.wall() - self._state.options.number("transactional.id.expiration.ms")
        for transactional_id in [each for each, known in self._transactions.items() if known.expired(before)]:
            self._append(transactional_id, None)
            del self._transactions[transactional_id]

    def _time_out(self, transactional_id: str) -> None:
        now = self._state.clock.wall()
        transaction = self._transactions[transactional_id]
        deadline = transaction.deadline
        if deadline is not None and now < deadline:
            # Two clocks: the wall's may have been set back, or be the coarser one.
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
        timer = self._timers.pop(transactional_id, None)
        if timer is not None:
            timer.cancel()
        if transaction.deadline is not None:
            clock = self._state.clock
            due = clock.time() + max(transaction.deadline - clock.wall(), _STEP_MS) / 1000
            self._timers[transactional_id] = clock.call_at(due, self._time_out, transactional_id)

    # ---- inside

    def _known(self, transactional_id: str) -> TransactionMetadata:
        transaction = self._transactions.get(transactional_id)
        if transaction is None:
            raise BrokerError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        return transaction

    def _write(self, transaction: TransactionMetadata) -> None:
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
        """Write the markers that can be written, and complete the transaction if these were all."""
        transaction = self._transactions[transactional_id]
        pending = self._pending_markers[transactional_id]
        epoch = self.partition_of(transactional_id).leader_epoch
        producer = ProducerIdAndEpoch(transaction.producer_id, transaction.producer_epoch)
        for where in sorted(pending):
            partition = self._state.find_partition(*where)
            if partition is not None and partition.leader == NO_LEADER:
                continue
            if partition is not None:
                try:
                    self.write_marker(partition, producer, transaction.commits, epoch)
                except BrokerError as error:
                    if error.code not in _SETTLED:
                        raise
            pending.discard(where)
        if not pending:
            del self._pending_markers[transactional_id]
            self._write(transaction.completed(self._state.clock.wall()))

    def _drop(self, partition: Partition) -> None:
        loading = self._loading.pop(partition.index, None)
        if loading is not None:
            loading.cancel()
        for transactional_id in [each for each in self._transactions if self.partition_of(each) is partition]:
            del self._transactions[transactional_id]
            self._pending_markers.pop(transactional_id, None)
            timer = self._timers.pop(transactional_id, None)
            if timer is not None:
                timer.cancel()

    def _load(self, partition: Partition) -> None:
        self._loading.pop(partition.index, None)
        found: dict[str, TransactionMetadata] = {}
        for key, value, _ in internal_topic_records(partition):
            transactional_id = decode_key(key)
            if value is None:
                found.pop(transactional_id, None)
            else:
                found[transactional_id] = decode_value(transactional_id, value)
        for transaction in found.values():
            self._cache(transaction)
        for transaction in found.values():
            if transaction.ending:
                self._write_pending_markers(transaction.transactional_id)
