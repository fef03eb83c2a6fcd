"""The classes that Spark calls for writes with ``semantics=exactly_once``.

For a batch of a stream Spark creates a writer on the driver, pickles it into the tasks, and creates another writer, in
another process, to commit. For a ``df.write`` it pickles the same writer for both. In either case a writer is pickled
before the first task starts, and only then, so that is when a batch is planned.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, cast
from uuid import uuid4

from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage

from aiokproto.cluster import ClusterClient
from aiokproto.cluster.exposure import REPORTED_ELSEWHERE
from aiokproto.errors import KafkaError
from aiokproto.producer.handed_over import HandedOver
from aiokproto.producer.producer_id import ProducerId
from aiokproto.spark.connection import client_config
from aiokproto.spark.credentials import client_options
from aiokproto.spark.entry_points import without_traceback
from aiokproto.spark.sink.exactly_once.coordinator import Coordinator
from aiokproto.spark.sink.exactly_once.protocol import FreeId, OnLoss, Plan
from aiokproto.spark.sink.exactly_once.state_topic import StateTopic
from aiokproto.spark.sink.exactly_once.tasks import write_transaction
from aiokproto.spark.sink.exactly_once.transactions import Transactions
from aiokproto.spark.sink.options import TransactionOptions, WriteOptions
from aiokproto.spark.sink.rows import from_rows
from aiokproto.spark.sink.tasks import WriteError
from aiokproto.spark.sink.writers import HAS_ARROW, StreamWriter, WrittenRows, logger, summary
from aiokproto.spark.worker import worker

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

_QUERY, _BATCH = "sql.streaming.queryId", "streaming.sql.batchId"
"""The properties in which Spark gives a task its query and batch."""


@dataclass
class WrittenTransaction(WrittenRows):
    """What a task has written, in a transaction that is open.

    Attributes:
        token: The token of the plan.
        run: The query or job.
        spare: The free id that the task got but didn't use.
        others: The free ids of the plan, in the message of the first partition.
        transaction: The transaction; None if the task has no rows.
        skipped: Whether the batch was committed before, so the rows weren't written.
    """

    token: ProducerId
    run: str
    spare: FreeId | None
    others: Sequence[FreeId]
    transaction: HandedOver | None
    skipped: bool


def _coordinate(options: TransactionOptions, call: Callable[[Coordinator], Awaitable[T]]) -> T:
    """Call a method of a coordinator, which gets a client of its own.

    The caller may be in a notebook, whose thread has a running event loop, so it runs in a separate thread.
    """

    async def run() -> T:
        REPORTED_ELSEWHERE.set(True)
        connection = client_options(options.connection)
        async with ClusterClient(client_config(options.connection)) as cluster:
            state = StateTopic(cluster, connection, options.state_topic, options.prefix)
            transactions = Transactions(cluster, options.timeout_ms)
            return await call(Coordinator(options.prefix, state, transactions, OnLoss(options.on_loss)))

    with ThreadPoolExecutor(1, "aiokproto-commit") as executor:
        return executor.submit(lambda: asyncio.run(run())).result()


class _Planned:
    """A writer that plans its batch when it is pickled for the tasks."""

    _transactions: TransactionOptions
    _plan: Plan | None
    _run: str | None

    def __getstate__(self) -> dict[str, Any]:
        if self._plan is None:
            two_phase, run = self._transactions.two_phase, self._run
            self._plan = _coordinate(self._transactions, lambda coordinator: coordinator.plan(two_phase, run))
        return dict(vars(self))


def _write(
    options: WriteOptions,
    plan: Plan,
    run: str,
    number: int,
    batches: Iterator[pa.RecordBatch],
) -> WrittenTransaction:
    """Write the rows of a task, unless its batch is done."""
    transactions = options.transactions
    assert transactions is not None, "the sink is transactional"
    context = TaskContext.get()
    assert context is not None, "it runs in a task"
    # Send the free ids in one message only. If every message contained them, the driver would receive n² ids for n
    # partitions.
    others = plan.free if context.partitionId() == 0 else ()
    report = partial(WrittenTransaction, token=plan.token, run=run, others=others)
    if plan.is_done(run, number, transactions.offsets):
        for _ in batches:
            pass
        return report(rows=0, size=0, spare=None, transaction=None, skipped=True)
    given = plan.free[context.partitionId() :][:1] if context.attemptNumber() == 0 else ()
    free = given[0] if given else None
    try:
        rows, size, handed_over = write_transaction(worker(), options, transactions, plan, free, batches)
    except WriteError as error:
        raise WriteError(f"task {context.partitionId()}: {error}") from None
    spare = free if handed_over is None else None
    return report(rows=rows, size=size, spare=spare, transaction=handed_over, skipped=False)


def _commit(
    transactions: TransactionOptions,
    messages: Sequence[WriterCommitMessage | None],
    number: int,
    *,
    forget: bool,
) -> None:
    """Commit what the tasks have written."""
    written = [message for message in messages if isinstance(message, WrittenTransaction)]
    if not written:
        return
    first = written[0]
    if first.skipped:
        logger.warning("batch %d of %s was committed before: nothing is written", number, first.run)
        return
    open_transactions = [message.transaction for message in written if message.transaction is not None]

    async def commit(coordinator: Coordinator) -> None:
        # No task got the free ids beyond the number of partitions of this batch.
        spare = [message.spare for message in written if message.spare is not None]
        spare += first.others[len(messages) :]
        await coordinator.commit(
            first.token, first.run, number, open_transactions, spare, forget=forget, offsets=transactions.offsets
        )

    _coordinate(transactions, commit)
    logger.info("batch %d of %s: committed %s", number, first.run, summary(messages))


def _abort(
    transactions: TransactionOptions, messages: Sequence[WriterCommitMessage | None], token: ProducerId | None
) -> None:
    """Abort what the tasks have written. Errors are logged, not raised: Spark has one already."""
    for message in messages:
        token = message.token if isinstance(message, WrittenTransaction) else token
    if token is None:
        # Without a token, an old driver could fence its successor, so don't abort.
        logger.warning("the write failed; the next run aborts what is open, or the transaction timeout does")
        return
    known = token
    try:
        _coordinate(transactions, lambda coordinator: coordinator.abort(known))
    except KafkaError as error:
        logger.warning("the write failed; the next run aborts what is open: %s", error)
    else:
        logger.warning("the write failed; nothing of it is committed")


class TransactionalWriter(_Planned, DataSourceArrowWriter):
    """Writes the rows of a batch, once."""

    def __init__(self, options: WriteOptions, transactions: TransactionOptions) -> None:
        self._options = options
        self._transactions = transactions
        self._plan: Plan | None = None
        self._job = transactions.run or str(uuid4())
        self._run = self._job
        self._number = transactions.job_version or 0

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenTransaction:
        """Write the rows of a task, in a transaction that is left open."""
        assert self._plan is not None, "pickled with a plan"
        return _write(self._options, self._plan, self._job, self._number, iterator)

    @without_traceback
    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Commit the transactions of all tasks."""
        # Forget a job without an id: no later job can ask for it.
        _commit(self._transactions, messages, self._number, forget=self._transactions.run is None)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Abort the transactions of all tasks."""
        _abort(self._transactions, messages, None if self._plan is None else self._plan.token)


class TransactionalStreamWriter(_Planned, StreamWriter):
    """Writes the rows of a stream's batch, once."""

    def __init__(
        self, options: WriteOptions, transactions: TransactionOptions, columns: Sequence[tuple[str, str]]
    ) -> None:
        """``columns`` are pairs of name and type, in Spark's notation."""
        self._options = options
        self._transactions = transactions
        self._columns = columns
        self._plan: Plan | None = None
        self._run = transactions.run

    @without_traceback
    def write(self, iterator: Iterator[pa.RecordBatch]) -> WrittenTransaction:
        """Write the rows of a task, in a transaction that is left open."""
        assert self._plan is not None, "pickled with a plan"
        context = TaskContext.get()
        assert context is not None, "it runs in a task"
        run, number = context.getLocalProperty(_QUERY), context.getLocalProperty(_BATCH)
        assert run is not None, "Spark names the query"
        assert number is not None, "Spark names the batch"
        if not HAS_ARROW:
            iterator = from_rows(cast("Iterator[tuple[Any, ...]]", iterator), self._columns)
        return _write(self._options, self._plan, run, int(number), iterator)

    @without_traceback
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Commit the transactions of all tasks."""
        _commit(self._transactions, messages, batchId, forget=False)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Abort the transactions of all tasks."""
        _abort(self._transactions, messages, None)
