"""Injected faults: errors, lost, late and partial responses, limited to the requests that they name."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Broker, Cluster, RequestInfo, Serve, VirtualClock
from aiokproto.broker.control.random_faults import RandomFaults
from aiokproto.codec.entities import Entity, split
from aiokproto.codec.frames import decode_response, encode_response
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokproto.codec.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.fetch import FetchRequest
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.messages.produce import PartitionProduceData, ProduceRequest, ProduceResponse
from aiokproto.codec.refusal import refuse
from aiokproto.codec.registry import api_keys, api_name, request
from aiokproto.codec.schema import FieldSpec, Request, Response, Struct
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, ConfigurationError
from tests.broker.wire import Wire, batch, connect, fetch_request, produce, produce_request, records_of
from tests.simulation.reachable import held_items
from tests.timeouts import LONG_TIMEOUT

NOT_LEADER = ErrorCode.NOT_LEADER_OR_FOLLOWER


def two_partitions() -> ProduceRequest:
    request = produce_request("t", batch([b"zero"]))
    request.topic_data[0].partition_data.append(PartitionProduceData(index=1, records=batch([b"one"])))
    return request


def errors(response: ProduceResponse) -> dict[int, int]:
    return {
        partition.index: partition.error_code for topic in response.responses for partition in topic.partition_responses
    }


# ---- refusing


async def test_a_partition_fails_a_number_of_times_and_the_others_are_served(broker: Broker, wire: Wire) -> None:
    with broker.faults.fail(ProduceRequest, NOT_LEADER, times=2, topic="t", partition=0) as rule:
        assert errors(await wire.ask(two_partitions(), 9)) == {0: NOT_LEADER, 1: 0}
        topic_id = (await wire.ask(MetadataRequest(topics=None))).topics[0].topic_id
        by_id = two_partitions()
        by_id.topic_data[0].name, by_id.topic_data[0].topic_id = "", topic_id
        assert errors(await wire.ask(by_id, 13)) == {0: NOT_LEADER, 1: 0}
        assert errors(await wire.ask(two_partitions(), 9)) == {0: 0, 1: 0}
        assert rule.count == 2
    fetched = await wire.ask(fetch_request("t"), 11)
    assert [record.value for record in records_of(fetched)] == [b"zero"], "what was refused is not stored"
    assert [(fault.kind, fault.api, fault.version) for fault in broker.faults.log] == [
        ("fail", "Produce", 9),
        ("fail", "Produce", 13),
    ]


async def test_a_fault_ends_with_its_with_block(broker: Broker, wire: Wire) -> None:
    with broker.faults.fail(ProduceRequest, NOT_LEADER):
        assert (await produce(wire, "t", batch([b"x"]))).error_code == NOT_LEADER
    assert (await produce(wire, "t", batch([b"x"]))).error_code == 0
    broker.faults.fail(ProduceRequest, NOT_LEADER)
    broker.faults.clear()
    assert (await produce(wire, "t", batch([b"x"]))).error_code == 0


async def test_the_nth_request_fails(broker: Broker, wire: Wire) -> None:
    with broker.faults.fail(ProduceRequest, NOT_LEADER, nth=3):
        found = [(await produce(wire, "t", batch([b"x"]))).error_code for _ in range(4)]
    assert found == [0, 0, NOT_LEADER, 0]


@pytest.mark.parametrize(
    ("where", "error"),
    [
        ({"nth": 0}, "nth=0: expected a number of at least 1"),
        ({"times": 0}, "times=0: expected a number of at least 1"),
        ({"times": "2"}, "times='2': expected a whole number"),
        ({"partition": "0"}, "partition='0': expected a whole number"),
        ({"node": "0"}, "node='0': expected a whole number"),
        ({"topic": b"t"}, "topic=b't': expected text"),
        ({"group": 3}, "group=3: expected text"),
        ({"client_id": ""}, "client_id='': expected text"),
        ({"when": "always"}, "when='always': expected a function"),
    ],
)
async def test_a_condition_that_no_request_could_meet_is_refused(broker: Broker, where: Any, error: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(error)):
        broker.faults.watch(ProduceRequest, **where)
    assert broker.faults.idle


async def test_faults_that_make_no_sense_are_refused(broker: Broker) -> None:
    wrong: Any = "reply"
    with pytest.raises(ConfigurationError, match="what='reply': expected 'request' or 'response'"):
        broker.faults.drop(ProduceRequest, what=wrong)
    with pytest.raises(ConfigurationError, match="seconds=-5: expected a number of at least 0"):
        broker.faults.delay(ProduceRequest, -5)
    with pytest.raises(ConfigurationError, match="after=-1: expected a number of at least 0"):
        broker.faults.cut(ProduceRequest, after=-1)
    unknown: Any
    for unknown in (12345, 0, True, "NOT_COORDINATOR", None):
        with pytest.raises(ConfigurationError, match=f"error={unknown!r}: must be an ErrorCode"):
            broker.faults.fail(ProduceRequest, unknown)
    for unknown in (None, 7, "change"):
        with pytest.raises(ConfigurationError, match=f"function={unknown!r}: expected a coroutine function"):
            broker.faults.intercept(ProduceRequest, unknown)
    assert broker.faults.idle


async def test_a_rule_shows_its_state(broker: Broker, wire: Wire) -> None:
    with broker.faults.watch(MetadataRequest) as rule:
        assert repr(rule) == "<FaultRule watch, active, applied 0 times>"
        await wire.ask(MetadataRequest(topics=[]))
    assert repr(rule) == "<FaultRule watch, removed, applied 1 time>"


async def test_a_fetch_fails_with_and_without_a_session(broker: Broker, wire: Wire) -> None:
    request = fetch_request("t", max_wait_ms=600_000, session_epoch=0)
    full = await wire.ask(fetch_request("t", session_epoch=0, min_bytes=0), 11)
    assert full.session_id
    with broker.faults.fail(FetchRequest, NOT_LEADER, topic="t", partition=0):
        again = FetchRequest(
            replica_id=-1, max_wait_ms=600_000, min_bytes=1, session_id=full.session_id, session_epoch=1, topics=[]
        )
        assert (await wire.ask(again, 11)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND
        answer = await wire.ask(request, 11)
        assert (answer.error_code, answer.responses[0].partitions[0].error_code) == (0, NOT_LEADER)
    with broker.faults.fail(FetchRequest, ErrorCode.FETCH_SESSION_ID_NOT_FOUND):
        assert (await wire.ask(request, 11)).error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


@pytest.mark.parametrize("topics", [None, [MetadataRequestTopic(name="t"), MetadataRequestTopic(name="u")]])
async def test_metadata_without_one_topic(
    broker: Broker, wire: Wire, topics: list[MetadataRequestTopic] | None
) -> None:
    await broker.create_topic("u")
    with broker.faults.fail(MetadataRequest, ErrorCode.LEADER_NOT_AVAILABLE, topic="t"):
        answer = await wire.ask(MetadataRequest(topics=topics), 9)
    assert {topic.name: topic.error_code for topic in answer.topics} == {"t": ErrorCode.LEADER_NOT_AVAILABLE, "u": 0}
    with broker.faults.fail(MetadataRequest, ErrorCode.LEADER_NOT_AVAILABLE):
        answer = await wire.ask(MetadataRequest(topics=topics), 9)
    assert [node.node_id for node in answer.brokers] == [0]
    assert {topic.error_code for topic in answer.topics} == {ErrorCode.LEADER_NOT_AVAILABLE}


async def test_one_group_fails(broker: Broker, wire: Wire) -> None:
    with broker.faults.fail(None, ErrorCode.NOT_COORDINATOR, group="g"):
        beat = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")
        assert (await wire.ask(beat, 3)).error_code == ErrorCode.NOT_COORDINATOR
        beat.group_id = "h"
        assert (await wire.ask(beat, 3)).error_code == ErrorCode.UNKNOWN_MEMBER_ID
        described = await wire.ask(DescribeGroupsRequest(groups=["g", "h"]), 4)
        assert {group.group_id: group.error_code for group in described.groups} == {
            "g": ErrorCode.NOT_COORDINATOR,
            "h": 0,
        }


async def test_a_fault_can_be_limited_to_a_client_a_broker_or_by_a_function(broker: Broker, wire: Wire) -> None:
    broker.faults.fail(ProduceRequest, NOT_LEADER, client_id="another-client")
    broker.faults.fail(ProduceRequest, NOT_LEADER, node=7)
    broker.faults.fail(ProduceRequest, NOT_LEADER, when=lambda call: call.version == 8)
    assert (await produce(wire, "t", batch([b"x"]), version=9)).error_code == 0
    assert (await produce(wire, "t", batch([b"x"]), version=8)).error_code == NOT_LEADER


async def test_a_fault_for_a_response_without_an_error_code_closes_the_connection(broker: Broker, wire: Wire) -> None:
    with broker.faults.fail(ProduceRequest, NOT_LEADER):
        wire.send(produce_request("t", batch([b"x"]), acks=0), 9)
        assert await wire.closed()


def filled(struct: type[Struct], version: int) -> Any:
    """Return a message with one of everything."""
    out = struct()
    for spec in struct.fields():
        if version not in spec.versions:
            continue
        if spec.array:
            setattr(out, spec.name, [filled(spec.struct, version) if spec.struct else one(spec)])
        elif spec.struct:
            setattr(out, spec.name, filled(spec.struct, version))
        elif spec.kind == "string":
            setattr(out, spec.name, "x")
    return out


def one(spec: FieldSpec) -> object:
    return {"string": "x", "bytes": b"x", "uuid": b"1" * 16}.get(spec.kind, 1)


@pytest.mark.parametrize("key", api_keys(), ids=api_name)
def test_every_request_can_be_refused_in_every_version(key: int) -> None:
    message = request(key)
    for version in range(message.versions.lowest, message.versions.highest + 1):
        answer = refuse(filled(message, version), version, ErrorCode.UNSUPPORTED_VERSION, "no")
        assert answer is not None
        read = decode_response(bytes(encode_response(answer, version, 1))[4:], message.response, version)
        assert any(spec_error in str(read) for spec_error in ("error_code=35", "UNSUPPORTED_VERSION"))


@pytest.mark.parametrize("key", api_keys(), ids=api_name)
def test_splitting_a_request_loses_nothing(key: int) -> None:
    requested_message = request(key)
    message = filled(requested_message, requested_message.versions.highest)
    assert split(message, Entity(), lambda _: None) == (None, message)
    assert split(message, Entity(topic="other", group="other"), lambda _: None)[1] is None


def test_the_name_of_a_config_is_not_a_topic() -> None:
    """Only topics divide CreateTopics, so a config's name must not be taken for a topic's name."""
    topics = [CreatableTopic(name=name, configs=[CreatableTopicConfig(name="cleanup.policy")]) for name in "ab"]
    kept, hit = split(CreateTopicsRequest(topics=topics), Entity(topic="b"), lambda _: None)
    assert (kept, hit) == (CreateTopicsRequest(topics=topics[:1]), CreateTopicsRequest(topics=topics[1:]))
    assert split(CreateTopicsRequest(topics=topics), Entity(topic="cleanup.policy"), lambda _: None)[1] is None


# ---- losing, delaying, breaking off


async def test_a_request_or_its_response_can_be_dropped(broker: Broker, wire: Wire) -> None:
    for what in ("request", "response"):
        with broker.faults.drop(ProduceRequest, what, times=1):
            lost = wire.send(produce_request("t", batch([what.encode()])), 9)
            await wire.ask(ApiVersionsRequest(), 0)
            assert lost
    fetched = await wire.ask(fetch_request("t"), 11)
    assert [record.value for record in records_of(fetched)] == [b"response"]


async def test_a_connection_can_be_closed_before_the_request_or_within_the_response(broker: Broker) -> None:
    for after, stored in ((None, []), (0, [b"x"]), (7, [b"x", b"x"])):
        async with connect(broker) as wire:
            with broker.faults.cut(ProduceRequest, after=after):
                wire.send(produce_request("t", batch([b"x"])), 9)
                assert len(await asyncio.wait_for(wire.reader.read(), LONG_TIMEOUT)) == (after or 0)
        async with connect(broker) as wire:
            found = records_of(await wire.ask(fetch_request("t", min_bytes=0), 11))
            assert [record.value for record in found] == stored


async def test_a_delay_uses_the_clusters_clock() -> None:
    clock = VirtualClock()
    async with Broker(clock=clock) as broker, connect(broker) as wire, connect(broker) as other:
        with broker.faults.delay(ApiVersionsRequest, 30, client_id="test", times=1):
            wire.send(ApiVersionsRequest(), 0)
            await wire.writer.drain()
            while not broker.faults.log:
                await asyncio.sleep(0)
            assert (await other.ask(ApiVersionsRequest(), 0)).error_code == 0
            await clock.advance(30)
            assert await wire.frame()


async def test_a_function_can_change_request_and_response_or_respond_itself(broker: Broker, wire: Wire) -> None:
    async def change(call: RequestInfo, serve: Serve) -> Response | None:
        request = call.request
        assert isinstance(request, FindCoordinatorRequest)
        answer = await serve(FindCoordinatorRequest(key=request.key + "!", coordinator_keys=["other"]))
        answer.throttle_time_ms = 7  # type: ignore[union-attr]
        return answer

    async def own(call: RequestInfo, serve: Serve) -> Response | None:
        return refuse(call.request, call.version, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)

    request = FindCoordinatorRequest(coordinator_keys=["g"])
    with broker.faults.intercept(FindCoordinatorRequest, change):
        answer = await wire.ask(request, 4)
        assert ([each.key for each in answer.coordinators], answer.throttle_time_ms) == (["other"], 7)
        with broker.faults.intercept(FindCoordinatorRequest, own):
            answer = await wire.ask(request, 4)
    assert [each.error_code for each in answer.coordinators] == [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS]


# ---- at random


def call_of(client_id: str, node_id: int, request: Request[Any]) -> RequestInfo:
    return RequestInfo(request, 0, client_id, "here", node_id, lambda _: None, list, lambda _: [])


def test_a_seed_gives_the_same_faults_for_any_order_of_clients() -> None:
    calls = [call_of(client, 0, ProduceRequest()) for client in "ab" for _ in range(50)]
    one, other, another = (RandomFaults(seed, 0.5, ("fail", "cut")) for seed in (1, 1, 2))
    drawn = [one.draw(call) for call in calls]
    assert [other.draw(call) for call in calls[50:] + calls[:50]] == drawn[50:] + drawn[:50]
    assert [another.draw(call) for call in calls] != drawn
    assert {each.kind for each in drawn if each} == {"fail", "cut"}
    assert None in drawn


@pytest.mark.parametrize(("rate", "kinds"), [(1.5, ["cut"]), (0.5, []), (0.5, ["nonsense"])])
def test_invalid_probabilities_are_refused(rate: float, kinds: Any) -> None:
    with pytest.raises(ValueError, match="rate must be"):
        RandomFaults(1, rate, kinds)


async def test_random_faults_are_listed(broker: Broker, wire: Wire) -> None:
    with broker.faults.random(seed=3, rate=0.5, kinds=["fail"]):
        found = [(await produce(wire, "t", batch([b"x"]))).error_code for _ in range(20)]
    assert set(found) == {0, NOT_LEADER}
    assert [fault.kind for fault in broker.faults.log] == ["fail"] * found.count(NOT_LEADER)


# ---- the network


async def test_an_isolated_broker_is_silent_until_the_partition_ends() -> None:
    async with Cluster(2) as cluster, connect(cluster, 0) as cut, connect(cluster, 1) as fine:
        with cluster.faults.partition(0):
            cut.send(ApiVersionsRequest(), 0)
            await cut.writer.drain()
            for _ in range(3):
                assert (await fine.ask(ApiVersionsRequest(), 0)).error_code == 0
            pending = asyncio.ensure_future(cut.reader.read(4))
            await fine.ask(ApiVersionsRequest(), 0)
            assert not pending.done()
        assert await pending


async def test_a_bandwidth_limit_delays_each_byte() -> None:
    clock = VirtualClock()
    async with Broker(clock=clock) as broker, connect(broker) as wire:
        with broker.faults.slow(latency=5, bytes_per_second=10):
            others = len(clock._timers)
            wire.send(ApiVersionsRequest(), 0)
            answer = asyncio.ensure_future(wire.frame())
            for seconds in (0, 7):
                await clock.advance(seconds)
                while len(clock._timers) == others:
                    await asyncio.sleep(0)
                assert not answer.done(), "the answer is long, and as slow"
            await clock.advance(600)
            assert await answer
    with pytest.raises(ValueError, match="positive"):
        broker.faults.slow(latency=-1)


async def test_only_nodes_of_the_cluster_are_isolated_and_slowed_down() -> None:
    async with Cluster(2) as cluster:
        unknown: Any
        for unknown in (9, -1, True, "1", 1.0):
            with pytest.raises(ConfigurationError, match=f"^node={unknown!r}: "):
                cluster.faults.slow(unknown, latency=1)
            with pytest.raises(ConfigurationError, match=f"^nodes={unknown!r}: "):
                cluster.faults.partition([0, unknown])
        for unknown in (9, None, 1.0):
            with pytest.raises(ConfigurationError, match=f"^nodes={unknown!r}: "):
                cluster.faults.partition(unknown)
        with pytest.raises(ConfigurationError, match=r"^node=2: the cluster has only 0, 1$"):
            cluster.faults.slow(2)
        async with connect(cluster, 0) as wire:
            assert (await wire.ask(ApiVersionsRequest(), 0)).error_code == 0, "nothing was isolated by half"
        added = await cluster.add_broker()
        with cluster.faults.slow(added), cluster.faults.partition([added, 0]):
            pass


async def test_a_cancelled_wait_for_a_rule_leaves_nothing_behind() -> None:
    async with Broker() as broker:
        rule = broker.faults.watch(MetadataRequest)
        for _ in range(3):
            waiting = asyncio.create_task(rule.wait())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.wait([waiting])
        assert held_items({"broker": broker})["broker FaultRule._waiting"] == 0


# ---- brokers and their data


async def test_a_killed_broker_leads_until_its_failure_is_noticed() -> None:
    clock = VirtualClock()
    async with Cluster(3, clock=clock) as cluster:
        await cluster.create_topic("t", replication=3)
        victim = cluster.leader("t", 0)
        async with connect(cluster, victim) as wire:
            await produce(wire, "t", batch([b"x"]))
            await cluster.kill_broker(victim, noticed_after=9)
            assert await wire.closed()
        assert cluster.leader("t", 0) == victim
        await clock.advance(9)
        heir = cluster.leader("t", 0)
        assert heir not in (victim, -1)
        await cluster.start_broker(victim)
        with pytest.raises(ValueError, match="not running"):
            await cluster.kill_broker(9)


async def test_a_broker_that_is_removed_before_its_failure_is_noticed_leads_nothing_any_more() -> None:
    clock = VirtualClock()
    async with Cluster(2, clock=clock) as cluster:
        await cluster.create_topic("t", replication=2)
        victim = cluster.leader("t", 0)
        await cluster.kill_broker(victim, noticed_after=9)
        await cluster.remove_broker(victim)
        assert [cluster.leader("t", 0)] == cluster.broker_ids
        # No failure is left to be noticed.
        await clock.advance(9)


async def test_a_second_failure_is_noticed_by_its_own_time() -> None:
    clock = VirtualClock()
    async with Cluster(2, clock=clock) as cluster:
        await cluster.create_topic("t", replication=2)
        victim = cluster.leader("t", 0)
        await cluster.kill_broker(victim, noticed_after=9)
        await clock.advance(5)
        await cluster.start_broker(victim)
        await cluster.kill_broker(victim, noticed_after=9)
        await clock.advance(8)
        assert cluster.leader("t", 0) == victim
        await clock.advance(1)
        assert cluster.leader("t", 0) != victim


async def test_a_crash_loses_nothing_that_was_written(tmp_path: Path) -> None:
    broker = Broker(data_dir=tmp_path)
    await broker.start()
    await broker.create_topic("t")
    async with connect(broker) as wire:
        await produce(wire, "t", batch([b"x"]))
        await broker.crash()
        assert await wire.closed()
    async with Broker(data_dir=tmp_path) as broker, connect(broker) as wire:
        assert [record.value for record in records_of(await wire.ask(fetch_request("t"), 11))] == [b"x"]


async def test_a_corrupt_batch_is_served_unchanged(broker: Broker, wire: Wire) -> None:
    for value in (b"good", b"bad"):
        await produce(wire, "t", batch([value]))
    whole = (await wire.ask(fetch_request("t"), 11)).responses[0].partitions[0].records
    broker.corrupt_batch("t", 0, 1)
    damaged = (await wire.ask(fetch_request("t"), 11)).responses[0].partitions[0].records
    assert whole is not None
    assert damaged is not None
    assert (bytes(damaged[:-1]), damaged[-1]) == (bytes(whole[:-1]), whole[-1] ^ 0xFF)
    with pytest.raises(BrokerError):
        broker.corrupt_batch("t", 0, 2)


async def test_a_log_diverges(broker: Broker, wire: Wire) -> None:
    """A client that read lost records learns where their epoch ended, even after a second divergence."""
    for value in (b"a", b"b", b"c"):
        await produce(wire, "t", batch([value, value]))
    broker.diverge_log("t", 0, 4, [b"d"])
    request = fetch_request("t", 6, last_fetched_epoch=0)
    diverged = (await wire.ask(request, 12)).responses[0].partitions[0].diverging_epoch
    assert (diverged.epoch, diverged.end_offset) == (0, 4)
    for offset, values in ((0, [b"a", b"a", b"b", b"b"]), (4, [b"d"])):
        fetched = await wire.ask(fetch_request("t", offset), 12)
        assert [record.value for record in records_of(fetched)] == values
    assert (await produce(wire, "t", batch([b"e"]))).base_offset == 5
    with pytest.raises(BrokerError, match="inside of a batch"):
        broker.diverge_log("t", 0, 3)
    broker.diverge_log("t", 0, 0)
    assert (await produce(wire, "t", batch([b"f"]))).base_offset == 0
    with pytest.raises(BrokerError):
        broker.diverge_log("t", 0, 99)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_a_session_expires_on_demand(broker: Broker, wire: Wire, protocol: str) -> None:
    async def beat(member_id: str) -> int:
        if protocol == "classic":
            classic = HeartbeatRequest(group_id="g", generation_id=1, member_id=member_id)
            return (await wire.ask(classic, 3)).error_code
        return (
            await wire.ask(ConsumerGroupHeartbeatRequest(group_id="g", member_id=member_id, member_epoch=1))
        ).error_code

    if protocol == "classic":
        request = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=10_000,
            rebalance_timeout_ms=10_000,
            member_id="",
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        )
        member_id = (await wire.ask(request, 3)).member_id
    else:
        joining = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        member_id = (await wire.ask(joining)).member_id or ""
    assert await beat(member_id) != ErrorCode.UNKNOWN_MEMBER_ID
    broker.expire_session("g", member_id)
    assert await beat(member_id) == ErrorCode.UNKNOWN_MEMBER_ID
    with pytest.raises(BrokerError, match="no member"):
        broker.expire_session("g", member_id)


# ---- the clock


async def test_timers_fire_in_order_and_at_their_time() -> None:
    clock = VirtualClock(start=1000)
    seen: list[tuple[str, float]] = []

    def note(name: str) -> None:
        seen.append((name, clock.time()))

    clock.call_at(5, note, "late")
    clock.call_at(2, lambda: clock.call_at(3, note, "set meanwhile"))
    clock.call_at(4, note, "never").cancel()
    await clock.advance(4.5)
    assert (seen, clock.wall()) == ([("set meanwhile", 3)], 5500)
    await clock.advance(0.5)
    assert seen[1:] == [("late", 5)]
    clock.call_at(5, note, "due at once")
    await asyncio.sleep(0)
    assert seen[2:] == [("due at once", 5)]
    with pytest.raises(ValueError, match="-1"):
        await clock.advance(-1)


def test_cancelled_timers_do_not_wait_for_their_time() -> None:
    clock = VirtualClock()
    timers = [clock.call_at(50, print) for _ in range(300)]
    for _ in range(10_000):
        clock.call_at(50, print).cancel()
    held = held_items({"clock": clock})["clock VirtualClock._timers"]
    assert len(timers) <= held <= 2 * len(timers) + 1


# ---- together


@pytest.mark.parametrize("seed", range(3))
async def test_this_packages_client_delivers_through_random_faults(seed: int) -> None:
    """It delivers each record once: an idempotent producer and a group's consumer, three brokers, every fifth request
    hit."""
    values = [b"%d" % number for number in range(300)]
    async with Cluster(3) as cluster:
        await cluster.create_topic("t", replication=3)
        servers = cluster.bootstrap_servers
        with cluster.faults.random(seed, 0.2, ["fail", "delay", "cut"]):
            async with Producer(bootstrap_servers=servers) as producer:
                for part in range(0, len(values), 20):
                    await asyncio.gather(*[producer.send("t", value) for value in values[part : part + 20]])
            async with Consumer("t", bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer:
                found = [(await anext(consumer)).value or b"" for _ in values]
    assert sorted(found) == sorted(values)
    assert cluster.faults.log
