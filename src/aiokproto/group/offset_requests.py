"""OffsetCommit and OffsetFetch requests in the format of each version, and the handling of their responses."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from aiokproto.cluster import ClusterClient, ClusterSnapshot
from aiokproto.cluster.coordinator_requests import RETRIED
from aiokproto.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from aiokproto.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
)
from aiokproto.codec.messages.txn_offset_commit import TxnOffsetCommitResponse
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.membership import LOST
from aiokproto.types import GroupMetadata, OffsetAndMetadata, TopicPartition

_BY_NAME = 9
"""The last version of OffsetCommit and OffsetFetch with topic names; later versions use topic ids (KIP-848)."""

_GROUPS_FROM = 8
"""The first version of OffsetFetch with several groups (KIP-709)."""

_MEMBER_FROM = 9
"""The first version of OffsetFetch that identifies the requesting member (KIP-848)."""

_STABLE_FROM = 7
"""The first version of OffsetFetch that can wait for open transactions (KIP-447)."""

MAX_OMISSIONS = 5
"""How many consecutive responses may silently leave out a partition until it counts as a partition without a committed
offset. This applies if the coordinator only supports versions of OffsetFetch where partitions can be left out."""


class OffsetsByTopic:
    """The offsets of a commit by topic, and the error code for each in the response.

    Attributes:
        ids: The id of each topic; empty if any is unknown, and the request uses names.
        topics: Topic → pairs of partition number and offset.
    """

    def __init__(self, cluster: ClusterClient, offsets: Mapping[TopicPartition, OffsetAndMetadata]) -> None:
        self._cluster = cluster
        self._partitions = list(offsets)
        # The ids are fixed for all attempts: if they were looked up again after an error, they could belong to topics
        # that were created again.
        self.ids = _topic_ids(cluster.snapshot, {topic for topic, _ in offsets})
        self._names = {topic_id: name for name, topic_id in self.ids.items()}
        self.topics: dict[str, list[tuple[int, OffsetAndMetadata]]] = {}
        for (name, number), position in offsets.items():
            self.topics.setdefault(name, []).append((number, position))

    def failure(self, codes: Mapping[TopicPartition, ErrorCode], situation: Situation) -> ErrorCode:
        """Return the code that decides what to do about a response."""
        deleted = {
            partition for partition, code in codes.items() if code and self._is_deleted(partition, code, situation)
        }
        return _worst([code for partition, code in codes.items() if partition not in deleted], situation)

    def codes(self, response: OffsetCommitResponse | TxnOffsetCommitResponse) -> dict[TopicPartition, ErrorCode]:
        """Return the error code of each partition."""
        received = {
            TopicPartition(topic.name or self._names.get(topic.topic_id, ""), entry.partition_index): entry.error_code
            for topic in response.topics
            for entry in topic.partitions
        }
        return {partition: ErrorCode(received[partition]) for partition in self._partitions}

    def _is_deleted(self, partition: TopicPartition, code: ErrorCode, situation: Situation) -> bool:
        """Return whether a partition was rejected because its topic was deleted. If so, a retry would only delay the
        others."""
        if classify(code, situation) is not Action.REFRESH_METADATA:
            return False
        # Or the coordinator's metadata may be outdated, so compare with fresh metadata.
        self._cluster.metadata.invalidate(f"committing the offset of {partition}: {code.name}")
        # Use the current snapshot; the refresh requested above serves the next attempt.
        snapshot = self._cluster.snapshot
        return snapshot.partition(*partition) is None or partition.topic in snapshot.recreated(self.ids)


class CommitExchange:
    """An OffsetCommit, as a member or from outside the group.

    Attributes:
        situation: Says whether it's sent as a member.
        request: The request, which works for every version.
    """

    request_type = OffsetCommitRequest

    def __init__(
        self,
        cluster: ClusterClient,
        group_id: str,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        member: GroupMetadata | None,
    ) -> None:
        self.situation = Situation(OffsetCommitRequest.api_key, member=member is not None)
        self._offsets = OffsetsByTopic(cluster, offsets)
        topics = [
            OffsetCommitRequestTopic(
                name=name,
                topic_id=self._offsets.ids.get(name, ZERO_UUID),
                partitions=[
                    OffsetCommitRequestPartition(
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
        # Build it once, with this generation: a retry in a later generation would commit offsets of partitions that the
        # member may no longer own.
        self.request = OffsetCommitRequest(
            group_id=group_id,
            generation_id_or_member_epoch=member.generation if member else -1,
            member_id=member.member_id if member else "",
            group_instance_id=member.instance_id if member else None,
            topics=topics,
        )

    def highest(self) -> int | None:
        return None if self._offsets.ids else _BY_NAME

    def build(self, version: int) -> OffsetCommitRequest:
        return self.request

    def failure(self, response: OffsetCommitResponse) -> ErrorCode:
        return self._offsets.failure(self.codes(response), self.situation)

    def codes(self, response: OffsetCommitResponse) -> dict[TopicPartition, ErrorCode]:
        """Return the error code of each partition."""
        return self._offsets.codes(response)


class FetchExchange:
    """An OffsetFetch, as a member of a consumer group (KIP-848) or as a non-member.

    Attributes:
        situation: Says whether it's sent as a member.
        partitions: The requested partitions.
    """

    request_type = OffsetFetchRequest

    def __init__(
        self,
        cluster: ClusterClient,
        group_id: str,
        partitions: Iterable[TopicPartition],
        member: GroupMetadata | None,
        *,
        partly: bool = False,
    ) -> None:
        """``partly`` accepts a response with offsets for only some partitions."""
        self._partly = partly
        self.situation = Situation(OffsetFetchRequest.api_key, member=member is not None)
        self.partitions = list(partitions)
        self._member = member
        self._group_id = group_id
        self._cluster = cluster
        self._numbers: dict[str, list[int]] = {}
        for topic, number in self.partitions:
            self._numbers.setdefault(topic, []).append(number)
        self._ids: dict[str, bytes] = {}
        # True until the coordinator rejects an unknown id.
        self._by_id = True
        self._in_groups = False
        # The number of responses that left out some of the partitions.
        self._omissions = 0

    def highest(self) -> int | None:
        # Unlike for a commit, every attempt looks up the ids: the goal is the offset for a topic's newest id.
        self._ids = _topic_ids(self._cluster.snapshot, self._numbers) if self._by_id else {}
        return None if self._ids else _BY_NAME

    def build(self, version: int) -> OffsetFetchRequest:
        # Brokers before 2.5 can't wait for transactions (KIP-447), but exactly-once loops need newer brokers anyway.
        stable = version >= _STABLE_FROM
        self._in_groups = version >= _GROUPS_FROM
        if self._in_groups:
            topics = [
                OffsetFetchRequestTopics(name=name, topic_id=self._ids.get(name, ZERO_UUID), partition_indexes=numbers)
                for name, numbers in self._numbers.items()
            ]
            group = OffsetFetchRequestGroup(group_id=self._group_id, topics=topics)
            if self._member is not None and version >= _MEMBER_FROM:
                group.member_id, group.member_epoch = self._member.member_id, self._member.generation
            return OffsetFetchRequest(groups=[group], require_stable=stable)
        old = [OffsetFetchRequestTopic(name=name, partition_indexes=each) for name, each in self._numbers.items()]
        return OffsetFetchRequest(group_id=self._group_id, topics=old, require_stable=stable)

    def failure(self, response: OffsetFetchResponse) -> ErrorCode:
        top, entries = self.entries(response)
        code = _worst(
            [ErrorCode(top), *(ErrorCode(entry.error_code) for entry in entries.values())],
            self.situation,
        )
        if self._partly and not top and self._has_some(entries.values()):
            return ErrorCode.NONE
        # Retry by name: a deleted topic then has no committed offset, and the others don't need fresh metadata.
        self._by_id = self._by_id and code is not ErrorCode.UNKNOWN_TOPIC_ID
        if not code and len(entries) < len(self.partitions):
            # Partitions are left out only in versions before 9 (cluster/answers.py). Event Hubs always leaves out
            # partitions without a committed offset; Kafka doesn't. A single response isn't proof: believing it could
            # lose the consumer's position.
            self._omissions += 1
            return ErrorCode.COORDINATOR_NOT_AVAILABLE if self._omissions < MAX_OMISSIONS else ErrorCode.NONE
        return code

    def _has_some(self, entries: Collection[Any]) -> bool:
        """Return whether some partitions have offsets, and a later response can contain the others."""
        codes = {ErrorCode(entry.error_code) for entry in entries}
        return ErrorCode.NONE in codes and all(classify(code, self.situation) in RETRIED for code in codes if code)

    def entries(self, response: OffsetFetchResponse) -> tuple[int, dict[TopicPartition, Any]]:
        """Return the top-level error code and the partitions, from either format of the response."""
        names = {topic_id: name for name, topic_id in self._ids.items()}
        if self._in_groups:
            absent = OffsetFetchResponseGroup(error_code=ErrorCode.COORDINATOR_NOT_AVAILABLE)
            group = response.groups[0] if response.groups else absent
            return group.error_code, {
                TopicPartition(topic.name or names.get(topic.topic_id, ""), entry.partition_index): entry
                for topic in group.topics
                for entry in topic.partitions
            }
        return response.error_code, {
            TopicPartition(topic.name, entry.partition_index): entry
            for topic in response.topics
            for entry in topic.partitions
        }


def _topic_ids(snapshot: ClusterSnapshot, topics: Collection[str]) -> dict[str, bytes]:
    """Return the ids of all topics. Return nothing if any is unknown, because a request uses either ids or names."""
    ids = {name: snapshot.topics[name].topic_id for name in topics if name in snapshot.topics}
    return ids if len(ids) == len(topics) and ZERO_UUID not in ids.values() else {}


def _worst(codes: Iterable[ErrorCode], situation: Situation) -> ErrorCode:
    """Return the code that decides how to handle a response: a retriable code comes first, then a code that concerns
    the member."""

    def rank(code: ErrorCode) -> int:
        action = classify(code, situation)
        # Retriable codes come first: only the retry's response says what happens to the rest.
        again = action in (Action.REJOIN, Action.REFRESH_EPOCH)
        ranks = (action in RETRIED, action in LOST, again, action is Action.STOP, bool(code))
        return ranks.index(True) if True in ranks else len(ranks)

    return min(codes, key=rank, default=ErrorCode.NONE)
