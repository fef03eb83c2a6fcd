"""A process that copies a topic exactly once, and is killed at one step of it (``kill -9``).

Run as ``python -m tests.behaviour.copying_process JSON``, see :class:`Plan`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from typing import Any, NamedTuple

from aiokproto import Consumer, ExactlyOnce, Producer
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import Request
from aiokproto.net.connection import Connection
from aiokproto.producer import Transaction
from aiokproto.producer.transactional_id import TransactionalId
from aiokproto.types import Record


class Plan(NamedTuple):
    """What a process does, and when it dies.

    Attributes:
        servers: The cluster.
        topic: What is copied, to the topic with ``-out`` behind it.
        group_id: The group.
        instance_id: The member's instance id, if it is static.
        transactional_id: The producer's transactional id.
        first_version: Whether transactions have version 1 although the cluster has version 2.
        api: The request at which it dies.
        step: ``before`` it is sent, when it is ``sent``, or when it is ``answered``.
        nth: At which of these requests, from 1.
    """

    servers: str
    topic: str
    group_id: str
    instance_id: str | None
    transactional_id: str
    first_version: bool
    api: str
    step: str
    nth: int


def session(plan: Plan) -> ExactlyOnce:
    consumer = Consumer(
        plan.topic,
        bootstrap_servers=plan.servers,
        group_id=plan.group_id,
        group_instance_id=plan.instance_id,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        session_timeout_ms=6000,
        heartbeat_interval_ms=200,
    )
    producer = Producer(
        bootstrap_servers=plan.servers,
        transactional_id=plan.transactional_id,
        transaction_timeout_ms=3000,
        linger_ms=0,
    )
    if plan.first_version:
        TransactionalId.has_v2 = _first_version  # type: ignore[method-assign,assignment]
    return ExactlyOnce(consumer, producer)


async def _first_version(transactional_id: TransactionalId, before: bool) -> bool:
    return False


async def copy(records: list[Record], txn: Transaction) -> None:
    for record in records:
        await txn.post(f"{record.topic}-out", record.value, partition=record.partition)


def die_at(plan: Plan) -> None:
    """Kill this process at the planned step."""
    seen = 0
    send, decode = Connection._send, Connection._decode

    def count(request: Request[Any], step: str) -> None:
        nonlocal seen
        if api_name(request.api_key) == plan.api and step == plan.step:
            seen += 1
            if seen == plan.nth:
                os.kill(os.getpid(), signal.SIGKILL)

    def sending(self: Connection, request: Request[Any], *rest: Any) -> None:
        count(request, "before")
        send(self, request, *rest)
        count(request, "sent")

    def decoding(self: Connection, request: Request[Any], *rest: Any) -> Any:
        response: Any = decode(self, request, *rest)
        count(request, "answered")
        return response

    Connection._send, Connection._decode = sending, decoding  # type: ignore[method-assign,assignment]


async def main() -> None:
    plan = Plan(*json.loads(sys.argv[1]))
    die_at(plan)
    async with session(plan) as one:
        await one.run(copy, max_records=3)


if __name__ == "__main__":
    asyncio.run(main())
