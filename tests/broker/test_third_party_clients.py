"""Clients in other languages, and for brokers of long ago: each writes, reads as a group and continues."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker import Broker, Cluster, Security
from aiokproto.client import Client
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.broker.conftest import THIRD_PARTY
from tests.java.compiler import command
from tests.timeouts import LONG_TIMEOUT
from tools.setup import project

COUNT = 200
SECONDS = 4 * LONG_TIMEOUT
"""The longest that a program may take, all its work together."""
DUMP_SECONDS = 5
"""How long a program that hasn't ended may take to write its stacks."""


async def run(command: list[str], folder: Path | None = None) -> str:
    """Return a program's output, and fail if the program does."""

    def wait() -> tuple[int, str, str]:
        with subprocess.Popen(
            command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                written, errors = process.communicate(timeout=SECONDS)
            except subprocess.TimeoutExpired:
                # Java and Go write the stacks of all their threads.
                process.send_signal(signal.SIGQUIT)
                try:
                    written, errors = process.communicate(timeout=DUMP_SECONDS)
                except subprocess.TimeoutExpired:
                    process.kill()
                    written, errors = process.communicate()
            return process.returncode, written, errors

    code, written, errors = await asyncio.to_thread(wait)
    assert code == 0, f"{errors[-20_000:]}{written[-20_000:]}"
    return written


# ---- Go


@pytest.fixture(scope="session")
def franz_go() -> str:
    program = project.go_program("franz-go")
    if not program.exists():
        pytest.skip("the program with franz-go is not built: `tools/setup/run test-all` does it, with Go")
    return str(program)


@pytest.mark.extended
@pytest.mark.parametrize("how", [[], ["transactional"]], ids=["idempotent", "transactional"])
async def test_franz_go(franz_go: str, how: list[str]) -> None:
    async with Cluster(2) as cluster:
        await cluster.create_topic("t", 3)
        address = cluster.bootstrap_servers.split(",")[0]
        assert await run([franz_go, address, "t", "g", str(COUNT), *how]) == f"{COUNT}\n"


LONG_LOCKS = {"group.share.max.record.lock.duration.ms": 3_600_000, "group.share.record.lock.duration.ms": 3_600_000}
"""A record would be delivered again if its lock expired before a slow program acknowledges it."""


async def from_the_beginning(cluster: Cluster, group: str) -> None:
    """Make a share group start with the first record."""
    change = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    resource = AlterConfigsResource(resource_type=32, resource_name=group, configs=[change])
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        answer = await client.request(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
    assert answer.responses[0].error_code == 0, answer


@pytest.mark.extended
async def test_franz_go_shares(franz_go: str) -> None:
    async with Cluster(2, config=LONG_LOCKS) as cluster:
        await cluster.create_topic("t", 3)
        await from_the_beginning(cluster, "g")
        address = cluster.bootstrap_servers.split(",")[0]
        assert await run([franz_go, address, "t", "g", str(COUNT), "share"]) == f"{COUNT} 100\n"


# ---- Java


async def java(*arguments: str, program: str = "KafkaClients") -> list[str]:
    return (await run([*command(THIRD_PARTY / "java", program, "-Xmx256m"), *arguments])).splitlines()


@pytest.mark.kafka
@pytest.mark.java
@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_kafkas_own_clients(protocol: str) -> None:
    async with Cluster(2) as cluster:
        await cluster.create_topic("t", 3)
        servers = cluster.bootstrap_servers
        assert await java("clients", servers, "t", "g", str(COUNT), protocol) == [str(COUNT), "done"]


@pytest.mark.kafka
@pytest.mark.java
@pytest.mark.parametrize(
    ("mode", "summary"),
    [
        ("implicit", "200 accepted, 0 rejected, 0 delivered again"),
        ("explicit", "181 accepted, 19 rejected, 29 delivered again"),
        ("record_limit", "181 accepted, 19 rejected, 29 delivered again"),
    ],
)
async def test_kafkas_own_share_consumers(mode: str, summary: str) -> None:
    async with Cluster(2, config=LONG_LOCKS) as cluster:
        await cluster.create_topic("t", 3)
        await from_the_beginning(cluster, "g")
        servers = cluster.bootstrap_servers
        found = await java(servers, "t", "g", str(COUNT), mode, program="ShareConsumers")
        assert found == [summary, f"{{{COUNT}=1}}"]


@pytest.mark.kafka
@pytest.mark.java
async def test_kafkas_own_admin_client() -> None:
    async with Cluster(2) as cluster:
        assert await java("admin", cluster.bootstrap_servers, "t", "g", "0", "classic") == ["done"]


@pytest.mark.kafka
@pytest.mark.java
@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_kafkas_own_clients_log_in_by_a_delegation_token(mechanism: str) -> None:
    config = {"delegation.token.secret.key": "between brokers"}
    async with Broker(security=Security("SASL_PLAINTEXT", users={"alice": "secret"}), config=config) as broker:
        await broker.create_topic("t")
        user = (broker.bootstrap_servers, "t", "alice", "secret", mechanism)
        assert await java(*user, program="TokenClients") == ["true", "value", "0"]


# ---- Python, as long ago


def produce_and_consume(module: Any, servers: str, release: tuple[int, ...] | None, with_group: bool) -> list[bytes]:
    """Use kafka-python, whose ``api_version`` is the brokers' release."""
    values = [b"value %d" % number for number in range(COUNT)]
    options: dict[str, Any] = {"bootstrap_servers": servers}
    if release is not None:
        options["api_version"] = release
    producer = module.KafkaProducer(acks="all", **options)
    for future in [producer.send("t", value) for value in values]:
        future.get(LONG_TIMEOUT)
    producer.close()
    consumer = module.KafkaConsumer(
        "t",
        group_id="g" if with_group else None,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        consumer_timeout_ms=LONG_TIMEOUT * 1000,
        **options,
    )
    found = [record.value for _, record in zip(range(COUNT), consumer, strict=False)]
    if with_group:
        consumer.commit()
        assert sum(consumer.committed(partition) or 0 for partition in consumer.assignment()) == COUNT
    consumer.close()
    del producer, consumer
    gc.collect()
    return [value for value in values if value in found]


@pytest.mark.parametrize(
    ("release", "api_version"),
    [
        (None, None),
        ("0.8.2", (0, 8, 2)),
        ("0.9", (0, 9)),
        ("0.10.0", None),
        ("0.10.2", None),
        ("0.11", None),
        ("1.0", None),
        ("2.4", None),
        ("3.9", None),
    ],
)
# kafka-python can forget a socket whose connection attempt it gave up. The collection above finds it in this test.
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
async def test_kafka_python(release: str | None, api_version: tuple[int, ...] | None) -> None:
    module: Any = pytest.importorskip("kafka")
    async with Broker(as_version=release) as broker:
        await broker.create_topic("t", 2)
        # Brokers of 0.8 had no groups with members. At most they stored offsets.
        found = await asyncio.to_thread(
            produce_and_consume, module, broker.bootstrap_servers, api_version, release != "0.8.2"
        )
    assert len(found) == COUNT


@pytest.mark.parametrize("release", ["0.9", "0.10.0", "0.11", "1.1", "2.3", "3.0"])
async def test_librdkafka_with_old_brokers(release: str) -> None:
    confluent: Any = pytest.importorskip("confluent_kafka")

    def work(servers: str) -> int:
        options: dict[str, Any] = {"bootstrap.servers": servers}
        if release == "0.9":
            options |= {"api.version.request": False, "broker.version.fallback": "0.9.0.1"}
        producer = confluent.Producer(options)
        for number in range(COUNT):
            producer.produce("t", b"%d" % number)
        assert producer.flush(LONG_TIMEOUT) == 0
        consumer = confluent.Consumer({**options, "group.id": "g", "auto.offset.reset": "earliest"})
        consumer.subscribe(["t"])
        try:
            return len([message for message in consumer.consume(COUNT, LONG_TIMEOUT) if message.error() is None])
        finally:
            consumer.close()

    async with Broker(as_version=release) as broker:
        await broker.create_topic("t", 2)
        assert await asyncio.to_thread(work, broker.bootstrap_servers) == COUNT
