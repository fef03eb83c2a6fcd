"""The cluster client against scripted brokers: metadata, routing, retries, closing."""

from __future__ import annotations

import asyncio
import random
import re
from typing import Any

import pytest

from aiokproto.cluster import ClusterClient, CoordinatorKind
from aiokproto.cluster.backoff import Backoff
from aiokproto.cluster.broker_lookup import RetryState
from aiokproto.cluster.metadata import UNKNOWN_LIMIT, metadata_request
from aiokproto.cluster.snapshot import BrokerNode
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.create_topics import CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse
from aiokproto.codec.messages.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from aiokproto.codec.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.codec.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.produce import NodeEndpoint, ProduceRequest
from aiokproto.codec.schema import Request
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    BrokerConnectionError,
    ClientClosedError,
    DeadlineError,
    InvalidTopicError,
    KafkaError,
    UnknownTopicError,
    UnsupportedVersionError,
    error_for,
)
from aiokproto.failures import Situation
from tests.cluster.fake import VERSIONS, brokers, started
from tests.net.peer import Answer, HangUp, Peer, config, peer
from tests.net.waiting import held_port, until
from tests.patience import PATIENCE

BEAT = HeartbeatRequest(group_id="g", generation_id=1, member_id="m")


def requests_to(running: Peer, request_type: type) -> list[object]:
    return [request for request, _ in running.requests if isinstance(request, request_type)]


# --- Metadata ---


@pytest.mark.parametrize(
    ("names", "version", "topics", "create"),
    [(None, 0, 0, True), (None, 1, None, True), ([], 12, 0, False), (["a"], 3, 1, True), (["a"], 4, 1, False)],
)
def test_metadata_request_by_version(names: list[str] | None, version: int, topics: int | None, create: bool) -> None:
    """ "All" was an empty list in version 0; before version 4 the broker alone decides about creation."""
    request = metadata_request(names, False, version)
    assert (None if request.topics is None else len(request.topics)) == topics
    assert request.allow_auto_topic_creation is create
    request.encode(version)


async def test_metadata_is_requested_only_for_topics_in_use() -> None:
    async with brokers() as (fake, (broker,)), started(broker.port) as cluster:
        fake.leaders = {"a": [(1, 0)], "b": [(1, 0)]}
        assert (await cluster.topic("a")).partitions[0].leader == 1
        assert list(cluster.snapshot.topics) == ["a"]
        before = len(fake.metadata_requests)
        await cluster.topic("a")
        assert len(fake.metadata_requests) == before, "in the snapshot: no request is sent"
        assert sorted(await cluster.topics(None)) == ["a", "b"]
        assert list(cluster.snapshot.topics) == ["a"], "not in use: left out"
        wanted = [[topic.name for topic in request.topics or []] for request in fake.metadata_requests]
        assert wanted == [[], ["a"], []]
        assert fake.metadata_requests[-1].topics is None


async def test_concurrent_calls_for_many_topics_share_requests() -> None:
    async with brokers() as (fake, (broker,)), started(broker.port) as cluster:
        fake.leaders = {f"t{number}": [(1, 0)] for number in range(50)}
        await asyncio.gather(*(cluster.topic(name) for name in fake.leaders for _ in range(3)))
        assert len(fake.metadata_requests) <= 4


async def test_a_topic_that_does_not_exist() -> None:
    """One response without it is not enough; several in a row are, also while new calls for it arrive."""
    async with brokers() as (fake, (broker,)), started(broker.port) as cluster:
        results = await asyncio.gather(*(cluster.topic("no") for _ in range(20)), return_exceptions=True)
        assert {type(result) for result in results} == {UnknownTopicError}
        assert "topic 'no': UNKNOWN_TOPIC_OR_PARTITION" in str(results[0])
        assert len(fake.metadata_requests) == 1 + UNKNOWN_LIMIT


async def test_a_topic_that_brokers_learn_of_late() -> None:
    async with brokers() as (fake, (broker,)), started(broker.port) as cluster:
        fake.from_request(3, lambda: fake.leaders.update(late=[(1, 0)]))
        assert (await cluster.topic("late")).name == "late"
        assert len(fake.metadata_requests) == 3


async def test_the_pause_before_a_new_metadata_request_is_shorter_than_after_a_failure() -> None:
    """A broker that responds gets the next request soon, however long the backoff after failures is."""
    async with (
        brokers() as (fake, (broker,)),
        started(broker.port, retry_backoff=600.0, retry_backoff_max=600.0) as cluster,
    ):
        fake.from_request(4, lambda: fake.leaders.update(late=[(1, 0)]))
        assert (await cluster.topic("late")).name == "late"


async def test_a_topic_whose_leader_is_being_elected_is_waited_for() -> None:
    async with brokers() as (fake, (broker,)), started(broker.port) as cluster:
        fake.errors["new"] = 5
        wanted = asyncio.ensure_future(cluster.topic("new", create=True))
        await until(lambda: len(fake.metadata_requests) >= UNKNOWN_LIMIT + 3)
        assert not wanted.done()
        fake.errors.clear()
        fake.leaders["new"] = [(1, 0)]
        await wanted
        assert {request.allow_auto_topic_creation for request in fake.metadata_requests[1:]} == {True}


@pytest.mark.parametrize("name", ["b d", "\ud800"])
async def test_an_invalid_topic_is_an_error_at_once_that_is_not_asked_for_and_forgotten(name: str) -> None:
    async with brokers() as (fake, (broker,)), started(broker.port) as cluster:
        with pytest.raises(InvalidTopicError, match=re.escape(f"topic {name!r}")):
            await cluster.topic(name)
        asked = {topic.name for request in fake.metadata_requests for topic in request.topics or ()}
        assert name not in asked
        generation = cluster.snapshot.generation
        cluster.metadata.invalidate("test")
        await cluster.metadata.wait_for_update(generation)
        assert fake.metadata_requests[-1].topics == []


async def test_the_deadline_error_for_a_topic_names_the_last_response() -> None:
    async with brokers() as (fake, (broker,)), started(broker.port) as cluster:
        fake.errors["t"] = 5
        patient = asyncio.ensure_future(cluster.topic("t"))
        await until(lambda: "t" in cluster.metadata._errors)
        with pytest.raises(
            DeadlineError, match=r"topics \['t'\] were not found in 0.02 s; last: .*LEADER_NOT_AVAILABLE"
        ):
            await cluster.topic("t", timeout=0.02)
        patient.cancel()
        await asyncio.wait([patient])


async def test_many_invalidations_cause_one_refresh() -> None:
    async with brokers() as (fake, (broker,)), started(broker.port) as cluster:
        generation = cluster.snapshot.generation
        for number in range(100):
            cluster.metadata.invalidate(f"reason {number}")
        assert (await cluster.metadata.wait_for_update(generation)).generation == generation + 1
        assert len(fake.metadata_requests) == 2


async def test_metadata_is_refreshed_after_its_maximum_age() -> None:
    async with brokers() as (fake, (broker,)), started(broker.port, metadata_max_age=0.01):
        await until(lambda: len(fake.metadata_requests) >= 3)


async def test_metadata_is_refreshed_until_every_partition_has_a_leader() -> None:
    async with brokers() as (fake, (broker,)), started(broker.port) as cluster:
        fake.leaders["t"] = [(-1, 3)]
        await cluster.topic("t")
        assert cluster.snapshot.leader("t", 0) is None
        fake.leaders["t"] = [(1, 4)]
        while cluster.snapshot.leader("t", 0) is None:
            await cluster.metadata.wait_for_update(cluster.snapshot.generation)
        assert cluster.snapshot.leader_epoch("t", 0) == 4


async def test_a_topic_that_goes_away_and_comes_back() -> None:
    """It leaves the snapshot only after several responses without it, and is still looked for."""
    async with brokers() as (fake, (broker,)), started(broker.port) as cluster:
        fake.leaders["t"] = [(1, 0)]
        await cluster.topic("t")
        del fake.leaders["t"]
        before = len(fake.metadata_requests)
        cluster.metadata.invalidate("test")
        while "t" in cluster.snapshot.topics:
            await cluster.metadata.wait_for_update(cluster.snapshot.generation)
        assert len(fake.metadata_requests) == before + UNKNOWN_LIMIT
        fake.leaders["t"] = [(1, 0)]
        cluster.metadata.invalidate("test")
        await cluster.metadata.wait_for_update(cluster.snapshot.generation)
        assert "t" in cluster.snapshot.topics


async def test_a_leader_hint_is_applied_at_once() -> None:
    async with brokers(2) as (fake, (broker, _)), started(broker.port) as cluster:
        fake.leaders["t"] = [(1, 0)]
        await cluster.topic("t")
        assert cluster.metadata.update_leader("t", 0, 2, 1)
        assert cluster.snapshot.leader("t", 0) == 2
        assert not cluster.metadata.update_leader("t", 0, 1, 0)


async def test_a_leader_hint_can_name_a_broker_that_the_metadata_does_not_list() -> None:
    def endpoint(node_id: int, host: str = "h", port: int = 9092) -> NodeEndpoint:
        return NodeEndpoint(node_id=node_id, host=host, port=port, rack="r")

    async with brokers(1) as (fake, (broker,)), started(broker.port) as cluster:
        fake.leaders["t"] = [(1, 0)]
        await cluster.topic("t")
        for unusable in (endpoint(2, host=""), endpoint(2, port=0), endpoint(2, port=1 << 16), endpoint(3)):
            assert not cluster.metadata.update_leader("t", 0, 2, 1, [unusable])
        assert not cluster.metadata.update_leader("t", 0, 2, 0, [endpoint(2)]), "an old epoch"
        assert 2 not in cluster.snapshot.brokers
        assert cluster.metadata.update_leader("t", 0, 2, 1, [endpoint(2)])
        assert cluster.snapshot.brokers[2] == BrokerNode(2, "h", 9092, "r")
        assert cluster.snapshot.leader("t", 0) == 2


async def test_a_cluster_whose_brokers_were_replaced_is_found_by_the_bootstrap_addresses() -> None:
    """All known brokers are gone; the bootstrap address leads to new ones (KIP-899)."""
    with held_port() as port:
        async with brokers() as (fake, (first,)):
            async with brokers(port=port) as (old, (gone,)):
                fake.brokers = old.brokers
                cluster = ClusterClient(config(bootstrap_servers=(("127.0.0.1", first.port),)))
                await cluster.start()
                assert cluster.snapshot.brokers[1].port == gone.port
            try:
                fake.brokers = {7: first.port}
                cluster.metadata.invalidate("test")
                while 7 not in cluster.snapshot.brokers:
                    await cluster.metadata.wait_for_update(cluster.snapshot.generation)
                assert (await cluster.send(BEAT, 7)).error_code == 0
                with pytest.raises(BrokerConnectionError, match=r"broker 1 is not known \(known: \[7\]\)"):
                    await cluster.send(BEAT, 1)
            finally:
                await cluster.close()


# --- Requests ---


async def test_concurrent_requests_share_one_connection_attempt() -> None:
    async with brokers(2) as (_, (first, second)), started(first.port) as cluster:
        await asyncio.gather(*(cluster.send(BEAT, 2) for _ in range(30)))
        assert second.connections == 1


async def test_each_channel_has_its_own_connection() -> None:
    async with (
        brokers(2, {ListGroupsRequest: lambda request, version: None}) as (_, (first, second)),
        started(first.port) as cluster,
    ):
        waiting = asyncio.ensure_future(cluster.send(ListGroupsRequest(), 2, channel="fetch"))
        await until(lambda: bool(requests_to(second, ListGroupsRequest)))
        assert (await cluster.send(BEAT, 2)).error_code == 0
        assert second.connections == 2
        waiting.cancel()
        await asyncio.wait([waiting])


async def test_send_makes_one_attempt() -> None:
    def fails(request: object, version: int) -> None:
        raise HangUp

    async with brokers(1, {HeartbeatRequest: fails}) as (_, (broker,)), started(broker.port) as cluster:
        with pytest.raises(
            BrokerConnectionError, match=r"broker 1 \(127.0.0.1:\d+\) was lost.*Heartbeat was in flight"
        ):
            await cluster.send(BEAT, 1)
        assert len(requests_to(broker, HeartbeatRequest)) == 1


async def test_send_to_a_silent_broker_meets_its_deadline() -> None:
    async with (
        brokers(1, {HeartbeatRequest: lambda request, version: None}) as (_, (broker,)),
        started(broker.port) as cluster,
    ):
        await cluster.version(HeartbeatRequest, 1)
        with pytest.raises(DeadlineError, match=r"Heartbeat to broker 1 .*: no response in [\d.]+ s"):
            await cluster.send(BEAT, 1, timeout=0.01)


async def test_a_request_is_retried_after_lost_connections_and_retriable_errors() -> None:
    turns: list[int] = []

    def capricious(request: object, version: int) -> HeartbeatResponse:
        turns.append(1)
        if len(turns) == 1:
            raise HangUp
        return HeartbeatResponse(error_code=[14, 16, 0][len(turns) - 2])

    async with brokers(1, {HeartbeatRequest: capricious}) as (fake, (broker,)), started(broker.port) as cluster:
        fake.coordinators["g"] = 1
        assert (await cluster.request(BEAT)).error_code == 0
        assert len(turns) == 4
        lookups = len(requests_to(broker, FindCoordinatorRequest))
        assert lookups == 3, "at first, after the lost connection, after NOT_COORDINATOR"
        await cluster.coordinator(CoordinatorKind.GROUP, "g")
        assert len(requests_to(broker, FindCoordinatorRequest)) == lookups, "known"


async def test_a_response_with_a_final_error_code_is_returned() -> None:
    async with brokers(1, {HeartbeatRequest: lambda request, version: HeartbeatResponse(error_code=25)}) as (
        fake,
        peers,
    ):
        fake.coordinators["g"] = 1
        async with started(peers[0].port) as cluster:
            assert (await cluster.request(BEAT)).error_code == 25


async def test_a_request_ends_at_its_deadline() -> None:
    async with (
        brokers(1, {HeartbeatRequest: lambda request, version: HeartbeatResponse(error_code=14)}) as (fake, (broker,)),
        started(broker.port) as cluster,
    ):
        fake.coordinators["g"] = 1
        with pytest.raises(
            DeadlineError,
            match=r"^Heartbeat: (timed out after|given up after \S+ of) 0\.1 s \((1 attempt|\d+ attempts)\).*; last: ",
        ):
            await cluster.request(BEAT, timeout=0.1)


async def test_a_request_ends_before_a_pause_beyond_its_deadline_and_names_the_last_failure() -> None:
    async with brokers(1, {HeartbeatRequest: lambda request, version: HeartbeatResponse(error_code=14)}) as (
        fake,
        peers,
    ):
        fake.coordinators["g"] = 1
        async with started(peers[0].port, retry_backoff=600.0, retry_backoff_max=600.0) as cluster:
            with pytest.raises(DeadlineError) as caught:
                await cluster.request(BEAT, timeout=120)
            assert re.fullmatch(
                r"Heartbeat: given up after \d(\.\d+)? of 120 s \(1 attempt\), as the next attempt would be too late; "
                r"last: Heartbeat to broker 1: COORDINATOR_LOAD_IN_PROGRESS \(14\)",
                str(caught.value),
            )


async def test_a_timed_out_last_attempt_does_not_hide_earlier_failures() -> None:
    client = ClusterClient(config(retry_backoff=0.001, retry_backoff_max=0.001))
    until = asyncio.get_running_loop().time() + 1000

    failures: list[KafkaError] = [
        error_for(ErrorCode.NOT_COORDINATOR, "Heartbeat to broker 1"),
        DeadlineError("Heartbeat to broker 1: no response in 3 s"),
    ]

    async def attempt() -> None:
        if len(failures) == 1:
            # The next pause goes beyond the deadline.
            client.backoff = Backoff(2000, 2000, max)
        raise failures.pop(0)

    with pytest.raises(DeadlineError) as caught:
        await client._retrying("Heartbeat", Situation(coordinated=True), until, 1000, RetryState(), attempt)
    assert str(caught.value).endswith(
        "(2 attempts), as the next attempt would be too late; last: Heartbeat to broker 1: no response in 3 s; "
        "before: Heartbeat to broker 1: NOT_COORDINATOR (16)"
    )


async def test_concurrent_requests_share_one_lookup_of_a_coordinator() -> None:
    async with brokers() as (fake, (broker,)), started(broker.port) as cluster:

        def found(request: FindCoordinatorRequest, version: int) -> FindCoordinatorResponse:
            if len(requests_to(broker, FindCoordinatorRequest)) == 4:
                fake.coordinators["g"] = 1
            return fake.coordinator(request, version)

        broker.answers[FindCoordinatorRequest.api_key] = found
        answers = await asyncio.gather(*(cluster.request(BEAT) for _ in range(10)))
        assert {answer.error_code for answer in answers} == {0}
        assert len(requests_to(broker, FindCoordinatorRequest)) == 4


async def test_a_coordinator_missing_from_the_metadata_is_added() -> None:
    async with brokers(2) as (fake, (first, second)):
        port = fake.brokers.pop(2)
        async with started(first.port) as cluster:
            assert list(cluster.snapshot.brokers) == [1]
            fake.brokers[2], fake.coordinators["g"] = port, 2
            await cluster.request(BEAT)
            assert len(requests_to(second, HeartbeatRequest)) == 1


async def test_requests_follow_the_controller_when_it_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    async with brokers(2) as (fake, peers):

        def created(request: CreateTopicsRequest, version: int) -> CreateTopicsResponse:
            running = next(one for one in peers if one.requests and one.requests[-1][0] is request)
            wrong = peers.index(running) + 1 != 2
            result = CreatableTopicResult(name="t", error_code=41 if wrong else 0, error_message=None)
            return CreateTopicsResponse(topics=[result])

        for running in peers:
            running.answers[CreateTopicsRequest.api_key] = created
        async with started(peers[0].port, retry_backoff=600.0, retry_backoff_max=600.0) as cluster:

            async def pause(seconds: float) -> None:
                """End the pause as soon as the metadata was refreshed."""
                await cluster.metadata.wait_for_update(cluster.snapshot.generation)

            fake.controller = 2
            with monkeypatch.context() as patch:
                patch.setattr("aiokproto.cluster.cluster_client.asyncio.sleep", pause)
                answer = await cluster.request(CreateTopicsRequest(topics=[], timeout_ms=1), timeout=1000, raw=True)
            assert answer.topics[0].error_code == 0
            assert [len(requests_to(running, CreateTopicsRequest)) for running in peers] == [1, 1]


async def test_a_request_to_any_broker_avoids_one_that_fails() -> None:
    async with brokers(2) as (_, (first, second)):

        def fails(request: object, version: int) -> None:
            raise HangUp

        first.answers[DescribeClusterRequest.api_key] = fails
        second.answers[DescribeClusterRequest.api_key] = lambda request, version: DescribeClusterResponse()
        async with started(first.port) as cluster:
            for _ in range(10):
                assert (await cluster.request(DescribeClusterRequest(), raw=True)).error_code == 0


async def test_negotiated_versions_are_public() -> None:
    async with brokers() as (_, (broker,)), started(broker.port) as cluster:
        assert await cluster.version(MetadataRequest, 1) == 13
        assert await cluster.version(MetadataRequest, 1, max_version=7) == 7
        assert (await cluster.broker_versions(1)).ranges[3] == (0, 13)
        with pytest.raises(UnsupportedVersionError, match=r"Produce: broker 1 .* does not support it"):
            await cluster.version(ProduceRequest, 1)


# --- The end ---


async def test_a_client_that_was_not_started_refuses_requests_and_needs_no_loop() -> None:
    cluster = ClusterClient(config())
    with pytest.raises(ClientClosedError, match="not started"):
        await cluster.topic("t")
    await cluster.close()
    await cluster.close()
    with pytest.raises(ClientClosedError):
        await cluster.start()


def test_a_cluster_client_can_be_created_outside_of_a_loop() -> None:
    ClusterClient(config())


async def test_close_ends_every_waiting_call() -> None:
    async with (
        brokers(1, {HeartbeatRequest: lambda request, version: None}) as (fake, (broker,)),
        started(broker.port) as cluster,
    ):
        fake.errors["t"] = 5
        calls = [
            asyncio.ensure_future(cluster.send(BEAT, 1, channel="held")),
            asyncio.ensure_future(cluster.topic("t")),
            asyncio.ensure_future(cluster.metadata.wait_for_update(10**9)),
            asyncio.ensure_future(cluster.request(BEAT)),
        ]
        await until(
            lambda: bool(requests_to(broker, HeartbeatRequest)) and bool(requests_to(broker, FindCoordinatorRequest))
        )
        await cluster.close()
        results = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), PATIENCE)
        assert [type(result) for result in results] == [ClientClosedError] * 4


async def test_close_while_starting() -> None:
    with held_port() as port:
        cluster = ClusterClient(config(bootstrap_servers=(("127.0.0.1", port),), bootstrap_timeout=1000))
        starting = asyncio.ensure_future(cluster.start())
        await asyncio.sleep(0)
        await cluster.close()
        with pytest.raises(ClientClosedError):
            await starting


async def test_a_failed_metadata_task_fails_every_call(caplog: pytest.LogCaptureFixture) -> None:
    async with (
        brokers(1, {HeartbeatRequest: lambda request, version: None}) as (_, (broker,)),
        started(broker.port) as cluster,
    ):
        calls = [
            asyncio.ensure_future(cluster.send(BEAT, 1, channel="held")),
            asyncio.ensure_future(cluster.metadata.wait_for_update(10**9)),
        ]
        await until(lambda: bool(requests_to(broker, HeartbeatRequest)))
        fault = RuntimeError("a fault")

        def broken(*_: object) -> None:
            raise fault

        cluster.metadata._apply = broken  # type: ignore[method-assign, assignment]
        cluster.metadata.invalidate("test")
        results = await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), PATIENCE)
        for result in results:
            assert isinstance(result, ClientClosedError)
            assert "a fault" in str(result)
            assert result.__cause__ is fault
        with pytest.raises(ClientClosedError, match="a fault") as caught:
            await cluster.topic("t")
        assert caught.value.__cause__ is fault
        assert "metadata task failed" in caplog.text


async def test_lost_brokers_are_logged_once_and_found_again(caplog: pytest.LogCaptureFixture) -> None:
    with held_port() as port:
        async with brokers(port=port) as (fake, _):
            cluster = ClusterClient(config(bootstrap_servers=(("127.0.0.1", port),)))
            await cluster.start()
        try:
            cluster.metadata.invalidate("test")
            await until(lambda: cluster.metadata._failures >= 3)
            assert caplog.text.count("metadata could not be refreshed") == 1
            generation = cluster.snapshot.generation
            async with peer(fake.answers(), port):
                await cluster.metadata.wait_for_update(generation)
                assert (await cluster.send(BEAT, 1)).error_code == 0
                await cluster.close()
        finally:
            await cluster.close()


async def test_a_broker_that_was_upgraded_is_asked_again_once_its_connection_is_lost() -> None:
    def closes(request: object, version: int) -> None:
        raise HangUp

    def no_offsets(request: object, version: int) -> ListOffsetsResponse:
        return ListOffsetsResponse()

    old: dict[type[Request[Any]], Answer] = {ApiVersionsRequest: closes, ListOffsetsRequest: no_offsets}
    async with brokers(1, old) as (fake, peers), started(peers[0].port) as cluster:
        assert (await cluster.broker_versions(1)).assumed_release == "0.8.2"
        # Recognized once: another connection costs one dial.
        before = peers[0].connections
        await cluster.broker_versions(1, channel="other")
        assert peers[0].connections == before + 1
        peers[0].answers |= {ApiVersionsRequest.api_key: VERSIONS}
        peers[0].drop_all()
        await until(lambda: cluster.pool.ready(1) is None)
        assert not (await cluster.broker_versions(1)).assumed
        assert not (await cluster.broker_versions(1, channel="third")).assumed
    assert fake.metadata_requests


# --- Cancellation and lost connections ---


@pytest.mark.parametrize("seed", range(5))
async def test_the_client_stays_usable_after_cancelled_calls_and_lost_connections(seed: int) -> None:
    """Calls are cancelled and connections closed at random moments: each call ends, and the next one works."""
    chance = random.Random(seed)

    def answers(request: HeartbeatRequest, version: int) -> HeartbeatResponse | None:
        if chance.random() < 0.05:
            raise HangUp
        return HeartbeatResponse(error_code=0)

    async with brokers(2, {HeartbeatRequest: answers}) as (fake, peers), started(peers[0].port) as cluster:
        fake.coordinators["g"] = 1
        fake.leaders["t"] = [(1, 0)]
        for _ in range(30):
            calls = [
                asyncio.ensure_future(call)
                for _ in range(4)
                for call in (cluster.request(BEAT), cluster.send(BEAT, 2), cluster.topic("t"))
            ]
            for _ in range(chance.randrange(12)):
                await asyncio.sleep(0)
            for call in calls:
                if chance.random() < 0.5:
                    call.cancel()
            if chance.random() < 0.2:
                chance.choice(peers).drop_all()
            for result in await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), PATIENCE):
                if isinstance(result, BaseException):
                    assert isinstance(result, asyncio.CancelledError | BrokerConnectionError), result
        assert (await cluster.request(BEAT)).error_code == 0
        assert (await cluster.topic("t")).name == "t"
