"""What a consumer does about a rebalance: stop delivering, let the application finish, commit, and call back."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextvars import ContextVar
from inspect import isawaitable

from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.offsets import names
from aiokproto.consumer.reader import Reader
from aiokproto.consumer.start_lookup import COMMITTED
from aiokproto.consumer.subscription import Listener, Subscription
from aiokproto.errors import KafkaError
from aiokproto.group.changes import Change, ChangeKind
from aiokproto.types import TopicPartition

log = logging.getLogger("aiokproto.consumer")

UNCONFIRMED = "waiting for the group's coordinator to confirm the session"


_CANCELLED_WITHIN = 0.05
"""Seconds that a callback which was cancelled may take to end, before it is left to itself."""


class _Call:
    """A rebalance callback that was called."""

    def __init__(self, of: Rebalancing) -> None:
        self.of = of
        self.running = True


_CALL: ContextVar[_Call | None] = ContextVar("rebalance callback", default=None)
"""The callback that the current task, or the one that started it, runs in."""


class Rebalancing:
    """Carries out the changes that a group makes to the assignment.

    Invariant: ``on_assigned`` is called once for a partition, and then ``on_revoked`` or ``on_lost`` once, whatever
    ends it: a rebalance, a loss, :meth:`end`, a callback that raises.

    Attributes:
        called_for: The partitions that ``on_assigned`` was called for, and neither ``on_revoked`` nor ``on_lost`` yet.
    """

    def __init__(
        self,
        assignment: Assignment,
        reader: Reader,
        subscription: Callable[[], Subscription],
        commit_finished: Callable[[Collection[TopicPartition], float], Awaitable[None]],
        changed: Callable[[Collection[TopicPartition]], None],
    ) -> None:
        """``commit_finished`` commits finished records of partitions within some seconds; ``changed`` is called after
        each change."""
        self.called_for: set[TopicPartition] = set()
        self._assignment = assignment
        self._reader = reader
        self._subscription = subscription
        self._commit_finished = commit_finished
        self._changed = changed
        self._lost = False
        self._confirmed = True
        self._ending = False
        self._idle = asyncio.Event()
        self._idle.set()

    def in_callback(self) -> bool:
        """Whether the current task runs in a callback of this consumer, or was started there while that still runs."""
        if self._idle.is_set():
            return False
        call = _CALL.get()
        return call is not None and call.of is self and call.running

    # PartitionOwner

    async def apply(self, change: Change) -> None:
        """Carry out a change; the group waits for it."""
        partitions = change.partitions
        try:
            if change.kind is ChangeKind.ASSIGN:
                self._assignment.add(partitions, COMMITTED, held="being assigned")
                await self._call(change.kind, partitions)
                self._deliver(partitions)
            elif change.kind is ChangeKind.REVOKE:
                await self._finish(partitions, change.deadline)
                # Finishing may have taken so long that the group went on without this member.
                await self._call(ChangeKind.LOST if self._lost else ChangeKind.REVOKE, partitions)
                self._assignment.remove(partitions)
            elif change.kind is ChangeKind.LOST:
                self._assignment.remove(partitions)
                await self._call(change.kind, partitions)
        finally:
            self._lost = False
            self._changed(partitions)

    def lost(self) -> None:
        """The group has removed the member: nothing is delivered any more, and there is nothing to wait for before the
        partitions are given up."""
        self._lost = True
        self._assignment.hold(list(self._assignment.cursors), "lost")
        self._reader.give_up_waiting()

    def session(self, confirmed: bool) -> None:
        """Deliver nothing while the coordinator has not confirmed that the partitions are still this member's."""
        self._confirmed = confirmed
        cursors = self._assignment.cursors.items()
        if confirmed:
            self._assignment.release([each for each, cursor in cursors if cursor.held == UNCONFIRMED])
        else:
            self._assignment.hold([each for each, cursor in cursors if not cursor.held], UNCONFIRMED)

    # Closing

    async def until_idle(self, timeout: float) -> None:
        """Carry out no further change, and wait for a callback that runs, no longer than that."""
        self._ending = True
        if not self._idle.is_set():
            waiting = asyncio.ensure_future(self._idle.wait())
            try:
                await asyncio.wait([waiting], timeout=timeout)
            finally:
                waiting.cancel()

    async def end(self, *, lost: bool, timeout: float) -> BaseException | None:
        """Give up what is assigned, once nothing else runs. A callback that takes longer than that is cancelled.

        Returns:
            What the callback raised.
        """
        if not self.called_for:
            return None
        kind = ChangeKind.LOST if lost else ChangeKind.REVOKE
        call = asyncio.create_task(self._invoke(kind, sorted(self.called_for)), name="aiokproto-consumer-callback")
        try:
            await asyncio.wait([call], timeout=timeout)
            if call.done():
                return asyncio.CancelledError() if call.cancelled() else call.exception()
            log.warning("consumer: closing: the rebalance callback took longer than %.1f s", timeout)
            return None
        finally:
            if call.cancel():
                await asyncio.wait([call], timeout=_CANCELLED_WITHIN)

    async def _finish(self, partitions: list[TopicPartition], deadline: float) -> None:
        """Deliver nothing more of the partitions, let the application finish what it processes, and commit it."""
        loop = asyncio.get_running_loop()
        self._assignment.hold(partitions, "being revoked")
        while not self._lost and not self._assignment.in_hand().keys().isdisjoint(partitions):
            if loop.time() >= deadline:
                log.warning("consumer: %s revoked while records are processed, which took too long", names(partitions))
                break
            await self._reader.put_down(deadline)
        if not self._lost:
            try:
                await self._commit_finished(partitions, max(deadline - loop.time(), 1.0))
            except KafkaError as error:
                log.warning("consumer: commit before %s are revoked: %s", names(partitions), error)

    def _deliver(self, partitions: list[TopicPartition]) -> None:
        """Deliver partitions, unless it became doubtful during the callback that they are this member's."""
        if self._lost:
            return
        if self._confirmed:
            self._assignment.release(partitions)
        else:
            self._assignment.hold(partitions, UNCONFIRMED)

    async def _call(self, kind: ChangeKind, partitions: list[TopicPartition]) -> None:
        if not self._ending:
            await self._invoke(kind, partitions)
        if self._ending:
            # Closing calls back for all that is left, and a callback may have kept the cancellation for itself.
            raise asyncio.CancelledError

    async def _invoke(self, kind: ChangeKind, partitions: list[TopicPartition]) -> None:
        if kind is ChangeKind.ASSIGN:
            self.called_for.update(partitions)
        else:
            self.called_for.difference_update(partitions)
        listener = self._listener(kind)
        if listener is None:
            return
        call = _Call(self)
        token = _CALL.set(call)
        self._idle.clear()
        try:
            result = listener(list(partitions))
            if isawaitable(result):
                await result
        finally:
            call.running = False
            _CALL.reset(token)
            self._idle.set()

    def _listener(self, kind: ChangeKind) -> Listener | None:
        subscription = self._subscription()
        if kind is ChangeKind.ASSIGN:
            return subscription.on_assigned
        if kind is ChangeKind.LOST and subscription.on_lost is not None:
            return subscription.on_lost
        return subscription.on_revoked
