"""Commits: which offsets can be committed, in which generation, and what a refusal means."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, CommitError, KafkaError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.membership import LOST, Membership
from aiokproto.group.offsets import GroupOffsets
from aiokproto.group.rebalance import RebalanceLoop
from aiokproto.net.timeouts import deadline as until
from aiokproto.types import OffsetAndMetadata, TopicPartition


class Commits:
    """Commits for one member, one request at a time: a retry could otherwise overtake a later commit and undo it.

    Invariant: only offsets of owned partitions are sent, in the generation that owns them. A commit that was refused
    because of an earlier generation is repeated in the current one, for what is still owned; a refusal in the current
    generation is noted for the rebalance loop, like a heartbeat's.
    """

    def __init__(self, cluster: ClusterClient, membership: Membership, rebalance: RebalanceLoop, group_id: str) -> None:
        self._cluster = cluster
        self._membership = membership
        self._rebalance = rebalance
        self._offsets = GroupOffsets(cluster, group_id)
        self._context = f"OffsetCommit of group {group_id!r}"
        self._group = f"group {group_id!r}"
        # asyncio.Lock is fair: commits are sent in the order of the calls.
        self._turn = asyncio.Lock()

    async def as_member(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float, *, blocked: str = ""
    ) -> dict[TopicPartition, KafkaError]:
        """Commit the offsets of owned partitions; during a rebalance, after it.

        Args:
            offsets: The offsets.
            timeout: Seconds.
            blocked: Why a rebalance cannot end before this call returns; empty if it can.

        Returns:
            The partitions that were not committed. A :class:`CommitError` says that this member does not own the
            partition (any more), a :class:`BrokerError` that the coordinator refused its offset.

        Raises:
            FencedError: Another member has this one's ``group_instance_id``.
            KafkaError: The request failed for good.
            DeadlineError: The commit was not confirmed in time.
        """
        at = asyncio.get_running_loop().time() + timeout
        failures: dict[TopicPartition, KafkaError] = {}
        async with self._one_at_a_time(at):
            # Computed anew after each rebalance: what was revoked meanwhile drops out, and is reported at the end.
            while mine := {each: position for each, position in offsets.items() if each in self._rebalance.owned}:
                # Without a generation it would count as a commit from outside, which an empty group accepts from
                # anyone.
                if self._membership.generation < 0:
                    failures = self._lost(mine, f"not a member at the moment; {_names(mine)} not committed")
                    break
                attempt = await self._attempt(mine, at)
                if attempt is not None:
                    failures = attempt
                    break
                # A call from inside a rebalance callback: the rebalance waits for the callback, which would wait for
                # the rebalance.
                if blocked:
                    failures = self._lost(mine, f"{blocked}; {_names(mine)} not committed")
                    break
                await self._settled(at)
        # `mine` is what the loop saw when it ended.
        gone = offsets.keys() - mine.keys()
        return failures | self._lost(gone, f"{_names(gone)} not committed: not assigned to this member")

    async def from_outside(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], timeout: float
    ) -> dict[TopicPartition, KafkaError]:
        """Commit offsets of partitions that the group does not assign. Returns and raises as :meth:`as_member`.

        Raises:
            GroupError: The group has members, and takes offsets from these alone.
        """
        at = asyncio.get_running_loop().time() + timeout
        async with self._one_at_a_time(at):
            # In the same lock: a later commit of the same partition must not be overtaken by the retry of this one.
            codes = (await self._offsets.commit(offsets, None, at)).codes
        situation = Situation(OffsetCommitRequest.api_key, member=True)
        for partition, code in codes.items():
            # What ends a membership says here that the group has members: it takes offsets from these alone.
            if classify(code, situation) in LOST | {Action.REJOIN}:
                raise error_for(
                    code,
                    f"{self._context} for {partition}",
                    "the group has active members, and only these can commit: stop all members first",
                )
        return {partition: self._error(code, partition) for partition, code in codes.items() if code}

    async def _attempt(
        self, mine: Mapping[TopicPartition, OffsetAndMetadata], at: float
    ) -> dict[TopicPartition, KafkaError] | None:
        """Commit once. Return what was not committed, or None to repeat it after a rebalance."""
        codes, generation = await self._offsets.commit(mine, self._membership, at)
        failed = {partition: code for partition, code in codes.items() if code}
        api, situation = OffsetCommitRequest.api_key, Situation(OffsetCommitRequest.api_key, member=True)
        for partition, code in failed.items():
            error = self._error(code, partition)
            # A code about the partition (too large metadata, unknown topic): the one about the member, if there is one,
            # says more.
            if classify(code, situation) not in LOST | {Action.REJOIN, Action.STOP}:
                continue
            # The generation has ended while the commit was in flight, so the refusal says nothing about the current
            # one.
            if not self._membership.is_current(generation):
                return None
            # Changes the member, so it is done once, for the first such code.
            action = self._membership.responded(code, generation, api)
            self._rebalance.take(action, error)
            if action is Action.REJOIN:
                return None
            if action is Action.STOP:
                raise error
            return self._lost(mine, f"{error_for(code)}; {_names(mine)} not committed")
        return {partition: self._error(code, partition) for partition, code in failed.items()}

    async def _settled(self, at: float) -> None:
        async with until(at, lambda: f"{self._context}: the rebalance did not end in time"):
            # The loop has only been noted to rejoin, and clears `settled` when it runs: without the pause the event
            # could still be set from before.
            await asyncio.sleep(self._cluster.backoff(1))
            await self._rebalance.settled.wait()

    @asynccontextmanager
    async def _one_at_a_time(self, at: float) -> AsyncIterator[None]:
        # The deadline covers the wait for the lock only: the commit has its own, and a cancellation in acquire() leaves
        # the lock free.
        async with until(at, lambda: "OffsetCommit: another commit is still in flight"):
            await self._turn.acquire()
        try:
            yield
        finally:
            self._turn.release()

    def _lost(self, partitions: Iterable[TopicPartition], why: str) -> dict[TopicPartition, KafkaError]:
        # One error for all: the text names them.
        return dict.fromkeys(partitions, CommitError(f"{self._group}: {why}"))

    def _error(self, code: ErrorCode, partition: TopicPartition) -> BrokerError:
        return error_for(code, f"{self._context} for {partition}")


def _names(partitions: Iterable[TopicPartition]) -> str:
    return ", ".join(str(partition) for partition in sorted(partitions))
