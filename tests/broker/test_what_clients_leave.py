"""What a broker keeps about clients that come with a new name each time."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.broker import Broker, VirtualClock
from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.quotas.client_quota_manager import MAX_METERS, ClientQuotaManager
from aiokproto.broker.quotas.client_quotas import ClientQuotas
from aiokproto.broker.telemetry import MAX_PUSHED_BYTES, ClientMetricsOptions, ClientTelemetry, PushedMetrics
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from aiokproto.records import Compression, compress
from tests.broker.reachable import reachable_bytes
from tests.broker.wire import connect, fetch_request

LONG = "x" * 32_000


def quotas(entity: tuple[str, None], key: str) -> ClientQuotaManager:
    known = ClientQuotas()
    known.alter([entity], [(key, 1000.0)], dry_run=False)
    return ClientQuotaManager(known, BrokerOptions({}))


def test_meters_of_long_client_ids_are_small() -> None:
    manager = quotas(("client-id", None), "request_percentage")
    for number in range(100):
        manager.record("request_percentage", "alice", f"{number}{LONG}", 1.0, 0.0)
    assert len(manager._rates) == 100 < MAX_METERS
    assert reachable_bytes(manager._rates) < 100 * 2_000


def test_long_client_ids_have_meters_of_their_own() -> None:
    manager = quotas(("client-id", None), "controller_mutation_rate")
    first = manager.mutation_quota("alice", LONG + "1", 0.0)
    first.record(1_000_000)
    assert manager.mutation_quota("alice", LONG + "1", 0.0).throttle_seconds > 0
    assert manager.mutation_quota("alice", LONG + "2", 0.0).throttle_seconds == 0


def test_pushed_metrics_have_a_limit_of_bytes() -> None:
    """Each is a megabyte, and was sent as some hundred bytes."""
    telemetry = ClientTelemetry(VirtualClock())
    metrics = bytes(1 << 20)
    sent = bytes(compress(Compression.GZIP, metrics))
    for number in range(40):
        push = PushedMetrics("c", number.to_bytes(16, "big"), False, sent)
        telemetry.push(push, 0, Compression.GZIP, {})
    assert len(telemetry.pushes) == MAX_PUSHED_BYTES // (1 << 20) - 1
    assert telemetry.pushes[-1].client_instance_id == (39).to_bytes(16, "big")
    assert telemetry._pushed_bytes == sum(len(push.metrics) + 1 for push in telemetry.pushes)


@pytest.mark.parametrize(("text", "matches"), [("a" * 1000, True), ("a" * 1001, False)])
def test_a_long_text_of_a_client_matches_no_subscription(text: str, matches: bool) -> None:
    options = ClientMetricsOptions({"match": "client_id=a*", "metrics": "*"}, BrokerOptions({}))
    assert options.matches({"client_id": text}) is matches


@pytest.mark.parametrize("kind", ["Fetch", "ShareFetch", "ShareFetch beyond the limit"])
async def test_a_client_that_has_left_waits_at_most_as_long_as_an_idle_connection(kind: str) -> None:
    """It holds one of ``max.connections`` while it waits, and can ask for 24 days."""
    version = 12
    if kind == "Fetch":
        request: Any = fetch_request("t", max_wait_ms=(1 << 31) - 1)
    else:
        request = ShareFetchRequest(
            group_id="g",
            member_id="m",
            share_session_epoch=0,
            max_wait_ms=(1 << 31) - 1,
            min_bytes=1,
            max_bytes=1,
            max_records=1,
            batch_size=1,
            topics=[],
        )
        version = 1
    config = {"max.connections": 1, "group.share.max.share.sessions": 1}
    async with Broker(config=config) as broker:
        await broker.create_topic("t")
        if kind != "Fetch":
            partition = FetchPartition(partition_index=0)
            topic_id = broker._running.state.topics["t"].topic_id
            request.topics = [FetchTopic(topic_id=topic_id, partitions=[partition])]
        async with connect(broker) as wire:
            if kind == "ShareFetch beyond the limit":
                request.max_wait_ms = 0
                await wire.ask(request, version)
                request.member_id, request.max_wait_ms = "other", (1 << 31) - 1
            # This is set only now, so that it closes none of the connections here.
            broker._running.state.options.static["connections.max.idle.ms"] = 1
            wire.send(request, version)
        # This connection is served once the other one is closed.
        async with connect(broker) as wire:
            assert (await wire.ask(MetadataRequest(topics=[]), 9)).brokers
