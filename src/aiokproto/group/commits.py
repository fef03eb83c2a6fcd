"""Commits: which offsets can be committed, in which generation, and how errors are handled."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from typing import Protocol

from aiokproto.cluster import ClusterClient, CoordinatorKind
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, CommitError, KafkaError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.membership import LOST
from aiokproto.group.offsets import GroupOffsets
from aiokproto.runtime.timeouts import deadline_at
from aiokproto.types import GroupMetadata, OffsetAndMetadata, TopicPartition


class CommittingMember(Protocol):
    """The member that offsets are committed for."""

    @property
    def owned(self) -> AbstractSet[TopicPartition]:
        """The partitions that the member owns."""
        ...

    @property
    def metadata(self) -> GroupMetadata:
        """The member's current identity. Outside any generation, the generation is negative."""
        ...

    @property
    def catches_up_alone(self) -> bool:
        """Whether :meth:`catch_up` doesn't depend on the application or its callbacks."""
        ...

    def commit_refused(self, code: ErrorCode, generation: int, error: KafkaError) -> Action:
        """Note an error that concerns the member. Return what to do about the commit: REJOIN or REFRESH_EPOCH to repeat
        it after :meth:`catch_up`, STOP, or any other action if the commit is lost."""
        ...

    async def catch_up(self, generation: int) -> None:
        """Wait until the coordinator may accept a commit that it has rejected in this generation or epoch."""
        ...


_REPEAT = frozenset({Action.REJOIN, Action.REFRESH_EPOCH})
_ABOUT_MEMBER = LOST | _REPEAT | {Action.STOP}


class Commits:
    """Commits offsets for one member, one request at a time: otherwise, a retry could overtake a later commit and undo
    it.

    Invariant: only offsets of owned partitions are sent, in the generation that owns them. A commit that was rejected
    because of an earlier generation is repeated in the current one, for the partitions that the member has owned
    without interruption: if another member owned a partition in between, it may have committed a later offset. If a
    commit is rejected in the current generation, that leaves a note for the loop that moves the member, like a
    heartbeat's response.
    """

    def __init__(self, cluster: ClusterClient, member: CommittingMember, offsets: GroupOffsets) -> None:
        self._cluster = cluster
        self._member = member
        self._offsets = offsets
        self._context = f"OffsetCommit of group {offsets.group_id!r}"
        self._group = f"group {offsets.group_id!r}"
        # asyncio.Lock is fair, so commits are sent in the order of the calls.
        self._turn = asyncio.Lock()
        # For each call of as_member(), the partitions that the member has owned without interruption since.
        self._kept: list[set[TopicPartition]] = []

    def interrupted(self, partitions: AbstractSet[TopicPartition]) -> None:
        """Note that other members may now own these partitions, even if this member owns them again later."""
        for kept in self._kept:
            # guard: a rejected commit is not repeated for what others may have owned since
            kept -= partitions

    async def as_member(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float, *, blocked: str = ""
    ) -> dict[TopicPartition, KafkaError]:
        """Commit the offsets of owned partitions. During a rebalance, this waits until it ends.

        Args:
            offsets: The offsets.
            timeout: Seconds.
            blocked: Why the rebalance cannot end before this call returns; empty if it can.

        Returns:
            The partitions that were not committed. A :class:`CommitError` means that this member does not own the
            partition (any more), a :class:`BrokerError` that the coordinator rejected its offset.

        Raises:
            FencedError: Another member has this one's ``group_instance_id``.
            KafkaError: The request failed permanently.
            DeadlineError: The commit was not confirmed in time.
        """
        kept = set(offsets.keys() & self._member.owned)
        self._kept.append(kept)
        try:
            return await self._as_member(offsets, kept, timeout, blocked)
        finally:
            self._kept = [partitions for partitions in self._kept if partitions is not kept]

    async def _as_member(
        self,
        offsets: Mapping[TopicPartition, OffsetAndMetadata],
        kept: AbstractSet[TopicPartition],
        timeout: float,
        blocked: str,
    ) -> dict[TopicPartition, KafkaError]:
        at = asyncio.get_running_loop().time() + timeout
        failures: dict[TopicPartition, KafkaError] = {}
        attempts = 0
        async with self._one_at_a_time(at):
            # Recompute this after each rebalance: partitions that were given up drop out, and are reported at the end.
            # guard: a member commits only what it owns -> (mine := dict(offsets))
            while mine := {each: offsets[each] for each in offsets if each in kept and each in self._member.owned}:
                # A commit without a generation would count as a commit from outside the group, which an empty group
                # accepts from any client.
                identity = self._member.metadata
                # guard: nothing is committed without a generation
                if identity.generation < 0:
                    failures = self._lost(mine, f"not a member at the moment; {_names(mine)} not committed")
                    break
                attempt = await self._attempt(mine, identity, at)
                if attempt is not None:
                    failures = attempt
                    break
                # The call comes from inside a rebalance callback. The rebalance is waiting for the callback, which
                # would wait for the rebalance.
                if blocked and not self._member.catches_up_alone:
                    failures = self._lost(mine, f"{blocked}; {_names(mine)} not committed")
                    break
                attempts += 1
                await self._catch_up(identity.generation, at, attempts)
        # `mine` is the value from the last round of the loop.
        not_owned = offsets.keys() - mine.keys()
        return failures | self._lost(
            not_owned,
            f"{_names(not_owned)} not committed: not assigned to this member, or not all the time since the call",
        )

    async def from_outside(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float
    ) -> dict[TopicPartition, KafkaError]:
        """Commit offsets of partitions that the group does not assign. Returns and raises the same as
        :meth:`as_member`.

        Raises:
            GroupError: The group has members, and accepts offsets only from them.
        """
        at = asyncio.get_running_loop().time() + timeout
        async with self._one_at_a_time(at):
            # Take the same lock: a retry of this commit must not overtake a later commit of the same partition.
            codes = (await self._offsets.commit(offsets, None, at)).codes
        situation = Situation(OffsetCommitRequest.api_key, member=True)
        for partition, code in codes.items():
            # An error that would end a membership just means here that the group has members, and accepts offsets only
            # from them.
            if classify(code, situation) in LOST | {Action.REJOIN}:
                raise error_for(
                    code,
                    f"{self._context} for {partition}",
                    "the group has active members, and only these can commit: stop all members first",
                )
        return {partition: self._error(code, partition) for partition, code in codes.items() if code}

    async def _attempt(
        self, mine: Mapping[TopicPartition, OffsetAndMetadata], identity: GroupMetadata, at: float
    ) -> dict[TopicPartition, KafkaError] | None:
        """Commit once. Return the partitions that were not committed, or None to repeat the commit once the member has
        caught up."""
        codes, generation = await self._offsets.commit(mine, identity, at)
        failed = {partition: code for partition, code in codes.items() if code}
        situation = Situation(OffsetCommitRequest.api_key, member=True)
        for partition, code in failed.items():
            # This code concerns the partition (metadata too large, unknown topic). If there is a code that concerns the
            # member, it takes precedence.
            if classify(code, situation) not in _ABOUT_MEMBER:
                continue
            error = self._error(code, partition)
            # This changes the member, so do it only once, for the first such code.
            action = self._member.commit_refused(code, generation, error)
            if action in _REPEAT:
                return None
            if action is Action.STOP:
                raise error
            return self._lost(mine, f"{error_for(code)}; {_names(mine)} not committed")
        return {partition: self._error(code, partition) for partition, code in failed.items()}

    async def _catch_up(self, generation: int, at: float, attempts: int) -> None:
        async with deadline_at(at, lambda: f"{self._context}: the rebalance did not end in time"):
            # The membership loop has to rejoin, but clears `join_ended` only when it next runs. Without this pause,
            # catch_up() could find the event still set, and return too early.
            await asyncio.sleep(self._cluster.backoff.delay(attempts))
            await self._member.catch_up(generation)

    @asynccontextmanager
    async def _one_at_a_time(self, at: float) -> AsyncIterator[None]:
        # The deadline covers only the wait for the lock: the commit has its own. If acquire() is cancelled, the lock
        # stays free.
        def late() -> str:
            failure = self._cluster.coordinator_failure(CoordinatorKind.GROUP, self._offsets.group_id)
            return f"OffsetCommit: another commit is still in flight{failure and f': {failure}'}"

        async with deadline_at(at, late):
            # guard: commits run one after the other -> self._turn._locked = True
            await self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()

    def _lost(self, partitions: Iterable[TopicPartition], why: str) -> dict[TopicPartition, KafkaError]:
        # All partitions share one error, whose message names them.
        return dict.fromkeys(partitions, CommitError(f"{self._group}: {why}"))

    def _error(self, code: ErrorCode, partition: TopicPartition) -> BrokerError:
        asked = self._cluster.asked(OffsetCommitRequest, partition.topic, self._offsets.group_id)
        return error_for(code, f"{self._context} for {partition}", None, asked)


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(partition) for partition in sorted(partitions))
