"""Seeks while others write."""

from __future__ import annotations

import asyncio

from aiokproto import Consumer, Producer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.list_offsets import ListOffsetsRequest
from aiokproto.codec.schema import Response
from aiokproto.simulation import Simulation


def test_a_seek_to_a_time_skips_no_record_that_is_written_meanwhile() -> None:
    simulation = Simulation(1)

    async def main() -> None:
        async with Cluster(1) as cluster, Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await program(cluster, producer)

    async def program(cluster: Cluster, producer: Producer) -> None:
        await cluster.create_topic("t", 1)
        await producer.send("t", b"old", timestamp=1000)
        async with Consumer(bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest") as consumer:
            consumer.assign(("t", 0))
            assert (await anext(consumer)).value == b"old"

            async def write(call: RequestInfo, serve: Serve) -> Response | None:
                answer = await serve(call.request)
                await producer.send("t", b"new", timestamp=5000)
                return answer

            for nth in (1, 2):
                cluster.faults.intercept(ListOffsetsRequest, write, nth=nth)
                consumer.seek_to_time(4000 if nth == 1 else 5001)
                assert (await asyncio.wait_for(anext(consumer), 5)).value == b"new"

    simulation.run(main())
