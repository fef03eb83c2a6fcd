"""Writes the rows of a task in a transaction, which the driver ends.

The producer lives as long as the task, and has the transactional id of this attempt. If the task fails, the producer
aborts the transaction. If its process is killed, the driver or the timeout does.
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
"""Maximum time (ms) to abort the transaction of a failed task. After that the driver aborts it."""


def new_name() -> str:
    """Return a random name for an id, which no other attempt has."""
    return secrets.token_hex(ID_LENGTH // 2)


async def start_producer(
    cluster: ClusterClient,
    options: WriteOptions,
    transactions: TransactionOptions,
    plan: Plan,
    free: FreeId | None,
) -> Producer:
    """Start a producer with a free id, or with a new one if there is none or another attempt has used it.

    Args:
        cluster: The client that requests the state of the free id.
        options: The options of the producer.
        transactions: The options with the transaction timeout.
        plan: The plan of the batch.
        free: The free id, for a first attempt.

    Raises:
        KafkaError: No broker can be reached, or the brokers reject this client or the transactional id.
    """
    if free is None:
        return await _start(options, transactions, plan, new_name())
    name, states = task_id(plan.prefix, free.name), Transactions(cluster, transactions.timeout_ms)
    if not await states.is_current(name, ProducerId(free.producer_id, free.epoch)):
        return await _start(options, transactions, plan, new_name())
    producer = await _start(options, transactions, plan, free.name)
    # If the epoch differs, another attempt has used the id in between. If that attempt's transaction is going to be
    # committed, the id must not get another transaction: the driver would mistake its outcome for the first one's.
    if await states.is_current(name, ProducerId(free.producer_id, free.epoch + 1)):
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
        The number of rows, the bytes of their keys and values, and the transaction, which is None if there are no rows.

    Raises:
        WriteError: A row wasn't written. The message has its number in the task, its topic, and the reason.
        KafkaError: No broker can be reached, or the brokers reject this client or the transactional id.
    """
    first = next((batch for batch in batches if len(batch)), None)
    # Don't start a transaction if there are no rows: the coordinator wouldn't know about it.
    if first is None:
        return 0, 0, None
    cluster = worker.cluster(transactions.connection)
    producer = worker.start(start_producer(cluster, options, transactions, plan, free)).result()
    try:
        transaction = worker.start(_start_transaction(producer)).result()
        writing = Writing(producer, transaction, options)
        writing.write_all(worker, chain([first], batches))
        handed_over = worker.start(_hand_over(transaction)).result()
    finally:
        # Closing aborts the transaction unless it was handed over.
        with suppress(KafkaError):
            worker.start(producer.close(CLOSE_MS)).result()
    return writing.rows, writing.size, handed_over


async def _start_transaction(producer: Producer[bytes, bytes]) -> Transaction[bytes, bytes]:
    return await producer.transaction().__aenter__()


async def _hand_over(transaction: Transaction[bytes, bytes]) -> HandedOver:
    try:
        return await transaction.hand_over()
    except KafkaError as error:
        raise WriteError(f"the rows are written, and the transaction is not: {error}") from error
