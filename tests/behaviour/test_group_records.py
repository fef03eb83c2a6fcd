"""What coordinators write to the offsets topic: our code restores the embedded broker's and real Kafka's records."""

from __future__ import annotations

from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.classic_member import ClassicGroupState
from aiokproto.broker.groups.consumer import records as consumer_records
from aiokproto.broker.groups.consumer.group import ConsumerGroup
from aiokproto.broker.groups.records import decode_key, decode_offset_value, restore_group
from aiokproto.codec.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from aiokproto.codec.payloads.offsets_topic import GroupMetadataKey, OffsetCommitKey
from aiokproto.error_codes import ErrorCode
from aiokproto.records import BatchRecord, decode
from tests.behaviour.coordinator import Coordinator, coordinator
from tests.behaviour.epoch_members import ConsumerMember, until
from tests.behaviour.test_classic_groups import join, leave, sync
from tests.broker.epoch_harness import Topics
from tests.broker.wire import Wire, fetch_request
from tests.clusters import BehaviourCluster

OFFSETS = "__consumer_offsets"
EARLIEST = -2
"""The ListOffsets timestamp for the first offset of a log."""


async def written(at: Coordinator) -> dict[bytes, bytes]:
    """Return the records of all groups in the group's partition, without the records of aborted transactions."""
    latest: dict[bytes, bytes] = {}
    for record in await everything(await at.connect(), OFFSETS, await at.partition()):
        assert record.key is not None
        if record.value is None:
            latest.pop(record.key, None)
        else:
            latest[record.key] = record.value
    return latest


async def everything(wire: Wire, topic: str, partition: int) -> list[BatchRecord]:
    """Return all records of a log, without control records, from its start, which can have moved."""
    requested_partition = ListOffsetsPartition(partition_index=partition, timestamp=EARLIEST)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=[requested_partition])])
    start = (await wire.ask(request)).topics[0].partitions[0]
    assert start.error_code == 0, ErrorCode(start.error_code)
    offset, found = start.offset, list[BatchRecord]()
    while True:
        response = await wire.ask(fetch_request(topic, offset, partition=partition), 12)
        batches = list(decode(response.responses[0].partitions[0].records or b""))
        if not batches:
            return found
        offset = batches[-1].next_offset
        found += [record for batch in batches if not batch.is_control for record in batch]


async def test_consumer_group_records_are_restored(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=4)
    async with coordinator(cluster, topic) as at:
        first = ConsumerMember(at, "first", instance_id="i", rack_id="r", subscribed_topic_names=[topic])
        second = ConsumerMember(at, "second", subscribed_topic_regex=f"{topic}.*", server_assignor="range")
        await until(lambda: (len(first.partitions), len(second.partitions)) == (2, 2), first, second)
        await until(lambda: first.epoch == second.epoch, first, second)
        assert await at.commit("first", first.epoch, topic, first.partitions[0], offset=5) == 0
        described = await at.describe()
        latest = await written(at)
        group = ConsumerGroup(topic, Topics())
        image = {key: value for key, value in latest.items() if consumer_records.KEYS.group_of(key) == topic}
        consumer_records.restore(group, image, 0.0)
        assert (group.epoch, group.assignment_epoch) == (described.group_epoch, described.assignment_epoch)
        for seen in described.members:
            member = group.members[seen.member_id]
            assert (member.epoch, member.instance_id, member.rack_id) == (
                seen.member_epoch,
                seen.instance_id,
                seen.rack_id,
            )
            assert (sorted(member.topics), member.regex) == (
                seen.subscribed_topic_names,
                seen.subscribed_topic_regex or "",
            )
            (mine,) = seen.assignment.topic_partitions
            places = {(mine.topic_id, index) for index in mine.partitions}
            assert set(member.assigned) == group.targets[seen.member_id] == places
            assert all(since <= member.epoch for since in member.assigned.values())
        assert group.members["second"].assignor == "range"
        (offset,) = (
            decode_offset_value(value)
            for key, value in latest.items()
            if isinstance(read := decode_key(key), OffsetCommitKey) and read.group == topic
        )
        assert offset.offset == 5
        await first.leave()
        await second.leave()
        image = {
            key: value for key, value in (await written(at)).items() if consumer_records.KEYS.group_of(key) == topic
        }
        empty = ConsumerGroup(topic, Topics())
        consumer_records.restore(empty, image, 0.0)
        assert (empty.members, empty.epoch) == ({}, (await at.describe()).group_epoch)


async def test_classic_group_records_are_restored(cluster: BehaviourCluster, topic: str) -> None:
    async with coordinator(cluster, topic) as at:

        async def read() -> ClassicGroup:
            (value,) = (
                value
                for key, value in (await written(at)).items()
                if isinstance(read := decode_key(key), GroupMetadataKey) and read.group == topic
            )
            group = ClassicGroup(topic)
            restore_group(group, value, 0.0, 0)
            return group

        joined = await join(at, group_instance_id="i")
        assert (await sync(at, joined, group_instance_id="i")).error_code == 0
        group = await read()
        assert (group.state, group.generation, group.protocol, group.leader) == (
            ClassicGroupState.STABLE,
            1,
            "range",
            joined.member_id,
        )
        member = group.members[joined.member_id]
        assert (member.instance_id, member.assignment, member.session_timeout, member.rebalance_timeout) == (
            "i",
            b"mine",
            30.0,
            30.0,
        )
        assert await leave(at, "", "i") == 0
        group = await read()
        assert (group.state, group.generation, group.protocol_type) == (ClassicGroupState.EMPTY, 2, "consumer")
