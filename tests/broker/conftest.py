"""One broker with a topic of two partitions, and a connection to it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiokproto.broker import Broker
from tests.broker.wire import Wire, connect


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--crash-runs", type=int, default=5, help="how often to kill a broker while it writes")


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with Broker() as broker:
        await broker.create_topic("t", 2)
        yield broker


@pytest.fixture
async def wire(broker: Broker) -> AsyncIterator[Wire]:
    async with connect(broker) as wire:
        yield wire
