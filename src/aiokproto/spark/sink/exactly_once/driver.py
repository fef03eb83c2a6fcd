"""Runs the driver's part of a batch, for Spark's classes, which are synchronous."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from aiokproto.cluster import ClusterClient
from aiokproto.cluster.exposure import REPORTED_ELSEWHERE
from aiokproto.spark.connection import client_config
from aiokproto.spark.credentials import client_options
from aiokproto.spark.sink.exactly_once.coordinator import Coordinator
from aiokproto.spark.sink.exactly_once.protocol import OnLoss
from aiokproto.spark.sink.exactly_once.state_topic import StateTopic
from aiokproto.spark.sink.exactly_once.transactions import Transactions
from aiokproto.spark.sink.options import TransactionOptions

T = TypeVar("T")


def run(options: TransactionOptions, call: Callable[[Coordinator], Awaitable[T]]) -> T:
    """Call a method of a coordinator with a client of its own.

    It runs in a separate thread, because the caller may be in a notebook, whose thread has a running event loop.
    """
    with ThreadPoolExecutor(1, "aiokproto-commit") as executor:
        return executor.submit(asyncio.run, _run(options, call)).result()


async def _run(options: TransactionOptions, call: Callable[[Coordinator], Awaitable[T]]) -> T:
    REPORTED_ELSEWHERE.set(True)
    connection = client_options(options.connection)
    async with ClusterClient(client_config(options.connection)) as cluster:
        state = StateTopic(cluster, connection, options.state_topic, options.prefix)
        transactions = Transactions(cluster, options.timeout_ms)
        return await call(Coordinator(options.prefix, state, transactions, OnLoss(options.on_loss)))
