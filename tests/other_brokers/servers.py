"""Clusters of other implementations, each a process of its own that takes commands on its standard input."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from aiokproto.client import Client
from aiokproto.codec.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.other_brokers import librdkafka_mock
from tests.timeouts import LONG_TIMEOUT
from tools.setup import project

PARTITIONS = 3
"""Partitions of a topic that a client's request creates."""


class Server:
    """A running cluster of another implementation.

    Attributes:
        hides_aborted: Whether a consumer that reads committed records only sees no others.
    """

    hides_aborted = True

    def __init__(self, process: asyncio.subprocess.Process, bootstrap_servers: str) -> None:
        self._process = process
        self.bootstrap_servers = bootstrap_servers

    async def command(self, *words: object) -> None:
        """Have the process do something; return once it is done."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(f"{' '.join(map(str, words))}\n".encode())
        response = (await asyncio.wait_for(self._process.stdout.readline(), LONG_TIMEOUT)).decode().strip()
        assert response == "ok", f"{words}: {response}"

    async def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        """Create a topic with one replica."""
        configs = [CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()]
        topic = CreatableTopic(name=name, num_partitions=partitions, replication_factor=1, configs=configs)
        async with Client(bootstrap_servers=self.bootstrap_servers) as client:
            response = await client.request(CreateTopicsRequest(topics=[topic]))
        assert response.topics[0].error_code == 0, response

    async def leader(self, topic: str, partition: int) -> tuple[int, list[int]]:
        """Return the partition's leader, and the ids of all brokers."""
        async with Client(bootstrap_servers=self.bootstrap_servers) as client:
            response = await client.request(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
        found = next(each for each in response.topics[0].partitions if each.partition_index == partition)
        return found.leader_id, [broker.node_id for broker in response.brokers]

    async def move_leader(self, topic: str, partition: int) -> int:
        """Make another broker lead the partition, and return its id."""
        leader, brokers = await self.leader(topic, partition)
        node = next(broker for broker in brokers if broker != leader)
        await self.command("move", topic, partition, node)
        return node


class MockServer(Server):
    """librdkafka's mock cluster has no CreateTopics, and forgets which records belong to transactions."""

    hides_aborted = False

    async def create_topic(self, name: str, partitions: int = 1, config: Mapping[str, str] | None = None) -> None:
        assert not config, "its topics have no options"
        await self.command("create", name, partitions, 1)


@asynccontextmanager
async def _running(kind: type[Server], *command: object) -> AsyncIterator[Server]:
    process = await asyncio.create_subprocess_exec(
        *map(str, command), cwd=project.ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), LONG_TIMEOUT)
        assert line, f"it has ended: {command}"
        yield kind(process, line.decode().strip())
    finally:
        # communicate() also closes the transports of all pipes.
        if process.returncode is None:
            process.kill()
        await process.communicate()


def kfake(program: Path, brokers: int = 3, release: str = "") -> AbstractAsyncContextManager[Server]:
    """franz-go's fake cluster, like a release of Kafka (``v2.4``) or with all that it has."""
    return _running(Server, program, brokers, PARTITIONS, *([release] if release else []))


def mock_cluster(brokers: int = 3) -> AbstractAsyncContextManager[Server]:
    """librdkafka's mock cluster."""
    return _running(MockServer, sys.executable, "-m", librdkafka_mock.__name__, brokers)
