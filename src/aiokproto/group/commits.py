"""Commits: which offsets can be committed, in which generation, and what a refusal means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from typing import Protocol

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, CommitError, KafkaError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.membership import LOST
from aiokproto.group.offsets import GroupOffsets
from aiokproto.net.timeouts import deadline as until
from aiokproto.types import GroupMetadata, OffsetAndMetadata, TopicPartition


class CommittingMember(Protocol):
    """The member for which offsets are committed."""

    @property
    def owned(self) -> AbstractSet[TopicPartition]:
        """The partitions that it owns."""
        ...

    @property
    def metadata(self) -> GroupMetadata:
        """Its identity now; outside of any generation, the generation is negative."""
        ...

    @property
    def catches_up_alone(self) -> bool:
        """Whether :meth:`catch_up` needs neither the application nor its callbacks."""
        ...

    def commit_refused(self, code: ErrorCode, generation: int, error: KafkaError) -> Action:
        """Take note of a refusal that concerns the member, and return what to do about the commit: REJOIN or
        REFRESH_EPOCH to repeat it after :meth:`catch_up`, STOP, or one of those after which it is lost."""
        ...

    async def catch_up(self, generation: int) -> None:
        """Wait until the member may be in another generation, or epoch, than this."""
        ...


_REPEAT = frozenset({Action.REJOIN, Action.REFRESH_EPOCH})
_ABOUT_MEMBER = LOST | _REPEAT | {Action.STOP}


class Commits:
    """Commits for one member, one request at a time: a retry could otherwise overtake a later commit and undo it.

    Invariant: only offsets of owned partitions are sent, in the generation that owns them. A commit that was refused
    because of an earlier generation is repeated in the current one, for what is still owned; a refusal in the current
    generation is noted for the loop that moves the member, like a heartbeat's.
    """

    def __init__(self, cluster: ClusterClient, member: CommittingMember, group_id: str) -> None:
        self._cluster = cluster
        self._member = member
        self._offsets = GroupOffsets(cluster, group_id)
        self._context = f"OffsetCommit of group {group_id!r}"
        self._group = f"group {group_id!r}"
        self._turn = asyncio.Lock()

    async def as_member(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float, *, blocked: str = ""
    ) -> None:
        """Commit the offsets of owned partitions; during a rebalance, after it.

        Args:
            offsets: The offsets.
            timeout: Seconds.
            blocked: Why a rebalance cannot end before this call returns; empty if it can.

        Raises:
            CommitError: This member does not own some of the partitions (any more); the others were committed.
            UnknownTopicError: Some topics were deleted; the others were committed.
            BrokerError: The commit was refused for another reason.
            DeadlineError: The commit was not confirmed in time.
        """
        at = asyncio.get_running_loop().time() + timeout
        async with self._one_at_a_time(at):
            while mine := {each: position for each, position in offsets.items() if each in self._member.owned}:
                # Without a generation it would count as a commit from outside, which an empty group accepts from
                # anyone.
                identity = self._member.metadata
                if identity.generation < 0:
                    raise CommitError(f"{self._group}: not a member at the moment; {_names(mine)} not committed")
                if not await self._must_repeat(mine, identity, at):
                    break
                if blocked and not self._member.catches_up_alone:
                    raise CommitError(f"{self._group}: {blocked}; {_names(mine)} not committed")
                await self._catch_up(identity.generation, at)
        if gone := offsets.keys() - mine.keys():
            raise CommitError(f"{self._group}: {_names(gone)} not committed: not assigned to this member")

    async def from_outside(self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float) -> None:
        """Commit offsets of partitions that the group does not assign. Raises as :meth:`as_member`."""
        at = asyncio.get_running_loop().time() + timeout
        async with self._one_at_a_time(at):
            codes = (await self._offsets.commit(offsets, None, at)).codes
        for partition, code in codes.items():
            if code:
                raise self._error(code, partition)

    async def _must_repeat(
        self, mine: Mapping[TopicPartition, OffsetAndMetadata], identity: GroupMetadata, at: float
    ) -> bool:
        """Commit once. Return whether to repeat it when the member has caught up."""
        codes, generation = await self._offsets.commit(mine, identity, at)
        failed = {partition: code for partition, code in codes.items() if code}
        if not failed:
            return False
        situation = Situation(OffsetCommitRequest.api_key, member=True)
        for partition, code in failed.items():
            if classify(code, situation) not in _ABOUT_MEMBER:
                continue
            error = self._error(code, partition)
            action = self._member.commit_refused(code, generation, error)
            if action in _REPEAT:
                return True
            if action is Action.STOP:
                raise error
            raise CommitError(f"{self._group}: {error_for(code)}; {_names(mine)} not committed")
        partition, code = next(iter(failed.items()))
        raise self._error(code, partition)

    async def _catch_up(self, generation: int, at: float) -> None:
        async with until(at, lambda: f"{self._context}: the rebalance did not end in time"):
            await asyncio.sleep(self._cluster.backoff(1))
            await self._member.catch_up(generation)

    @asynccontextmanager
    async def _one_at_a_time(self, at: float) -> AsyncIterator[None]:
        async with until(at, lambda: "OffsetCommit: another commit is still in flight"):
            await self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()

    def _error(self, code: ErrorCode, partition: TopicPartition) -> BrokerError:
        return error_for(code, f"{self._context} for {partition}")


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(partition) for partition in sorted(partitions))
