"""Faults of the network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiokproto.simulation import Link
from tests.simulation.environment import Environment


async def cut(environment: Environment, seconds: float, broker: int) -> None:
    await _for_a_while(environment, seconds, broker, Link.cut)


async def reset(environment: Environment, seconds: float, broker: int) -> None:
    for link in environment.links(broker):
        link.reset()


async def silence(environment: Environment, seconds: float, broker: int, to_server: bool, to_client: bool) -> None:
    await _for_a_while(
        environment, seconds, broker, lambda link: link.silence(to_server=to_server, to_client=to_client)
    )


async def _for_a_while(environment: Environment, seconds: float, broker: int, act: Callable[[Link], None]) -> None:
    links = environment.links(broker)
    for link in links:
        act(link)
    await asyncio.sleep(seconds)
    for link in links:
        link.restore()


async def delay(environment: Environment, seconds: float, broker: int, latency: float) -> None:
    links = environment.links(broker)
    before = [link.to_server.latency for link in links]
    for link in links:
        link.delay(latency / 2, latency)
    await asyncio.sleep(seconds)
    for link, (least, most) in zip(links, before, strict=True):
        link.delay(least, most)
