"""The error text of a request that is given up."""

from __future__ import annotations

import asyncio

import pytest

from aiokproto.cluster import ClusterClient
from aiokproto.cluster.broker_lookup import RetryState
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DeadlineError, error_for
from aiokproto.failures import Situation
from aiokproto.simulation import Simulation
from tests.net.peer import config


@pytest.mark.parametrize(
    ("pause", "text"),
    [
        (600.0, "Heartbeat: given up after 0.84 of 1.5 s (1 attempt), as the next attempt would be too late; last: "),
        (0.0, "Heartbeat: timed out after 1.5 s (2 attempts); last: "),
    ],
)
def test_the_text_of_a_deadline_says_whether_the_time_had_passed(pause: float, text: str) -> None:
    async def main() -> str:
        cluster = ClusterClient(config(retry_backoff=pause, retry_backoff_max=pause))
        # The deadline ends the second attempt.
        attempts = [0.84, 0.66]

        async def attempt() -> None:
            await asyncio.sleep(attempts.pop(0))
            raise error_for(ErrorCode.NOT_COORDINATOR, "Heartbeat to broker 1")

        until = asyncio.get_running_loop().time() + 1.5
        with pytest.raises(DeadlineError) as caught:
            await cluster._retrying("Heartbeat", Situation(coordinated=True), until, 1.5, RetryState(), attempt)
        return str(caught.value)

    assert Simulation(1).run(main()) == f"{text}Heartbeat to broker 1: NOT_COORDINATOR (16)"
