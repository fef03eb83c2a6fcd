"""The clients on an embedded broker with the quirks of other implementations (docs/compatibility.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Broker, Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.broker.request_context import CloseConnection
from aiokproto.client import Client
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.fetch import FetchRequest, FetchResponse
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataResponse
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest
from aiokproto.codec.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest
from aiokproto.codec.messages.produce import ProduceRequest, ProduceResponse
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, KafkaError, UnsupportedVersionError
from aiokproto.types import TopicPartition
from tests.net.waiting import until
from tests.other_brokers.profiles import (
    EVENT_HUBS,
    EVENT_HUBS_OF_2019,
    QUIRKS,
    VERSIONS,
    WARPSTREAM,
    Renumbered,
    change,
    close_on_new_api_versions,
    current_epochs,
    epoch_unknown_until_written,
    only_gzip,
)
from tests.other_brokers.workload import (
    VALUES,
    commit_in_transaction,
    consume,
    consume_in_turn,
    produce,
    read_across_a_move,
    transact,
)

EVERYTHING = dict.fromkeys(range(100), "0+")
"""The versions that the embedded broker serves anyway."""


@asynccontextmanager
async def serving(*quirks: Callable[[Cluster], object], brokers: int = 1, **options: Any) -> AsyncIterator[Cluster]:
    """A cluster with quirks, and a topic ``t`` of three partitions."""
    async with Cluster(brokers, **options) as cluster:
        await cluster.create_topic("t", 3)
        for quirk in quirks:
            quirk(cluster)
        yield cluster


async def use(servers: str, protocol: str = "classic", **producer: Any) -> None:
    """Produce, read, and read with a group."""
    assert await produce(servers, "t", **producer) == len(VALUES)
    assert await consume(servers, "t") == sorted(VALUES)
    assert await consume_in_turn(servers, "t", group_protocol=protocol) == sorted(VALUES)


# ---- each quirk alone


@pytest.mark.parametrize("quirk", QUIRKS.values(), ids=QUIRKS)
async def test_producer_consumer_and_group(quirk: Callable[[Cluster], object]) -> None:
    async with serving(quirk) as cluster:
        await use(cluster.bootstrap_servers)


@pytest.mark.parametrize("quirk", QUIRKS.values(), ids=QUIRKS)
async def test_transactions(quirk: Callable[[Cluster], object]) -> None:
    async with serving(quirk) as cluster:
        await transact(cluster.bootstrap_servers, "t")
        found = await consume(cluster.bootstrap_servers, "t", isolation_level="read_committed")
        assert found == sorted(VALUES)
        assert await commit_in_transaction(cluster.bootstrap_servers, "t") == 7


@pytest.mark.parametrize("quirk", [quirk for name, quirk in QUIRKS.items() if name != "no topic ids"])
async def test_groups_of_the_consumer_protocol(quirk: Callable[[Cluster], object]) -> None:
    """Assignments have topic ids, so such groups don't exist without topic ids."""
    async with serving(quirk) as cluster:
        await use(cluster.bootstrap_servers, "consumer")


async def test_all_quirks_at_once() -> None:
    async with serving(*QUIRKS.values()) as cluster:
        await use(cluster.bootstrap_servers)
        assert await commit_in_transaction(cluster.bootstrap_servers, "t") == 7


# ---- the versions of other implementations


@pytest.mark.parametrize("versions", VERSIONS.values(), ids=VERSIONS)
async def test_the_versions_of_an_implementation(versions: Any) -> None:
    async with serving(as_version=versions) as cluster:
        await use(cluster.bootstrap_servers, enable_idempotence=22 in versions)


async def test_event_hubs() -> None:
    """The broker has these versions, and closes the connection on others."""
    async with serving(close_on_new_api_versions, only_gzip, as_version={**EVENT_HUBS, 18: "0-5"}) as cluster:
        await use(cluster.bootstrap_servers, compression_type="gzip")
        with pytest.raises(BrokerError, match="UNSUPPORTED_FOR_MESSAGE_FORMAT"):
            await produce(cluster.bootstrap_servers, "t", compression_type="zstd")


async def test_without_producer_ids_idempotence_is_off_unless_it_is_required() -> None:
    async with serving(as_version=EVENT_HUBS_OF_2019) as cluster:
        assert await produce(cluster.bootstrap_servers, "t") == len(VALUES)
        with pytest.raises(UnsupportedVersionError, match="idempotence"):
            await produce(cluster.bootstrap_servers, "t", enable_idempotence=True)


async def test_without_transactions_the_error_names_the_api() -> None:
    async with serving(as_version=EVENT_HUBS) as cluster:
        with pytest.raises(KafkaError, match="AddPartitionsToTxn"):
            await transact(cluster.bootstrap_servers, "t")


async def test_without_an_api_for_administration_the_call_fails_and_the_client_goes_on() -> None:
    async with (
        serving(as_version={**WARPSTREAM, 32: "none"}) as cluster,
        Client(bootstrap_servers=cluster.bootstrap_servers) as client,
    ):
        resource = DescribeConfigsResource(resource_type=2, resource_name="t", configuration_keys=None)
        with pytest.raises(UnsupportedVersionError, match="DescribeConfigs"):
            await client.request(DescribeConfigsRequest(resources=[resource]))
        assert (await client.request(ListGroupsRequest())).error_code == 0


@pytest.mark.parametrize(
    "versions", [{10: "0"}, {10: "0", 3: "0-1"}, {1: "4-4"}, {1: "12"}, {9: "0-7", 8: "2-2"}, {0: "9-9", 1: "13-13"}]
)
async def test_odd_version_ranges(versions: dict[int, str]) -> None:
    """It coordinates only groups, has a single version, or has an old API beside new ones."""
    async with serving(as_version=EVERYTHING | versions) as cluster:
        await use(cluster.bootstrap_servers)


# ---- brokers that change

ANONYMOUS = EVERYTHING | {18: "0-4"}
"""From version 5 on, ApiVersions says which broker the client expects (KIP-1242): the embedded one would refuse."""


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
async def test_node_ids_that_are_new_in_every_response(protocol: str) -> None:
    """WarpStream's agents come and go behind one address, and any of them serves every partition."""
    async with serving(Renumbered(), as_version=ANONYMOUS) as cluster:
        await use(cluster.bootstrap_servers, protocol, metadata_max_age_ms=20)
        await transact(cluster.bootstrap_servers, "t")


async def test_a_consumer_goes_on_while_node_ids_change() -> None:
    async with (
        serving(Renumbered(), as_version=ANONYMOUS) as cluster,
        Consumer(
            "t", bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", metadata_max_age_ms=20
        ) as consumer,
        Producer(bootstrap_servers=cluster.bootstrap_servers, metadata_max_age_ms=20) as producer,
    ):
        seen = []
        with cluster.faults.watch(MetadataRequest) as refreshes:
            for number, value in enumerate(VALUES[:10]):
                await producer.send("t", value)
                seen.append((await anext(consumer)).value)
                await refreshes.wait(number * 2)
        assert seen == VALUES[:10]


async def test_a_leader_that_is_not_among_the_brokers() -> None:
    """The first responses name a leader whose address they leave out."""
    left = [3]

    def missing(response: MetadataResponse, info: RequestInfo) -> None:
        if response.topics and left[0]:
            left[0] -= 1
            for partition in response.topics[0].partitions:
                partition.leader_id = 77

    async with serving(change(MetadataRequest, missing)) as cluster:
        await use(cluster.bootstrap_servers)
    assert left == [0]


async def test_no_brokers_and_no_topics_in_the_first_responses() -> None:
    left = [4]

    def empty(response: MetadataResponse, info: RequestInfo) -> None:
        if left[0]:
            left[0] -= 1
            response.brokers, response.topics = ([], []) if left[0] % 2 else (response.brokers, [])

    async with serving(change(MetadataRequest, empty)) as cluster:
        await use(cluster.bootstrap_servers)
    assert left == [0]


async def test_leader_epochs_that_go_back() -> None:
    """A restored cluster counts its epochs from an older one, and another broker leads."""
    async with serving(brokers=2) as cluster:
        producer = Producer(bootstrap_servers=cluster.bootstrap_servers)
        async with producer:
            await producer.send("t", VALUES[0], partition=0)
            for _ in range(6):
                await cluster.move_leader("t", 0)
            await producer.send("t", VALUES[1], partition=0)

            def restored(response: MetadataResponse, info: RequestInfo) -> None:
                for topic in response.topics:
                    topic.partitions[0].leader_epoch = 1

            await cluster.move_leader("t", 0)
            change(MetadataRequest, restored)(cluster)
            change(ProduceRequest, _without_hint)(cluster)
            await asyncio.wait_for(producer.send("t", VALUES[2], partition=0), 30)
        assert cluster.partition("t", 0).end_offset == 3


async def test_a_leader_that_knows_no_epoch_before_it_writes_does_not_reset_consumers() -> None:
    async with serving(epoch_unknown_until_written, brokers=2) as cluster:
        asked = cluster.faults.watch(OffsetForLeaderEpochRequest)
        servers = cluster.bootstrap_servers
        assert await read_across_a_move(servers, "t", lambda: cluster.move_leader("t", 0)) == VALUES
        assert asked.count


async def test_the_leaders_epoch_of_today_with_the_first_offset() -> None:
    """The records have older epochs. After a restart they are neither read again nor taken for a truncated log."""
    async with serving(current_epochs, brokers=2) as cluster:
        servers = cluster.bootstrap_servers
        async with Producer(bootstrap_servers=servers) as producer:
            for value in VALUES[:4]:
                await producer.send("t", value, partition=0)
        for _ in range(3):
            await cluster.move_leader("t", 0)
        options: Any = {"bootstrap_servers": servers, "group_id": "g", "auto_offset_reset": "none"}
        async with Consumer(**options) as consumer:
            consumer.assign(("t", 0))
            consumer.seek_to_beginning(("t", 0))
            assert [(await anext(consumer)).value for _ in range(2)] == VALUES[:2]
            await consumer.commit()
        async with Consumer(**options) as consumer:
            consumer.assign(("t", 0))
            assert [(await anext(consumer)).value for _ in range(2)] == VALUES[2:4]
            consumer.seek_to_time(0, ("t", 0))
            assert (await anext(consumer)).value == VALUES[0]


def _without_hint(response: ProduceResponse, info: RequestInfo) -> None:
    response.node_endpoints = []
    for topic in response.responses:
        for partition in topic.partition_responses:
            partition.current_leader.leader_id = partition.current_leader.leader_epoch = -1


# ---- error codes and limits


@pytest.mark.parametrize("api", [MetadataRequest, ProduceRequest, FetchRequest, OffsetCommitRequest])
async def test_an_error_code_that_no_table_has_is_reported_with_its_number(api: Any) -> None:
    """Services have codes of their own. They end the call, not the client."""

    def unknown(response: Any, info: RequestInfo) -> None:
        if isinstance(response, MetadataResponse):
            for topic in response.topics:
                topic.error_code = 9999
        elif isinstance(response, ProduceResponse):
            response.responses[0].partition_responses[0].error_code = 9999
        elif isinstance(response, FetchResponse):
            for each in response.responses:
                for part in each.partitions:
                    part.error_code, part.records = 9999, None
        else:
            response.topics[0].partitions[0].error_code = 9999

    async with serving() as cluster:
        servers = cluster.bootstrap_servers
        await produce(servers, "t")
        async with (
            Producer(bootstrap_servers=servers) as producer,
            Consumer(bootstrap_servers=servers, group_id="g", auto_offset_reset="earliest") as consumer,
        ):
            consumer.assign(("t", 0))
            change(api, unknown)(cluster)
            error = await _failure(api, producer, consumer)
            assert "9999" in str(error)
            cluster.faults.clear()
            await producer.send("t", b"v", partition=0)
            await consumer.commit({TopicPartition("t", 0): 1})


async def _failure(api: Any, producer: Producer, consumer: Consumer) -> KafkaError | None:
    if api is OffsetCommitRequest:
        (outcome,) = (await consumer.commit({TopicPartition("t", 0): 1})).outcomes.values()
        return outcome.error
    try:
        await (anext(consumer) if api is FetchRequest else producer.send("t", b"v", partition=0))
    except KafkaError as error:
        return error
    return None


async def test_a_group_that_the_coordinator_does_not_know_has_committed_nothing() -> None:
    async with serving() as cluster:
        async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
            await producer.send("t", b"v", partition=0)
        cluster.faults.fail(OffsetFetchRequest, ErrorCode.GROUP_ID_NOT_FOUND)
        async with Consumer(
            bootstrap_servers=cluster.bootstrap_servers, group_id="g", auto_offset_reset="earliest"
        ) as consumer:
            consumer.assign(("t", 0))
            assert (await anext(consumer)).offset == 0
            assert await consumer.committed(("t", 0)) == {TopicPartition("t", 0): None}


@pytest.mark.parametrize(
    ("api", "code"),
    [
        (ProduceRequest, ErrorCode.REQUEST_TIMED_OUT),
        (ProduceRequest, ErrorCode.THROTTLING_QUOTA_EXCEEDED),
        (FetchRequest, ErrorCode.UNKNOWN_SERVER_ERROR),
        (JoinGroupRequest, ErrorCode.REQUEST_TIMED_OUT),
        (JoinGroupRequest, ErrorCode.UNKNOWN_SERVER_ERROR),
        (HeartbeatRequest, ErrorCode.REQUEST_TIMED_OUT),
        (FindCoordinatorRequest, ErrorCode.REQUEST_TIMED_OUT),
        (MetadataRequest, ErrorCode.REQUEST_TIMED_OUT),
        (OffsetCommitRequest, ErrorCode.REQUEST_TIMED_OUT),
        (OffsetFetchRequest, ErrorCode.REQUEST_TIMED_OUT),
    ],
    ids=str,
)
async def test_a_broker_that_is_busy_or_stopping_is_asked_again(api: Any, code: ErrorCode) -> None:
    """Bufstream responds so while it stops, and services when their limits are reached."""
    async with serving() as cluster:
        cluster.faults.fail(api, code, times=2)
        await use(cluster.bootstrap_servers)


async def test_every_response_carries_a_throttle_time() -> None:
    """Services with a quota throttle. The client waits before its next request on the connection."""

    async def throttled(info: RequestInfo, serve: Serve) -> Response | None:
        response: Any = await serve(info.request)
        if response is not None and hasattr(response, "throttle_time_ms"):
            response.throttle_time_ms = 3
        return response  # type: ignore[no-any-return]

    async with serving() as cluster:
        cluster.faults.intercept([ProduceRequest, FetchRequest, MetadataRequest, JoinGroupRequest], throttled)
        await use(cluster.bootstrap_servers)


async def test_connections_that_are_closed_between_requests() -> None:
    """A load balancer does so with idle connections, and a service does at its limit of connections."""
    async with serving() as cluster:
        for api in (MetadataRequest, FindCoordinatorRequest, ProduceRequest, FetchRequest, OffsetCommitRequest):
            cluster.faults.cut(api, times=2)
        await use(cluster.bootstrap_servers)


async def test_a_load_balancer_closes_every_connection_while_its_broker_is_away() -> None:
    """A broker of 0.8 does so on ApiVersions, but this one comes back, with idempotence and everything else."""
    closed: list[str] = []

    async def away(info: RequestInfo, serve: Serve) -> Response | None:
        closed.append(type(info.request).__name__)
        raise CloseConnection("the broker is away")

    async with serving() as cluster:
        options: Any = {"bootstrap_servers": cluster.bootstrap_servers, "reconnect_backoff_max_ms": 50}
        running, starting = Producer(**options), Producer(**options)
        async with running:
            await running.send("t", VALUES[0])
            cluster.faults.intercept(None, away)
            start = asyncio.create_task(starting.start())
            sent = asyncio.create_task(running.send("t", VALUES[1]))
            await until(lambda: closed.count("ListOffsetsRequest") >= 4)
            assert not start.done()
            assert not sent.done()
            cluster.faults.clear()
            await asyncio.gather(start, sent)
            try:
                assert starting.config.idempotent
                await starting.send("t", VALUES[2])
            finally:
                await starting.close()
        assert await consume(cluster.bootstrap_servers, "t", 3) == sorted(VALUES[:3])


async def test_the_client_id_reaches_the_broker_as_it_is() -> None:
    """WarpStream and Bufstream read the zone from it."""
    seen = set()

    async def look(info: RequestInfo, serve: Serve) -> Response | None:
        seen.add(info.client_id)
        return await serve(info.request)

    zone = "app,ws_az=eu-west-1a,ws_si=1"
    async with Broker() as broker:
        broker.faults.intercept(None, look)
        await produce(broker.bootstrap_servers, "t", client_id=zone)
    assert seen == {zone}
