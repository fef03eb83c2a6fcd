"""A transactional producer made of requests, and what readers of each isolation level see.

``v1`` is what clients spoke before KIP-890 and ``v2`` what they speak since: partitions are added by writing to them,
and each transaction has an epoch of its own.
"""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field

from aiokproto.client import Client
from aiokproto.codec.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from aiokproto.codec.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
)
from aiokproto.codec.messages.describe_producers import DescribeProducersRequest, ProducerState, TopicRequest
from aiokproto.codec.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from aiokproto.codec.messages.end_txn import EndTxnRequest, EndTxnResponse
from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic, PartitionData
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aiokproto.codec.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from aiokproto.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponsePartitions,
)
from aiokproto.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokproto.codec.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.records import BatchBuilder, decode
from aiokproto.records.isolation import visible
from tests.behaviour.waiting import until
from tests.timeouts import LONG_TIMEOUT

UNCOMMITTED, COMMITTED = 0, 1

TRY_AGAIN = (
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.NOT_ENOUGH_REPLICAS,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
)
"""Errors for a new topic, for markers that are still being written, and for a new coordinator."""

V1, V2 = "v1", "v2"


@dataclass
class Producer:
    """A transactional producer, made of requests."""

    client: Client
    version: str
    name: str = field(default_factory=lambda: f"tx-{secrets.token_hex(6)}")
    timeout_ms: int = 60_000
    producer_id: int = -1
    epoch: int = -1
    sequences: dict[tuple[str, int], int] = field(default_factory=dict)

    async def ask_for_id(self, producer_id: int = -1, epoch: int = -1) -> InitProducerIdResponse:
        request = InitProducerIdRequest(
            transactional_id=self.name,
            transaction_timeout_ms=self.timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
        )
        return await self.client.request(request, max_version=5)

    async def init(self) -> None:
        response = await self.ask_for_id()
        assert response.error_code == 0, ErrorCode(response.error_code)
        self.producer_id, self.epoch = response.producer_id, response.producer_epoch

    async def add(self, topic: str, partition: int) -> ErrorCode:
        request = AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=self.name,
            v3_and_below_producer_id=self.producer_id,
            v3_and_below_producer_epoch=self.epoch,
            v3_and_below_topics=[AddPartitionsToTxnTopic(name=topic, partitions=[partition])],
        )

        async def ask() -> ErrorCode:
            response = await self.client.request(request, key=self.name, max_version=3)
            return ErrorCode(response.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code)

        return await until(ask, settled)

    def batch(self, value: bytes, sequence: int, epoch: int | None = None, transactional: bool = True) -> bytes:
        builder = BatchBuilder(
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            base_sequence=sequence,
            is_transactional=transactional,
        )
        builder.append(time.time_ns() // 1_000_000, None, value)
        return bytes(builder.close())

    async def produce(
        self, topic: str, partition: int, batch: bytes, max_version: int | None = None, name: str | None = ""
    ) -> ErrorCode:
        request = ProduceRequest(
            transactional_id=self.name if name == "" else name,
            acks=-1,
            timeout_ms=int(LONG_TIMEOUT * 1000),
            topic_data=[
                TopicProduceData(name=topic, partition_data=[PartitionProduceData(index=partition, records=batch)])
            ],
        )
        newest = 11 if self.version == V1 else 12

        async def ask() -> ErrorCode:
            response = await self.client.request(request, max_version=newest if max_version is None else max_version)
            return ErrorCode(response.responses[0].partition_responses[0].error_code)

        return await until(ask, settled)

    async def write(self, topic: str, partition: int, *values: bytes) -> None:
        """Add records to the transaction, as a client of this version does."""
        if self.version == V1:
            assert await self.add(topic, partition) is ErrorCode.NONE
        for value in values:
            sequence = self.sequences.get((topic, partition), 0)
            assert await self.produce(topic, partition, self.batch(value, sequence)) is ErrorCode.NONE
            self.sequences[topic, partition] = sequence + 1

    async def ask_to_end(self, commit: bool, epoch: int | None = None) -> EndTxnResponse:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self.producer_id,
            producer_epoch=self.epoch if epoch is None else epoch,
            committed=commit,
        )
        return await until(
            lambda: self.client.request(request, max_version=4 if self.version == V1 else 5),
            lambda response: settled(response.error_code),
        )

    async def end(self, commit: bool) -> None:
        response = await self.ask_to_end(commit)
        assert response.error_code == 0, ErrorCode(response.error_code)
        if self.version == V2:
            self.producer_id, self.epoch = response.producer_id, response.producer_epoch
            self.sequences.clear()

    async def commit_offset(self, group: str, topic: str, offset: int) -> ErrorCode:
        if self.version == V1:
            adding = AddOffsetsToTxnRequest(
                transactional_id=self.name, producer_id=self.producer_id, producer_epoch=self.epoch, group_id=group
            )
            response = await self.client.request(adding, key=self.name)
            assert response.error_code == 0, ErrorCode(response.error_code)
        return await self.send_offset(group, topic, offset, 4 if self.version == V1 else 5)

    async def send_offset(self, group: str, topic: str, offset: int, max_version: int) -> ErrorCode:
        partition = TxnOffsetCommitRequestPartition(
            partition_index=0, committed_offset=offset, committed_metadata="stored"
        )
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=group,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            topics=[TxnOffsetCommitRequestTopic(name=topic, partitions=[partition])],
        )

        async def ask() -> ErrorCode:
            response = await self.client.request(request, key=group, max_version=max_version)
            return ErrorCode(response.topics[0].partitions[0].error_code)

        return await until(ask, settled)

    async def describe(self) -> TransactionState:
        response = await self.client.request(DescribeTransactionsRequest(transactional_ids=[self.name]), key=self.name)
        return response.transaction_states[0]


def settled(code: int) -> bool:
    return code not in TRY_AGAIN


async def fetch(client: Client, topic: str, partition: int, isolation: int, offset: int = 0) -> PartitionData:
    wanted = FetchPartition(partition=partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(
        max_wait_ms=10,
        min_bytes=1,
        isolation_level=isolation,
        topics=[FetchTopic(topic=topic, partitions=[wanted])],
    )
    response = (await client.request(request, max_version=12)).responses[0].partitions[0]
    assert response.error_code == 0, ErrorCode(response.error_code)
    return response


async def read(client: Client, topic: str, partition: int = 0, isolation: int = COMMITTED) -> list[bytes | None]:
    response = await fetch(client, topic, partition, isolation)
    batches = visible(decode(bytes(response.records or b"")), response.aborted_transactions or ())
    return [record.value for batch in batches for record in batch]


async def read_when(client: Client, topic: str, wanted: list[bytes], partition: int = 0) -> None:
    """Wait until these are the committed records, because markers may be written after the response to the producer."""

    async def look() -> tuple[list[bytes | None], bool]:
        return await read(client, topic, partition), await stable(client, topic, partition)

    assert await until(look, lambda found: found == (wanted, True)) == (wanted, True)


async def stable(client: Client, topic: str, partition: int) -> bool:
    """Return whether no transaction is open there."""
    response = await fetch(client, topic, partition, COMMITTED)
    return response.last_stable_offset == response.high_watermark


async def end_offset(client: Client, topic: str, isolation: int) -> int:
    wanted = ListOffsetsPartition(partition_index=0, timestamp=-1)
    request = ListOffsetsRequest(
        replica_id=-1, isolation_level=isolation, topics=[ListOffsetsTopic(name=topic, partitions=[wanted])]
    )
    response = (await client.request(request)).topics[0].partitions[0]
    assert response.error_code == 0, ErrorCode(response.error_code)
    return response.offset


async def offset_of(client: Client, group: str, topic: str, stable: bool) -> OffsetFetchResponsePartitions:
    requested_group = OffsetFetchRequestGroup(
        group_id=group, topics=[OffsetFetchRequestTopics(name=topic, partition_indexes=[0])]
    )
    request = OffsetFetchRequest(groups=[requested_group], require_stable=stable)
    response = await client.request(request, key=group, max_version=9)
    return response.groups[0].topics[0].partitions[0]


async def stable_offset(client: Client, group: str, topic: str) -> int:
    found = await until(
        lambda: offset_of(client, group, topic, stable=True),
        lambda response: response.error_code != ErrorCode.UNSTABLE_OFFSET_COMMIT,
    )
    assert found.error_code == 0, ErrorCode(found.error_code)
    return found.committed_offset


async def producers_of(client: Client, topic: str) -> dict[int, ProducerState]:
    request = DescribeProducersRequest(topics=[TopicRequest(name=topic, partition_indexes=[0])])
    response = (await client.request(request)).topics[0].partitions[0]
    assert response.error_code == 0, response.error_message
    return {each.producer_id: each for each in response.active_producers}
