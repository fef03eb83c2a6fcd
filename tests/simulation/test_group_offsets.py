"""Committed offsets: a deleted topic's offsets aren't taken for another's, and an error isn't taken for no offset."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto import Client, Consumer
from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest
from aiokproto.codec.schema import Response
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ConfigurationError, KafkaError, UnknownTopicError
from aiokproto.simulation import Simulation
from aiokproto.types import TopicPartition
from tests.simulation.members import member_of, run, subscribed

FIRST = TopicPartition("t", 0)


async def create_again(cluster: Cluster) -> None:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        await client.request(DeleteTopicsRequest(topic_names=["t"], timeout_ms=5000), max_version=5)
    await cluster.create_topic("t", 2)


def test_a_commit_is_refused_for_a_topic_that_was_created_again() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed({**options, "enable_auto_commit": False}) as consumer:
            await consumer.poll(5000)
            consumer.pause()
            await create_again(cluster)
            result = await consumer.commit({FIRST: 5}, timeout_ms=5000)
            assert isinstance(result.outcomes[FIRST].error, UnknownTopicError)
            assert await consumer.committed(FIRST) == {FIRST: None}

    run(program)


def test_a_commit_is_retried_while_the_coordinator_does_not_know_the_topic() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed({**options, "enable_auto_commit": False}) as consumer:
            await consumer.poll(5000)
            cluster.faults.fail(OffsetCommitRequest, ErrorCode.UNKNOWN_TOPIC_ID, times=2)
            await consumer.commit({FIRST: 5})
            cluster.faults.fail(OffsetFetchRequest, ErrorCode.UNKNOWN_TOPIC_ID, times=2)
            committed = (await consumer.committed(FIRST))[FIRST]
            assert committed is not None
            assert committed.offset == 5

    run(program)


@pytest.mark.parametrize(("release", "form"), [(None, ("", True)), ("4.1", ("t", False)), ("2.4", ("t", False))])
def test_topics_are_sent_by_id_if_the_coordinator_supports_ids(release: str | None, form: tuple[str, bool]) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        forms: set[tuple[str, bool]] = set()

        async def note(call: RequestInfo, serve: Serve) -> Response | None:
            assert isinstance(call.request, OffsetCommitRequest)
            forms.update((topic.name, topic.topic_id != ZERO_UUID) for topic in call.request.topics)
            return await serve(call.request)

        async with subscribed({**options, "enable_auto_commit": False}) as consumer:
            await consumer.poll(5000)
            cluster.faults.intercept(OffsetCommitRequest, note)
            await consumer.commit({FIRST: 1})
            assert forms == {form}
            committed = (await consumer.committed(FIRST))[FIRST]
            assert committed is not None
            assert committed.offset == 1

    run(program, release)


def test_all_topics_are_sent_by_name_if_one_id_is_unknown() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed({**options, "enable_auto_commit": False}) as consumer:
            await consumer.poll(5000)
            await cluster.create_topic("unread", 1)
            unread = TopicPartition("unread", 0)
            committed = await consumer.committed(FIRST, unread)
            assert committed == {FIRST: None, unread: None}

    run(program)


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
@pytest.mark.parametrize(
    ("code", "raised"),
    [
        (ErrorCode.STALE_MEMBER_EPOCH, False),
        (ErrorCode.UNSTABLE_OFFSET_COMMIT, False),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, False),
        (ErrorCode.NOT_COORDINATOR, False),
        (ErrorCode.REQUEST_TIMED_OUT, False),
        (ErrorCode.UNKNOWN_MEMBER_ID, True),
        (ErrorCode.GROUP_AUTHORIZATION_FAILED, True),
        (ErrorCode.UNKNOWN_SERVER_ERROR, True),
    ],
)
def test_no_error_of_the_committed_offset_leads_to_auto_offset_reset(
    code: ErrorCode, raised: bool, protocol: str
) -> None:
    """Otherwise the position would be the end of the log, and records would be skipped."""

    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        options |= {"auto_offset_reset": "latest", "group_protocol": protocol}
        async with subscribed({**options, "auto_offset_reset": "earliest"}) as consumer:
            await consumer.poll(5000)
            await consumer.commit({("t", 0): 3, ("t", 1): 3})
            consumer.seek(("t", 0), 3)
            consumer.seek(("t", 1), 3)
        failing = cluster.faults.fail(OffsetFetchRequest, code)
        async with subscribed(options) as consumer:
            with pytest.raises(KafkaError if raised else asyncio.TimeoutError):
                await asyncio.wait_for(anext(consumer), 10)
            assert failing.count
        failing.remove()
        async with subscribed(options) as consumer:
            records = [await asyncio.wait_for(anext(consumer), 60) for _ in range(4)]
        assert sorted((record.partition, record.offset) for record in records) == [(0, 3), (0, 4), (1, 3), (1, 4)]


def test_a_commit_of_a_topic_that_is_not_subscribed_raises() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed(options) as consumer:
            with pytest.raises(ConfigurationError, match="topic 'tt' is not subscribed"):
                await consumer.commit({("tt", 0): 5})
        consumer = Consumer(**options)
        consumer.subscribe(pattern="t")
        async with consumer:
            with pytest.raises(ConfigurationError, match="topic 'tt' is not subscribed"):
                await consumer.commit({("tt", 0): 5})
            await consumer.poll(5000)
            (await consumer.commit({FIRST: 1})).check()

    run(program)


def test_a_commit_before_the_first_assignment_is_lost_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed(options) as consumer:
            result = await consumer.commit({FIRST: 1})
            assert result.lost == [FIRST]
            assert result.outcomes[FIRST].status.value == "not assigned to this member, or not any more"
            assert caplog.text.count("t-0 not committed: not assigned to this member") == 1

    run(program)


def test_a_refused_commit_is_not_repeated_for_partitions_that_others_may_have_owned_since() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        late: list[RequestInfo] = []

        async def delay(call: RequestInfo, serve: Serve) -> Response | None:
            if not late:
                late.append(call)
                await asyncio.sleep(4)
            return await serve(call.request)

        async with subscribed({**options, "enable_auto_commit": False}) as consumer:
            await consumer.poll(5000)
            cluster.faults.intercept(OffsetCommitRequest, delay)
            committing = asyncio.create_task(consumer.commit({FIRST: 1}, timeout_ms=20_000))
            reading = asyncio.create_task(consumer.poll(10_000))
            await asyncio.sleep(0.5)
            cluster.expire_session("g", member_of(cluster))
            result = await committing
            assert FIRST in consumer.assignment(), "it has the partition again"
            assert result.lost == [FIRST]
            assert await consumer.committed(FIRST) == {FIRST: None}
            await reading

    run(program)


def test_an_automatic_commit_leaves_out_the_record_that_is_being_processed() -> None:
    async def program(simulation: Simulation, cluster: Cluster, options: dict[str, Any]) -> None:
        async with subscribed({**options, "auto_commit_interval_ms": 200}) as consumer:
            for _ in range(8):
                record = await anext(consumer)
                where = TopicPartition("t", record.partition)
                await asyncio.sleep(1)
                found = (await consumer.committed(where))[where]
                assert (0 if found is None else found.offset) == record.offset

    run(program)
