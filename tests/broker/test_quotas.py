"""How much clients may use, and how long they have to pause."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker import Broker, VirtualClock
from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.quotas.client_quota_manager import ClientQuotaManager
from aiokproto.broker.quotas.client_quotas import ANY, DEFAULT, EXACT, ApplicableQuota, ClientQuotas, FilterComponent
from aiokproto.broker.quotas.meters import Rate, TokenBucket
from aiokproto.broker.quotas.request_quotas import ProcessingTimer
from aiokproto.codec.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from aiokproto.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from tests.broker.wire import Wire, batch, connect, fetch_request, produce_request, records_of

# ---- meters


def test_a_rate_is_computed_as_in_kafka() -> None:
    rate = Rate(11, 1.0)
    rate.record(100, 0.0)
    # Ten idle windows are assumed to have passed.
    assert rate.measure(0.0) == 10.0
    assert rate.excess(5.0, 0.0) == 10.0
    assert rate.measure(0.5) == pytest.approx(100 / 10.5)
    assert rate.measure(10.5) == pytest.approx(100 / 10.5)
    # Samples older than eleven windows are forgotten.
    assert rate.measure(11.0) == 0.0


@given(
    st.lists(st.tuples(st.floats(0, 3), st.integers(0, 1000)), min_size=1, max_size=40),
    st.integers(1, 500),
)
def test_only_clients_above_the_limit_are_throttled(events: list[tuple[float, int]], limit: int) -> None:
    rate = Rate(11, 1.0)
    now = 0.0
    for gap, amount in events:
        now += gap
        rate.record(amount, now)
    assert (rate.excess(limit, now) > 0) == (rate.measure(now) > limit)
    assert rate.measure(now) <= sum(amount for _, amount in events) / 10
    assert rate.excess(limit, now + 11.001) == 0


def test_a_bucket_fills_up_to_its_burst() -> None:
    bucket = TokenBucket(11, 1.0)
    bucket.record(110, 10.0, 0.0)
    assert bucket.excess(10.0, 0.0) == 0.0
    bucket.record(20, 10.0, 0.0)
    assert bucket.excess(10.0, 0.0) == 2.0
    assert bucket.excess(10.0, 1.5) == pytest.approx(0.5)
    assert bucket.excess(10.0, 2.0) == 0.0
    # It has long been full again, and isn't fuller than full.
    bucket.record(120, 10.0, 1000.0)
    assert bucket.excess(10.0, 1000.0) == 1.0


# ---- limits


def limits(*quotas: tuple[dict[str, str | None], float]) -> ClientQuotas:
    made = ClientQuotas()
    for entity, value in quotas:
        made.alter(list(entity.items()), [("producer_byte_rate", value)], dry_run=False)
    return made


PRECEDENCE: list[tuple[dict[str, str | None], tuple[str, str]]] = [
    ({"user": "alice", "client-id": "c"}, ("alice", "c")),
    ({"user": "alice", "client-id": None}, ("alice", "c")),
    ({"user": "alice"}, ("alice", "")),
    ({"user": None, "client-id": "c"}, ("alice", "c")),
    ({"user": None, "client-id": None}, ("alice", "c")),
    ({"user": None}, ("alice", "")),
    ({"client-id": "c"}, ("", "c")),
    ({"client-id": None}, ("", "c")),
]


@pytest.mark.parametrize("rank", range(len(PRECEDENCE)))
def test_the_most_specific_quota_applies(rank: int) -> None:
    known = limits(*[(entity, float(value)) for value, (entity, _) in enumerate(PRECEDENCE, 1) if value > rank])
    assert known.quota_for("producer_byte_rate", "alice", "c") == ApplicableQuota(rank + 1.0, *PRECEDENCE[rank][1])


def test_other_clients_are_not_affected() -> None:
    known = limits(({"user": "alice"}, 1.0), ({"client-id": "c"}, 2.0))
    assert known.quota_for("producer_byte_rate", "bob", "d") is None
    assert known.quota_for("consumer_byte_rate", "alice", "c") is None


@pytest.mark.parametrize(
    ("entity", "key", "value"),
    [
        ({}, "producer_byte_rate", 1.0),
        ({"user": ""}, "producer_byte_rate", 1.0),
        ({"group": "g"}, "producer_byte_rate", 1.0),
        ({"user": "a", "ip": "10.0.0.1"}, "connection_creation_rate", 1.0),
        ({"ip": "no address"}, "connection_creation_rate", 1.0),
        ({"ip": "10.0.0.1"}, "producer_byte_rate", 1.0),
        ({"user": "a"}, "connection_creation_rate", 1.0),
        ({"user": "a"}, "producer_byte_rates", 1.0),
        ({"user": "a"}, "producer_byte_rate", 0.0),
        ({"user": "a"}, "producer_byte_rate", -1.0),
        ({"user": "a"}, "producer_byte_rate", float("nan")),
        ({"user": "a"}, "producer_byte_rate", 0.5),
        ({"user": "a"}, "producer_byte_rate", 1e30),
        ({"ip": None}, "connection_creation_rate", 1e10),
    ],
)
def test_invalid_quotas_are_refused(entity: dict[str, str | None], key: str, value: float) -> None:
    known = ClientQuotas()
    with pytest.raises(BrokerError) as raised:
        known.alter(list(entity.items()), [(key, value)], dry_run=False)
    assert raised.value.code == ErrorCode.INVALID_REQUEST
    assert not known


@pytest.mark.parametrize(
    ("components", "strict", "found"),
    [
        ([], False, ["ac", "a", "*c", "ip"]),
        ([], True, []),
        ([FilterComponent("user", EXACT, "a")], False, ["ac", "a"]),
        ([FilterComponent("user", EXACT, "a")], True, ["a"]),
        ([FilterComponent("user", DEFAULT, None)], False, ["*c"]),
        ([FilterComponent("user", ANY, None)], False, ["ac", "a", "*c"]),
        ([FilterComponent("user", ANY, None), FilterComponent("client-id", EXACT, "c")], True, ["ac", "*c"]),
        ([FilterComponent("ip", EXACT, "10.0.0.1")], True, ["ip"]),
    ],
)
def test_describing(components: list[FilterComponent], strict: bool, found: list[str]) -> None:
    entities: dict[str, dict[str, str | None]] = {
        "ac": {"user": "a", "client-id": "c"},
        "a": {"user": "a"},
        "*c": {"user": None, "client-id": "c"},
        "ip": {"ip": "10.0.0.1"},
    }
    known = ClientQuotas()
    for name, entity in entities.items():
        key = "connection_creation_rate" if name == "ip" else "producer_byte_rate"
        known.alter(list(entity.items()), [(key, 7.0)], dry_run=False)
    again = ClientQuotas()
    again.load_json(list(known.to_json()))
    for each in (known, again):
        described = [entity for entity, _ in each.describe(components, strict=strict)]
        assert described == [frozenset(entities[name].items()) for name in found]


@pytest.mark.parametrize(
    ("components", "error"),
    [
        ([FilterComponent("", EXACT, "a")], ErrorCode.INVALID_REQUEST),
        ([FilterComponent("group", EXACT, "a")], ErrorCode.UNSUPPORTED_VERSION),
        ([FilterComponent("user", EXACT, "a"), FilterComponent("user", ANY, None)], ErrorCode.INVALID_REQUEST),
        ([FilterComponent("user", EXACT, None)], ErrorCode.INVALID_REQUEST),
        ([FilterComponent("user", DEFAULT, "a")], ErrorCode.INVALID_REQUEST),
        ([FilterComponent("user", ANY, "a")], ErrorCode.INVALID_REQUEST),
        ([FilterComponent("user", 9, None)], ErrorCode.INVALID_REQUEST),
        ([FilterComponent("user", ANY, None), FilterComponent("ip", ANY, None)], ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_filters_are_refused(components: list[FilterComponent], error: ErrorCode) -> None:
    with pytest.raises(BrokerError) as raised:
        ClientQuotas().describe(components, strict=False)
    assert raised.value.code == error


# ---- use


def quotas(known: ClientQuotas, **options: int) -> ClientQuotaManager:
    return ClientQuotaManager(known, BrokerOptions({name.replace("_", "."): value for name, value in options.items()}))


def test_a_user_s_clients_share_its_quota() -> None:
    used = quotas(limits(({"user": "alice"}, 100.0)))
    assert used.record("producer_byte_rate", "alice", "c", 1000, 0.0) == 0.0
    assert used.record("producer_byte_rate", "alice", "d", 1000, 0.0) == 10.0
    assert used.record("producer_byte_rate", "bob", "c", 1_000_000, 0.0) == 0.0


def test_unrecorded_values_do_not_count() -> None:
    used = quotas(limits(({"user": "alice"}, 100.0)))
    assert used.record("producer_byte_rate", "alice", "c", 5000, 0.0) == 40.0
    used.unrecord("producer_byte_rate", "alice", "c", 5000, 0.0)
    assert used.record("producer_byte_rate", "alice", "c", 1000, 0.0) == 0.0
    assert used.max_in_window("producer_byte_rate", "alice", "c") == 1000.0
    assert used.max_in_window("producer_byte_rate", "bob", "c") == float("inf")


def test_request_time_throttling_is_at_most_one_window() -> None:
    known = ClientQuotas()
    known.alter([("client-id", "c")], [("request_percentage", 0.5)], dry_run=False)
    used = quotas(known)
    assert used.record("request_percentage", "alice", "c", 5.0, 0.0) == 0.0
    assert used.record("request_percentage", "alice", "c", 100.0, 0.0) == 1.0


def test_connections_are_counted_by_address() -> None:
    known = ClientQuotas()
    known.alter([("ip", None)], [("connection_creation_rate", 1.0)], dry_run=False)
    known.alter([("ip", "10.0.0.9")], [("connection_creation_rate", 100.0)], dry_run=False)
    used = quotas(known)
    assert [used.record_connection("10.0.0.1", 0.0) for _ in range(10)] == [0.0] * 10
    assert used.record_connection("10.0.0.1", 0.0) == 1.0
    assert used.record_connection("10.0.0.2", 0.0) == 0.0
    assert [used.record_connection("10.0.0.9", 0.0) for _ in range(50)] == [0.0] * 50


@pytest.mark.parametrize(
    ("written", "address"),
    [
        ("::1", "::1"),
        ("0:0:0:0:0:0:0:1", "::1"),
        ("2001:DB8::00A1", "2001:db8::a1"),
        ("10.0.0.1", "::ffff:10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("fe80::1", "fe80::1%eth0"),
    ],
)
def test_the_quota_of_an_address_applies_however_it_is_written(written: str, address: str) -> None:
    """Kafka compares addresses, and Java writes them in another form than Python."""
    known = ClientQuotas()
    known.alter([("ip", written)], [("connection_creation_rate", 5.0)], dry_run=False)
    assert known.for_address("connection_creation_rate", address) == 5.0
    [(entity, quotas)] = known.describe([FilterComponent("ip", EXACT, written)], strict=True)
    assert (len(entity), quotas) == (1, {"connection_creation_rate": 5.0})
    loaded = ClientQuotas()
    loaded.load_json([{"entity": [["ip", written]], "quotas": {"connection_creation_rate": 7.0}}])
    assert loaded.for_address("connection_creation_rate", address) == 7.0
    known.alter([("ip", address.partition("%")[0])], [("connection_creation_rate", None)], dry_run=False)
    assert not known


async def test_waiting_time_does_not_count() -> None:
    now = 0.0
    gate = asyncio.get_running_loop().create_future()

    async def work() -> str:
        nonlocal now
        now += 1
        done = str(await gate)
        now += 2
        return done

    async def measured(watch: ProcessingTimer[str]) -> str:
        return await watch

    watch = ProcessingTimer(work(), lambda: now)
    task = asyncio.ensure_future(measured(watch))
    await asyncio.sleep(0)
    assert watch.seconds == 1
    now += 100
    gate.set_result("done")
    assert await task == "done"
    assert watch.seconds == 3


async def test_cancelling_the_wrapper_cancels_the_work() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            ended.append("work")

    async def measured() -> None:
        await ProcessingTimer(work())

    task = asyncio.ensure_future(measured())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended == ["work"]


# ---- over the wire


@asynccontextmanager
async def limited(**values: float) -> AsyncIterator[tuple[Broker, VirtualClock, Wire]]:
    """Start a broker where clients with the client id ``test`` have quotas."""
    clock = VirtualClock()
    async with Broker(clock=clock) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        await set_quota(wire, {"client-id": "test"}, **values)
        yield broker, clock, wire


async def set_quota(wire: Wire, entity: dict[str, str | None], **values: float) -> None:
    entry = AlterClientQuotasRequestEntryData(
        entity=[EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()],
        ops=[OpData(key=key, value=value, remove=False) for key, value in values.items()],
    )
    answer = await wire.ask(AlterClientQuotasRequest(entries=[entry], validate_only=False))
    assert answer.entries[0].error_code == 0, answer.entries[0].error_message


async def heard_after(wire: Wire, clock: VirtualClock, seconds: float) -> None:
    """Assert that no response arrives until the clock has advanced by ``seconds``."""
    wire.send(MetadataRequest(topics=[]), 9)
    await clock.advance(seconds - 0.01)
    answer = asyncio.ensure_future(wire.frame())
    await clock.advance(0)
    assert not answer.done()
    await clock.advance(0.02)
    await answer


async def test_a_producer_above_its_quota_is_throttled() -> None:
    async with limited(producer_byte_rate=1000) as (broker, clock, wire):
        request = produce_request("t", batch([bytes(15_000)]))
        response = await wire.ask(request, 9)
        # The record is stored all the same.
        assert response.responses[0].partition_responses[0].error_code == 0
        size = len(request.encode(9))
        assert response.throttle_time_ms == pytest.approx(size - 10_000, abs=40)
        await heard_after(wire, clock, response.throttle_time_ms / 1000)
        # Other clients aren't throttled.
        async with connect(broker) as other:
            assert (await other.ask(MetadataRequest(topics=[]), 9)).throttle_time_ms == 0


async def test_a_consumer_above_its_quota_gets_an_empty_response_and_is_throttled() -> None:
    async with limited(consumer_byte_rate=1000) as (_, clock, wire):
        for _ in range(10):
            assert (await wire.ask(produce_request("t", batch([bytes(2900)])), 9)).throttle_time_ms == 0
        first = await wire.ask(fetch_request("t"), 11)
        # The response has no more than the windows allow.
        assert (len(records_of(first)), first.throttle_time_ms) == (3, 0)
        second = await wire.ask(fetch_request("t", offset=3), 11)
        assert records_of(second) == []
        assert second.throttle_time_ms > 0
        await heard_after(wire, clock, second.throttle_time_ms / 1000)
        # The earlier records count until their window is over.
        await clock.advance(11)
        third = await wire.ask(fetch_request("t", offset=3), 11)
        assert (len(records_of(third)), third.throttle_time_ms) == (3, 0)


async def test_a_throttled_fetch_creates_no_session() -> None:
    config = {"max.incremental.fetch.session.cache.slots": 2}
    async with Broker(clock=VirtualClock(), config=config) as broker, connect(broker) as other:
        await broker.create_topic("t")
        await other.ask(produce_request("t", batch([bytes(5000)])), 9)
        session_id = (await other.ask(fetch_request("t", session_epoch=0), 11)).session_id
        await set_quota(other, {"client-id": "test"}, consumer_byte_rate=1)
        for _ in range(2):
            async with connect(broker) as wire:
                full = await wire.ask(fetch_request("t", session_epoch=0), 11)
                assert full.throttle_time_ms > 0
                assert (full.session_id, full.responses) == (0, [])
        await set_quota(other, {"client-id": "test"}, consumer_byte_rate=1_000_000_000)
        following = await other.ask(fetch_request("t", session_id=session_id, session_epoch=1), 11)
        assert (following.error_code, following.session_id) == (0, session_id)


@pytest.mark.parametrize("version", [5, 6])
async def test_the_rate_of_topic_creations_is_limited(version: int) -> None:
    """From v6 on the excess is refused. Before v6 the client has to pause (KIP-599)."""

    def asking(name: str) -> CreateTopicsRequest:
        topic = CreatableTopic(name=name, num_partitions=15, replication_factor=1)
        return CreateTopicsRequest(topics=[topic])

    async with limited(controller_mutation_rate=1) as (_, clock, wire):
        first = await wire.ask(asking("a"), version)
        assert first.topics[0].error_code == 0
        if version == 5:
            assert first.throttle_time_ms == 4000
            await heard_after(wire, clock, 4)
            return
        assert first.throttle_time_ms == 0
        second = await wire.ask(asking("b"), version)
        assert second.topics[0].error_code == ErrorCode.THROTTLING_QUOTA_EXCEEDED
        assert second.throttle_time_ms == 4000
        await heard_after(wire, clock, 4)
        assert (await wire.ask(asking("b"), version)).topics[0].error_code == 0


async def test_the_rate_of_connections_is_limited() -> None:
    clock = VirtualClock()
    async with Broker(clock=clock) as broker:
        async with connect(broker) as wire:
            await set_quota(wire, {"ip": "127.0.0.1"}, connection_creation_rate=1)
        for number in range(11):
            async with connect(broker) as wire:
                if number < 10:
                    await wire.ask(MetadataRequest(topics=[]), 9)
                    continue
                end = asyncio.ensure_future(wire.closed())
                while not end.done():
                    await clock.advance(0.2)
                assert await end


async def test_quotas_survive_a_restart(tmp_path: Any) -> None:
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        await set_quota(wire, {"client-id": "test"}, producer_byte_rate=1000)
    async with Broker(data_dir=tmp_path, clock=VirtualClock()) as broker, connect(broker) as wire:
        assert (await wire.ask(produce_request("t", batch([bytes(15_000)])), 9)).throttle_time_ms > 0
