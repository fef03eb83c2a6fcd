"""Clients of brokers that don't report their versions, in virtual time."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.simulation import Simulation

REASON = "is probably wrong"


def reading(caplog: pytest.LogCaptureFixture, release: str, restarts: int) -> list[str]:
    """Read from a broker that restarts again and again, and return the warnings about ``broker_version``."""

    async def main() -> None:
        async with Cluster(1, as_version=release) as cluster:
            await cluster.create_topic("t")
            options: dict[str, Any] = {"bootstrap_servers": cluster.bootstrap_servers}
            async with Consumer("t", **options, broker_version="0.9", auto_offset_reset="earliest") as consumer:
                for number in range(restarts):
                    if release == "0.9":
                        async with Producer(**options, broker_version="0.9") as producer:
                            await producer.send("t", b"%d" % number)
                        assert (await consumer.__anext__()).value == b"%d" % number
                    waiting = asyncio.ensure_future(consumer.__anext__())
                    await asyncio.sleep(20)
                    waiting.cancel()
                    await asyncio.gather(waiting, return_exceptions=True)
                    await cluster.stop_broker(0)
                    await cluster.start_broker(0)

    with caplog.at_level(logging.WARNING, "aiokproto"):
        Simulation(3).run(main())
    return [record.getMessage() for record in caplog.records if REASON in record.getMessage()]


def test_a_broker_that_restarts_is_not_taken_for_one_of_another_release(caplog: pytest.LogCaptureFixture) -> None:
    """A restart ends connections with a request in flight as well."""
    assert reading(caplog, "0.9", 5) == []


def test_a_wrong_release_is_a_warning_now_and_then(caplog: pytest.LogCaptureFixture) -> None:
    assert 2 <= len(reading(caplog, "4.4", 5)) <= 5
