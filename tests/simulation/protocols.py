"""Clusters that lose the consumer protocol of groups (KIP-848), and may get it back."""

from __future__ import annotations

import asyncio

from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.broker.metadata import features
from aiokproto.broker.request_context import CloseConnection
from aiokproto.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aiokproto.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokproto.codec.schema import Response
from aiokproto.simulation import Simulation


def set_group_version(cluster: Cluster, level: int) -> None:
    """Enable the protocol (1), or disable it (0): brokers list the API, and refuse it."""
    features.finalize(cluster._running.state.metadata, {"group.version": level})


async def restart_without_protocol(cluster: Cluster, node: int) -> None:
    """Restart a broker as one that doesn't know the API."""
    await cluster.stop_broker(node)

    async def list_others(info: RequestInfo, serve: Serve) -> Response | None:
        response = await serve(info.request)
        if isinstance(response, ApiVersionsResponse):
            known = ConsumerGroupHeartbeatRequest.api_key
            response.api_keys = [each for each in response.api_keys if each.api_key != known]
        return response

    async def close(info: RequestInfo, serve: Serve) -> Response | None:
        raise CloseConnection("an API that it does not know")

    cluster.faults.intercept(ApiVersionsRequest, list_others, node=node)
    cluster.faults.intercept(ConsumerGroupHeartbeatRequest, close, node=node)
    await cluster.start_broker(node)


async def come_and_go(simulation: Simulation, cluster: Cluster, until: float) -> None:
    """Lose the protocol and get it back, a few times at random, until that virtual time."""
    random = simulation.random
    while simulation.time() < until:
        await asyncio.sleep(random.uniform(0.1, until / 2))
        set_group_version(cluster, random.choice((0, 0, 1)))
