"""Faults of the client's own machine."""

from __future__ import annotations

import asyncio

from tests.simulation.world import World


async def stall(world: World, seconds: float) -> None:
    world.simulation.loop.stall(seconds)


async def hold_threads(world: World, seconds: float) -> None:
    world.simulation.threads.hold()
    await asyncio.sleep(seconds)
    world.simulation.threads.release()


async def fill_executor(world: World, seconds: float) -> None:
    """Fill the loop's default executor with the program's own work, but no other pool."""
    world.simulation.threads.hold(default_only=True)
    await asyncio.sleep(seconds)
    world.simulation.threads.release()
