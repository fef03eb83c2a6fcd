"""A transactional producer's requests to coordinators, and how to read the responses (KIP-98, KIP-447, KIP-890)."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
from aiokproto.codec.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddPartitionsToTxnTopic,
)
from aiokproto.codec.messages.describe_transactions import (
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
)
from aiokproto.codec.messages.end_txn import EndTxnRequest, EndTxnResponse
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aiokproto.codec.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
    TxnOffsetCommitResponse,
)
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import UnsupportedVersionError
from aiokproto.failures import Situation
from aiokproto.group.offset_requests import OffsetsByTopic
from aiokproto.net.features import MEMBERS_OFFSETS
from aiokproto.producer.producer_id import ProducerId
from aiokproto.types import GroupMetadata, OffsetAndMetadata, TopicPartition

END_TXN_V2 = 5
"""The first version of EndTxn that bumps the epoch, and the first for transactions of version 2 (KIP-890)."""
_LAST_OF_CLIENTS = 3
"""The last version of AddPartitionsToTxn for clients; later ones are for brokers."""
_TXN_OFFSET_COMMIT_V1 = 4
"""The last version of TxnOffsetCommit that needs AddOffsetsToTxn first."""
_OFFSETS_BY_NAME = 5
"""The last version of TxnOffsetCommit with topic names; later versions have topic ids."""
_EPOCH_BUMP = 3
"""The first version of InitProducerId that takes the current id and epoch (KIP-360)."""
_TWO_PHASE_COMMIT = 6
"""The first version of InitProducerId with two-phase commit (KIP-939). Kafka marks it as unstable."""


class Identity(NamedTuple):
    """The identity that every request of a transaction contains."""

    transactional_id: str
    producer: ProducerId


class OffsetsToSend(NamedTuple):
    """Offsets that a transaction commits for a group.

    Attributes:
        group_id: The group.
        positions: The offsets.
        identity: Returns the group member that commits them. It raises CommitError if the group has taken a partition
            away from the member since the records before these offsets were delivered.
        committed: Called when the transaction is committed.
    """

    group_id: str
    positions: Mapping[TopicPartition, OffsetAndMetadata]
    identity: Callable[[], GroupMetadata]
    committed: Callable[[], None]


class InitExchange:
    """InitProducerId: the first request fences other producers; a request with an id and epoch bumps that epoch."""

    request_type = InitProducerIdRequest
    situation = Situation(InitProducerIdRequest.api_key, transactional=True)

    def __init__(
        self,
        transactional_id: str,
        timeout_ms: int,
        bump: ProducerId | None,
        *,
        two_phase: bool = False,
        keep_prepared: bool = False,
    ) -> None:
        # -1 requests the producer id of the transactional id, in its next epoch. If id and epoch are given, the
        # coordinator also checks that they are the current ones.
        producer_id, epoch = bump or (-1, -1)
        self._two_phase = two_phase
        self._request = InitProducerIdRequest(
            transactional_id=transactional_id,
            transaction_timeout_ms=timeout_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            enable2_pc=two_phase,
            keep_prepared_txn=keep_prepared,
        )

    def highest(self) -> int | None:
        return _TWO_PHASE_COMMIT if self._two_phase else None

    def build(self, version: int) -> InitProducerIdRequest:
        if self._request.producer_id >= 0 and version < _EPOCH_BUMP:
            raise UnsupportedVersionError(
                "brokers before 2.5 cannot continue after a failed batch: create a new producer"
            )
        if self._two_phase and version < _TWO_PHASE_COMMIT:
            raise UnsupportedVersionError(
                f"transaction_two_phase_commit_enable (KIP-939) needs InitProducerId version {_TWO_PHASE_COMMIT}; the "
                f"coordinator has {version}. Kafka serves it from release 4.2 on, if its brokers have "
                "unstable.api.versions.enable=true and transaction.two.phase.commit.enable=true"
            )
        return self._request

    def failure(self, response: InitProducerIdResponse) -> ErrorCode:
        return ErrorCode(response.error_code)


class DescribeExchange:
    """DescribeTransactions (KIP-664): the coordinator's state for a transactional id."""

    request_type = DescribeTransactionsRequest
    situation = Situation(DescribeTransactionsRequest.api_key, transactional=True)

    def __init__(self, transactional_id: str) -> None:
        self._request = DescribeTransactionsRequest(transactional_ids=[transactional_id])

    def highest(self) -> int | None:
        return None

    def build(self, version: int) -> DescribeTransactionsRequest:
        return self._request

    def failure(self, response: DescribeTransactionsResponse) -> ErrorCode:
        (state,) = response.transaction_states
        # The coordinator is still writing the markers. Another producer may be waiting for that too.
        return (
            ErrorCode.CONCURRENT_TRANSACTIONS
            if state.transaction_state == "PrepareAbort"
            else ErrorCode(state.error_code)
        )


class AddPartitionsExchange:
    """AddPartitionsToTxn, before the first records of a partition in a transaction of version 1."""

    request_type = AddPartitionsToTxnRequest
    situation = Situation(AddPartitionsToTxnRequest.api_key, transactional=True)

    def __init__(self, identity: Identity, partitions: Collection[TopicPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, number in partitions:
            topics.setdefault(topic, []).append(number)
        self._request = AddPartitionsToTxnRequest(
            # These fields are for clients. Brokers use the fields without the prefix, to verify several transactions at
            # once (KIP-890).
            v3_and_below_transactional_id=identity.transactional_id,
            v3_and_below_producer_id=identity.producer.id,
            v3_and_below_producer_epoch=identity.producer.epoch,
            v3_and_below_topics=[
                AddPartitionsToTxnTopic(name=name, partitions=numbers) for name, numbers in topics.items()
            ],
        )

    def highest(self) -> int | None:
        return _LAST_OF_CLIENTS

    def build(self, version: int) -> AddPartitionsToTxnRequest:
        return self._request

    def failure(self, response: AddPartitionsToTxnResponse) -> ErrorCode:
        codes = [
            ErrorCode(result.partition_error_code)
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        ]
        # If one partition is refused, none are added; the rest only say that they weren't attempted.
        causes = [code for code in codes if code not in (ErrorCode.NONE, ErrorCode.OPERATION_NOT_ATTEMPTED)]
        return causes[0] if causes else max(codes, default=ErrorCode.UNKNOWN_SERVER_ERROR)


class AddOffsetsExchange:
    """AddOffsetsToTxn, before the first TxnOffsetCommit of a group in a transaction of version 1."""

    request_type = AddOffsetsToTxnRequest
    situation = Situation(AddOffsetsToTxnRequest.api_key, transactional=True)

    def __init__(self, identity: Identity, group_id: str) -> None:
        self._request = AddOffsetsToTxnRequest(
            transactional_id=identity.transactional_id,
            producer_id=identity.producer.id,
            producer_epoch=identity.producer.epoch,
            group_id=group_id,
        )

    def highest(self) -> int | None:
        return None

    def build(self, version: int) -> AddOffsetsToTxnRequest:
        return self._request

    def failure(self, response: AddOffsetsToTxnResponse) -> ErrorCode:
        return ErrorCode(response.error_code)


class TxnOffsetCommitExchange:
    """TxnOffsetCommit, which goes to the coordinator of the group."""

    request_type = TxnOffsetCommitRequest
    situation = Situation(TxnOffsetCommitRequest.api_key, transactional=True)

    def __init__(
        self,
        cluster: ClusterClient,
        identity: Identity,
        sent: OffsetsToSend,
        *,
        v2: bool,
    ) -> None:
        # Topic ids are fixed here for all attempts, as for OffsetCommit.
        self._offsets = OffsetsByTopic(cluster, sent.positions)
        self._v2 = v2
        self._identity = identity
        self._sent = sent
        self._topics = [
            TxnOffsetCommitRequestTopic(
                name=name,
                topic_id=self._offsets.ids.get(name, ZERO_UUID),
                partitions=[
                    TxnOffsetCommitRequestPartition(
                        partition_index=number,
                        committed_offset=position.offset,
                        committed_leader_epoch=position.leader_epoch,
                        committed_metadata=position.metadata,
                    )
                    for number, position in positions
                ],
            )
            for name, positions in self._offsets.topics.items()
        ]

    def highest(self) -> int | None:
        if not self._v2:
            return _TXN_OFFSET_COMMIT_V1
        return None if self._offsets.ids else _OFFSETS_BY_NAME

    def build(self, version: int) -> TxnOffsetCommitRequest:
        # Look up the member for each attempt: a rebalance in between creates another generation, and may have taken a
        # partition away from the member.
        # guard: each attempt to commit in a transaction looks at who owns the partitions
        #     -> group = self._group = getattr(self, "_group", None) or self._sent.identity()
        group = self._sent.identity()
        if version < MEMBERS_OFFSETS.version and group.generation >= 0:
            raise MEMBERS_OFFSETS.refused("the coordinator", version)
        return TxnOffsetCommitRequest(
            transactional_id=self._identity.transactional_id,
            group_id=group.group_id,
            producer_id=self._identity.producer.id,
            producer_epoch=self._identity.producer.epoch,
            generation_id_or_member_epoch=group.generation,
            member_id=group.member_id,
            group_instance_id=group.instance_id,
            topics=self._topics,
        )

    def failure(self, response: TxnOffsetCommitResponse) -> ErrorCode:
        return self._offsets.failure(self._offsets.codes(response), self.situation)

    def refused(self, response: TxnOffsetCommitResponse) -> dict[TopicPartition, ErrorCode]:
        """Return the partitions whose offsets weren't accepted."""
        return {partition: code for partition, code in self._offsets.codes(response).items() if code}


class EndTxnExchange:
    """EndTxn: commit or abort.

    Attributes:
        situation: Indicates which of the two.
    """

    request_type = EndTxnRequest

    def __init__(self, identity: Identity, *, commit: bool, v2: bool) -> None:
        self.situation = Situation(EndTxnRequest.api_key, transactional=True, aborting=not commit)
        self._v2 = v2
        self._request = EndTxnRequest(
            transactional_id=identity.transactional_id,
            producer_id=identity.producer.id,
            producer_epoch=identity.producer.epoch,
            committed=commit,
        )

    def highest(self) -> int | None:
        # A later version would make the coordinator bump the epoch of a version 1 transaction.
        return None if self._v2 else END_TXN_V2 - 1

    def build(self, version: int) -> EndTxnRequest:
        return self._request

    def failure(self, response: EndTxnResponse) -> ErrorCode:
        return ErrorCode(response.error_code)
