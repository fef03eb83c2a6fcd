"""The consumer's part in rebalances: stop delivery, let the application finish, commit, call back.

The group member decides which partitions are assigned, revoked or lost (:class:`~aiokproto.group.changes.Change`), and
waits until the change is carried out here before it goes on with the protocol. Therefore the delivery of a partition
has stopped, and its processed records are committed, before another member can own it.
"""

from __future__ import annotations

import asyncio
import logging
from contextvars import ContextVar
from inspect import isawaitable
from typing import TYPE_CHECKING

from aiokproto.application.calls import CallbackError, calling
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.offsets import names
from aiokproto.consumer.reader import Reader
from aiokproto.consumer.start_lookup import COMMITTED
from aiokproto.consumer.subscription import Listener
from aiokproto.errors import ClientClosedError, KafkaError
from aiokproto.group.changes import Change, ChangeKind, PartitionOwner
from aiokproto.hooks import RebalanceKind
from aiokproto.runtime import create_task
from aiokproto.texts import repr_of
from aiokproto.types import TopicPartition

if TYPE_CHECKING:
    from aiokproto.consumer.engine import Engine

log = logging.getLogger("aiokproto.consumer")

UNCONFIRMED = "waiting for the group's coordinator to confirm the session"

_KINDS: dict[ChangeKind, RebalanceKind] = {
    ChangeKind.ASSIGN: "assigned",
    ChangeKind.REVOKE: "revoked",
    ChangeKind.LOST: "lost",
}

_CANCELLED_WITHIN = 0.05
"""Seconds in which a cancelled callback has to end before it's abandoned."""


class _Call:
    """One call of a rebalance callback."""

    def __init__(self, of: Rebalancing) -> None:
        self.of = of
        self.running = True


_CALL: ContextVar[_Call | None] = ContextVar("rebalance callback", default=None)
"""The callback in which the current task runs. Tasks inherit it, because a callback may delegate work to tasks and wait
for them."""


class Rebalancing(PartitionOwner):
    """Carries out the changes that the group makes to the assignment.

    Invariant: ``on_assigned`` is called once for a partition, then ``on_revoked`` or ``on_lost`` once, no matter what
    ends the ownership: a rebalance, a loss, :meth:`end`, or a callback that raises.

    Attributes:
        called_for: Partitions for which ``on_assigned`` was called, but neither ``on_revoked`` nor ``on_lost`` yet.
    """

    def __init__(self, engine: Engine, assignment: Assignment, reader: Reader) -> None:
        self.called_for: set[TopicPartition] = set()
        self._assignment = assignment
        self._reader = reader
        self._engine = engine
        # lost() sets it during a change, so that the change stops waiting. The end of the change clears it.
        self._lost = False
        self._confirmed = True
        # The callback that the current change has called.
        self._called: ChangeKind | None = None
        # close() sets it. From then on end() makes the last calls, and apply() makes none.
        self._ending = False
        # It's clear while a callback runs. At most one runs. The group member applies one change at a time.
        self._idle = asyncio.Event()
        self._idle.set()

    def in_callback(self) -> bool:
        """Return whether the current task runs in a rebalance callback of this consumer, or was started by one that
        still runs."""
        # Usually no callback runs. This check is faster than the context variable.
        if self._idle.is_set():
            return False
        call = _CALL.get()
        return call is not None and call.of is self and call.running

    # PartitionOwner

    async def apply(self, change: Change) -> None:
        """Carry out a change; the group member waits for it."""
        partitions = change.partitions
        self._called = None
        started = asyncio.get_running_loop().time()
        try:
            if change.kind is ChangeKind.ASSIGN:
                # The partitions are assigned but held during the callback, so that it can seek before records are
                # delivered.
                # guard: nothing is fetched before on_assigned has returned
                #     -> self._assignment.add(partitions, COMMITTED)
                self._assignment.add(partitions, COMMITTED, held="being assigned")
                await self._call(change.kind, partitions)
                self._deliver(partitions)
            elif change.kind is ChangeKind.REVOKE:
                await self._finish(partitions, change.deadline)
                # The group may have removed this member while the application finished its records.
                # guard: the partitions of a removed member are lost, not revoked -> ChangeKind.REVOKE
                kind = ChangeKind.LOST if self._lost else ChangeKind.REVOKE
                await self._call(kind, partitions)
                # Take them away after the callback, which may still commit and ask for positions.
                # guard: a revocation that leaves uncommitted records is a loss for transactions
                #     -> self._assignment.remove(partitions)
                self._assignment.take_away(partitions, revoked=not self._lost, known=self._reports(kind))
            elif change.kind is ChangeKind.LOST:
                # Take them away before the callback. Other members may own the partitions already.
                # guard: a loss by the group is remembered -> self._assignment.remove(partitions)
                self._assignment.take_away(partitions, revoked=False, known=False)
                await self._call(change.kind, partitions)
                if self._reports(change.kind):
                    self._assignment.report_lost(partitions)
        finally:
            self._lost = False
            # Do this even if a callback raised. Calls that wait for the assignment must look again.
            self._engine.ownership_changed(partitions)
            # If this change made no call, end() makes it, and reports it.
            if partitions and self._called is not None:
                took = asyncio.get_running_loop().time() - started
                self._assignment.observer.rebalanced(_KINDS[self._called], partitions, took)

    def lost(self) -> None:
        """Stop delivery at once and don't wait for the application any longer, because the group has removed the
        member, and other members may own the partitions already."""
        self._lost = True
        self._assignment.hold(list(self._assignment.cursors), "lost")
        self._reader.give_up_waiting()

    def session(self, confirmed: bool) -> None:
        """Stop delivery while the coordinator hasn't confirmed the session, because the partitions may have other
        owners."""
        self._confirmed = confirmed
        cursors = self._assignment.cursors.items()
        if confirmed:
            self._assignment.release([each for each, cursor in cursors if cursor.held == UNCONFIRMED])
        else:
            # A partition that is held for another reason keeps that reason, so that release() ends only the holds of
            # this method.
            # guard: nothing is delivered while the session is unconfirmed
            self._assignment.hold([each for each, cursor in cursors if not cursor.held], UNCONFIRMED)

    # Closing

    async def until_idle(self, timeout: float) -> None:
        """Carry out no further change, and wait for a running callback, at most ``timeout`` seconds."""
        self._ending = True
        if not self._idle.is_set():
            # Use asyncio.wait and not wait_for. Closing goes on after the timeout, and nothing must raise.
            waiting = asyncio.ensure_future(self._idle.wait())
            try:
                await asyncio.wait([waiting], timeout=timeout)
            finally:
                waiting.cancel()

    async def end(self, *, lost: bool, timeout: float) -> BaseException | None:
        """Call back for the partitions that are still assigned. A callback that takes longer than ``timeout`` seconds
        is cancelled.

        Returns:
            The exception of the callback, None if it raised none.
        """
        if not self.called_for:
            return None
        kind = ChangeKind.LOST if lost else ChangeKind.REVOKE
        partitions, loop = sorted(self.called_for), asyncio.get_running_loop()
        started = loop.time()
        # Use a task, so that a callback that takes too long can be cancelled without cancelling close().
        call = create_task(self._invoke(kind, partitions), name="aiokproto-consumer-callback")
        try:
            await asyncio.wait([call], timeout=timeout)
            if call.done():
                return (
                    CallbackError(f"{self._listener(kind)[0]} was cancelled") if call.cancelled() else call.exception()
                )
            log.warning("consumer: closing: the rebalance callback took longer than %.1f s", timeout)
            return None
        finally:
            # The callback was too slow, or close() was cancelled. Give it only a moment. It may swallow the
            # cancellation.
            if call.cancel():
                await asyncio.wait([call], timeout=_CANCELLED_WITHIN)
            self._assignment.observer.rebalanced(_KINDS[kind], partitions, loop.time() - started)

    async def _finish(self, partitions: list[TopicPartition], deadline: float) -> None:
        """Stop delivery of partitions, let the application finish the current record, and commit."""
        loop = asyncio.get_running_loop()
        # Hold them before waiting, so that the record that is being processed is the last one.
        # guard: nothing that is being revoked is delivered
        self._assignment.hold(partitions, "being revoked")
        if self._assignment.runner is not None:
            self._assignment.runner.revoke(partitions, deadline)
        # guard: a revocation waits for the record that is being processed
        while not self._lost and self._assignment.is_busy(partitions):
            if loop.time() >= deadline:
                log.warning("consumer: %s revoked while records are processed, which took too long", names(partitions))
                break
            # Wait in a loop. Any request for records ends the wait, but the record may come from another partition.
            await self._reader.wait_processed(deadline)
        if not self._lost:
            try:
                # Allow at least a second, even after the deadline, because a late commit is better than repeated
                # records.
                await self._engine.commit_before_revoking(partitions, max(deadline - loop.time(), 1.0))
            # Log it instead of raising it. The partitions have to be given up all the same.
            except KafkaError as error:
                log.warning("consumer: commit before %s are revoked: %s", names(partitions), error)

    def _deliver(self, partitions: list[TopicPartition]) -> None:
        """Start delivery of partitions, unless the session became unconfirmed or was lost during the callback."""
        if self._lost:
            return
        if self._confirmed:
            self._assignment.release(partitions)
        else:
            self._assignment.hold(partitions, UNCONFIRMED)

    async def _call(self, kind: ChangeKind, partitions: list[TopicPartition]) -> None:
        if not self._ending:
            self._called = kind
            try:
                await self._invoke(kind, partitions)
            except Exception as error:
                failure = f"{self._listener(kind)[0]} raised {repr_of(error)}: the consumer has ended"
                # Log the traceback, too. The application may see the error only when it next reads, or not at all.
                log.exception("consumer: %s", failure)
                raise ClientClosedError(failure) from error
        if self._ending:
            # end() calls back for the partitions that are left. The callback may have swallowed the cancellation of
            # this task.
            raise asyncio.CancelledError

    async def _invoke(self, kind: ChangeKind, partitions: list[TopicPartition]) -> None:
        if kind is ChangeKind.ASSIGN:
            # Note it before the call, so that it counts as made even if it raises.
            self.called_for.update(partitions)
        else:
            # Note it before the call here, too, so that end() doesn't repeat a call that raises.
            self.called_for.difference_update(partitions)
        name, listener = self._listener(kind)
        if listener is None:
            return
        call = _Call(self)
        token = _CALL.set(call)
        self._idle.clear()
        try:
            with calling(name, awaited=True):
                # Pass a copy. The application may keep or change it.
                result = listener(list(partitions))
                if isawaitable(result):
                    await result
        finally:
            # Tasks that the callback started may outlive it. They're no longer in a callback.
            call.running = False
            _CALL.reset(token)
            self._idle.set()

    def _reports(self, kind: ChangeKind) -> bool:
        """Return whether the application learns of a change by its callback. ``on_revoked`` doesn't report a loss,
        because the application may believe that its commits succeed there."""
        subscription = self._engine.subscription
        listener = subscription.on_lost if kind is ChangeKind.LOST else subscription.on_revoked
        return listener is not None

    def _listener(self, kind: ChangeKind) -> tuple[str, Listener | None]:
        """Return the callback for a kind of change, and its name."""
        subscription = self._engine.subscription
        if kind is ChangeKind.ASSIGN:
            return "on_assigned", subscription.on_assigned
        if kind is ChangeKind.LOST and subscription.on_lost is not None:
            return "on_lost", subscription.on_lost
        return "on_revoked", subscription.on_revoked
