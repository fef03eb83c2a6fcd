"""The share coordinator: the states of share partitions, in memory and in their own topic. No asyncio.

A share partition belongs to the partition of the topic which its name hashes to, and is coordinated by that partition's
leader. Whatever is done to it is a record first, and what is known of it is what its records make of it: so it is the
same for who reads them again when a leader changed.
"""

from __future__ import annotations

import base64
from collections.abc import Callable

from aiokproto.broker.internal_topics import numbered_records, partition_for
from aiokproto.broker.metadata.cluster_state import ClusterState
from aiokproto.broker.metadata.topics import NO_LEADER, SHARE_STATE_TOPIC, Partition, Topic
from aiokproto.broker.share.persisted_state import PersistedState, initialized, replay
from aiokproto.broker.share.records import SharePartitionKey, Snapshot, Update, decode, encode_key, encode_value
from aiokproto.broker.share.state import PartitionState
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records import BatchBuilder

_SEGMENT_BYTES = "104857600"


class ShareCoordinator:
    """The states of all share partitions of the cluster, whichever node coordinates them.

    Attributes:
        on_reset: Called with a group, topic id and partition whose state was set anew or deleted: what somebody has
            read of it is out of date.
    """

    def __init__(self, state: ClusterState) -> None:
        self.on_reset: Callable[[str, bytes, int], None] = lambda group, topic_id, partition: None
        self._state = state
        self._persisted: dict[SharePartitionKey, PersistedState] = {}

    def start(self) -> None:
        """Read the states from their topic, if there is one."""
        topic = self._state.topics.get(SHARE_STATE_TOPIC)
        for partition in topic.partitions if topic is not None else ():
            self._load(partition)

    def close(self) -> None:
        """Forget everything."""
        self._persisted.clear()

    # ---- who coordinates what

    def partition_of(self, key: str) -> Partition:
        """The partition of their topic that a share partition's key belongs to; it is created when first asked for."""
        topic = self._state.topics.get(SHARE_STATE_TOPIC)
        if topic is None:
            options = self._state.options
            factor = min(options.number("share.coordinator.state.topic.replication.factor"), len(self._state.nodes))
            configs = {
                "cleanup.policy": "delete",
                "compression.type": "producer",
                "min.insync.replicas": str(options.number("share.coordinator.state.topic.min.isr")),
                "retention.ms": "-1",
                "segment.bytes": _SEGMENT_BYTES,
            }
            topic = self._state.create_topic(
                SHARE_STATE_TOPIC, options.number("share.coordinator.state.topic.num.partitions"), factor, configs
            )
        return partition_for(key, topic.partitions)

    def check_coordinator(self, key: SharePartitionKey, node_id: int) -> None:
        """Whether a node coordinates a share partition.

        Raises:
            BrokerError: NOT_COORDINATOR.
        """
        if self.partition_of(key_of(key)).leader != node_id:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)

    def leader_changed(self, partition: Partition) -> None:
        """A partition has a new leader: drop what the old one knew of its share partitions, and read it anew."""
        if partition.topic != SHARE_STATE_TOPIC:
            return
        for key in self._keys_in(partition):
            del self._persisted[key]
        if partition.leader != NO_LEADER:
            self._load(partition)

    def topic_deleted(self, topic: Topic) -> None:
        """Forget all groups' states of a topic."""
        if topic.name == SHARE_STATE_TOPIC:
            self.close()
            return
        for key in [key for key in self._persisted if key.topic_id == topic.topic_id]:
            self._write_tombstone(key)

    # ---- what the leaders of share partitions ask for: a SharePersister

    def read(self, group: str, topic_id: bytes, partition: int, leader_epoch: int) -> PartitionState:
        """The state, for the leader of an epoch: older leaders are refused from now on.

        Raises:
            BrokerError: INVALID_REQUEST, also if it was not initialized; FENCED_LEADER_EPOCH;
                UNKNOWN_TOPIC_OR_PARTITION; COORDINATOR_NOT_AVAILABLE.
        """
        key = self._checked(group, topic_id, partition, leader_epoch=leader_epoch)
        persisted = self._require_initialized(key, "Read")
        persisted.check_leader(leader_epoch)
        self._check_exists(key)
        if leader_epoch > persisted.leader_epoch:
            self._append(key, persisted.led_by(leader_epoch, self._updates_per_snapshot(), self._now()))
        return self._persisted[key].state

    def write(self, group: str, topic_id: bytes, partition: int, state: PartitionState) -> None:
        """Keep a state; see :meth:`SharePersister.write`.

        Raises:
            BrokerError: As :meth:`read`, and FENCED_STATE_EPOCH.
        """
        key = self._checked(group, topic_id, partition, leader_epoch=state.leader_epoch, state_epoch=state.state_epoch)
        for batch in state.batches:
            if not 0 <= batch.first_offset <= batch.last_offset:
                raise _invalid(f"a batch from {batch.first_offset} to {batch.last_offset}")
        persisted = self._require_initialized(key, "Write")
        persisted.check_leader(state.leader_epoch)
        persisted.check_state(state.state_epoch)
        self._check_exists(key)
        self._append(key, persisted.written(state, self._updates_per_snapshot(), self._now()))

    # ---- what the group coordinator asks for

    def initialize(self, group: str, topic_id: bytes, partition: int, state_epoch: int, start_offset: int) -> None:
        """Begin a state, or set it anew: nothing is delivered yet.

        Args:
            group: The group.
            topic_id: The topic's id.
            partition: The partition.
            state_epoch: The group's epoch.
            start_offset: Where the group begins; -1: ``share.auto.offset.reset`` says so.

        Raises:
            BrokerError: INVALID_REQUEST, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, COORDINATOR_NOT_AVAILABLE.
        """
        key = self._checked(group, topic_id, partition, state_epoch=state_epoch)
        persisted = self._persisted.get(key)
        if persisted is not None:
            persisted.check_state(state_epoch)
        self._check_exists(key)
        now = self._now()
        fresh = initialized if persisted is None else persisted.initialized
        self._append(key, fresh(state_epoch, start_offset, now))
        self.on_reset(*key)

    def summary(self, group: str, topic_id: bytes, partition: int) -> PartitionState | None:
        """The state; None where there is none yet.

        Raises:
            BrokerError: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, COORDINATOR_NOT_AVAILABLE.
        """
        key = self._checked(group, topic_id, partition)
        self._check_exists(key)
        persisted = self._persisted.get(key)
        return persisted.state if persisted is not None else None

    def delete(self, group: str, topic_id: bytes, partition: int) -> None:
        """Forget a state, if there is one.

        Raises:
            BrokerError: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, COORDINATOR_NOT_AVAILABLE.
        """
        key = self._checked(group, topic_id, partition)
        self._check_exists(key)
        if key in self._persisted:
            self._write_tombstone(key)

    # ---- time

    def prune(self) -> None:
        """Remove the records that newer snapshots have made superfluous."""
        topic = self._state.topics.get(SHARE_STATE_TOPIC)
        led = [each for each in topic.partitions if each.leader != NO_LEADER] if topic is not None else []
        needed = {partition.index: partition.log.end_offset for partition in led}
        for key, persisted in self._persisted.items():
            index = self.partition_of(key_of(key)).index
            needed[index] = min(needed.get(index, persisted.offset), persisted.offset)
        superfluous = [each for each in led if each.log.start_offset < needed[each.index]]
        for partition in superfluous:
            partition.log.delete_before(needed[partition.index], self._now())
        if superfluous:
            # What was removed must not come back after a crash.
            self._state.checkpoint()

    def snapshot(self) -> None:
        """Write anew what has not been for ``share.coordinator.cold.partition.snapshot.interval.ms``.

        It would keep all later records from being pruned. Where nothing happened at all since the last time, nothing
        is written.
        """
        if all(persisted.settled for persisted in self._persisted.values()):
            return
        now = self._now()
        before = now - self._state.options.number("share.coordinator.cold.partition.snapshot.interval.ms")
        for key, persisted in list(self._persisted.items()):
            if persisted.snapshot.written <= before:
                self._append(key, persisted.again(now))

    # ---- inside

    def _now(self) -> int:
        return self._state.clock.wall()

    def _updates_per_snapshot(self) -> int:
        return self._state.options.number("share.coordinator.snapshot.update.records.per.snapshot")

    def _keys_in(self, partition: Partition) -> list[SharePartitionKey]:
        return [key for key in self._persisted if self.partition_of(key_of(key)) is partition]

    def _checked(
        self, group: str, topic_id: bytes, partition: int, *, leader_epoch: int = 0, state_epoch: int = 0
    ) -> SharePartitionKey:
        for name, number in (("partition", partition), ("leader epoch", leader_epoch), ("state epoch", state_epoch)):
            if number < 0:
                raise _invalid(f"{name} {number} is negative")
        key = SharePartitionKey(group, topic_id, partition)
        if self.partition_of(key_of(key)).leader == NO_LEADER:
            raise BrokerError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return key

    def _check_exists(self, key: SharePartitionKey) -> None:
        topic = self._state.topic_by_id(key.topic_id)
        if topic is None or key.partition >= len(topic.partitions):
            raise BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def _require_initialized(self, key: SharePartitionKey, wanted: str) -> PersistedState:
        persisted = self._persisted.get(key)
        if persisted is None:
            raise _invalid(f"{wanted} of a share partition that was not initialized: {key_of(key)}")
        return persisted

    def _append(self, key: SharePartitionKey, record: Snapshot | Update) -> None:
        offset = self._write(key, type(record), encode_value(record))
        self._replay(key, record, offset)

    def _write_tombstone(self, key: SharePartitionKey) -> None:
        self._write(key, Snapshot, None)
        del self._persisted[key]
        self.on_reset(*key)

    def _write(self, key: SharePartitionKey, kind: type[Snapshot | Update], value: bytes | None) -> int:
        now = self._now()
        builder = BatchBuilder()
        builder.append(now, encode_key(key, kind), value)
        return self.partition_of(key_of(key)).append(builder.close(), now).base_offset

    def _replay(self, key: SharePartitionKey, record: Snapshot | Update, offset: int) -> None:
        persisted = replay(self._persisted.get(key), record, offset)
        if persisted is not None:
            self._persisted[key] = persisted

    def _load(self, partition: Partition) -> None:
        for offset, stored in numbered_records(partition):
            read = decode(stored.key, stored.value)
            if read is None:
                continue
            key, record = read
            if record is None:
                self._persisted.pop(key, None)
            else:
                self._replay(key, record, offset)


def key_of(key: SharePartitionKey) -> str:
    """What a share partition is called where its coordinator is looked for: ``group:topic id:partition``."""
    group, topic_id, partition = key
    return f"{group}:{base64.urlsafe_b64encode(topic_id).decode().rstrip('=')}:{partition}"


def is_key(key: str) -> bool:
    """Whether that could be the key of a share partition; groups may have colons in their names."""
    group, _, rest = key.rpartition(":")[0].rpartition(":")
    partition = key.rpartition(":")[2]
    try:
        whole = len(base64.urlsafe_b64decode(rest + "==")) == 16
        int(partition)
    except ValueError:
        return False
    return whole and bool(group)


def _invalid(why: str) -> BrokerError:
    return BrokerError(ErrorCode.INVALID_REQUEST, detail=why)
