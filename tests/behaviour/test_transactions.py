"""Transactions, request by request, on the embedded broker and on real Kafka."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from aiokproto.broker.metadata.internal_topics import partition_for
from aiokproto.broker.metadata.topics import TRANSACTIONS_TOPIC
from aiokproto.broker.transactions.records import decode_value, encode_key, encode_value
from aiokproto.client import Client
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.list_transactions import ListTransactionsRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.messages.write_txn_markers import (
    WritableTxnMarker,
    WritableTxnMarkerTopic,
    WriteTxnMarkersRequest,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.records import decode
from tests.behaviour.transactional import (
    COMMITTED,
    UNCOMMITTED,
    V1,
    V2,
    Producer,
    end_offset,
    fetch,
    offset_of,
    producers_of,
    read,
    read_when,
    stable_offset,
)
from tests.behaviour.waiting import until
from tests.clusters import BehaviourCluster

both_versions = pytest.mark.parametrize("version", [V1, V2])


@pytest.fixture
async def client(cluster: BehaviourCluster) -> AsyncIterator[Client]:
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        yield client


# ---- committing and aborting


@both_versions
async def test_committed_records_are_visible_in_all_partitions_at_once(
    cluster: BehaviourCluster, client: Client, topic: str, version: str
) -> None:
    await cluster.create_topic(topic, partitions=2)
    producer = Producer(client, version)
    await producer.init()
    await producer.write(topic, 0, b"a", b"b")
    await producer.write(topic, 1, b"c")
    assert await read(client, topic, 0) == await read(client, topic, 1) == []
    assert await read(client, topic, 0, UNCOMMITTED) == [b"a", b"b"]
    assert (await end_offset(client, topic, COMMITTED), await end_offset(client, topic, UNCOMMITTED)) == (0, 2)
    await producer.end(commit=True)
    await read_when(client, topic, [b"a", b"b"], 0)
    await read_when(client, topic, [b"c"], 1)
    # The marker has an offset of its own.
    assert await end_offset(client, topic, COMMITTED) == 3


@both_versions
async def test_aborted_records_are_visible_only_with_read_uncommitted(
    cluster: BehaviourCluster, client: Client, topic: str, version: str
) -> None:
    await cluster.create_topic(topic)
    producer = Producer(client, version)
    await producer.init()
    await producer.write(topic, 0, b"kept")
    await producer.end(commit=True)
    await producer.write(topic, 0, b"gone")
    await producer.end(commit=False)
    await producer.write(topic, 0, b"kept too")
    await producer.end(commit=True)
    await read_when(client, topic, [b"kept", b"kept too"])
    assert await read(client, topic, 0, UNCOMMITTED) == [b"kept", b"gone", b"kept too"]
    response = await fetch(client, topic, 0, COMMITTED)
    assert [(each.producer_id, each.first_offset) for each in response.aborted_transactions or ()] == [
        (producer.producer_id, 2)
    ]
    assert (await fetch(client, topic, 0, UNCOMMITTED)).aborted_transactions is None
    assert (await fetch(client, topic, 0, COMMITTED, offset=4)).aborted_transactions == []


@both_versions
async def test_readers_wait_for_the_oldest_open_transaction(
    cluster: BehaviourCluster, client: Client, topic: str, version: str
) -> None:
    await cluster.create_topic(topic)
    first, second = Producer(client, version), Producer(client, version)
    await first.init()
    await second.init()
    await first.write(topic, 0, b"first")
    await second.write(topic, 0, b"second")
    await second.end(commit=True)
    assert await read(client, topic) == []
    assert await end_offset(client, topic, COMMITTED) == 0
    await first.end(commit=False)
    await read_when(client, topic, [b"second"])


async def test_a_new_transaction_has_a_new_epoch(cluster: BehaviourCluster, client: Client, topic: str) -> None:
    await cluster.create_topic(topic)
    producer = Producer(client, V2)
    await producer.init()
    await producer.write(topic, 0, b"a")
    epoch = producer.epoch
    await producer.end(commit=True)
    assert producer.epoch == epoch + 1
    await read_when(client, topic, [b"a"])
    late = await producer.produce(topic, 0, producer.batch(b"late", 1, epoch))
    assert late is ErrorCode.INVALID_PRODUCER_EPOCH
    again = await producer.ask_to_end(commit=True, epoch=epoch)
    assert (again.error_code, again.producer_epoch) == (0, epoch + 1)
    other_way = await producer.ask_to_end(commit=False, epoch=epoch)
    assert other_way.error_code == ErrorCode.INVALID_TXN_STATE


async def test_ending_twice_in_the_older_version(cluster: BehaviourCluster, client: Client, topic: str) -> None:
    await cluster.create_topic(topic)
    producer = Producer(client, V1)
    await producer.init()
    assert (await producer.ask_to_end(commit=True)).error_code == ErrorCode.INVALID_TXN_STATE
    assert (await producer.ask_to_end(commit=False)).error_code == ErrorCode.INVALID_TXN_STATE
    await producer.write(topic, 0, b"a")
    await producer.end(commit=True)
    assert (await producer.ask_to_end(commit=True)).error_code == 0
    assert (await producer.ask_to_end(commit=False)).error_code == ErrorCode.INVALID_TXN_STATE


async def test_an_empty_transaction_can_be_aborted_but_not_committed(client: Client) -> None:
    producer = Producer(client, V2)
    await producer.init()
    assert (await producer.ask_to_end(commit=True)).error_code == ErrorCode.INVALID_TXN_STATE
    epoch = producer.epoch
    await producer.end(commit=False)
    assert producer.epoch == epoch + 1


# ---- fencing and partitions


@both_versions
async def test_a_second_instance_fences_the_first_and_aborts_what_it_began(
    cluster: BehaviourCluster, client: Client, topic: str, version: str
) -> None:
    await cluster.create_topic(topic)
    old = Producer(client, version)
    await old.init()
    await old.write(topic, 0, b"old")
    new = Producer(client, version, name=old.name)
    await new.init()
    assert new.producer_id == old.producer_id
    assert new.epoch > old.epoch
    assert await old.produce(topic, 0, old.batch(b"late", 1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert await old.add(topic, 0) is ErrorCode.PRODUCER_FENCED
    assert (await old.ask_to_end(commit=True)).error_code == ErrorCode.PRODUCER_FENCED
    assert (await old.ask_for_id(old.producer_id, old.epoch)).error_code == ErrorCode.PRODUCER_FENCED
    await new.write(topic, 0, b"new")
    await new.end(commit=True)
    await read_when(client, topic, [b"new"])


@both_versions
async def test_a_transaction_that_times_out_is_aborted(
    cluster: BehaviourCluster, client: Client, topic: str, version: str
) -> None:
    await cluster.create_topic(topic)
    # The timeout is long enough for a slow machine to write within it.
    producer = Producer(client, version, timeout_ms=2000)
    await producer.init()
    await producer.write(topic, 0, b"late")
    found = await until(producer.describe, lambda response: response.transaction_state == "CompleteAbort")
    assert (found.transaction_state, found.producer_epoch) == ("CompleteAbort", producer.epoch + 1)
    assert await producer.produce(topic, 0, producer.batch(b"later", 1)) is ErrorCode.INVALID_PRODUCER_EPOCH
    # In version 2, the coordinator assumes that the producer may have aborted it without receiving the response.
    refused = ErrorCode.PRODUCER_FENCED if version == V1 else ErrorCode.INVALID_TXN_STATE
    assert (await producer.ask_to_end(commit=True)).error_code == refused
    await read_when(client, topic, [])


async def test_a_producer_that_continues_gets_the_next_epoch(client: Client) -> None:
    producer = Producer(client, V2)
    await producer.init()
    who = producer.producer_id
    bumped = await producer.ask_for_id(who, producer.epoch)
    assert (bumped.error_code, bumped.producer_id, bumped.producer_epoch) == (0, who, producer.epoch + 1)
    again = await producer.ask_for_id(who, producer.epoch)
    assert (again.error_code, again.producer_epoch) == (0, producer.epoch + 1)
    assert (await producer.ask_for_id(who + 1_000_000, 0)).error_code == ErrorCode.PRODUCER_FENCED
    assert (await producer.ask_for_id(who, -1)).error_code == ErrorCode.INVALID_REQUEST
    assert (await producer.ask_for_id()).producer_epoch == producer.epoch + 2


@pytest.mark.parametrize(("version", "code"), [(10, "INVALID_TXN_STATE"), (11, "TRANSACTION_ABORTABLE")])
async def test_a_partition_has_to_be_added_before_it_is_written_to(
    cluster: BehaviourCluster, client: Client, topic: str, version: int, code: str
) -> None:
    await cluster.create_topic(topic, partitions=2)
    producer = Producer(client, V1)
    await producer.init()
    await producer.write(topic, 0, b"a")
    batch = producer.batch(b"b", 0)
    assert (await producer.produce(topic, 1, batch, max_version=version)).name == code
    group = f"g-{topic}"
    commit_version, expected = (3, "INVALID_TXN_STATE") if version == 10 else (4, "TRANSACTION_ABORTABLE")
    assert (await producer.send_offset(group, topic, 1, commit_version)).name == expected


async def test_invalid_transactional_batches_are_refused(cluster: BehaviourCluster, client: Client, topic: str) -> None:
    await cluster.create_topic(topic)
    producer = Producer(client, V2)
    await producer.init()
    batch = producer.batch(b"a", 0)
    assert await producer.produce(topic, 0, batch, name=None) is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert await producer.produce(topic, 0, batch, name="unknown") is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    stale = producer.batch(b"a", 0, epoch=producer.epoch + 1)
    assert await producer.produce(topic, 0, stale) is ErrorCode.INVALID_PRODUCER_EPOCH
    await producer.write(topic, 0, b"a")
    outside = producer.batch(b"b", 1, transactional=False)
    assert await producer.produce(topic, 0, outside) is ErrorCode.INVALID_TXN_STATE
    gap = producer.batch(b"c", 5)
    assert await producer.produce(topic, 0, gap) is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert await producer.produce(topic, 0, producer.batch(b"a", 0)) is ErrorCode.NONE, "sent again"
    await producer.end(commit=True)
    await read_when(client, topic, [b"a"])


@both_versions
async def test_the_first_sequence_in_a_partition(
    cluster: BehaviourCluster, client: Client, topic: str, version: str
) -> None:
    """The earlier records of an unknown producer may be deleted, so it may start anywhere, except in its own epoch."""
    await cluster.create_topic(topic)
    producer = Producer(client, version)
    await producer.init()
    if version == V1:
        assert await producer.add(topic, 0) is ErrorCode.NONE
    code = await producer.produce(topic, 0, producer.batch(b"a", 3))
    assert code is (ErrorCode.NONE if version == V1 else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


async def test_unknown_transactional_ids(cluster: BehaviourCluster, client: Client, topic: str) -> None:
    await cluster.create_topic(topic)
    producer = Producer(client, V1)
    assert await producer.add(topic, 0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert (await producer.ask_to_end(commit=True)).error_code == ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert (await producer.describe()).error_code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    assert (await Producer(client, V1, timeout_ms=0).ask_for_id()).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    longest = Producer(client, V1, timeout_ms=900_001)
    assert (await longest.ask_for_id()).error_code == ErrorCode.INVALID_TRANSACTION_TIMEOUT
    await producer.init()
    assert await producer.add("nowhere", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    stranger = Producer(client, V1, name=producer.name, producer_id=producer.producer_id + 1_000_000, epoch=0)
    assert await stranger.add(topic, 0) is ErrorCode.INVALID_PRODUCER_ID_MAPPING


# ---- offsets


@both_versions
@pytest.mark.parametrize("commit", [True, False])
async def test_offsets_become_visible_when_their_transaction_commits(
    cluster: BehaviourCluster, client: Client, topic: str, version: str, commit: bool
) -> None:
    await cluster.create_topic(topic)
    group = f"g-{topic}"
    producer = Producer(client, version)
    await producer.init()
    assert await producer.commit_offset(group, topic, 7) is ErrorCode.NONE
    in_doubt = await offset_of(client, group, topic, stable=True)
    assert (in_doubt.error_code, in_doubt.committed_offset) == (ErrorCode.UNSTABLE_OFFSET_COMMIT, -1)
    assert (await offset_of(client, group, topic, stable=False)).committed_offset == -1
    await producer.end(commit)
    assert await stable_offset(client, group, topic) == (7 if commit else -1)
    assert await producer.commit_offset(group, topic, 9) is ErrorCode.NONE
    assert (await offset_of(client, group, topic, stable=False)).committed_offset == (7 if commit else -1)
    await producer.end(not commit)
    assert await stable_offset(client, group, topic) == (7 if commit else 9)


# ---- admin requests


async def test_transactions_are_described(cluster: BehaviourCluster, client: Client, topic: str) -> None:
    await cluster.create_topic(topic)
    producer = Producer(client, V2)
    await producer.init()
    found = await producer.describe()
    assert (found.transaction_state, found.topics, found.transaction_start_time_ms) == ("Empty", [], -1)
    await producer.write(topic, 0, b"a", b"b")
    found = await producer.describe()
    assert (found.error_code, found.transaction_state, found.transaction_timeout_ms) == (0, "Ongoing", 60_000)
    assert (found.producer_id, found.producer_epoch) == (producer.producer_id, producer.epoch)
    assert [(each.topic, each.partitions) for each in found.topics] == [(topic, [0])]
    state = (await producers_of(client, topic))[producer.producer_id]
    assert (state.producer_epoch, state.last_sequence, state.current_txn_start_offset) == (producer.epoch, 1, 0)
    assert state.coordinator_epoch == -1
    await producer.end(commit=True)
    await read_when(client, topic, [b"a", b"b"])
    state = (await producers_of(client, topic))[producer.producer_id]
    assert (state.producer_epoch, state.last_sequence, state.current_txn_start_offset) == (producer.epoch, -1, -1)
    assert state.coordinator_epoch >= 0


async def test_transactions_can_be_listed(cluster: BehaviourCluster, client: Client, topic: str) -> None:
    await cluster.create_topic(topic)
    idle, busy = Producer(client, V2), Producer(client, V2)
    await idle.init()
    await busy.init()
    await busy.write(topic, 0, b"a")
    names = {idle.name, busy.name}

    async def listed(**filters: object) -> set[str]:
        request = ListTransactionsRequest(state_filters=[], producer_id_filters=[])
        for name, value in filters.items():
            setattr(request, name, value)
        answers = [await client.request(request, node=node) for node in cluster.broker_ids]
        assert not any(response.error_code for response in answers)
        return {each.transactional_id for response in answers for each in response.transaction_states} & names

    assert await listed() == names
    assert await listed(state_filters=["Ongoing"]) == {busy.name}
    assert await listed(producer_id_filters=[idle.producer_id]) == {idle.name}
    assert await listed(transactional_id_pattern=f"{busy.name[:-1]}.") == {busy.name}
    assert await listed(transactional_id_pattern=busy.name[:-1]) == set()
    # The transaction's start is unknown, so its duration is unlimited.
    assert await listed(duration_filter=3_600_000) == {idle.name}
    request = ListTransactionsRequest(state_filters=["Ongoing", "Odd"], producer_id_filters=[])
    response = await client.request(request, node=cluster.broker_ids[0])
    assert response.unknown_state_filters == ["Odd"]
    wrong = ListTransactionsRequest(state_filters=[], producer_id_filters=[], transactional_id_pattern="(")
    response = await client.request(wrong, node=cluster.broker_ids[0])
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION


async def test_write_txn_markers_ends_a_transaction_in_a_partition(
    cluster: BehaviourCluster, client: Client, topic: str
) -> None:
    await cluster.create_topic(topic)
    producer = Producer(client, V1)
    await producer.init()
    await producer.write(topic, 0, b"hanging")

    async def write_marker(name: str, epoch: int) -> ErrorCode:
        marker = WritableTxnMarker(
            producer_id=producer.producer_id,
            producer_epoch=epoch,
            transaction_result=False,
            topics=[WritableTxnMarkerTopic(name=name, partition_indexes=[0])],
            coordinator_epoch=0,
        )
        response = await client.request(WriteTxnMarkersRequest(markers=[marker]), node=leader, max_version=1)
        return ErrorCode(response.markers[0].topics[0].partitions[0].error_code)

    leader = (await client.metadata([topic]))[topic].partitions[0].leader
    assert await write_marker("nowhere", 0) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert await write_marker(topic, producer.epoch) is ErrorCode.NONE
    await read_when(client, topic, [])
    assert await end_offset(client, topic, COMMITTED) == 2


@both_versions
async def test_the_transaction_log_has_the_same_records_as_kafkas(
    cluster: BehaviourCluster, client: Client, topic: str, version: str
) -> None:
    """In the topic __transaction_state, the embedded broker and Kafka write the same partition, key and bytes."""
    await cluster.create_topic(topic, partitions=2)
    producer = Producer(client, version)
    await producer.init()
    await producer.write(topic, 1, b"a")
    await producer.end(commit=True)
    log = TRANSACTIONS_TOPIC
    request = MetadataRequest(topics=[MetadataRequestTopic(name=log)], allow_auto_topic_creation=False)
    partitions = (await client.request(request)).topics[0].partitions
    index = partition_for(producer.name, sorted(each.partition_index for each in partitions))

    async def look() -> list[bytes]:
        found: list[bytes] = []
        offset, end = 0, 1
        while offset < end:
            response = await fetch(client, log, index, UNCOMMITTED, offset)
            end = response.high_watermark
            for batch in decode(bytes(response.records or b"")):
                offset = batch.next_offset
                found += [record.value or b"" for record in batch if record.key == encode_key(producer.name)]
        return found

    values = await until(look, lambda found: len(found) == 4)
    known = [decode_value(producer.name, value) for value in values]
    assert [each.status.text for each in known] == ["Empty", "Ongoing", "PrepareCommit", "CompleteCommit"]
    assert [sorted(each.partitions) for each in known] == [[], [(topic, 1)], [(topic, 1)], []]
    assert known[-1].identity == (producer.producer_id, producer.epoch)
    assert [encode_value(each) for each in known] == values


async def test_api_versions_reports_the_transaction_version(cluster: BehaviourCluster, client: Client) -> None:
    request = ApiVersionsRequest(client_software_name="test", client_software_version="1")
    response = await client.request(request, node=cluster.broker_ids[0], max_version=4)
    levels = [(each.name, each.min_version_level, each.max_version_level) for each in response.finalized_features]
    assert ("transaction.version", 2, 2) in levels
    supported = [(each.name, each.min_version, each.max_version) for each in response.supported_features]
    assert ("transaction.version", 0, 2) in supported


# ---- more than one broker


@both_versions
@pytest.mark.exclusive
async def test_an_open_transaction_survives_its_coordinator(
    cluster3: BehaviourCluster, topic: str, version: str
) -> None:
    await cluster3.create_topic(topic, partitions=3, replication=3)
    async with Client(bootstrap_servers=cluster3.bootstrap_servers) as client:
        producer = Producer(client, version)
        await producer.init()
        for partition in range(3):
            await producer.write(topic, partition, b"%d" % partition)
        request = FindCoordinatorRequest(key_type=1, coordinator_keys=[producer.name])
        found = (await client.request(request)).coordinators[0]
        await cluster3.stop_broker(found.node_id)
        await producer.end(commit=True)
        for partition in range(3):
            await read_when(client, topic, [b"%d" % partition], partition)
