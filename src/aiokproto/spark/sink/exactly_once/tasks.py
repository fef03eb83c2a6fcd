"""Writes the rows of a task in a transaction, which the driver ends.

A producer lives as long as the task: its transactional id is that of this attempt. If the task fails, it aborts its
transaction; if its process is killed, the driver does, or the timeout.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from contextlib import suppress
from itertools import chain
from typing import TYPE_CHECKING

from aiokproto.cluster import ClusterClient
from aiokproto.cluster.exposure import REPORTED_ELSEWHERE
from aiokproto.errors import KafkaError
from aiokproto.producer import Producer, Transaction
from aiokproto.producer.handed_over import HandedOver
from aiokproto.producer.producer_id import ProducerId
from aiokproto.spark.credentials import client_options
from aiokproto.spark.sink.exactly_once.protocol import ID_LENGTH, FreeId, Plan, task_id
from aiokproto.spark.sink.exactly_once.transactions import Transactions
from aiokproto.spark.sink.options import TransactionOptions, WriteOptions
from aiokproto.spark.sink.tasks import WriteError, Writing
from aiokproto.spark.worker import Worker

if TYPE_CHECKING:
    import pyarrow as pa

CLOSE_MS = 5000
"""The longest time to abort the transaction of a task that fails (ms): after it the driver aborts it."""


def new_name() -> str:
    """Return the name of an id that nobody else has."""
    return secrets.token_hex(ID_LENGTH // 2)


async def start_producer(
    cluster: ClusterClient,
    options: WriteOptions,
    transactions: TransactionOptions,
    plan: Plan,
    free: FreeId | None,
) -> Producer:
    """Start a producer with a free id, or with a new one if there is none, or another attempt has used it.

    Args:
        cluster: Asks for the state of the free id.
        options: The producer's.
        transactions: The timeout of its transactions.
        plan: The plan of the batch.
        free: The free id, for a first attempt.

    Raises:
        KafkaError: No broker can be reached, or they reject this client or the transactional id.
    """
    if free is None:
        return await _start(options, transactions, plan, new_name())
    name, asking = task_id(plan.prefix, free.name), Transactions(cluster, transactions.timeout_ms)
    if not await asking.is_current(name, ProducerId(free.producer_id, free.epoch)):
        return await _start(options, transactions, plan, new_name())
    producer = await _start(options, transactions, plan, free.name)
    # Otherwise one came in between. If that one is committed, its id must not get another transaction: who looks for
    # the outcome would find that of the last.
    if await asking.is_current(name, ProducerId(free.producer_id, free.epoch + 1)):
        return producer
    await producer.close()
    return await _start(options, transactions, plan, new_name())


async def _start(options: WriteOptions, transactions: TransactionOptions, plan: Plan, name: str) -> Producer:
    REPORTED_ELSEWHERE.set(True)
    producer = Producer(
        **client_options(options.producer),
        transactional_id=task_id(plan.prefix, name),
        transaction_timeout_ms=None if plan.two_phase else transactions.timeout_ms,
        transaction_two_phase_commit_enable=plan.two_phase,
    )
    await producer.start(keep_prepared=False)
    return producer


def write_transaction(
    worker: Worker,
    options: WriteOptions,
    transactions: TransactionOptions,
    plan: Plan,
    free: FreeId | None,
    batches: Iterator[pa.RecordBatch],
) -> tuple[int, int, HandedOver | None]:
    """Write the rows of a task in a transaction with a free id, or a new one, and leave it open.

    Returns:
        The number of rows, and of bytes in their keys and values, and the transaction; None if there are no rows.

    Raises:
        WriteError: A row was not written; the text has its number in the task, its topic, and the reason.
        KafkaError: No broker can be reached, or they reject this client or the transactional id.
    """
    first = next((batch for batch in batches if len(batch)), None)
    # The coordinator knows no transaction without rows.
    if first is None:
        return 0, 0, None
    cluster = worker.cluster(transactions.connection)
    producer = worker.start(start_producer(cluster, options, transactions, plan, free)).result()
    try:
        transaction = worker.start(_begin(producer)).result()
        writing = Writing(producer, transaction, options)
        writing.write_all(worker, chain([first], batches))
        handed_over = worker.start(_hand_over(transaction)).result()
    finally:
        # It aborts what was not handed over.
        with suppress(KafkaError):
            worker.start(producer.close(CLOSE_MS)).result()
    return writing.rows, writing.size, handed_over


async def _begin(producer: Producer[bytes, bytes]) -> Transaction[bytes, bytes]:
    return await producer.transaction().__aenter__()


async def _hand_over(transaction: Transaction[bytes, bytes]) -> HandedOver:
    try:
        return await transaction.hand_over()
    except KafkaError as error:
        raise WriteError(f"the rows are written, and the transaction is not: {error}") from error
