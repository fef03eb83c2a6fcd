"""The consumer's part in rebalances: stop delivery, let the application finish, commit, call back.

The group member decides which partitions are assigned, revoked or lost (:class:`~aiokproto.group.changes.Change`), and
waits until the change is carried out here before it continues with the protocol. So before another member can own a
partition, its delivery has stopped, and its processed records are committed.
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
"""How many seconds a cancelled callback has to end before it's abandoned."""


class _Call:
    """One call of a rebalance callback."""

    def __init__(self, of: Rebalancing) -> None:
        self.of = of
        self.running = True


_CALL: ContextVar[_Call | None] = ContextVar("rebalance callback", default=None)
"""The callback that the current task is running in. Tasks inherit it: a callback may delegate work to tasks and wait
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
        # lost() sets this during a change, to make the change stop waiting. The end of the change clears it.
        self._lost = False
        self._confirmed = True
        # The kind of callback that the current change has called.
        self._called: ChangeKind | None = None
        # close() sets this. After that, end() makes the last calls, and apply() doesn't make any.
        self._ending = False
        # This is clear while a callback is running. Only one runs at a time, because the group member applies one
        # change at a time.
        self._idle = asyncio.Event()
        self._idle.set()

    def in_callback(self) -> bool:
        """Return whether the current task is running in a rebalance callback of this consumer, or was started by one
        that is still running."""
        # Usually no callback is running, and this check is faster than the context variable.
        if self._idle.is_set():
            return False
        call = _CALL.get()
        return call is not None and call.of is self and call.running

    # PartitionOwner

    async def apply(self, change: Change) -> None:
        """Carry out a change. The group member waits for it."""
        partitions = change.partitions
        self._called = None
        started = asyncio.get_running_loop().time()
        try:
            if change.kind is ChangeKind.ASSIGN:
                # During the callback, the partitions are assigned but held, so it can seek before records are
                # delivered.
                # guard: nothing is fetched before on_assigned has returned
                #     -> self._assignment.add(partitions, COMMITTED)
                self._assignment.add(partitions, COMMITTED, held="being assigned")
                await self._call(change.kind, partitions)
                self._deliver(partitions)
            elif change.kind is ChangeKind.REVOKE:
                await self._finish(partitions, change.deadline)
                # The group may have removed this member while the application was finishing its records.
                # guard: the partitions of a removed member are lost, not revoked -> ChangeKind.REVOKE
                kind = ChangeKind.LOST if self._lost else ChangeKind.REVOKE
                await self._call(kind, partitions)
                # Take them away after the callback, which may still commit and call position().
                # guard: a revocation that leaves uncommitted records is a loss for transactions
                #     -> self._assignment.remove(partitions)
                self._assignment.take_away(partitions, revoked=not self._lost, known=self._reports(kind))
            elif change.kind is ChangeKind.LOST:
                # Take them away before the callback: other members may already own the partitions.
                # guard: a loss by the group is remembered -> self._assignment.remove(partitions)
                self._assignment.take_away(partitions, revoked=False, known=False)
                await self._call(change.kind, partitions)
                if self._reports(change.kind):
                    self._assignment.report_lost(partitions)
        finally:
            self._lost = False
            # Do this even if a callback raised: calls that wait for the assignment must check again.
            self._engine.ownership_changed(partitions)
            # If this change didn't make the call, end() makes and reports it.
            if partitions and self._called is not None:
                took = asyncio.get_running_loop().time() - started
                self._assignment.observer.rebalanced(_KINDS[self._called], partitions, took)

    def lost(self) -> None:
        """Stop delivery immediately, and stop waiting for the application: the group has removed the member, and other
        members may already own the partitions."""
        self._lost = True
        self._assignment.hold(list(self._assignment.cursors), "lost")
        self._reader.give_up_waiting()

    def session(self, confirmed: bool) -> None:
        """Stop delivery while the session isn't ``confirmed`` by the coordinator: the partitions may have other
        owners."""
        self._confirmed = confirmed
        cursors = self._assignment.cursors.items()
        if confirmed:
            self._assignment.release([each for each, cursor in cursors if cursor.held == UNCONFIRMED])
        else:
            # If a partition is already held for another reason, keep that reason: release() must end only this method's
            # holds.
            # guard: nothing is delivered while the session is unconfirmed
            self._assignment.hold([each for each, cursor in cursors if not cursor.held], UNCONFIRMED)

    # Closing

    async def until_idle(self, timeout: float) -> None:
        """Stop carrying out changes, and wait for a running callback for at most ``timeout`` seconds."""
        self._ending = True
        if not self._idle.is_set():
            # Use asyncio.wait and not wait_for: closing continues after the timeout, and nothing must raise.
            waiting = asyncio.ensure_future(self._idle.wait())
            try:
                await asyncio.wait([waiting], timeout=timeout)
            finally:
                waiting.cancel()

    async def end(self, *, lost: bool, timeout: float) -> BaseException | None:
        """Call back for the partitions that are still assigned. A callback that takes longer than ``timeout`` seconds
        is cancelled.

        Returns:
            The exception that the callback raised, if any.
        """
        if not self.called_for:
            return None
        kind = ChangeKind.LOST if lost else ChangeKind.REVOKE
        partitions, loop = sorted(self.called_for), asyncio.get_running_loop()
        started = loop.time()
        # Use a task, to be able to cancel a callback that takes too long without cancelling close().
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
            # The callback was too slow, or close() was cancelled. Wait only a moment: the callback may swallow the
            # cancellation.
            if call.cancel():
                await asyncio.wait([call], timeout=_CANCELLED_WITHIN)
            self._assignment.observer.rebalanced(_KINDS[kind], partitions, loop.time() - started)

    async def _finish(self, partitions: list[TopicPartition], deadline: float) -> None:
        """Stop delivery of partitions, let the application finish the current record, and commit."""
        loop = asyncio.get_running_loop()
        # Hold them before waiting. The record that is being processed is then the last one.
        # guard: nothing that is being revoked is delivered
        self._assignment.hold(partitions, "being revoked")
        if self._assignment.runner is not None:
            self._assignment.runner.revoke(partitions, deadline)
        # guard: a revocation waits for the record that is being processed
        while not self._lost and self._assignment.is_busy(partitions):
            if loop.time() >= deadline:
                log.warning("consumer: %s revoked while records are processed, which took too long", names(partitions))
                break
            # Wait in a loop: any request for records ends the wait, even if the record that was processed is from
            # another partition.
            await self._reader.wait_processed(deadline)
        if not self._lost:
            try:
                # Allow at least a second, even after the deadline: a late commit is better than repeated records.
                await self._engine.commit_before_revoking(partitions, max(deadline - loop.time(), 1.0))
            # Log it instead of raising it: the partitions have to be given up anyway.
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
                # Log the traceback, too: the application sees the error only at its next read, or not at all.
                log.exception("consumer: %s", failure)
                raise ClientClosedError(failure) from error
        if self._ending:
            # end() calls back for the remaining partitions. The callback may have swallowed the cancellation of this
            # task.
            raise asyncio.CancelledError

    async def _invoke(self, kind: ChangeKind, partitions: list[TopicPartition]) -> None:
        if kind is ChangeKind.ASSIGN:
            # Note it before the call: it counts as called even if it raises.
            self.called_for.update(partitions)
        else:
            # Note it before the call here, too: end() must not repeat a call that raised.
            self.called_for.difference_update(partitions)
        name, listener = self._listener(kind)
        if listener is None:
            return
        call = _Call(self)
        token = _CALL.set(call)
        self._idle.clear()
        try:
            with calling(name, awaited=True):
                # Pass a copy: the application may keep or change it.
                result = listener(list(partitions))
                if isawaitable(result):
                    await result
        finally:
            # Tasks that the callback started may outlive it, but are no longer in a callback.
            call.running = False
            _CALL.reset(token)
            self._idle.set()

    def _reports(self, kind: ChangeKind) -> bool:
        """Return whether the callback informs the application of a change. ``on_revoked`` doesn't report a loss: the
        application may believe that its commits in there succeed."""
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
