"""Dead letters of share groups in the embedded broker, in cases that real Kafka shows only with other options, or in a
crash."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aiokproto.broker import Broker
from aiokproto.broker.metadata import features
from aiokproto.broker.share.dead_letters import DeadLetterQueue, _log_failure, _slice_of
from aiokproto.client import Client
from aiokproto.error_codes import ErrorCode
from aiokproto.records import BatchRecord, decode, encode
from tests.behaviour.share_harness import BROKER_CONFIG, Member, ShareHarness, share_harness
from tests.behaviour.test_share_dead_letters import GROUP, TOPIC, change
from tests.broker.gate import Gate
from tests.broker.wire import NOW
from tests.clusters import EmbeddedCluster

ACCEPT, REJECT = 1, 3
QUEUE = "dlq.t"


@asynccontextmanager
async def started(config: dict[str, Any] | None = None, path: Path | None = None) -> AsyncIterator[tuple[Broker, Any]]:
    """Run a broker with a topic ``t``, and a group with a dead-letter topic that doesn't exist."""
    async with (
        Broker(data_dir=path, config={**BROKER_CONFIG, **(config or {})}, auto_create_topics=False) as broker,
        share_harness(EmbeddedCluster(broker, 1), "t") as at,
    ):
        await change(at.client, GROUP, "t", errors_deadletterqueue_topic_name=QUEUE)
        yield broker, at


async def reject(one: Member, count: int) -> None:
    while sum((await one.acquire()).values()) < count:
        pass
    assert await one.acknowledge_error((0, count - 1, [REJECT])) is ErrorCode.NONE


def written(broker: Broker) -> list[bytes | None]:
    """Return the offsets of the dead letters, in their order."""
    log = broker._running.state.partition(QUEUE, 0).log
    data = log.read(log.start_offset, 2**30) if log.end_offset else b""
    return [dict(record.headers)["__dlq.errors.offset"] for batch in decode(data) for record in batch]


async def test_a_dead_letter_topic_is_created_if_the_broker_may() -> None:
    config = {"errors.deadletterqueue.auto.create.topics.enable": True}
    async with started(config) as (broker, at), at.member() as one:
        await at.produce(2)
        await reject(one, 2)
        assert written(broker) == [b"0", b"1"]
        options = broker._running.state.topics[QUEUE].options
        assert options.value("errors.deadletterqueue.group.enable") is True


@pytest.mark.parametrize(
    ("prefix", "created", "text"),
    [("dlq.", False, "does not exist"), ("letters.", True, "does not begin with 'letters.'")],
)
async def test_a_dead_letter_topic_that_cannot_be_used_is_logged(
    prefix: str, created: bool, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with started({"errors.deadletterqueue.topic.name.prefix": prefix}) as (broker, at), at.member() as one:
        if created:
            await broker.create_topic(QUEUE, config={"errors.deadletterqueue.group.enable": "true"})
        await at.produce(1)
        await reject(one, 1)
        assert text in caplog.text
        assert not created or written(broker) == []


async def test_many_dead_letters_are_written_in_batches_that_the_topic_takes(caplog: pytest.LogCaptureFixture) -> None:
    async with started() as (broker, at), at.member() as one:
        await broker.create_topic(
            QUEUE, config={"errors.deadletterqueue.group.enable": "true", "max.message.bytes": "1000"}
        )
        await at.produce(30)
        await reject(one, 30)
        assert written(broker) == [b"%d" % offset for offset in range(30)]
        await change(at.client, TOPIC, QUEUE, max_message_bytes="100")
        await at.produce(1)
        assert await one.acquire() == {30: 1}
        assert await one.acknowledge_error((30, 30, [REJECT])) is ErrorCode.NONE
        assert "exceeds max.message.bytes=100" in caplog.text


async def test_a_crash_before_a_dead_letter_is_written_loses_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with started(path=tmp_path) as (broker, at), at.member() as one:
        await broker.create_topic(QUEUE, config={"errors.deadletterqueue.group.enable": "true"})
        await at.produce(3)
        assert await one.acquire() == dict.fromkeys(range(3), 1)
        with monkeypatch.context() as patched:
            # The crash happens while the letter is written, so this is the state that is persisted at that time.
            patched.setattr(DeadLetterQueue, "write", lambda *_: None)
            patched.setattr("aiokproto.broker.share.manager.SharePartitionManager._archived", lambda *_: None)
            assert await one.acknowledge_error((0, 2, [ACCEPT, REJECT, ACCEPT])) is ErrorCode.NONE
        await broker.crash()
    async with (
        Broker(data_dir=tmp_path, config=BROKER_CONFIG) as broker,
        Client(bootstrap_servers=broker.bootstrap_servers) as client,
    ):
        await client.metadata(["t"])
        again = ShareHarness(client, "t", at.topic_id)
        async with again.member() as other:
            await again.produce(1)
            assert await other.acquire() == {3: 1}
        assert written(broker) == [b"1"]


async def give_up(broker: Broker, at: Any, one: Member) -> None:
    """Reject two of three records, whose batch is compressed, and accept the third after it."""
    options = {"errors_deadletterqueue_topic_name": QUEUE, "errors_deadletterqueue_copy_record_enable": "true"}
    await change(at.client, GROUP, "t", **options)
    await broker.create_topic(QUEUE, config={"errors.deadletterqueue.group.enable": "true"})
    stored = encode([BatchRecord(0, NOW, b"k", b"%d" % number) for number in range(3)], compression="gzip")
    broker._running.state.partition("t", 0).append(stored, NOW)
    assert await one.acquire() == dict.fromkeys(range(3), 1)
    assert await one.acknowledge_error((0, 1, [REJECT])) is ErrorCode.NONE


def values(broker: Broker) -> list[bytes | None]:
    data = broker._running.state.partition(QUEUE, 0).log.read(0, 2**30)
    return [record.value for batch in decode(data) for record in batch]


async def test_a_batch_is_opened_for_dead_letters_while_others_are_served(monkeypatch: pytest.MonkeyPatch) -> None:
    opening = Gate(monkeypatch, "aiokproto.broker.share.dead_letters._slice_of", _slice_of)
    async with started() as (broker, at), at.member() as one:
        await give_up(broker, at, one)
        await opening.wait()
        assert await one.acknowledge_error((2, 2, [ACCEPT])) is ErrorCode.NONE
        (share,) = broker._running.shares._cache.values()
        assert (share.share.start_offset, written(broker)) == (0, [])
        opening.is_open.set()
        while share.share.writing:
            await asyncio.sleep(0)
        assert (share.share.start_offset, written(broker), values(broker)) == (3, [b"0", b"1"], [b"0", b"1"])


async def test_a_crash_while_a_batch_is_opened_for_dead_letters_loses_none(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opening = Gate(monkeypatch, "aiokproto.broker.share.dead_letters._slice_of", _slice_of)
    async with started(path=tmp_path) as (broker, at), at.member() as one:
        await give_up(broker, at, one)
        await opening.wait()
        # This persists the start offset, which must not be past records that aren't written.
        assert await one.acknowledge_error((2, 2, [ACCEPT])) is ErrorCode.NONE
        thread = broker._running.opening
        crashing = asyncio.ensure_future(broker.crash())
        while not thread._stopped:
            await asyncio.sleep(0)
        opening.is_open.set()
        await crashing
    async with (
        Broker(data_dir=tmp_path, config=BROKER_CONFIG) as broker,
        Client(bootstrap_servers=broker.bootstrap_servers) as client,
    ):
        await client.metadata(["t"])
        again = ShareHarness(client, "t", at.topic_id)
        async with again.member() as other:
            await again.produce(1)
            assert await other.acquire() == {3: 1}
            while len(written(broker)) < 2:
                await asyncio.sleep(0)
        assert values(broker) == [b"0", b"1"]


async def test_before_level_2_of_the_feature_there_are_no_dead_letters() -> None:
    async with started() as (broker, at), at.member() as one:
        await broker.create_topic(QUEUE, config={"errors.deadletterqueue.group.enable": "true"})
        features.finalize(broker._running.state.metadata, {"share.version": 1})
        await at.produce(1)
        await reject(one, 1)
        assert written(broker) == []


def test_the_name_of_a_group_is_logged_on_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Members choose the name, which may have any characters."""
    source: Any = SimpleNamespace(topic="t", index=0)
    _log_failure("g\r\nbroker 0 is fine\x1b[2J" + "x" * 30_000, source, OSError("full"))
    (record,) = caplog.records
    assert record.getMessage().isprintable()
    assert len(record.getMessage()) < 500
