"""The driver's part: plans a batch, and commits or aborts it. The package's docstring explains why."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING

from aiokproto.errors import FencedError, KafkaError
from aiokproto.producer.handed_over import HandedOver
from aiokproto.producer.producer_id import ProducerId
from aiokproto.spark.sink.exactly_once.protocol import (
    Batch,
    Ended,
    FreeId,
    OnLoss,
    Outcome,
    Plan,
    State,
    TransactionLossError,
    batch_record,
    driver_id,
    free_record,
    no_batch_record,
    resolve,
    task_id,
)
from aiokproto.texts import counted

if TYPE_CHECKING:
    from aiokproto.spark.sink.exactly_once.state_topic import StateTopic
    from aiokproto.spark.sink.exactly_once.transactions import Transactions

log = logging.getLogger("aiokproto.spark")


class Coordinator:
    """Plans, commits and aborts the batches of a prefix. Each object serves one of these calls."""

    def __init__(self, prefix: str, state: StateTopic, transactions: Transactions, on_loss: OnLoss) -> None:
        """``on_loss`` says what to do about a batch that is partly lost."""
        self._prefix = prefix
        self._state = state
        self._transactions = transactions
        self._on_loss = on_loss

    async def plan(self, two_phase: bool | None, run: str | None = None) -> Plan:
        """Take over the prefix, finish what an earlier run left unfinished, and return what the tasks need.

        Args:
            two_phase: Whether transactions have no timeout; None for "if the brokers grant it".
            run: The query or job that the tasks work for. None if it's unknown; if so, the plan covers all of them.

        Raises:
            TransactionLossError: A batch was decided, and is partly lost.
            StateError: The state topic isn't usable.
            KafkaError: Brokers don't respond, or refuse a request.
        """
        await self._state.ensure()
        if two_phase is None:
            two_phase = await self._state.grants_two_phase()
        await self._state.acquire()
        state = await self._roll_forward(await self._state.read())
        kept = state.kept()
        forgotten = [no_batch_record(self._prefix, name) for name in state.batches if name not in kept.batches]
        # Remove the free ids from the state topic before any task can start: an id that a killed driver has given to a
        # task must never become free again.
        if self._state.snapshot_due:
            await self._state.write_snapshot(State(kept.batches), *forgotten)
        elif state.free or forgotten:
            await self._state.write(*forgotten, free_record(self._prefix, ()))
        # No intent is open now, so open transactions don't belong to any batch.
        await self._abort_orphans()
        done = {name: number for name, number in kept.done().items() if run in (None, name)}
        offsets = {name: digest for name, digest in kept.offsets().items() if name in done}
        return Plan(self._prefix, self._state.token, state.free, done, two_phase, offsets)

    async def _roll_forward(self, state: State) -> State:
        """Commit the batches that were decided, and return the resulting state."""
        batches = dict(state.batches)
        for batch in state.intents:
            outcomes = [ended.outcome for ended in await self._transactions.commit(batch.transactions)]
            batches[batch.run] = resolve(batch, outcomes, self._on_loss)
            await self._state.write(batch_record(self._prefix, batches[batch.run]))
            log.info(
                "%s: batch %d of %s was decided by an earlier run: %s committed",
                self._prefix,
                batch.number,
                batch.run,
                counted(outcomes.count(Outcome.COMMITTED), "transaction"),
            )
        return State(batches, state.free)

    async def commit(
        self,
        token: ProducerId,
        run: str,
        number: int,
        transactions: Sequence[HandedOver],
        spare: Sequence[FreeId] = (),
        *,
        forget: bool = False,
        offsets: str | None = None,
    ) -> None:
        """Commit a batch. If it fails before the intent, nothing is committed; after it, the next plan continues.

        Args:
            token: The token of its plan.
            run: The query or job.
            number: Its number.
            transactions: The transactions of its tasks.
            spare: The free ids of its plan that weren't used.
            forget: Whether no later plan will ask for this run.
            offsets: The digest of the batch's offsets; None if unknown.

        Raises:
            FencedError: Another driver has taken over the prefix. Nothing is committed.
            TransactionLossError: Transactions have been aborted since the tasks ended.
            KafkaError: Brokers don't respond, or refuse a request.
        """
        try:
            await self._state.acquire(token)
        except FencedError as error:
            raise FencedError(
                error.code,
                f"transactionalIdPrefix={self._prefix}",
                f"another query, job or run uses it; batch {number} of {run} is not committed",
            ) from error
        batch = Batch(run, number, transactions=tuple(transactions), offsets=offsets)
        if transactions:
            await self._check_open(batch)
            await self._state.write(batch_record(self._prefix, batch))
        ended = await self._transactions.commit(transactions)
        after = resolve(batch, [result.outcome for result in ended], self._on_loss)
        records = [no_batch_record(self._prefix, run) if forget else batch_record(self._prefix, after)]
        if after.number < number:
            await self._state.write(*records)
            raise TransactionLossError(
                f"batch {number} of {run} was decided, but its transactions were aborted by their timeout; it was "
                "taken back, so that Spark writes it again once the query is restarted"
            )
        await self._state.write(*records, free_record(self._prefix, [*self._freed(batch, ended), *spare]))
        # The batch is committed, so a failure to abort the orphans is only logged.
        try:
            await self._abort_orphans()
        except KafkaError as error:
            log.warning("%s: orphaned transactions stay open until the next batch: %s", self._prefix, error)

    async def abort(self, token: ProducerId) -> None:
        """Abort the transactions that a failed batch has left open, unless another driver has taken over the prefix.

        Raises:
            KafkaError: Brokers don't respond, or refuse a request. The next plan aborts the transactions.
        """
        try:
            await self._state.acquire(token)
            # Spark may call this while a commit() that it gave up on is still running with the same token. The
            # coordinator treats the second request as a retry of the first, and gives both the same epoch. The commit()
            # can get the next epoch, too, but the one after that belongs to this call alone.
            for _ in range(2):
                await self._state.acquire(self._state.token)
        except FencedError as error:
            # The same happens after a commit() that failed. The next plan handles what it decided.
            log.warning("%s: the next plan aborts what is open: %s", self._prefix, error)
            return
        await self._roll_forward(await self._state.read())
        await self._abort_orphans()

    async def _abort_orphans(self) -> None:
        """Abort all open transactions, unless another driver has taken over. No intent may be open.

        Raises:
            KafkaError: The coordinators don't list the transactions.
        """
        orphans = await self._transactions.list_open(self._prefix)
        # Check the driver's id after making the list. If the id is current, the list can't contain transactions of a
        # later plan's tasks, which may have been decided, no matter how late this continues.
        if orphans and await self._transactions.is_current(driver_id(self._prefix), self._state.token):
            await self._transactions.abort(orphans)

    def _freed(self, batch: Batch, ended: Sequence[Ended]) -> list[FreeId]:
        start = len(task_id(self._prefix, ""))
        return [
            FreeId(transaction.transactional_id[start:], *result.producer)
            for transaction, result in zip(batch.transactions, ended, strict=True)
            if result.producer is not None
        ]

    async def _check_open(self, batch: Batch) -> None:
        still_open = await self._transactions.still_open(batch.transactions)
        closed = [transaction for transaction in batch.transactions if transaction not in still_open]
        if closed:
            raise TransactionLossError(
                f"batch {batch.number} of {batch.run} is not committed: {len(closed)} of its "
                f"{counted(len(batch.transactions), 'transaction')} are not open any more (the first one: "
                f"{closed[0].transactional_id}). Nothing was written. If tasks and commit take longer than "
                "kafka.transaction.timeout.ms, raise it, and transaction.max.timeout.ms of the brokers"
            )
