"""The reconciliation loop: it makes a member give up and take items according to its coordinator's assignment
(KIP-848)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from aiokproto.cluster import ClusterClient
from aiokproto.errors import KafkaError
from aiokproto.group.changes import ItemOwner
from aiokproto.group.commits import Commits
from aiokproto.group.epoch_heartbeat import EpochHeartbeat, HeartbeatForm
from aiokproto.group.epoch_membership import EpochMembership, MemberState
from aiokproto.observe.observers import Timing
from aiokproto.runtime import create_task

log = logging.getLogger("aiokproto.group")

Item = TypeVar("Item", bound=Hashable)

_LEAVE_TIMEOUT = 3.0


class Reconciliation(Generic[Item]):
    """Moves the member from target to target.

    Heartbeats and commits only change the :class:`EpochMembership`; this loop acts on it, one step at a time.

    Invariant: what the member owns changes only here, and the owner has carried out each change before the next one
    starts.

    Attributes:
        left_reason: Why it stays out of the group despite its subscription.
        outside: Whether it isn't a member and has no subscription to join for.
        look_up_failure: Why the names of assigned topics aren't known; empty if they are.
        rebalances: How long it took to carry out each target; for the first target, including the time to join.
        joining_since: When joining, or carrying out the current target, started (loop time); None if neither is in
            progress.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        group_id: str,
        membership: EpochMembership[Item],
        form: HeartbeatForm[Item],
        heartbeat: EpochHeartbeat[Item],
        owner: ItemOwner[Item],
        commits: Commits,
    ) -> None:
        self.left_reason = ""
        self.outside = True
        self.look_up_failure = ""
        self.rebalances = Timing()
        self.joining_since: float | None = None
        self._cluster = cluster
        self._group_id = group_id
        self._membership = membership
        self._heartbeat = heartbeat
        self._owner = owner
        self._form = form
        self._commits = commits
        self._failure: BaseException | None = None
        self._lost_reason = ""
        self._assigned_once = False
        self._is_out = False
        # The number of consecutive lookups. It includes interrupted lookups: each heartbeat interrupts one.
        self._look_ups = 0
        self._noted = asyncio.Event()

    # Notes

    def subscription_changed(self) -> None:
        """Check the subscription again."""
        self.outside = self.outside and not self._form.subscribed
        self._heartbeat.wake()
        self._noted.set()

    def set_left_reason(self, reason: str) -> None:
        """Leave the group despite the subscription. If the reason is empty, rejoin."""
        self.left_reason = reason
        self._noted.set()

    def take(self, error: KafkaError | None) -> None:
        """Note that a response has changed the membership. ``error`` is set if it rejects the member."""
        if error is not None and self._membership.state is MemberState.FATAL:
            self.fail(error)
        elif error is not None:
            self._lost_reason = str(error)
            if self._membership.owned:
                self._owner.lost()
        self._noted.set()

    def fail(self, error: BaseException) -> None:
        """Note that the group has permanently rejected this member: :meth:`run` raises the error."""
        self._failure = self._failure or error
        self._noted.set()

    def _wanted(self) -> bool:
        return self._form.subscribed and not self.left_reason

    # The loop

    async def run(self) -> None:
        """Be a member whenever there is a subscription, until cancelled.

        Raises:
            KafkaError: The group has permanently rejected this member.
        """
        while True:
            self._noted.clear()
            state = self._membership.state
            if self._failure is not None:
                if state is MemberState.FALLING_BACK:
                    # The member with the other protocol, which takes over, must own nothing.
                    await self._revoke(self._membership.owned)
                raise self._failure
            if state is MemberState.FENCED:
                await self._lose()
            elif not self._wanted():
                await self._stay_out()
            elif not self._membership.in_session:
                self._join()
            elif state is MemberState.RECONCILING:
                await self._reconcile()
            else:
                await self._noted.wait()

    def _join(self) -> None:
        self._assigned_once = self._is_out = False
        self._rebalance_started()
        self._membership.join()
        self._heartbeat.wake()

    async def _lose(self) -> None:
        log.warning("group %s: lost everything: %s", self._group_id, self._lost_reason)
        # guard: a fenced member loses what it owned -> self._membership.give_up(self._membership.owned)
        await self._release()
        if self._wanted():
            self._join()
        else:
            self._membership.left(stale=bool(self.left_reason))

    async def _stay_out(self) -> None:
        membership, away = self._membership, self.left_reason
        if self._is_out and self.outside is not self._form.subscribed:
            await self._noted.wait()
            return
        self.joining_since = None
        membership.prepare_leaving()
        await (self._release() if away else self._revoke(membership.owned))
        if membership.state is MemberState.FENCED or self._failure is not None:
            return
        if self._wanted():
            membership.stay()
            return
        await self.leave(_LEAVE_TIMEOUT, for_good=False)
        membership.left(stale=bool(away))
        self.outside = not self._form.subscribed
        self._is_out = True
        await self._owner.left()

    async def leave(self, timeout: float, *, for_good: bool) -> None:
        """Leave the group, if the coordinator knows the member. Failures are only logged."""
        epoch = self._membership.leave(for_good=for_good)
        if epoch is not None:
            await self._heartbeat.leave(epoch, timeout)

    async def _release(self) -> None:
        """Give up everything without waiting for the application: it isn't requesting records, or other members already
        own the items."""
        await self._give_up(self._membership.owned, self._owner.lose)

    async def _revoke(self, items: frozenset[Item]) -> None:
        await self._give_up(items, self._owner.revoke)

    async def _give_up(self, items: frozenset[Item], how: Callable[[frozenset[Item]], Awaitable[None]]) -> None:
        if items:
            before = set(self._owner.owned)
            # guard: a revocation is reported afterwards -> self._membership.give_up(items); await how(items)
            await how(items)
            self._membership.give_up(items)
            self._commits.interrupted(before - self._owner.owned)

    async def _reconcile(self) -> None:
        membership = self._membership
        started = self._rebalance_started()
        target = membership.start_reconciling()
        ready = self._owner.known(target)
        revoked, added = membership.owned - target, ready - membership.owned
        if not revoked and not added and ready != target:
            await self._until_known(target - ready)
            return
        self._look_ups = 0
        await self._revoke(revoked)
        # The group may have removed the member in the meantime, or withdrawn what it had assigned.
        if membership.state is not MemberState.RECONCILING:
            return
        added &= membership.target
        if added or not self._assigned_once:
            self._assigned_once = True
            membership.take(added)
            await self._owner.assign(added)
        self._log(len(added), len(revoked))
        membership.reconciled()
        # If the state is still RECONCILING, there is more to carry out.
        if membership.state is not MemberState.RECONCILING:
            self.rebalances.add(asyncio.get_running_loop().time() - started)
            self.joining_since = None
        self._heartbeat.wake()

    def _rebalance_started(self) -> float:
        if self.joining_since is None:
            self.joining_since = asyncio.get_running_loop().time()
        return self.joining_since

    async def _until_known(self, items: frozenset[Item]) -> None:
        """Look up missing metadata, with a backoff, until it may be available or something else has to be done
        first."""
        while not self._noted.is_set() and not self._owner.known(items):
            self._look_ups += 1
            look_up = create_task(self._look_up(items, self._look_ups), name="aiokproto-group-topics")
            noted = create_task(self._noted.wait(), name="aiokproto-group-noted")
            try:
                await asyncio.wait([look_up, noted], return_when=asyncio.FIRST_COMPLETED)
                if look_up.done():
                    look_up.result()
            finally:
                for task in (look_up, noted):
                    task.cancel()
                await asyncio.wait([look_up, noted])

    async def _look_up(self, items: frozenset[Item], attempt: int) -> None:
        self.look_up_failure = ""
        try:
            await self._owner.look_up(items)
        except KafkaError as error:
            self.look_up_failure = str(error)
            log.debug("group %s: topics of the assignment: %s", self._group_id, error)
        if not self._owner.known(items):
            self.look_up_failure = self.look_up_failure or "the metadata lacks topics of the assignment"
            await asyncio.sleep(self._cluster.backoff.delay(attempt))

    def _log(self, added: int, revoked: int) -> None:
        log.info(
            "group %s: epoch %d as %s: %d owned, %d added, %d revoked",
            self._group_id,
            self._membership.epoch,
            self._membership.member_id,
            len(self._membership.owned),
            added,
            revoked,
        )
