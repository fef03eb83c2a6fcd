"""One broker with a topic of two partitions, and a connection to it; the tools of Kafka."""

from __future__ import annotations

import os
import subprocess
from collections.abc import AsyncIterator, Generator, Iterator
from pathlib import Path

import pytest

from aiokproto.broker import Broker
from tests.broker.kafka_tools import Tools
from tests.broker.third_party_passed import client_of
from tests.broker.wire import Wire, connect
from tests.figures import TALLY
from tools.setup.project import MESSAGES_RELEASES, kafka_jars, messages_jars
from tools.setup.system import find_java

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


def kafka_libraries() -> str:
    """Java's class path for what stands on Kafka's own jars."""
    return os.pathsep.join(map(str, sorted(kafka_jars().glob("*.jar"))))


@pytest.fixture(scope="session")
def java_classes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of ``third_party/java``."""
    folder = tmp_path_factory.mktemp("third_party") / "java"
    # A JDK need not be there: the compiler is among the jars that are fetched for the tests.
    compiler = next(messages_jars(MESSAGES_RELEASES[0]).glob("ecj-*.jar"))
    command = [str(find_java()), "-jar", str(compiler), "-17", "-cp", kafka_libraries(), "-d", str(folder)]
    subprocess.run([*command, str(THIRD_PARTY / "java")], check=True, capture_output=True)
    return folder


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """Kafka's command line tools (mark the test ``kafka``)."""
    with Tools(tmp_path_factory.mktemp("tools")) as tools:
        yield tools
