"""How long a call looks for a topic that does not exist."""

from __future__ import annotations

import asyncio

import pytest

from aiokproto import Broker
from aiokproto.client import Client
from aiokproto.errors import UnknownTopicError
from aiokproto.simulation import Simulation


def test_a_call_does_not_pay_for_earlier_calls_with_missing_topics() -> None:
    """Refreshes that follow each other are spaced further and further; the first one for another call starts over."""

    async def look_for(count: int) -> list[float]:
        async with (
            Broker(auto_create_topics=False) as broker,
            Client(bootstrap_servers=broker.bootstrap_servers) as client,
        ):
            times = []
            for _ in range(count):
                began = asyncio.get_running_loop().time()
                with pytest.raises(UnknownTopicError):
                    await client.metadata(["missing"])
                times.append(asyncio.get_running_loop().time() - began)
            return times

    times = Simulation(seed=1).run(look_for(6))
    # The pauses have a jitter of a fifth in each direction.
    assert max(times) <= 1.5 * min(times)


def test_a_topic_that_does_not_exist_is_named_as_such_also_when_the_deadline_is_short() -> None:
    """A broker may not know a new topic yet, so several responses are needed to be sure; the last one is reported."""

    async def look_for() -> None:
        async with (
            Broker(auto_create_topics=False) as broker,
            Client(bootstrap_servers=broker.bootstrap_servers, default_api_timeout_ms=50) as client,
        ):
            with pytest.raises(UnknownTopicError, match=r"topic 'missing': UNKNOWN_TOPIC_OR_PARTITION"):
                await client.metadata(["missing"])

    Simulation(seed=1).run(look_for())
