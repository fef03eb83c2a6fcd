"""A transactional producer on one broker of a simulation, and what readers of committed records find."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from aiokproto import Consumer, ExactlyOnce, Producer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.end_txn import EndTxnRequest, EndTxnResponse
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import TransactionAbortedError
from aiokproto.simulation import Simulation
from tests.simulation.transaction_log import committed_values, hanging

Program = Callable[[Cluster, Producer], Awaitable[None]]
V1, V2 = "3.9", None
"""The releases of the brokers for both transaction versions: version 2 came with Kafka 4.0."""
both = pytest.mark.parametrize("release", [V1, V2], ids=["v1", "v2"])


def run(program: Program, release: str | None = None, **options: Any) -> Simulation:
    """Run a program with one transactional producer. No transaction may be open afterwards."""
    simulation = Simulation(1)

    async def main() -> None:
        config = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
        async with Cluster(1, auto_create_topics=False, config=config, as_version=release) as cluster:
            await cluster.create_topic("t", 2)
            producer = make(cluster, **options)
            async with producer:
                await program(cluster, producer)
            assert not hanging(cluster, "t", 2)

    simulation.run(main())
    return simulation


def make(cluster: Cluster, **options: Any) -> Producer:
    given = {"transactional_id": "id", "linger_ms": 0, "request_timeout_ms": 2000, "default_api_timeout_ms": 5000}
    return Producer(bootstrap_servers=cluster.bootstrap_servers, **{**given, **options})


def new_session(cluster: Cluster, **options: Any) -> ExactlyOnce:
    """Return a session that reads topic ``t`` in group ``g``, with more options for its consumer."""
    consumer = Consumer(
        "t",
        bootstrap_servers=cluster.bootstrap_servers,
        group_id="g",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        session_timeout_ms=6000,
        **options,
    )
    return ExactlyOnce(consumer, make(cluster))


async def abortable_then_silent(call: RequestInfo, serve: Serve) -> Response | None:
    """Refuse a commit, and do not respond to an abort."""
    assert isinstance(call.request, EndTxnRequest)
    return EndTxnResponse(error_code=ErrorCode.TRANSACTION_ABORTABLE) if call.request.committed else None


def skip_epochs(cluster: Cluster, producer: Producer, epoch: int) -> None:
    """Give the transactional id a later epoch, between two transactions."""
    manager, transactions = producer._transactions, cluster._running.transactions
    assert manager is not None
    assert manager.id.current is not None
    transactions._transactions["id"] = replace(transactions._transactions["id"], producer_epoch=epoch)
    manager.id.current = manager.id.current._replace(epoch=epoch)


async def fail_a_record(cluster: Cluster, producer: Producer) -> None:
    """Make a transaction with a record that the broker rejects."""
    with cluster.faults.fail(ProduceRequest, ErrorCode.INVALID_RECORD):
        txn = await producer.transaction().__aenter__()
        await txn.post("t", b"refused", partition=0)
        with pytest.raises(TransactionAbortedError, match="INVALID_RECORD"):
            await txn.commit()


async def write(producer: Producer, value: bytes, partition: int = 0) -> None:
    async with producer.transaction() as txn:
        await txn.send("t", value, partition=partition)


def visible(cluster: Cluster) -> list[bytes]:
    found = committed_values(cluster, "t", 2)
    return found[0] + found[1]


def committed_offset(cluster: Cluster, group: str = "g") -> int | None:
    entry = cluster._running.groups.entry(group)
    return entry.offsets[("t", 0)].offset if entry is not None and entry.offsets else None
