"""Records of share groups (KIP-932), request by request, on the embedded broker and on real Kafka."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto.codec.messages import share_acknowledge, share_fetch
from aiokproto.codec.messages.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from aiokproto.codec.messages.delete_records import DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from tests.behaviour.secured import Secured, as_user, create, rule
from tests.behaviour.share_harness import Ack, Member, ShareHarness, deliveries, parts_of, share_harness
from tests.behaviour.transactional import V2, Producer, stable
from tests.broker.secure import GROUP, READ, TOPIC, grant
from tests.clusters import BehaviourCluster

GAP, ACCEPT, RELEASE, REJECT, RENEW = range(5)


def of(*offsets: int, count: int = 1) -> dict[int, int]:
    return dict.fromkeys(offsets, count)


async def test_each_record_is_delivered_until_it_is_acknowledged(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at, at.member() as one:
        await at.produce(6)
        assert await one.acquire() == of(*range(6))
        assert await one.acknowledge_error((0, 5, [ACCEPT, RELEASE, REJECT, GAP, RELEASE, ACCEPT])) is ErrorCode.NONE
        assert await one.acquire() == of(1, 4, count=2)
        await at.produce(1)
        assert await one.acquire((1, 1, [ACCEPT]), (4, 4, [REJECT])) == of(6)


async def test_two_members_share_a_partition(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at, at.member() as one, at.member() as other:
        await at.produce(3, 3)
        assert await one.acquire(most=3) == of(0, 1, 2)
        assert await other.acquire(most=3) == of(3, 4, 5)
        assert await other.acknowledge_error((0, 2, [ACCEPT])) is ErrorCode.INVALID_RECORD_STATE
        assert await one.acknowledge_error((0, 2, [RELEASE])) is ErrorCode.NONE
        assert await other.acquire() == of(0, 1, 2, count=2)


async def test_a_fetch_waits_for_records_that_other_members_release(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at, at.member() as one, at.member() as other:
        await at.produce(4)
        assert await one.acquire() == of(0, 1, 2, 3)
        waiting = asyncio.create_task(other.acquire())
        assert await one.acknowledge_error((1, 2, [RELEASE])) is ErrorCode.NONE
        assert await waiting == of(1, 2, count=2)


async def test_records_delivered_too_often_are_archived(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic, delivery_count_limit="2") as at, at.member() as one:
        await at.produce(2)
        assert await one.acquire() == of(0, 1)
        assert await one.acquire((0, 1, [RELEASE])) == of(0, 1, count=2)
        assert await one.acknowledge_error((0, 1, [RELEASE])) is ErrorCode.NONE
        await at.produce(1)
        assert await one.acquire() == of(2)


async def test_records_delivered_often_are_throttled(cluster: BehaviourCluster, topic: str) -> None:
    """One bad record must not archive the others."""
    async with share_harness(cluster, topic) as at, at.member() as one:
        await at.produce(8)
        for count in (1, 2, 3):
            assert await one.acquire() == of(*range(8), count=count), count
            assert await one.acknowledge_error((0, 7, [RELEASE])) is ErrorCode.NONE
        assert await one.acquire() == of(0, 1, 2, 3, count=4)
        assert await one.acknowledge_error((0, 3, [RELEASE])) is ErrorCode.NONE
        assert await one.acquire() == of(0, count=5)
        assert await one.acquire() == of(1, count=5)


async def test_an_acquisition_lock_expires(cluster: BehaviourCluster, topic: str) -> None:
    async with (
        share_harness(cluster, topic, record_lock_duration_ms="1000") as at,
        at.member() as one,
        at.member() as other,
    ):
        await at.produce(2)
        assert await one.acquire() == of(0, 1)
        assert await other.acquire() == of(0, 1, count=2)
        assert await one.acknowledge_error((0, 1, [ACCEPT])) is ErrorCode.INVALID_RECORD_STATE


async def test_an_acquisition_lock_can_be_renewed(cluster: BehaviourCluster, topic: str) -> None:
    # The lock lasts longer than a slow machine takes from one renewal to the next.
    lock_ms = 6000
    async with (
        share_harness(cluster, topic, record_lock_duration_ms=f"{lock_ms}") as at,
        at.member() as one,
        at.member() as other,
    ):
        await at.produce(2)
        assert await one.acquire() == of(0, 1)
        waiting = asyncio.create_task(other.acquire())
        while not waiting.done():
            response = await one.acknowledge((0, 0, [RENEW]), renew=True)
            assert (response.error_code, response.acquisition_lock_timeout_ms) == (0, lock_ms)
            assert response.responses[0].partitions[0].error_code == 0
            renewed = await one.fetch(
                (0, 0, [RENEW]), is_renew_ack=True, most=0, batch_size=0, max_bytes=0, partitions=[0]
            )
            assert parts_of(renewed)[0].acknowledge_error_code == 0
            await asyncio.wait([waiting], timeout=0.1)
        assert await waiting == of(1, count=2)
        assert await one.acknowledge_error((0, 0, [ACCEPT])) is ErrorCode.NONE


async def test_renewal_can_be_turned_off(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic, renew_acknowledge_enable="false") as at, at.member() as one:
        await at.produce(1)
        assert await one.acquire() == of(0)
        assert await one.acknowledge_error((0, 0, [RENEW]), renew=True) is ErrorCode.INVALID_RECORD_STATE


async def test_closing_a_share_session_releases_its_records(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at, at.member() as other:
        async with at.member() as one:
            await at.produce(3)
            assert await one.acquire() == of(0, 1, 2)
            response = await one.acknowledge((0, 0, [ACCEPT]), epoch=-1)
            assert response.responses[0].partitions[0].error_code == 0
            assert await other.acquire() == of(1, 2, count=2)
            assert (await one.fetch(epoch=1)).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
            assert (await other.fetch((1, 1, [ACCEPT]), epoch=-1)).error_code == 0
            one.epoch = 0
            assert await one.acquire() == of(2, count=3)
        # That has closed its connection.
        other.epoch = 0
        assert await other.acquire() == of(2, count=4)


@pytest.mark.parametrize(
    ("options", "fields", "batches", "expected"),
    [
        ({}, {"most": 3}, [4, 4], [0, 1, 2, 3]),
        ({}, {"most": 3, "share_acquire_mode": 1}, [4, 4], [0, 1, 2]),
        ({}, {"most": 5}, [4, 4, 4], list(range(8))),
        ({}, {"most": 500, "max_bytes": 1}, [4, 4], [0, 1, 2, 3]),
        ({"partition_max_record_locks": "100"}, {}, [60, 60, 60], list(range(120))),
        ({"partition_max_record_locks": "100"}, {"share_acquire_mode": 1}, [60, 60, 60], list(range(100))),
    ],
)
async def test_acquire_modes_limit_the_records(
    cluster: BehaviourCluster,
    topic: str,
    options: dict[str, Any],
    fields: dict[str, Any],
    batches: list[int],
    expected: list[int],
) -> None:
    async with share_harness(cluster, topic, **options) as at, at.member() as one:
        await at.produce(*batches)
        assert await one.acquire(**fields) == of(*expected)


async def test_the_number_of_records_in_flight_is_limited(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic, partition_max_record_locks="100") as at, at.member() as one:
        await at.produce(*[50] * 4)
        assert await one.acquire() == of(*range(100))
        assert not any(part.acquired_records for part in parts_of(await one.fetch()))
        assert await one.acknowledge_error((50, 99, [ACCEPT])) is ErrorCode.NONE
        assert not (await one.fetch()).responses, "the first of them are still in flight"
        assert await one.acquire((0, 49, [ACCEPT])) == of(*range(100, 200))


async def test_new_records_are_acquired_in_ranges_of_batches(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at, at.member() as one:
        await at.produce(*[2] * 5)
        while not (response := await one.fetch(wait=500, batch_size=3)).responses[0].partitions[0].acquired_records:
            pass
        ranges = response.responses[0].partitions[0].acquired_records
        assert [(each.first_offset, each.last_offset) for each in ranges] == [(0, 3), (4, 7), (8, 9)]


@pytest.mark.parametrize(
    ("reset", "expected"),
    [("earliest", [0, 1, 2]), ("latest", [2]), ("by_duration:PT1H", [2]), ("by_duration:P2DT0.5S", [0, 1, 2])],
)
async def test_share_auto_offset_reset_decides_where_a_group_starts(
    cluster: BehaviourCluster, topic: str, reset: str, expected: list[int]
) -> None:
    """If no record is that new, the start is undecided until there is one."""
    async with share_harness(cluster, topic, auto_offset_reset=reset) as at:
        await at.produce(2, age=7200)
        async with at.member() as one:
            found: set[int] = set()
            while True:
                parts = parts_of(await one.fetch(wait=100))
                found |= {offset for part in parts for offset in deliveries(part)}
                # The response lacks the partition until its start offset is decided.
                code = next((ErrorCode(part.error_code) for part in parts), None)
                if code in (ErrorCode.NONE, ErrorCode.OFFSET_NOT_AVAILABLE):
                    break
            assert (code is ErrorCode.OFFSET_NOT_AVAILABLE) == (reset == "by_duration:PT1H")
            await at.produce(1)
            found |= (await one.acquire()).keys()
    assert sorted(found) == expected


async def write_transactions(at: ShareHarness) -> None:
    """Write two aborted records, two committed ones, and two of an open transaction, with markers in between."""
    for commit in (False, True):
        producer = Producer(at.client, V2)
        await producer.init()
        await producer.write(at.topic, 0, b"x", b"y")
        await producer.end(commit=commit)
        while not await stable(at.client, at.topic, 0):
            pass
    still = Producer(at.client, V2)
    await still.init()
    await still.write(at.topic, 0, b"x", b"y")


@pytest.mark.parametrize(("level", "seen"), [("read_committed", [2, 3, 4, 5]), ("read_uncommitted", list(range(8)))])
async def test_aborted_records_are_not_acquired(
    cluster: BehaviourCluster, topic: str, level: str, seen: list[int]
) -> None:
    """Markers are delivered, and are gaps for consumers."""
    async with share_harness(cluster, topic, isolation_level=level) as at, at.member() as one:
        await write_transactions(at)
        found: set[int] = set()
        while not found >= set(seen):
            found |= (await one.acquire()).keys()
        assert sorted(found) == seen


async def test_deleted_records_are_not_delivered(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at, at.member() as one:
        await at.produce(2, 2)
        assert await one.acquire() == of(0, 1, 2, 3)
        assert await one.acknowledge_error((0, 3, [RELEASE])) is ErrorCode.NONE
        gone = DeleteRecordsTopic(name=topic, partitions=[DeleteRecordsPartition(partition_index=0, offset=2)])
        deleted = await at.client.request(DeleteRecordsRequest(topics=[gone], timeout_ms=9000))
        assert deleted.topics[0].partitions[0].error_code == 0
        assert await one.acquire() == of(2, 3, count=2)


@pytest.mark.usefixtures("alone")
async def test_partitions_are_added_to_and_removed_from_a_session(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic, partitions=2) as at, at.member() as one:
        await at.produce(1, partition=0)
        assert await one.acquire_all(partitions=[0, 1]) == [of(0)]
        await at.produce(2, partition=1)
        assert await one.acquire_all(partitions=[]) == [of(0, 1)]
        await at.produce(1, partition=1)
        await at.produce(1, partition=0)
        forgotten = [share_fetch.ForgottenTopic(topic_id=at.topic_id, partitions=[1])]
        assert await one.acquire_all(partitions=[], forgotten=forgotten) == [of(1)]
        assert not any(part.acquired_records for part in parts_of(await one.fetch(partitions=[])))


async def test_an_administrator_resets_the_start_offset(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at:
        await at.produce(4)
        async with at.member() as one:
            assert await one.acquire() == of(0, 1, 2, 3)
            assert (await one.acknowledge((0, 3, [ACCEPT]), epoch=-1)).error_code == 0
            await one.leave()
        partition = AlterShareGroupOffsetsRequestPartition(partition_index=0, start_offset=2)
        changed = AlterShareGroupOffsetsRequestTopic(topic_name=topic, partitions=[partition])
        request = AlterShareGroupOffsetsRequest(group_id=at.group, topics=[changed])
        response = await at.client.request(request)
        assert (response.error_code, response.responses[0].partitions[0].error_code) == (0, 0), response
        async with at.member() as other:
            assert await other.acquire() == of(2, 3)


# ---- refusals


BEYOND = ErrorCode.INVALID_REQUEST
NOT_ITS_OWN = ErrorCode.INVALID_RECORD_STATE


@pytest.mark.parametrize(
    ("acks", "error"),
    [
        ([(0, 3, [5])], ErrorCode.INVALID_REQUEST),
        ([(0, 3, [-1])], ErrorCode.INVALID_REQUEST),
        ([(0, 3, [RENEW])], ErrorCode.INVALID_REQUEST),
        ([(0, 3, [])], ErrorCode.INVALID_REQUEST),
        ([(0, 3, [ACCEPT, ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(3, 0, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(2, 3, [ACCEPT]), (0, 1, [ACCEPT])], ErrorCode.INVALID_REQUEST),
        ([(0, 2, [ACCEPT]), (2, 3, [ACCEPT])], NOT_ITS_OWN),
        ([(0, 4, [ACCEPT])], BEYOND),
        ([(7, 8, [ACCEPT])], BEYOND),
        ([(0, 1, [ACCEPT]), (9, 9, [ACCEPT])], BEYOND),
    ],
)
async def test_invalid_acknowledgements_are_refused(
    cluster: BehaviourCluster, topic: str, acks: list[Ack], error: ErrorCode
) -> None:
    async with share_harness(cluster, topic) as at, at.member() as one:
        await at.produce(4)
        assert await one.acquire() == of(0, 1, 2, 3)
        assert await one.acknowledge_error(*acks) is error
        response = await one.fetch(*acks)
        (part,) = response.responses[0].partitions
        assert (response.error_code, part.error_code, ErrorCode(part.acknowledge_error_code)) == (0, 0, error)
        assert await one.acknowledge_error((0, 3, [ACCEPT])) is ErrorCode.NONE, "nothing that was refused was applied"
        assert await one.acknowledge_error((0, 3, [ACCEPT])) is not ErrorCode.INVALID_REQUEST


async def refusal(one: Member, case: str) -> ErrorCode:
    """The error code of a response."""
    if case == "acknowledges at once":
        return ErrorCode((await one.fetch((0, 0, [ACCEPT]), epoch=0)).error_code)
    if case == "goes on with no session":
        return ErrorCode((await one.fetch(epoch=3)).error_code)
    if case == "ends no session":
        return ErrorCode((await one.fetch(epoch=-1)).error_code)
    if case == "acknowledges without a session":
        return ErrorCode((await one.acknowledge((0, 0, [ACCEPT]), epoch=1)).error_code)
    if case == "begins by acknowledging":
        return ErrorCode((await one.acknowledge((0, 0, [ACCEPT]), epoch=0)).error_code)
    if case == "unknown":
        one.name = ""
    if case == "a long name":
        one.name = "m" * 37
    if case == "renews and fetches":
        return ErrorCode((await one.fetch(is_renew_ack=True)).error_code)
    if case == "another epoch":
        assert (await one.fetch(epoch=0)).error_code == 0
        return ErrorCode((await one.fetch(epoch=7)).error_code)
    return ErrorCode((await one.fetch(epoch=0)).error_code)


@pytest.mark.parametrize(
    ("case", "error"),
    [
        ("acknowledges at once", ErrorCode.INVALID_REQUEST),
        ("goes on with no session", ErrorCode.SHARE_SESSION_NOT_FOUND),
        ("ends no session", ErrorCode.SHARE_SESSION_NOT_FOUND),
        ("acknowledges without a session", ErrorCode.SHARE_SESSION_NOT_FOUND),
        ("begins by acknowledging", ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        ("another epoch", ErrorCode.INVALID_SHARE_SESSION_EPOCH),
        ("unknown", ErrorCode.INVALID_REQUEST),
        ("a long name", ErrorCode.INVALID_REQUEST),
        ("renews and fetches", ErrorCode.INVALID_REQUEST),
    ],
)
async def test_invalid_requests_are_refused(cluster: BehaviourCluster, topic: str, case: str, error: ErrorCode) -> None:
    async with share_harness(cluster, topic) as at, at.member() as one:
        assert await refusal(one, case) is error


async def test_unknown_partitions_are_refused(cluster: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster, topic) as at, at.member() as one:
        response = await one.fetch(partitions=[7], wait=100)
        (part,) = response.responses[0].partitions
        assert ErrorCode(part.error_code) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await one.acknowledge_error((0, 0, [ACCEPT]), partition=7) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await one.acknowledge_error((0, 0, [ACCEPT])) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, (
            "nothing was fetched from it"
        )
        at.topic_id = ZERO_UUID[:-1] + b"\x07"
        one.epoch = 0
        response = await one.fetch(wait=100)
        (part,) = response.responses[0].partitions
        assert ErrorCode(part.error_code) is ErrorCode.UNKNOWN_TOPIC_ID


async def test_permissions_are_checked(secured: Secured, topic: str, user: str) -> None:
    """A session needs permission for the group. The member reads only the permitted topics."""
    async with as_user(secured, "admin") as admin, as_user(secured, user) as client:
        await create(admin, topic)
        known = await admin.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))
        acks = [share_acknowledge.AcknowledgementBatch(first_offset=0, last_offset=0, acknowledge_types=[ACCEPT])]
        saying = share_acknowledge.AcknowledgePartition(partition_index=0, acknowledgement_batches=acks)
        acknowledge = share_acknowledge.ShareAcknowledgeRequest(
            group_id=topic,
            member_id="m",
            share_session_epoch=1,
            topics=[share_acknowledge.AcknowledgeTopic(topic_id=known.topics[0].topic_id, partitions=[saying])],
        )
        partition = share_fetch.FetchPartition(partition_index=0, acknowledgement_batches=[])
        fetch = share_fetch.ShareFetchRequest(
            group_id=topic,
            member_id="m",
            share_session_epoch=0,
            max_wait_ms=0,
            min_bytes=0,
            max_records=1,
            batch_size=1,
            topics=[share_fetch.FetchTopic(topic_id=known.topics[0].topic_id, partitions=[partition])],
            forgotten_topics_data=[],
        )
        for response in (await client.ask(fetch), await client.ask(acknowledge)):
            assert (ErrorCode(response.error_code), response.responses) == (ErrorCode.GROUP_AUTHORIZATION_FAILED, [])
        await grant(admin, rule(user, GROUP, topic, READ))
        (part,) = parts_of(await client.ask(fetch))
        assert ErrorCode(part.error_code) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        refused = (await client.ask(acknowledge)).responses[0].partitions[0]
        assert ErrorCode(refused.error_code) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        await grant(admin, rule(user, TOPIC, topic, READ))
        fetch.share_session_epoch, fetch.topics = 2, []
        assert not any(
            ErrorCode(part.error_code) is ErrorCode.TOPIC_AUTHORIZATION_FAILED
            for part in parts_of(await client.ask(fetch))
        )


# ---- other leaders


async def test_acknowledgements_survive_a_change_of_leader(cluster3: BehaviourCluster, topic: str) -> None:
    async with share_harness(cluster3, topic, replication=3) as at:
        async with at.member() as one:
            await at.produce(5)
            assert await one.acquire() == of(*range(5))
            assert await one.acknowledge_error((0, 4, [ACCEPT, RELEASE, REJECT, RELEASE, RELEASE])) is ErrorCode.NONE
            assert await one.acquire(most=1, share_acquire_mode=1) == of(1, count=2)
            after = await cluster3.move_leader(topic, 0)
            response = await one.fetch()
            while not any(part.error_code for part in parts_of(response)):
                response = await one.fetch()
            (part,) = response.responses[0].partitions
            assert ErrorCode(part.error_code) is ErrorCode.NOT_LEADER_OR_FOLLOWER
            assert part.current_leader.leader_id == after
            assert [node.node_id for node in response.node_endpoints] == [after]
            assert await one.acknowledge_error((1, 1, [ACCEPT])) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        async with at.member() as other:
            # The acquisition of the first record isn't persisted.
            assert await other.acquire() == of(1, 3, 4, count=2)
