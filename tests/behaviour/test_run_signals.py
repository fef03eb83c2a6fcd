"""Signals that end `Consumer.run`, where several run."""

from __future__ import annotations

import asyncio
import signal

from aiokproto import Consumer
from aiokproto.types import Record
from tests.clusters import BehaviourCluster
from tests.net.waiting import until
from tests.timeouts import LONG_TIMEOUT


async def test_a_signal_stops_all_runs_of_the_event_loop(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic)
    before = signal.getsignal(signal.SIGTERM)

    async def handle(record: Record) -> None:
        pass

    def active(consumer: Consumer) -> bool:
        status = consumer.run_status()
        return status is not None and status.active

    servers = cluster.bootstrap_servers
    async with Consumer(topic, bootstrap_servers=servers) as one, Consumer(topic, bootstrap_servers=servers) as other:
        runs = [asyncio.ensure_future(each.run(handle, handle_signals=True)) for each in (one, other)]
        await until(lambda: active(one) and active(other))
        signal.raise_signal(signal.SIGTERM)
        for run in runs:
            await asyncio.wait_for(run, LONG_TIMEOUT)
    assert signal.getsignal(signal.SIGTERM) == before
