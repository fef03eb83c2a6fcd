"""A member of any group whose assignment the coordinator computes. It combines the parts."""

from __future__ import annotations

import asyncio
from collections.abc import Hashable, Iterable
from collections.abc import Set as AbstractSet
from contextlib import suppress
from typing import Generic, TypeVar

from aiokproto.cluster import ClusterClient, CoordinatorKind
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ClientClosedError, KafkaError
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.changes import ItemOwner
from aiokproto.group.commits import Commits
from aiokproto.group.epoch_heartbeat import EpochHeartbeat, HeartbeatForm
from aiokproto.group.epoch_membership import EpochMembership, MemberState
from aiokproto.group.membership import LOST
from aiokproto.group.offsets import FoundOffsets, GroupOffsets
from aiokproto.group.reconciliation import Reconciliation
from aiokproto.group.session import Session
from aiokproto.runtime import create_task
from aiokproto.runtime.timeouts import deadline_at
from aiokproto.types import GroupMetadata, TopicPartition

Item = TypeVar("Item", bound=Hashable)

_OFFSET_COMMIT = Situation(OffsetCommitRequest.api_key, member=True)
_OFFSET_FETCH = Situation(OffsetFetchRequest.api_key, member=True)


class EpochMember(Generic[Item]):
    """The state of a member, its heartbeats, and the reconciliation of what it owns.

    Invariant: when any of its tasks learns that the group has permanently rejected this member, :meth:`run` raises the
    error.

    Attributes:
        membership: The state machine.
        heartbeat: Sends heartbeats.
        reconciliation: Carries out the assignment.
        commits: Commits offsets of owned partitions.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        group_id: str,
        membership: EpochMembership[Item],
        form: HeartbeatForm[Item],
        owner: ItemOwner[Item],
        session_timeout: float,
        *,
        optional: bool = False,
    ) -> None:
        """See the parts.

        If ``optional``, there is another protocol: if the coordinator rejects this one, :meth:`run` raises the error
        once the member has given up what it owned.
        """
        self._cluster = cluster
        self._group_id = group_id
        self._owner = owner
        self.membership = membership
        session = Session(group_id, session_timeout, membership, owner)
        self.heartbeat: EpochHeartbeat[Item] = EpochHeartbeat(
            cluster, group_id, membership, form, session, self, optional=optional
        )
        self._offsets = GroupOffsets(cluster, group_id)
        self.commits = Commits(cluster, self, self._offsets)
        self.reconciliation: Reconciliation[Item] = Reconciliation(
            cluster, group_id, membership, form, self.heartbeat, owner, self.commits
        )

    @property
    def state(self) -> str:
        """The member's state in words."""
        if self.reconciliation.left_reason:
            return f"out of group {self._group_id!r}: {self.reconciliation.left_reason}"
        return f"{self.membership.state.name.lower().replace('_', ' ')} in group {self._group_id!r}"

    @property
    def problem(self) -> str:
        """Why the member cannot join or carry out its assignment; empty if nothing is wrong."""
        why = self.heartbeat.failure or self.reconciliation.look_up_failure or self._unreached()
        return f"{self.state}: {why}" if why else ""

    def _unreached(self) -> str:
        """Return why the coordinator can't be reached, if the member has to join."""
        if self.membership.state not in (MemberState.JOINING, MemberState.FENCED):
            return ""
        return self._cluster.coordinator_failure(CoordinatorKind.GROUP, self._group_id)

    async def run(self) -> None:
        """Be a member whenever there is a subscription, until cancelled.

        Raises:
            KafkaError: The group has permanently rejected this member.
            ClientClosedError: The heartbeat task was cancelled.
        """
        heartbeats = create_task(self.heartbeat.run(), name="aiokproto-heartbeat")
        heartbeats.add_done_callback(self._heartbeats_ended)
        try:
            await self.reconciliation.run()
        finally:
            heartbeats.cancel()
            with suppress(asyncio.CancelledError, KafkaError):
                await heartbeats

    async def leave(self, timeout: float, *, for_good: bool = False) -> None:
        """Leave the group after :meth:`run` has ended. Failures are only logged."""
        await self.reconciliation.leave(timeout, for_good=for_good)
        self.membership.give_up(self.membership.owned)
        self.membership.left(stale=False)

    async def committed(
        self, partitions: Iterable[TopicPartition], timeout: float, *, partly: bool = False
    ) -> FoundOffsets:
        """Look up committed offsets as this member, if it is one: see :meth:`GroupOffsets.lookup
        <aiokproto.group.offsets.GroupOffsets.lookup>`.

        If its epoch is older than the coordinator's, it catches up first. If the group has removed it, it leaves a
        note, as after a heartbeat, and returns the offsets that a non-member would see.
        """
        at, partitions = asyncio.get_running_loop().time() + timeout, list(partitions)
        attempt = 0
        while True:
            attempt += 1
            identity = self.metadata
            member = identity if identity.generation >= 0 else None
            try:
                return await self._offsets.lookup(partitions, member, at, partly=partly)
            except KafkaError as error:
                action = classify(error, _OFFSET_FETCH)
                if member is None or action not in LOST | {Action.REFRESH_EPOCH}:
                    raise
                self._refused(action, identity.generation, error)
            async with deadline_at(
                at, lambda: f"OffsetFetch of group {self._group_id!r}: the member's epoch is refused"
            ):
                await asyncio.sleep(self._cluster.backoff.delay(attempt))
                await self.catch_up(identity.generation)

    # CommittingMember

    @property
    def owned(self) -> AbstractSet[TopicPartition]:
        """The partitions whose offsets the member can commit."""
        return self._owner.owned

    @property
    def metadata(self) -> GroupMetadata:
        """The member's current identity, with the member epoch as generation; -1 if it isn't a member."""
        member = self.membership
        epoch = member.epoch if member.joined else -1
        return GroupMetadata(self._group_id, epoch, member.member_id, member.instance_id)

    @property
    def catches_up_alone(self) -> bool:
        """True: a single heartbeat is enough, and heartbeats never wait for the application."""
        return True

    def commit_refused(self, code: ErrorCode, generation: int, error: KafkaError) -> Action:
        """See :class:`~aiokproto.group.commits.CommittingMember`."""
        return self._refused(classify(code, _OFFSET_COMMIT), generation, error)

    def _refused(self, action: Action, generation: int, error: KafkaError) -> Action:
        if generation != self.membership.epoch or not self.membership.joined:
            return Action.REFRESH_EPOCH
        if action is Action.REFRESH_EPOCH and self.membership.state is MemberState.FALLING_BACK:
            # No heartbeat is going to return the epoch.
            action = Action.REJOIN_LOST
        if action in LOST or action is Action.STOP:
            self.membership.refused(action)
            self.reconciliation.take(error)
        return action

    async def catch_up(self, generation: int) -> None:
        """Get the member's epoch with a heartbeat."""
        await self.heartbeat.refresh(generation)

    def heartbeat_responded(self, error: KafkaError | None) -> None:
        """Handle the response to a heartbeat. ``error`` is set if it rejects the member or the protocol."""
        if error is not None and self.membership.state is MemberState.FALLING_BACK:
            self.reconciliation.fail(error)
        else:
            self.reconciliation.take(error)

    def _heartbeats_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self.reconciliation.fail(error or ClientClosedError("the heartbeat task was cancelled"))
