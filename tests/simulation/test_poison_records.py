"""Records that cannot be decoded, in groups under the faults of many seeds: each is seen, and none ends a consumer."""

from __future__ import annotations

import asyncio

import pytest

from tests.simulation import consuming, handling


def every_fifth(raw: bytes) -> int:
    number = int(raw)
    if number % 5 == 0:
        raise ValueError(f"{number} is poison")
    return number


async def every_fifth_later(raw: bytes) -> int:
    await asyncio.sleep(0)
    return every_fifth(raw)


@pytest.mark.parametrize("policy", ["raise", "return"])
@pytest.mark.parametrize("deserializer", [every_fifth, every_fifth_later])
@pytest.mark.parametrize("seed", range(4))
def test_poison_records_are_delivered_as_errors(policy: str, deserializer: object, seed: int) -> None:
    """The workload checks order, ownership, commits of finished records only, and that all of them are finished."""
    schedule = consuming.schedule(seed)
    consuming.run(seed, schedule, value_deserializer=deserializer, on_undecodable=policy)


@pytest.mark.parametrize("deserializer", [every_fifth, every_fifth_later])
@pytest.mark.parametrize("seed", range(8))
def test_poison_records_are_handled_with_their_errors(deserializer: object, seed: int) -> None:
    """The same is true of `run()`: no two calls of a lane run at once, and no commit goes beyond an unhandled
    record."""
    handling.run(seed, handling.schedule(seed), value_deserializer=deserializer, on_undecodable="return")
