"""How far a group has read: commit it, and look it up."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from aiokproto.cluster import Cluster, CoordinatorKind
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
from aiokproto.codec.schema import Request, Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerConnectionError, DeadlineError, error_for
from aiokproto.group.membership import Membership, Verdict, verdict
from aiokproto.types import OffsetAndMetadata, TopicPartition

log = logging.getLogger("aiokproto.group")

MISSING = frozenset({ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID})
"""What a coordinator answers for a topic that it does not have."""

R = TypeVar("R", bound=Response)

_BY_NAME = 9
"""The last version of OffsetCommit and OffsetFetch that names topics; from 10 on they go by id."""

_GROUPS_FROM = 8
"""The first version of OffsetFetch that asks for several groups."""


class GroupRequests:
    """Sends requests to a group's coordinator, wherever it is: the one place where they are retried.

    Attributes:
        group_id: The group.
    """

    def __init__(self, cluster: Cluster, group_id: str) -> None:
        self.group_id = group_id
        self._cluster = cluster

    async def send(
        self,
        request: Request[R],
        judge: Callable[[R], tuple[Verdict, int]],
        what: str,
        timeout: float,
    ) -> tuple[R, Verdict, int]:
        """Ask the coordinator until the answer is neither "again" nor "not me".

        Args:
            request: The request.
            judge: What the answer asks for, and the error code that decided it.
            what: For errors and logs.
            timeout: Seconds for all attempts.

        Raises:
            DeadlineError: The time is over; names the last failure.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        failure: object = "no answer"
        attempt = 0
        while (left := deadline - loop.time()) > 0:
            try:
                node = await self._cluster.coordinator(CoordinatorKind.GROUP, self.group_id, timeout=left)
                left = max(deadline - loop.time(), 0.001)
                answer = await self._cluster.send(request, node, timeout=left, max_version=_BY_NAME)
            except BrokerConnectionError as error:
                failure = error
                self._cluster.forget_coordinator(CoordinatorKind.GROUP, self.group_id)
            except DeadlineError as error:
                raise DeadlineError(f"{what} of group {self.group_id!r}: {error}") from error
            else:
                judged, code = judge(answer)
                if judged is Verdict.FIND_COORDINATOR:
                    self._cluster.forget_coordinator(CoordinatorKind.GROUP, self.group_id)
                elif judged is not Verdict.RETRY:
                    return answer, judged, code
                failure = ErrorCode(code).name
            attempt += 1
            await asyncio.sleep(min(self._cluster.backoff(attempt), max(deadline - loop.time(), 0)))
        raise DeadlineError(
            f"{what} of group {self.group_id!r}: not done in {timeout:g} s, {attempt} attempts: {failure}"
        )

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: Membership | None, timeout: float
    ) -> tuple[Verdict, dict[TopicPartition, int]]:
        """Commit, as ``member`` or, without one, as somebody outside (which works while the group is empty).

        Returns:
            What the answer means for the member, and each partition's error code.

        Raises:
            DeadlineError: The coordinator did not take it in time.
        """
        request = _commit_request(self.group_id, offsets, member)
        generation = request.generation_id_or_member_epoch

        def judge(answer: OffsetCommitResponse) -> tuple[Verdict, int]:
            return _worst([code for partition, code in _commit_codes(answer) if not self._is_gone(partition, code)])

        answer, judged, code = await self.send(request, judge, "OffsetCommit", timeout)
        if member is not None:
            judged = member.beaten(code, generation) if judged is Verdict.LOST else judged
        return judged, dict(_commit_codes(answer))

    def _is_gone(self, partition: TopicPartition, code: int) -> bool:
        """Whether a commit was refused since the topic was deleted: to repeat it would hold up all others."""
        if code not in MISSING:
            return False
        # The coordinator may be the one that has not heard of the topic yet.
        self._cluster.invalidate(f"OffsetCommit for {partition}: {ErrorCode(code).name}")
        return self._cluster.snapshot.partition(*partition) is None

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float
    ) -> dict[TopicPartition, OffsetAndMetadata | None]:
        """What the group has committed; None where it has nothing.

        Transactions under way that commit offsets of these partitions are waited for (KIP-447), at any isolation
        level: whoever started before them would process once more what they are about to commit.

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
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        node = await self._cluster.coordinator(CoordinatorKind.GROUP, self.group_id, timeout=timeout)
        version = min(await self._cluster.version(OffsetFetchRequest, node), _BY_NAME)
        request = _fetch_request(self.group_id, names, version)

        def judge(answer: OffsetFetchResponse) -> tuple[Verdict, int]:
            top, entries = _fetch_entries(answer)
            return _worst([top, *(entry.error_code for _, entry in entries)])

        left = max(deadline - loop.time(), 0.001)
        answer, _, _ = await self.send(request, judge, "OffsetFetch", left)
        top, entries = _fetch_entries(answer)
        if top:
            raise error_for(top, f"OffsetFetch of group {self.group_id!r}")
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        for topic, entry in entries:
            where = TopicPartition(topic, entry.partition_index)
            if entry.error_code:
                raise error_for(entry.error_code, f"OffsetFetch of group {self.group_id!r} for {where}")
            known = entry.committed_offset >= 0
            found[where] = (
                OffsetAndMetadata(entry.committed_offset, entry.metadata or "", entry.committed_leader_epoch)
                if known
                else None
            )
        return found


def _worst(codes: list[int]) -> tuple[Verdict, int]:
    """What a list of codes asks for as a whole: whatever needs another attempt first."""
    order = [Verdict.FIND_COORDINATOR, Verdict.RETRY, Verdict.LOST, Verdict.REJOIN, Verdict.FATAL, Verdict.PROCEED]
    ranked = sorted(((verdict(code), code) for code in codes), key=lambda one: order.index(one[0]))
    return ranked[0] if ranked else (Verdict.PROCEED, 0)


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


def _commit_codes(answer: OffsetCommitResponse) -> list[tuple[TopicPartition, int]]:
    return [
        (TopicPartition(topic.name, entry.partition_index), entry.error_code)
        for topic in answer.topics
        for entry in topic.partitions
    ]


def _fetch_request(group_id: str, names: Mapping[str, list[int]], version: int) -> OffsetFetchRequest:
    # A broker before 2.5 cannot wait for transactions; read-process-write loops do not work with it anyway.
    stable = version >= 7
    if version >= _GROUPS_FROM:
        topics = [OffsetFetchRequestTopics(name=name, partition_indexes=numbers) for name, numbers in names.items()]
        return OffsetFetchRequest(
            groups=[OffsetFetchRequestGroup(group_id=group_id, topics=topics)], require_stable=stable
        )
    old = [OffsetFetchRequestTopic(name=name, partition_indexes=numbers) for name, numbers in names.items()]
    return OffsetFetchRequest(group_id=group_id, topics=old, require_stable=stable)


def _fetch_entries(answer: OffsetFetchResponse) -> tuple[int, list[tuple[str, Any]]]:
    """The top-level code and the partitions, in whichever of its two forms the version has them."""
    if answer.groups:
        group = answer.groups[0]
        return group.error_code, [(topic.name, entry) for topic in group.topics for entry in topic.partitions]
    return answer.error_code, [(topic.name, entry) for topic in answer.topics for entry in topic.partitions]
