"""A member of any group whose assignment the coordinator computes: the parts, joined."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import Generic, TypeVar

from aiokproto.cluster import ClusterClient
from aiokproto.errors import ClientClosedError, KafkaError
from aiokproto.group.epoch_heartbeat import EpochHeartbeat, HeartbeatForm
from aiokproto.group.epoch_membership import EpochMembership
from aiokproto.group.reconciliation import ItemOwner, Reconciliation
from aiokproto.group.session import Session

Item = TypeVar("Item", bound=Hashable)


class EpochMember(Generic[Item]):
    """The state of a member, its heartbeats, and the reconciliation of what it owns.

    Invariant: whichever task learns that the group refuses this member for good, :meth:`run` raises the error.

    Attributes:
        membership: The state machine.
        heartbeat: Sends heartbeats.
        reconciliation: Carries out the assignment.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        group_id: str,
        membership: EpochMembership[Item],
        form: HeartbeatForm[Item],
        owner: ItemOwner[Item],
        has_subscription: Callable[[], bool],
        session_timeout: float,
        on_session: Callable[[bool], None] = lambda confirmed: None,
    ) -> None:
        """See the parts; ``on_session`` is called whenever the session becomes confirmed, or is not any more."""
        self._group_id = group_id
        self.membership = membership
        session = Session(group_id, session_timeout, lambda: membership.in_session, on_session)
        self.heartbeat: EpochHeartbeat[Item] = EpochHeartbeat(
            cluster, group_id, membership, form, session, session_timeout, self._take
        )
        self.reconciliation: Reconciliation[Item] = Reconciliation(
            cluster, group_id, membership, self.heartbeat, owner, has_subscription
        )

    @property
    def state(self) -> str:
        """The member's state, as text."""
        if self.reconciliation.away:
            return f"out of group {self._group_id!r}: {self.reconciliation.away}"
        return f"{self.membership.state.name.lower().replace('_', ' ')} in group {self._group_id!r}"

    @property
    def trouble(self) -> str:
        """Why the member cannot join or take its assignment; empty if nothing is wrong."""
        why = self.heartbeat.failure or self.reconciliation.look_up_failure
        return f"{self.state}: {why}" if why else ""

    async def run(self) -> None:
        """Be a member whenever there is a subscription, until cancelled.

        Raises:
            KafkaError: The group refuses this member for good.
            ClientClosedError: The heartbeat task was cancelled.
        """
        heartbeats = asyncio.create_task(self.heartbeat.run(), name="aiokproto-heartbeat")
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

    def _take(self, error: KafkaError | None) -> None:
        self.reconciliation.take(error)

    def _heartbeats_ended(self, task: asyncio.Task[None]) -> None:
        error = None if task.cancelled() else task.exception()
        self.reconciliation.fail(error or ClientClosedError("the heartbeat task was cancelled"))
