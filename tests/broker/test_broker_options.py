"""Options of brokers that are changed while they run (KIP-226)."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokproto.broker import Broker, Cluster
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.error_codes import ErrorCode
from tests.broker.wire import Wire, batch, connect, produce

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND = 0, 1, 2
FROM_TOPIC, FROM_NODE, CHANGED, GIVEN, DEFAULT = 1, 2, 3, 4, 5
EVERYONE = ""

Sources = list[tuple[int, str | None]]


async def alter(wire: Wire, name: str, option: str, value: str | None, operation: int = SET, kind: int = BROKER) -> int:
    change = AlterableConfig(name=option, config_operation=operation, value=value)
    resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    (answer,) = (await wire.ask(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))).responses
    return answer.error_code


async def sources(wire: Wire, kind: int, name: str) -> dict[str, Sources]:
    """Return every value that each option was given, and its source."""
    resource = DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
    (result,) = (await wire.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True))).results
    assert result.error_code == 0, result.error_message
    for entry in result.configs:
        assert (entry.config_source, entry.value) == (entry.synonyms[0].source, entry.synonyms[0].value)
    return {entry.name: [(each.source, each.value) for each in entry.synonyms] for entry in result.configs}


async def test_a_default_is_changed_for_all_brokers_and_reset() -> None:
    async with Broker(config={"message.max.bytes": 1000}) as broker, connect(broker) as wire:
        for topic, config in (("follows", {}), ("own", {"max.message.bytes": "2000"})):
            await broker.create_topic(topic, config=config)
        assert await alter(wire, EVERYONE, "message.max.bytes", "200") == 0
        assert await sources(wire, BROKER, EVERYONE) == {"message.max.bytes": [(CHANGED, "200")]}
        given: Sources = [(CHANGED, "200"), (GIVEN, "1000"), (DEFAULT, "1048588")]
        assert (await sources(wire, BROKER, "0"))["message.max.bytes"] == given
        assert (await sources(wire, TOPIC, "follows"))["max.message.bytes"] == given
        assert (await sources(wire, TOPIC, "own"))["max.message.bytes"] == [(FROM_TOPIC, "2000"), *given]
        large = batch([b"x" * 500])
        assert (await produce(wire, "follows", large)).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert (await produce(wire, "own", large)).error_code == 0
        assert await alter(wire, EVERYONE, "message.max.bytes", None, DELETE) == 0
        assert await sources(wire, BROKER, EVERYONE) == {}
        assert (await produce(wire, "follows", large)).error_code == 0


async def test_logs_take_a_new_default_at_once(tmp_path: Path) -> None:
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        for _ in range(2):
            await produce(wire, "t", batch([b"x" * 100]))
        assert await alter(wire, EVERYONE, "log.segment.bytes", "1048576") == 0
        assert await alter(wire, EVERYONE, "log.segment.bytes", "150") == 0
        await produce(wire, "t", batch([b"x" * 100]))
        assert len(list((tmp_path / "t-0").glob("*.log"))) == 2


async def test_changed_configs_survive_a_restart(tmp_path: Path) -> None:
    for started in range(3):
        async with Cluster(1, data_dir=tmp_path) as cluster, connect(cluster) as wire:
            expected = {"log.retention.ms": [(CHANGED, "7")]} if started == 1 else {}
            assert await sources(wire, BROKER, EVERYONE) == expected
            await alter(wire, EVERYONE, "log.retention.ms", "7", SET if started == 0 else DELETE)


async def test_rates_are_configured_per_broker(wire: Wire) -> None:
    rate = "leader.replication.throttled.rate"
    assert await alter(wire, "0", rate, "1000") == 0
    assert await alter(wire, EVERYONE, rate, "2000") == 0
    assert (await sources(wire, BROKER, "0"))[rate] == [(FROM_NODE, "1000"), (CHANGED, "2000")]
    assert await alter(wire, "0", rate, None, DELETE) == 0
    assert (await sources(wire, BROKER, "0"))[rate] == [(CHANGED, "2000")]


@pytest.mark.parametrize(
    ("name", "option", "value", "error"),
    [
        (EVERYONE, "num.partitions", "2", ErrorCode.INVALID_REQUEST),
        (EVERYONE, "log.retention.ms", "long", ErrorCode.INVALID_CONFIG),
        (EVERYONE, "no.such.option", "1", ErrorCode.INVALID_CONFIG),
        ("0", "log.retention.ms", "7", ErrorCode.INVALID_REQUEST),
        ("0", "leader.replication.throttled.rate", "-1", ErrorCode.INVALID_CONFIG),
        ("1", "leader.replication.throttled.rate", "1", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_invalid_config_changes_are_refused(
    wire: Wire, name: str, option: str, value: str, error: ErrorCode
) -> None:
    assert await alter(wire, name, option, value) == error
    assert await sources(wire, BROKER, EVERYONE) == {}


@pytest.mark.parametrize(
    ("value", "error"),
    [("0:1,1:2", 0), ("*", 0), ("", 0), ("0", ErrorCode.INVALID_CONFIG), ("0:1,", ErrorCode.INVALID_CONFIG)],
)
async def test_throttled_replicas_are_validated(wire: Wire, value: str, error: int) -> None:
    assert await alter(wire, "t", "leader.replication.throttled.replicas", value, kind=TOPIC) == error


async def test_values_are_appended_to_an_empty_list(wire: Wire) -> None:
    option = "leader.replication.throttled.replicas"
    for value in ("0:1", "1:2"):
        assert await alter(wire, "t", option, value, APPEND, kind=TOPIC) == 0
    assert (await sources(wire, TOPIC, "t"))[option] == [(FROM_TOPIC, "0:1,1:2"), (DEFAULT, "")]
