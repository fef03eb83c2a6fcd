"""Faults of the client's own machine."""

from __future__ import annotations

import asyncio

from tests.simulation.environment import Environment


async def stall(environment: Environment, seconds: float) -> None:
    environment.simulation.loop.stall(seconds)


async def hold_threads(environment: Environment, seconds: float) -> None:
    environment.simulation.threads.hold()
    await asyncio.sleep(seconds)
    environment.simulation.threads.release()


async def fill_executor(environment: Environment, seconds: float) -> None:
    """Fill the loop's default executor with the program's own work, but no other pool."""
    environment.simulation.threads.hold(default_only=True)
    await asyncio.sleep(seconds)
    environment.simulation.threads.release()
