"""The state topic: read up to its end, and written in transactions of the driver's transactional id.

Each record is written in a transaction because only transactions are fenced: the coordinator refuses them to a driver
once another driver has acquired the id. A read notes the end of the topic first, and waits until no transaction before
it is open. So a driver that has acquired the id, and then reads, sees everything that earlier drivers have committed.

The number of records that a driver reads doesn't grow with the history of the topic. Each prefix has a snapshot of its
state in the topic, and a read starts there. A driver that has read more than :data:`SNAPSHOT_AFTER` records writes a
new one. Compaction, which removes the old records, isn't enough: it leaves the newest segment alone, and runs when
brokers have time.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from typing import Any

from aiokproto.cluster import ClusterClient
from aiokproto.cluster.coordinator_requests import RETRIED
from aiokproto.codec.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from aiokproto.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokproto.consumer import Consumer
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    AuthorizationError,
    DeadlineError,
    KafkaError,
    TopicExistsError,
    UnknownTopicError,
    UnsupportedVersionError,
    check,
    error_for,
)
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.offsets import GroupOffsets
from aiokproto.producer.producer_id import ProducerId
from aiokproto.producer.transaction_requests import AddPartitionsExchange, EndTxnExchange, InitExchange
from aiokproto.producer.transactional_id import TransactionalId
from aiokproto.records import BatchBuilder
from aiokproto.runtime import current
from aiokproto.runtime.timeouts import deadline_at
from aiokproto.spark.sink.exactly_once.protocol import (
    Record,
    State,
    StateError,
    StateReader,
    driver_id,
    snapshot_record,
)
from aiokproto.types import OffsetAndMetadata, TopicPartition

log = logging.getLogger("aiokproto.spark")

TIMEOUT_MS = 15_000
"""The timeout of the driver's transactions, which take milliseconds. If a driver dies in one, other drivers wait this
long."""

SNAPSHOT_AFTER = 100
"""A new snapshot is written once a read covers more records than this, of all prefixes: about 30 batches."""

MAX_MESSAGE_BYTES = 8 * 1024 * 1024
"""``max.message.bytes`` of a new state topic: an intent with about 200,000 transactions."""

CONFIGS = {
    "cleanup.policy": "compact",
    "max.message.bytes": str(MAX_MESSAGE_BYTES),
    # Keep segments small: the newest one isn't compacted, and a driver without a snapshot reads all of it. With Kafka's
    # defaults it could grow to a gigabyte.
    "segment.bytes": str(2 * MAX_MESSAGE_BYTES),
    "min.cleanable.dirty.ratio": "0.1",
    "delete.retention.ms": "3600000",
}
"""The configuration of a new state topic."""

_TOPIC = 2
"""The resource type of topics in DescribeConfigs."""
_V1, _V2 = 11, 12
"""The last version of Produce that doesn't add the partition to the transaction, and the first that does (KIP-890)."""


class StateTopic:
    """The state of one prefix.

    Attributes:
        token: The producer id and epoch that the next driver process continues with.
    """

    def __init__(self, cluster: ClusterClient, connection: Mapping[str, Any], topic: str, prefix: str) -> None:
        """``connection`` contains the options of a client, for a consumer."""
        self._cluster = cluster
        self._connection = connection
        self._topic = topic
        self._prefix = prefix
        self._id = TransactionalId(driver_id(prefix), TIMEOUT_MS, two_phase=False)
        self._id.connect(cluster)
        self._v2 = False
        self._snapshot = SnapshotOffset(cluster, topic, prefix)
        self._records_read = 0
        # The sequence number of the next record. It only advances with transactions V1, where the epoch stays the same.
        self._sequence = 0

    @property
    def token(self) -> ProducerId:
        """The producer id and epoch that the next driver process continues with."""
        return self._id.identity.producer

    async def grants_two_phase(self) -> bool:
        """Return whether the brokers grant two-phase commit to this prefix (KIP-939). This fences the previous driver.

        Raises:
            KafkaError: The coordinator doesn't respond.
        """
        exchange = InitExchange(self._id.name, TIMEOUT_MS, None, two_phase=True)
        try:
            await self._id.send(exchange, "InitProducerId")
        except (AuthorizationError, UnsupportedVersionError) as error:
            log.debug("no two-phase commit: %s", error)
            return False
        return True

    async def acquire(self, known: ProducerId | None = None) -> None:
        """Acquire the driver's id, and fence all other drivers; or continue as the driver with the token ``known``.

        Raises:
            FencedError: Another driver has acquired the id since.
            KafkaError: The coordinator doesn't respond, or doesn't let the client use the id.
        """
        self._id.current = known
        await self._id.initialize()
        self._sequence = 0
        self._v2 = await self._id.has_v2(False)

    # -- the topic

    async def ensure(self) -> None:
        """Create the topic if it doesn't exist, and check it otherwise.

        Raises:
            StateError: The topic has more than one partition, or drops records.
            KafkaError: The topic can't be created.
        """
        try:
            info = await self._cluster.topic(self._topic)
        except UnknownTopicError:
            await self._create()
            info = await self._cluster.topic(self._topic)
        if len(info.partitions) != 1:
            raise StateError(f"stateTopic={self._topic} has {len(info.partitions)} partitions: it must have one")
        resource = DescribeConfigsResource(
            resource_type=_TOPIC, resource_name=self._topic, configuration_keys=["cleanup.policy"]
        )
        response = await self._cluster.request(DescribeConfigsRequest(resources=[resource]))
        for result in response.results:
            if result.error_code:
                log.warning(
                    "stateTopic=%s: its cleanup.policy, which must be compact, could not be checked: %s",
                    self._topic,
                    ErrorCode(result.error_code).name,
                )
            for config in result.configs:
                if config.value != "compact":
                    raise StateError(
                        f"stateTopic={self._topic} has cleanup.policy={config.value}, which drops the state of a query "
                        "that pauses: set it to compact"
                    )

    async def _create(self) -> None:
        topic = CreatableTopic(
            name=self._topic,
            num_partitions=1,
            replication_factor=-1,
            configs=[CreatableTopicConfig(name=name, value=value) for name, value in CONFIGS.items()],
        )
        response = await self._cluster.request(CreateTopicsRequest(topics=[topic]))
        for result in response.topics:
            asked = self._cluster.asked(CreateTopicsRequest, self._topic)
            try:
                check(result.error_code, f"creating stateTopic={self._topic}", result.error_message, asked)
            except TopicExistsError:
                pass
        deadline = asyncio.get_running_loop().time() + self._cluster.config.api_timeout
        async with deadline_at(deadline, lambda: f"stateTopic={self._topic} was created, and no broker knows it"):
            attempt = 0
            while not await self._is_known():
                attempt += 1
                await asyncio.sleep(self._cluster.backoff.delay(attempt))

    async def _is_known(self) -> bool:
        try:
            await self._cluster.topic(self._topic)
        except UnknownTopicError:
            return False
        return True

    # -- reading

    async def read(self) -> State:
        """Return the state that was committed before this call.

        Raises:
            StateError: A record can't be read.
            DeadlineError: A transaction stays open, or the leader doesn't respond.
            KafkaError: The topic can't be read.
        """
        end = await self._end()
        snapshot = await self._snapshot.load()
        reader = await self._read(0 if snapshot is None or snapshot >= end else snapshot, end)
        # If there is no snapshot, the offset belongs to an earlier topic with this name.
        if snapshot is not None and not reader.has_snapshot:
            reader = await self._read(0, end)
        return reader.state()

    @property
    def snapshot_due(self) -> bool:
        """Whether the next driver would read too many records without a new snapshot."""
        return self._records_read > SNAPSHOT_AFTER

    async def _read(self, start: int, end: int) -> StateReader:
        partition = TopicPartition(self._topic, 0)
        reader = StateReader(self._prefix)
        self._records_read = 0
        consumer = Consumer(**self._connection, auto_offset_reset="earliest", isolation_level="read_committed")
        async with consumer:
            consumer.assign(partition)
            consumer.seek(partition, start)
            give_up_at, before = 0.0, -1
            while (position := await consumer.position(partition)) < end:
                if position > before:
                    give_up_at = asyncio.get_running_loop().time() + self._cluster.config.api_timeout
                    before = position
                for record in await consumer.poll(timeout_ms=100, max_records=10_000):
                    reader.add(record.key, record.value)
                    self._records_read += 1
                if asyncio.get_running_loop().time() > give_up_at:
                    raise DeadlineError(
                        f"stateTopic={self._topic} could not be read up to offset {end}: a transaction stays open in it"
                    )
        return reader

    async def _end(self) -> int:
        partition = ListOffsetsPartition(partition_index=0, timestamp=-1)
        request = ListOffsetsRequest(topics=[ListOffsetsTopic(name=self._topic, partitions=[partition])])
        response = await self._cluster.request(request)
        (found,) = response.topics[0].partitions
        asked = self._cluster.asked(ListOffsetsRequest, self._topic)
        check(found.error_code, f"the end of {self._topic}-0", None, asked)
        return found.offset

    # -- writing

    async def write_snapshot(self, state: State, *records: Record) -> None:
        """Write records and then a snapshot, all or none, like :meth:`write`. The next driver starts reading there.

        Raises:
            FencedError: Another driver has acquired the id.
            KafkaError: The records were refused, or there is no response.
        """
        base = await self.write(*records, snapshot_record(self._prefix, state))
        # The offset is unknown if the leader already had the records, from an attempt whose response was lost.
        if base >= 0:
            await self._snapshot.store(base + len(records))

    async def write(self, *records: Record) -> int:
        """Write records, all or none. After an error the outcome is unknown; the next driver reads what was written.

        Returns:
            The offset of the first record; -1 if unknown.

        Raises:
            FencedError: Another driver has acquired the id.
            KafkaError: The records were refused, or there is no response.
        """
        if self._id.request_lost:
            await self._id.initialize()
            self._sequence = 0
        if not self._v2:
            partitions = [TopicPartition(self._topic, 0)]
            await self._id.send(AddPartitionsExchange(self._id.identity, partitions), "AddPartitionsToTxn")
        base = await self._produce(records)
        response = await self._id.send(EndTxnExchange(self._id.identity, commit=True, v2=self._v2), "EndTxn")
        if response.producer_id >= 0:
            self._id.current = ProducerId(response.producer_id, response.producer_epoch)
            self._sequence = 0
        else:
            self._sequence += len(records)
        return base

    async def _produce(self, records: tuple[Record, ...]) -> int:
        producer = self.token
        builder = BatchBuilder(
            compression="gzip",
            producer_id=producer.id,
            producer_epoch=producer.epoch,
            base_sequence=self._sequence,
            is_transactional=True,
        )
        for key, value in records:
            builder.append(current().milliseconds(), key, value, [])
        data = PartitionProduceData(index=0, records=bytes(builder.close()))
        request = ProduceRequest(
            transactional_id=self._id.name,
            acks=-1,
            timeout_ms=TIMEOUT_MS,
            topic_data=[TopicProduceData(name=self._topic, partition_data=[data])],
        )
        situation = Situation(ProduceRequest.api_key, idempotent=True, transactional=True)
        deadline = asyncio.get_running_loop().time() + self._cluster.config.api_timeout
        failure: KafkaError | None = None
        attempt = 0
        async with deadline_at(
            deadline, lambda: f"stateTopic={self._topic} was not written: {failure or 'no response'}"
        ):
            while True:
                found = await self._attempt(request)
                if isinstance(found, int):
                    return found
                failure = found
                if classify(failure, situation) is Action.ACCEPT:
                    return -1
                # Retry with the same batch, which the leader appends only once.
                if classify(failure, situation) not in RETRIED:
                    raise failure
                attempt += 1
                self._cluster.metadata.invalidate(str(failure))
                await asyncio.sleep(self._cluster.backoff.delay(attempt))

    async def _attempt(self, request: ProduceRequest) -> KafkaError | int:
        context = f"writing to stateTopic={self._topic}"
        try:
            await self._cluster.topic(self._topic)
            leader = self._cluster.snapshot.leader(self._topic, 0)
            if leader is None:
                return error_for(ErrorCode.LEADER_NOT_AVAILABLE, context)
            response = await self._cluster.send(request, leader, max_version=_V2 if self._v2 else _V1)
        except KafkaError as error:
            return error
        (result,) = response.responses[0].partition_responses
        if not result.error_code:
            return result.base_offset
        asked = self._cluster.asked(ProduceRequest, self._topic, transactional_id=self._id.name)
        return error_for(result.error_code, context, result.error_message, asked)


class SnapshotOffset:
    """The offset of a prefix's newest snapshot in the state topic, if it's known.

    It's the committed offset of a group that has no members: it doesn't need another topic, the next driver finds it
    wherever it runs, and it's deleted with the state topic. It's only a hint. Any snapshot at or after it is the whole
    state at its time, so with an old offset more is read, and if there is none, everything is read. So it's committed
    after the transaction, outside of it, and no failure here fails a batch.
    """

    def __init__(self, cluster: ClusterClient, topic: str, prefix: str) -> None:
        self._cluster = cluster
        self._partition = TopicPartition(topic, 0)
        # The group has the name of the driver's transactional id.
        self._group = GroupOffsets(cluster, driver_id(prefix))

    async def load(self) -> int | None:
        """Return the offset; None if there is none, or if it can't be read."""
        try:
            found = await self._group.lookup([self._partition], None, self._deadline())
        except KafkaError as error:
            self._log("is read as a whole", error)
            return None
        for failure in found.failures.values():
            self._log("is read as a whole", failure)
        committed = found.found.get(self._partition)
        return None if committed is None else committed.offset

    async def store(self, offset: int) -> None:
        """Remember the offset of a snapshot that is committed."""
        try:
            result = await self._group.commit({self._partition: OffsetAndMetadata(offset)}, None, self._deadline())
        except KafkaError as error:
            self._log("will be read from an older snapshot", error)
            return
        if code := result.codes[self._partition]:
            log.debug("group %s: the offset of a snapshot is not committed: %s", self._group.group_id, code.name)

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._cluster.config.api_timeout

    def _log(self, consequence: str, error: KafkaError) -> None:
        # Permission for the group is optional.
        level = logging.DEBUG if isinstance(error, AuthorizationError) else logging.WARNING
        log.log(level, "stateTopic=%s %s: %s", self._partition.topic, consequence, error)
