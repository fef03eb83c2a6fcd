"""How far a group has read: OffsetCommit and OffsetFetch, in the form that each version has for them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from aiokproto.cluster import Cluster
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
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.membership import LOST, Membership
from aiokproto.group.requests import AGAIN, Exchange, GroupRequests
from aiokproto.types import OffsetAndMetadata, TopicPartition

log = logging.getLogger("aiokproto.group")

_BY_NAME = 9
"""The last version of OffsetCommit and OffsetFetch that names topics; from 10 on they go by id."""

_GROUPS_FROM = 8
"""The first version of OffsetFetch that asks for several groups."""

_STABLE_FROM = 7
"""The first version of OffsetFetch that can wait for transactions (KIP-447)."""


class CommitResult(NamedTuple):
    """What became of a commit.

    Attributes:
        codes: The error code of each partition; NONE where it was committed.
        generation: The generation in which it was sent; -1 from outside the group.
    """

    codes: dict[TopicPartition, ErrorCode]
    generation: int


class GroupOffsets:
    """Commits offsets, and fetches committed ones.

    Invariant: a response is about exactly the partitions that were asked for, whatever form its version has.
    """

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.group_id = group_id
        self._cluster = cluster
        self._requests = GroupRequests(cluster, group_id)

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: Membership | None, at: float
    ) -> CommitResult:
        """Commit as ``member`` or, with None, from outside, which works while the group has no members.

        Args:
            offsets: What to commit.
            member: As whom.
            at: Loop time of the deadline.

        Raises:
            DeadlineError: The coordinator did not take it in time.
            KafkaError: The coordinator cannot be asked.
        """
        request = _commit_request(self.group_id, offsets, member)
        situation = Situation(OffsetCommitRequest.api_key, member=member is not None)

        def failure(response: OffsetCommitResponse) -> ErrorCode:
            codes = _commit_codes(response)
            return _worst([code for partition, code in codes.items() if not self._is_gone(partition, code)], situation)

        exchange = Exchange(OffsetCommitRequest, lambda version: request, failure, member is not None, _BY_NAME)
        response = await self._requests.send(exchange, at)
        return CommitResult(_commit_codes(response), request.generation_id_or_member_epoch)

    def _is_gone(self, partition: TopicPartition, code: ErrorCode) -> bool:
        """Whether a commit was refused since the topic was deleted: to repeat it would hold up all others."""
        if classify(code, Situation(OffsetCommitRequest.api_key)) is not Action.REFRESH_METADATA:
            return False
        # The coordinator may be the one that has not heard of the topic yet.
        self._cluster.invalidate(f"OffsetCommit for {partition}: {code.name}")
        return self._cluster.snapshot.partition(*partition) is None

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where it has nothing.

        Pending transactions that commit offsets of these partitions are waited for (KIP-447), at any isolation level:
        a consumer that started before their end would process once more what they are about to commit.

        Args:
            partitions: Which ones.
            timeout: Seconds.

        Raises:
            BrokerError: The group or a topic may not be read.
            DeadlineError: No answer in time.
        """
        names: dict[str, list[int]] = {}
        for topic, number in partitions:
            names.setdefault(topic, []).append(number)
        situation = Situation(OffsetFetchRequest.api_key)

        def failure(response: OffsetFetchResponse) -> ErrorCode:
            top, entries = _fetch_entries(response)
            return _worst([ErrorCode(top), *(ErrorCode(entry.error_code) for _, entry in entries)], situation)

        exchange = Exchange(
            OffsetFetchRequest,
            lambda version: _fetch_request(self.group_id, names, version),
            failure,
            highest=_BY_NAME,
        )
        response = await self._requests.send(exchange, asyncio.get_running_loop().time() + timeout)
        top, entries = _fetch_entries(response)
        if top:
            raise error_for(top, f"OffsetFetch of group {self.group_id!r}")
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for topic, entry in entries:
            partition = TopicPartition(topic, entry.partition_index)
            if entry.error_code:
                raise error_for(entry.error_code, f"OffsetFetch of group {self.group_id!r} for {partition}")
            position = OffsetAndMetadata(entry.committed_offset, entry.metadata or "", entry.committed_leader_epoch)
            found[partition] = position if entry.committed_offset >= 0 else None
        return found


def _worst(codes: Iterable[ErrorCode], situation: Situation) -> ErrorCode:
    """The code that decides about a response: first one that asks for another attempt, then one about the member."""

    def rank(code: ErrorCode) -> int:
        action = classify(code, situation)
        ranks = (action in AGAIN, action in LOST, action is Action.REJOIN, action is Action.STOP, bool(code))
        return ranks.index(True) if True in ranks else len(ranks)

    return min(codes, key=rank, default=ErrorCode.NONE)


def _commit_request(
    group_id: str, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: Membership | None
) -> OffsetCommitRequest:
    topics: dict[str, list[OffsetCommitRequestPartition]] = {}
    for (topic, number), position in offsets.items():
        topics.setdefault(topic, []).append(
            OffsetCommitRequestPartition(
                partition_index=number,
                committed_offset=position.offset,
                committed_leader_epoch=position.leader_epoch,
                committed_metadata=position.metadata,
            )
        )
    return OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=member.generation if member else -1,
        member_id=member.member_id if member else "",
        group_instance_id=member.instance_id if member else None,
        topics=[OffsetCommitRequestTopic(name=name, partitions=entries) for name, entries in topics.items()],
    )


def _commit_codes(response: OffsetCommitResponse) -> dict[TopicPartition, ErrorCode]:
    return {
        TopicPartition(topic.name, entry.partition_index): ErrorCode(entry.error_code)
        for topic in response.topics
        for entry in topic.partitions
    }


def _fetch_request(group_id: str, names: Mapping[str, list[int]], version: int) -> OffsetFetchRequest:
    # A broker before 2.5 cannot wait for transactions; read-process-write loops do not work with it anyway.
    stable = version >= _STABLE_FROM
    if version >= _GROUPS_FROM:
        topics = [OffsetFetchRequestTopics(name=name, partition_indexes=numbers) for name, numbers in names.items()]
        return OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)], require_stable=stable
        )
    old = [OffsetFetchRequestTopic(name=name, partition_indexes=numbers) for name, numbers in names.items()]
    return OffsetFetchRequest(group_id=group_id, topics=old, require_stable=stable)


def _fetch_entries(response: OffsetFetchResponse) -> tuple[int, list[tuple[str, Any]]]:
    """The top-level code and the partitions, in whichever of its two forms the version has them."""
    if response.groups:
        group = response.groups[0]
        return group.error_code, [(topic.name, entry) for topic in group.topics for entry in topic.partitions]
    return response.error_code, [(topic.name, entry) for topic in response.topics for entry in topic.partitions]
