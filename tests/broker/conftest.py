"""One broker with a topic of two partitions, and a connection to it; the tools of Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest

from aiokproto.broker import Broker
from tests.broker.kafka_tools import Tools
from tests.broker.third_party_passed import client_of
from tests.broker.wire import Wire, connect
from tests.figures import TALLY

THIRD_PARTY = Path(__file__).parent / "third_party"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    client = client_of(item.nodeid) if report.when == "call" and report.passed else None
    if client is not None:
        item.config.stash[TALLY][f"tests passed with {client}"] += 1
    return report


@pytest.fixture
async def broker() -> AsyncIterator[Broker]:
    async with Broker(auto_create_topics=False) as broker:
        await broker.create_topic("t", 2)
        yield broker


@pytest.fixture
async def wire(broker: Broker) -> AsyncIterator[Wire]:
    async with connect(broker) as wire:
        yield wire


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """Kafka's command line tools (mark the test ``kafka``)."""
    with Tools(tmp_path_factory.mktemp("tools")) as tools:
        yield tools
