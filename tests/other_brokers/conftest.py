"""Clusters of other implementations, as fixtures."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.other_brokers import librdkafka_mock
from tests.other_brokers.servers import Server, kfake, mock_cluster
from tools.setup import project


@pytest.fixture
def kfake_program() -> Path:
    """franz-go's fake cluster."""
    program = project.go_program("kfake")
    if not program.exists():
        pytest.skip("kfake is not built: `tools/setup/run test-all` does it, with Go")
    return program


@pytest.fixture
async def fake(kfake_program: Path) -> AsyncIterator[Server]:
    """Three brokers of franz-go's fake cluster."""
    async with kfake(kfake_program) as server:
        yield server


@pytest.fixture
async def mock() -> AsyncIterator[Server]:
    """Three brokers of librdkafka's mock cluster."""
    if librdkafka_mock.find_librdkafka() is None:
        pytest.skip("confluent_kafka, with librdkafka beside it, is not installed")
    async with mock_cluster() as server:
        yield server


@pytest.fixture(params=["fake", "mock"])
def server(request: pytest.FixtureRequest) -> Server:
    """Each of the two."""
    found: Server = request.getfixturevalue(request.param)
    return found
