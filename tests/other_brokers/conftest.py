"""Clusters of other implementations, as fixtures."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.other_brokers import librdkafka_mock
from tests.other_brokers.servers import Server, kfake, mock_cluster
from tools.setup import project


@pytest.fixture(scope="session")
def kfake_program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """franz-go's fake cluster, built from the modules that the set-up has fetched."""
    compiler = shutil.which("go")
    if compiler is None:
        pytest.skip("Go is not installed")
    program = tmp_path_factory.mktemp("other_brokers") / "kfake"
    environment = os.environ | {"GOTOOLCHAIN": "local", "GOPROXY": "off"}
    command = [compiler, "build", "-trimpath", "-o", str(program), "."]
    done = subprocess.run(command, cwd=project.KFAKE, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"kfake cannot be built: {done.stderr.strip().splitlines()[-1]}")
    return program


@pytest.fixture
async def fake(kfake_program: Path) -> AsyncIterator[Server]:
    """Three brokers of franz-go's fake cluster."""
    async with kfake(kfake_program) as server:
        yield server


@pytest.fixture
async def mock() -> AsyncIterator[Server]:
    """Three brokers of librdkafka's mock cluster."""
    if librdkafka_mock.library() is None:
        pytest.skip("confluent_kafka, with librdkafka beside it, is not installed")
    async with mock_cluster() as server:
        yield server


@pytest.fixture(params=["fake", "mock"])
def server(request: pytest.FixtureRequest) -> Server:
    """Each of the two."""
    found: Server = request.getfixturevalue(request.param)
    return found
