"""Rebalances, as the consumer carries them out: stop delivery, let the application finish, commit, call back.

The group member decides what is assigned, revoked or lost (:class:`~aiokproto.group.changes.Change`), and waits until
the change is carried out here before it goes on with the protocol. What a member gives up is therefore no longer
delivered, and its processed records are committed, before another member can own it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection
from contextvars import ContextVar
from inspect import isawaitable

from aiokproto.application.calls import CallbackError, calling
from aiokproto.consumer.assignment import Assignment
from aiokproto.consumer.offsets import names
from aiokproto.consumer.reader import Reader
from aiokproto.consumer.start_lookup import COMMITTED
from aiokproto.consumer.subscription import Listener, SubscriptionState
from aiokproto.errors import ClientClosedError, KafkaError
from aiokproto.group.changes import Change, ChangeKind
from aiokproto.hooks import RebalanceKind
from aiokproto.runtime import create_task
from aiokproto.texts import repr_of
from aiokproto.types import TopicPartition

log = logging.getLogger("aiokproto.consumer")

UNCONFIRMED = "waiting for the group's coordinator to confirm the session"

_KINDS: dict[ChangeKind, RebalanceKind] = {
    ChangeKind.ASSIGN: "assigned",
    ChangeKind.REVOKE: "revoked",
    ChangeKind.LOST: "lost",
}

_CANCELLED_WITHIN = 0.05
"""Seconds that a cancelled callback has to end before it is abandoned."""


class _Call:
    """One call of a rebalance callback."""

    def __init__(self, of: Rebalancing) -> None:
        self.of = of
        self.running = True


_CALL: ContextVar[_Call | None] = ContextVar("rebalance callback", default=None)
"""The callback in which the current task runs. Tasks inherit it: a callback may delegate to tasks and wait for them."""


class Rebalancing:
    """Carries out the changes that the group makes to the assignment.

    Invariant: ``on_assigned`` is called once for a partition, then ``on_revoked`` or ``on_lost`` once, whatever ends
    the ownership: a rebalance, a loss, :meth:`end`, a callback that raises.

    Attributes:
        called_for: Partitions for which ``on_assigned`` was called, and neither ``on_revoked`` nor ``on_lost`` yet.
    """

    def __init__(
        self,
        assignment: Assignment,
        reader: Reader,
        subscription: Callable[[], SubscriptionState],
        commit_processed: Callable[[Collection[TopicPartition], float], Awaitable[None]],
        changed: Callable[[Collection[TopicPartition]], None],
    ) -> None:
        """``commit_processed`` commits the processed records of partitions within some seconds; ``changed`` is called
        after each change."""
        self.called_for: set[TopicPartition] = set()
        self._assignment = assignment
        self._reader = reader
        self._subscription = subscription
        self._commit_processed = commit_processed
        self._changed = changed
        # Set by lost() during a change, so that its steps stop waiting; each change ends it.
        self._lost = False
        self._confirmed = True
        # Which callback the current change has called.
        self._called: ChangeKind | None = None
        # Set once, by close(): end() then makes the last calls, and apply() none.
        self._ending = False
        # Clear while a callback runs. At most one does: the group member applies one change at a time.
        self._idle = asyncio.Event()
        self._idle.set()

    def in_callback(self) -> bool:
        """Whether the current task runs in a rebalance callback of this consumer, or was started by one that still
        runs."""
        # No callback runs: the frequent answer, without the context variable.
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
                # Assigned but held during the callback: it can seek, and nothing is delivered before.
                # guard: nothing is fetched before on_assigned has returned
                #     -> self._assignment.add(partitions, COMMITTED)
                self._assignment.add(partitions, COMMITTED, held="being assigned")
                await self._call(change.kind, partitions)
                self._deliver(partitions)
            elif change.kind is ChangeKind.REVOKE:
                await self._finish(partitions, change.deadline)
                # While the application finished its records, the group may have removed this member.
                # guard: the partitions of a removed member are lost, not revoked -> ChangeKind.REVOKE
                kind = ChangeKind.LOST if self._lost else ChangeKind.REVOKE
                await self._call(kind, partitions)
                # After the callback, which may still commit and ask for positions.
                # guard: a revocation that leaves uncommitted records is a loss for transactions
                #     -> self._assignment.remove(partitions)
                self._assignment.take_away(partitions, revoked=not self._lost, known=self._reports(kind))
            elif change.kind is ChangeKind.LOST:
                # Before the callback: other members may own the partitions, so nothing of them counts any more.
                # guard: a loss by the group is remembered -> self._assignment.remove(partitions)
                self._assignment.take_away(partitions, revoked=False, known=False)
                await self._call(change.kind, partitions)
                if self._reports(change.kind):
                    self._assignment.report_lost(partitions)
        finally:
            self._lost = False
            # In finally: calls that wait for the assignment must look again, also if a callback raised.
            self._changed(partitions)
            # Else end() makes the call, and reports it.
            if partitions and self._called is not None:
                took = asyncio.get_running_loop().time() - started
                self._assignment.observer.rebalanced(_KINDS[self._called], partitions, took)

    def lost(self) -> None:
        """The group has removed the member: stop delivery at once, and wait for the application no longer, as other
        members may own the partitions already."""
        self._lost = True
        self._assignment.hold(list(self._assignment.cursors), "lost")
        self._reader.give_up_waiting()

    def session(self, confirmed: bool) -> None:
        """Stop delivery while the coordinator has not confirmed the session: the partitions may have other owners."""
        self._confirmed = confirmed
        cursors = self._assignment.cursors.items()
        if confirmed:
            self._assignment.release([each for each, cursor in cursors if cursor.held == UNCONFIRMED])
        else:
            # One that is held for another reason keeps it: release() must end only what this began.
            # guard: nothing is delivered while the session is unconfirmed
            self._assignment.hold([each for each, cursor in cursors if not cursor.held], UNCONFIRMED)

    # Closing

    async def until_idle(self, timeout: float) -> None:
        """Carry out no further change, and wait for a running callback, at most ``timeout`` seconds."""
        self._ending = True
        if not self._idle.is_set():
            # asyncio.wait and not wait_for: at the timeout closing goes on, and nothing raises.
            waiting = asyncio.ensure_future(self._idle.wait())
            try:
                await asyncio.wait([waiting], timeout=timeout)
            finally:
                waiting.cancel()

    async def end(self, *, lost: bool, timeout: float) -> BaseException | None:
        """Call back for what is still assigned. A callback that takes longer than ``timeout`` seconds is cancelled.

        Returns:
            The exception of the callback, None if it raised none.
        """
        if not self.called_for:
            return None
        kind = ChangeKind.LOST if lost else ChangeKind.REVOKE
        partitions, loop = sorted(self.called_for), asyncio.get_running_loop()
        started = loop.time()
        # A task, so that a callback which takes too long can be cancelled without cancelling close().
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
            # It was too slow, or close() was cancelled. It gets a moment, as it may swallow the cancellation.
            if call.cancel():
                await asyncio.wait([call], timeout=_CANCELLED_WITHIN)
            self._assignment.observer.rebalanced(_KINDS[kind], partitions, loop.time() - started)

    async def _finish(self, partitions: list[TopicPartition], deadline: float) -> None:
        """Stop delivery of partitions, let the application finish the current record, and commit."""
        loop = asyncio.get_running_loop()
        # Before anything is waited for: the record that is being processed is the last one.
        # guard: nothing that is being revoked is delivered
        self._assignment.hold(partitions, "being revoked")
        if self._assignment.handling is not None:
            self._assignment.handling.revoke(partitions, deadline)
        # guard: a revocation waits for the record that is being processed
        while not self._lost and self._assignment.is_busy(partitions):
            if loop.time() >= deadline:
                log.warning("consumer: %s revoked while records are processed, which took too long", names(partitions))
                break
            # In a loop: any request for records ends the wait, but the record may be of another partition.
            await self._reader.wait_processed(deadline)
        if not self._lost:
            try:
                # At least a second, even after the deadline: a late commit is better than repeated records.
                await self._commit_processed(partitions, max(deadline - loop.time(), 1.0))
            # Logged and not raised: the partitions have to be given up all the same.
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
                # The traceback too: the application may see the error only where it next reads, or not at all.
                log.exception("consumer: %s", failure)
                raise ClientClosedError(failure) from error
        if self._ending:
            # end() calls back for what is left. The callback may have swallowed the cancellation of this task.
            raise asyncio.CancelledError

    async def _invoke(self, kind: ChangeKind, partitions: list[TopicPartition]) -> None:
        if kind is ChangeKind.ASSIGN:
            # Before the call: whatever it does, it was made once.
            self.called_for.update(partitions)
        else:
            # Before the call too: one that raises is not made again by end().
            self.called_for.difference_update(partitions)
        name, listener = self._listener(kind)
        if listener is None:
            return
        call = _Call(self)
        token = _CALL.set(call)
        self._idle.clear()
        try:
            with calling(name, awaited=True):
                # A copy: the application may keep or change it.
                result = listener(list(partitions))
                if isawaitable(result):
                    await result
        finally:
            # For tasks that the callback started and that outlive it: they are no longer in a callback.
            call.running = False
            _CALL.reset(token)
            self._idle.set()

    def _reports(self, kind: ChangeKind) -> bool:
        """Return whether the application learns of a change by its callback. Of a loss it does not by ``on_revoked``,
        in which it may believe that its commits succeed."""
        subscription = self._subscription()
        listener = subscription.on_lost if kind is ChangeKind.LOST else subscription.on_revoked
        return listener is not None

    def _listener(self, kind: ChangeKind) -> tuple[str, Listener | None]:
        """Return the callback for a kind of change, and its name."""
        subscription = self._subscription()
        if kind is ChangeKind.ASSIGN:
            return "on_assigned", subscription.on_assigned
        if kind is ChangeKind.LOST and subscription.on_lost is not None:
            return "on_lost", subscription.on_lost
        return "on_revoked", subscription.on_revoked
