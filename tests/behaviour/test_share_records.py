"""What coordinators write about share groups: our code restores, and writes, the same records as real Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker.clock import VirtualClock
from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.groups.coordinator import GroupCoordinator
from aiokproto.broker.groups.image import Image
from aiokproto.broker.groups.share import records as share_records
from aiokproto.broker.groups.share.group import ShareGroup, ShareHeartbeat
from aiokproto.broker.metadata.cluster_state import ClusterState, Node
from aiokproto.broker.metadata.internal_topics import partition_for
from aiokproto.broker.share.coordinator import ShareCoordinator, key_of
from aiokproto.broker.share.persisted_state import PersistedState, replay
from aiokproto.broker.share.records import (
    ShareGroupOffset,
    SharePartitionKey,
    Snapshot,
    StateBatch,
    Update,
    decode,
    encode_key,
    encode_value,
)
from aiokproto.codec.messages import (
    initialize_share_group_state,
    read_share_group_state,
    write_share_group_state,
)
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records import BatchBuilder, BatchRecord
from tests.behaviour.coordinator import Coordinator, coordinator
from tests.behaviour.epoch_members import ShareMember, until
from tests.behaviour.sharing import alter_when_known, delete, describe, offsets
from tests.behaviour.test_group_records import OFFSETS, everything, written
from tests.behaviour.test_share_groups import deleted
from tests.broker.coordinators import read_stored
from tests.broker.epoch_harness import Topics
from tests.clusters import BehaviourCluster

STATES = "__share_group_state"


def image_of(latest: dict[bytes, bytes], group: str) -> Image:
    return {key: value for key, value in latest.items() if share_records.KEYS.group_of(key) == group}


async def states_of(at: Coordinator, group: str) -> list[tuple[int, BatchRecord]]:
    """Return the records of a group in ``__share_group_state``, with their partitions."""
    found = []
    for partition in range(await partitions_of(at, STATES)):
        for record in await everything(await at.connect(), STATES, partition):
            assert record.key is not None
            read = decode(record.key, record.value)
            assert read is not None
            if read[0].group == group:
                found.append((partition, record))
    return found


async def partitions_of(at: Coordinator, topic: str) -> int:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)])
    return len((await (await at.connect()).ask(request)).topics[0].partitions)


async def test_share_group_records_are_restored(cluster: BehaviourCluster, topic: str) -> None:
    """If our code decodes and encodes a record of either broker, its bytes stay the same."""
    await cluster.create_topic(topic, partitions=4)
    async with coordinator(cluster, topic) as at:
        first, second = ShareMember(at, "first", topic, rack_id="r"), ShareMember(at, "second", topic)
        await until(lambda: (len(first.partitions), len(second.partitions)) == (2, 2), first, second)
        await until(lambda: first.epoch == second.epoch, first, second)
        described = await describe(at)
        image = image_of(await written(at), topic)
        group = ShareGroup(topic, Topics())
        share_records.restore(group, image, 0.0)
        assert (group.epoch, group.assignment_epoch) == (described.group_epoch, described.assignment_epoch)
        for seen in described.members:
            member = group.members[seen.member_id]
            assert (member.epoch, member.rack_id, sorted(member.topics)) == (
                seen.member_epoch,
                seen.rack_id,
                seen.subscribed_topic_names,
            )
            assert (member.client_id, member.client_host) == (seen.client_id, seen.client_host)
            places = {(each.topic_id, index) for each in seen.assignment.topic_partitions for index in each.partitions}
            assert member.assigned == group.targets[seen.member_id] == places
        topic_id = await at.topic_id(topic)
        assert group.states.partitions_of(topic_id) == {0, 1, 2, 3}
        assert (group.states.initializing, group.states.deleting) == ({}, {})
        assert rewritten(group, image) == image
        await first.leave()
        await second.leave()
        image = image_of(await written(at), topic)
        empty = ShareGroup(topic, Topics())
        share_records.restore(empty, image, 0.0)
        assert (empty.members, empty.epoch) == ({}, (await describe(at)).group_epoch)
        assert rewritten(empty, image) == image
        assert (await alter_when_known(at, topic, {0: 5})).error_code == 0
        assert (await delete(at, topic)).error_code == 0
        image = image_of(await written(at), topic)
        share_records.restore(empty, image, 0.0)
        assert (empty.states.initialized, empty.states.deleting) == ({}, {})
        assert rewritten(empty, image) == image
        assert await deleted(at) == 0
        assert image_of(await written(at), topic) == {}


def rewritten(group: ShareGroup, image: Image) -> Image:
    """Return the group's records as we write them. They have the timestamp of the last assignment, which groups don't
    hold."""
    group.dirty = set(group.members)
    anew = {key: image[key] for key in image if key.startswith(b"\0\x0c")}
    share_records.changes(group, anew, 0)
    return anew


@pytest.mark.usefixtures("alone")
async def test_share_partition_states_are_restored(cluster: BehaviourCluster, topic: str) -> None:
    await cluster.create_topic(topic, partitions=2)
    async with coordinator(cluster, topic) as at:
        topic_id = await at.topic_id(topic)
        states = States(at, SharePartitionKey(topic, topic_id, 1))
        await states.initialize(state_epoch=3, start_offset=-1)
        await states.read(leader_epoch=2)
        await states.write(10, 2, (10, 12, 0, 1), (13, 16, 2, 1))
        await states.write(10, 3, (11, 14, 0, 2), (20, 21, 4, 5))
        await states.write(14, 1, (14, 14, 2, 2))
        response = await states.read(leader_epoch=5)
        found = await states_of(at, topic)
        persisted: PersistedState | None = None
        for partition, record in found:
            read = decode(record.key or b"", record.value)
            assert read is not None
            key, entry = read
            assert isinstance(entry, (Snapshot, Update))
            assert key == states.key
            assert partition == partition_for(key_of(key), range(await partitions_of(at, STATES)))
            assert (encode_key(key, type(entry)), encode_value(entry)) == (
                record.key,
                record.value,
            )
            persisted = replay(persisted, entry, record.offset)
        kinds = [type(entry) for _, record in found if (entry := decode(record.key or b"", record.value)[1])]  # type: ignore[index]
        assert kinds == [Snapshot, Update, Update, Update, Update, Update]
        assert persisted is not None
        batches = (StateBatch(14, 14, 2, 2), StateBatch(15, 16, 2, 1), StateBatch(20, 21, 4, 5))
        assert persisted.state == ShareGroupOffset(14, 3, 5, batches, 1)
        assert response == batches
        await states.initialize(state_epoch=4, start_offset=7)
        _, record = (await states_of(at, topic))[-1]
        read = decode(record.key or b"", record.value)
        assert read is not None
        assert isinstance(read[1], Snapshot)
        assert encode_value(read[1]) == record.value
        assert replay(persisted, read[1], record.offset) == PersistedState(
            ShareGroupOffset(7, 4, 0, (), 0), read[1], record.offset, 0, 5
        )


@pytest.mark.usefixtures("alone")
async def test_our_coordinators_continue_from_the_records_of_any_broker(
    cluster: BehaviourCluster, topic: str, tmp_path: Path
) -> None:
    """Run our broker on the logs of another broker."""
    await cluster.create_topic(topic, partitions=3)
    async with coordinator(cluster, topic) as at:
        topic_id = await at.topic_id(topic)
        assert (await alter_when_known(at, topic, {0: 4, 1: 8})).error_code == 0
        member = ShareMember(at, "m", topic)
        await until(lambda: member.partitions == [0, 1, 2], member)
        states = States(at, SharePartitionKey(topic, topic_id, 1))
        await states.read(leader_epoch=7)
        described, starts = await describe(at), await offsets(at)
        offsets_partition = await at.partition()
        wire = await at.connect()
        copied: list[tuple[str, int, list[BatchRecord]]] = [
            (name, partition, await everything(wire, name, partition))
            for name, partitions in ((STATES, range(await partitions_of(at, STATES))), (OFFSETS, [offsets_partition]))
            for partition in partitions
        ]
        counts = await partitions_of(at, STATES), await partitions_of(at, OFFSETS)
        await member.leave()
    state = ClusterState(tmp_path, {0: Node(0, "h", 1)}, BrokerOptions({}), VirtualClock())
    state.nodes_up([0])
    try:
        state.create_topic(STATES, counts[0])
        state.create_topic(OFFSETS, counts[1], configs={"cleanup.policy": "compact"})
        ours = state.create_topic(topic, 3)
        for name, partition, records in copied:
            for record in records:
                builder = BatchBuilder()
                # The topic was created again, with another id.
                key, value = (
                    part.replace(topic_id, ours.topic_id) if part is not None else None
                    for part in (record.key, record.value)
                )
                builder.append(record.timestamp, key, value)
                state.partition(name, partition).append(builder.close(), record.timestamp)
        kept = ShareCoordinator(state)
        read_stored(kept)
        groups = GroupCoordinator(state, kept)
        read_stored(groups)
        groups.start()
        try:
            group = groups.share_group(topic)
            assert (group.epoch, group.assignment_epoch) == (described.group_epoch, described.assignment_epoch)
            assert group.members["m"].epoch == described.members[0].member_epoch
            found = {}
            for index in range(3):
                known = kept.summary(topic, ours.topic_id, index)
                assert known is not None
                found[topic, index] = known.start_offset
            assert found == {place: start for place, (start, _) in starts.items()}
            with pytest.raises(BrokerError, match="the newest is 7"):
                kept.read(topic, ours.topic_id, 1, 6)
            response = groups.share_heartbeat(topic, ShareHeartbeat("m", group.members["m"].epoch))
            assert response.assigned is None or {index for _, index in response.assigned} == {0, 1, 2}
        finally:
            groups.close()
    finally:
        state.close()


class States:
    """The requests of a share partition's leader to its coordinator."""

    def __init__(self, at: Coordinator, key: SharePartitionKey) -> None:
        self.at = at
        self.key = key

    async def initialize(self, **fields: Any) -> None:
        partition = initialize_share_group_state.PartitionData(partition=self.key.partition, **fields)
        data = initialize_share_group_state.InitializeStateData(topic_id=self.key.topic_id, partitions=[partition])
        request = initialize_share_group_state.InitializeShareGroupStateRequest(group_id=self.key.group, topics=[data])
        # The first FindCoordinator request creates the topic.
        find = FindCoordinatorRequest(key_type=2, coordinator_keys=[key_of(self.key)])
        await self.at.ask(find, lambda response: response.coordinators[0].error_code)
        error = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        # The coordinator may not know the topic yet.
        while error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            response = await self.at.ask(request, lambda response: response.results[0].partitions[0].error_code)
            error = ErrorCode(response.results[0].partitions[0].error_code)
        assert error is ErrorCode.NONE

    async def read(self, **fields: Any) -> tuple[StateBatch, ...]:
        partition = read_share_group_state.PartitionData(partition=self.key.partition, **fields)
        data = read_share_group_state.ReadStateData(topic_id=self.key.topic_id, partitions=[partition])
        request = read_share_group_state.ReadShareGroupStateRequest(group_id=self.key.group, topics=[data])
        response = await self.at.ask(request, lambda response: response.results[0].partitions[0].error_code)
        (found,) = response.results[0].partitions
        assert found.error_code == 0
        return tuple(
            StateBatch(each.first_offset, each.last_offset, each.delivery_state, each.delivery_count)
            for each in found.state_batches
        )

    async def write(self, start_offset: int, done: int, *batches: tuple[int, int, int, int]) -> None:
        partition = write_share_group_state.PartitionData(
            partition=self.key.partition,
            state_epoch=3,
            leader_epoch=2,
            start_offset=start_offset,
            delivery_complete_count=done,
            state_batches=[
                write_share_group_state.StateBatch(
                    first_offset=first, last_offset=last, delivery_state=state, delivery_count=count
                )
                for first, last, state, count in batches
            ],
        )
        data = write_share_group_state.WriteStateData(topic_id=self.key.topic_id, partitions=[partition])
        request = write_share_group_state.WriteShareGroupStateRequest(group_id=self.key.group, topics=[data])
        response = await self.at.ask(request, lambda response: response.results[0].partitions[0].error_code)
        assert response.results[0].partitions[0].error_code == 0
