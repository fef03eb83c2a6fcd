"""The share coordinator: the states of share partitions, in memory and in ``__share_group_state`` (KIP-932).

A share partition belongs to the partition of this topic that its key hashes to, and that partition's leader coordinates
it. Each change is appended as a record, then replayed into memory, so a coordinator that reads the log after a change
of leader arrives at the same state. Methods validate before they append, so a failed request hasn't changed anything.

All of this is synchronous: no method awaits between validating and appending.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator

from aiokproto.broker.metadata.cluster_state import ClusterState
from aiokproto.broker.metadata.internal_topics import InternalRecord, Take, internal_topic_records, partition_for
from aiokproto.broker.metadata.topics import NO_LEADER, SHARE_STATE_TOPIC, Partition, Topic
from aiokproto.broker.share.persisted_state import PersistedState, first_snapshot, replay
from aiokproto.broker.share.records import (
    ShareGroupOffset,
    SharePartitionKey,
    Snapshot,
    Update,
    decode,
    encode_key,
    encode_value,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.records import BatchBuilder


class ShareCoordinator:
    """The states of all share partitions of the cluster, whichever node coordinates them.

    Attributes:
        on_reset: Called with group, topic id and partition after a state was reset or deleted: the leader of the
            partition must drop the state that it has read.
    """

    def __init__(self, state: ClusterState) -> None:
        self.on_reset: Callable[[str, bytes, int], None] = lambda group, topic_id, partition: None
        self._state = state
        # One dict for all nodes. check_coordinator() checks which node may serve a key.
        self._persisted: dict[SharePartitionKey, PersistedState] = {}

    def reading(self) -> Iterator[tuple[Partition, Take]]:
        """Yield the partitions of ``__share_group_state`` to read at the start, each with the function that takes its
        records."""
        topic = self._state.topics.get(SHARE_STATE_TOPIC)
        for partition in topic.partitions if topic is not None else ():
            yield partition, self._take

    def close(self) -> None:
        """Drop all states from memory."""
        self._persisted.clear()

    # ---- which node coordinates a share partition

    def partition_of(self, key: str) -> Partition:
        """Return the partition of ``__share_group_state`` that a key hashes to. Creates the topic on first use."""
        return partition_for(key, self._state.internal_topic(SHARE_STATE_TOPIC).partitions)

    def check_coordinator(self, key: SharePartitionKey, node_id: int) -> None:
        """Check that a node coordinates a share partition.

        Raises:
            BrokerError: NOT_COORDINATOR.
        """
        if self.partition_of(key_of(key)).leader != node_id:
            raise BrokerError(ErrorCode.NOT_COORDINATOR)

    def leader_changed(self, partition: Partition) -> None:
        """Drop the states in a partition of ``__share_group_state`` whose leader changed, and load them again."""
        if partition.topic != SHARE_STATE_TOPIC:
            return
        # The states are loaded again even if the leader is the same, because memory must match what a new coordinator
        # would read.
        for key in self._keys_in(partition):
            del self._persisted[key]
        if partition.leader != NO_LEADER:
            self._load(partition)

    def topic_deleted(self, topic: Topic) -> None:
        """Delete all groups' states for a deleted topic."""
        if topic.name == SHARE_STATE_TOPIC:
            self.close()
            return
        # The states are found by topic id: a topic that is recreated under the same name contains different records,
        # and starts without states.
        for key in [key for key in self._persisted if key.topic_id == topic.topic_id]:
            self._write_tombstone(key)

    # ---- for leaders of share partitions (Kafka's Persister)

    def read(self, group: str, topic_id: bytes, partition: int, leader_epoch: int) -> ShareGroupOffset:
        """Return the state to a leader. From then on, leaders with an older epoch are fenced.

        Raises:
            BrokerError: INVALID_REQUEST, also if the state isn't initialized; FENCED_LEADER_EPOCH;
                UNKNOWN_TOPIC_OR_PARTITION; COORDINATOR_NOT_AVAILABLE.
        """
        key = self._validate_key(group, topic_id, partition, leader_epoch=leader_epoch)
        persisted = self._require_initialized(key, "Read")
        # As in ShareCoordinatorShard, epochs are checked before the topic: a fenced leader must learn that it is
        # fenced.
        persisted.check_leader_epoch(leader_epoch)
        self._check_exists(key)
        # Store the epoch before returning the state: the previous leader can't write any more, so the state that the
        # new leader reads stays the newest. Usually the same leader reads, and nothing has to be written.
        if leader_epoch > persisted.leader_epoch:
            self._append(key, persisted.record_for_new_leader(leader_epoch, self._updates_per_snapshot(), self._now()))
        return self._persisted[key].state

    def write(self, group: str, topic_id: bytes, partition: int, state: ShareGroupOffset) -> None:
        """Merge a state into the stored one.

        Its batches are added to the stored ones; where they overlap, the higher delivery count wins, then the higher
        delivery state. Batches before the start offset are removed.

        Raises:
            BrokerError: The same errors as :meth:`read`, and FENCED_STATE_EPOCH.
        """
        key = self._validate_key(
            group, topic_id, partition, leader_epoch=state.leader_epoch, state_epoch=state.state_epoch
        )
        for batch in state.batches:
            if not 0 <= batch.first_offset <= batch.last_offset:
                raise _invalid(f"a state batch has offsets {batch.first_offset} to {batch.last_offset}")
        persisted = self._require_initialized(key, "Write")
        persisted.check_leader_epoch(state.leader_epoch)
        # Both epochs are checked: a current leader may still have read the state before an administrator reset it.
        persisted.check_state_epoch(state.state_epoch)
        self._check_exists(key)
        self._append(key, persisted.record_for_write(state, self._updates_per_snapshot(), self._now()))

    # ---- for the group coordinator

    def initialize(self, group: str, topic_id: bytes, partition: int, state_epoch: int, start_offset: int) -> None:
        """Create a state, or reset it.

        Args:
            group: The group.
            topic_id: The topic's id.
            partition: The partition.
            state_epoch: The group's epoch, which becomes the state epoch.
            start_offset: Where the group starts. If it's -1, ``share.auto.offset.reset`` decides, when a leader reads
                the state.

        Raises:
            BrokerError: INVALID_REQUEST, FENCED_STATE_EPOCH, UNKNOWN_TOPIC_OR_PARTITION, COORDINATOR_NOT_AVAILABLE.
        """
        key = self._validate_key(group, topic_id, partition, state_epoch=state_epoch)
        persisted = self._persisted.get(key)
        if persisted is not None:
            persisted.check_state_epoch(state_epoch)
        self._check_exists(key)
        now = self._now()
        new_state = first_snapshot if persisted is None else persisted.record_for_reset
        self._append(key, new_state(state_epoch, start_offset, now))
        # Notify the leader after writing the record: it must find the new state when it reads again.
        self.on_reset(*key)

    def summary(self, group: str, topic_id: bytes, partition: int) -> ShareGroupOffset | None:
        """Return the state without fencing any leader, or None if it isn't initialized.

        Raises:
            BrokerError: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, COORDINATOR_NOT_AVAILABLE.
        """
        key = self._validate_key(group, topic_id, partition)
        self._check_exists(key)
        persisted = self._persisted.get(key)
        return persisted.state if persisted is not None else None

    def delete(self, group: str, topic_id: bytes, partition: int) -> None:
        """Delete a state, if there is one.

        Raises:
            BrokerError: INVALID_REQUEST, UNKNOWN_TOPIC_OR_PARTITION, COORDINATOR_NOT_AVAILABLE.
        """
        key = self._validate_key(group, topic_id, partition)
        self._check_exists(key)
        if key in self._persisted:
            self._write_tombstone(key)

    # ---- called periodically

    def prune(self) -> None:
        """Remove records from the start of the logs that newer snapshots make redundant.

        The topic isn't compacted. Instead, records before the oldest snapshot that is still needed are deleted.
        """
        topic = self._state.topics.get(SHARE_STATE_TOPIC)
        led = [each for each in topic.partitions if each.leader != NO_LEADER] if topic is not None else []
        # If a partition doesn't contain any state, no records are needed.
        needed = {partition.index: partition.log.end_offset for partition in led}
        for key, persisted in self._persisted.items():
            # A log can be cut only at one offset, so the share partition with the oldest snapshot determines it.
            index = self.partition_of(key_of(key)).index
            needed[index] = min(needed.get(index, persisted.offset), persisted.offset)
        superfluous = [each for each in led if each.log.start_offset < needed[each.index]]
        for partition in superfluous:
            partition.log.delete_before(needed[partition.index], self._now())
        if superfluous:
            # Without a checkpoint of the log start offset, the removed records would reappear after a crash.
            self._state.checkpoint()

    def snapshot(self) -> None:
        """Write snapshots of cold share partitions (``share.coordinator.cold.partition.snapshot.interval.ms``).

        The old snapshot of a rarely used share partition would keep all later records from being pruned. If no share
        partition has changed since the last time, nothing is written.
        """
        # Otherwise an idle cluster would write the same snapshots forever.
        if all(persisted.is_unchanged for persisted in self._persisted.values()):
            return
        now = self._now()
        before = now - self._state.options.number("share.coordinator.cold.partition.snapshot.interval.ms")
        for key, persisted in list(self._persisted.items()):
            if persisted.snapshot.written <= before:
                self._append(key, persisted.record_for_same_state(now))

    # ---- internals

    def _now(self) -> int:
        return self._state.clock.wall()

    def _updates_per_snapshot(self) -> int:
        return self._state.options.number("share.coordinator.snapshot.update.records.per.snapshot")

    def _keys_in(self, partition: Partition) -> list[SharePartitionKey]:
        return [key for key in self._persisted if self.partition_of(key_of(key)) is partition]

    def _validate_key(
        self, group: str, topic_id: bytes, partition: int, *, leader_epoch: int = 0, state_epoch: int = 0
    ) -> SharePartitionKey:
        for name, number in (("partition", partition), ("leader epoch", leader_epoch), ("state epoch", state_epoch)):
            if number < 0:
                raise _invalid(f"{name} {number} is negative")
        key = SharePartitionKey(group, topic_id, partition)
        # The code is COORDINATOR_NOT_AVAILABLE, not NOT_COORDINATOR: no other node could take the request.
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
            raise _invalid(f"{wanted} of share partition {key_of(key)}, which is not initialized")
        return persisted

    def _append(self, key: SharePartitionKey, record: Snapshot | Update) -> None:
        offset = self._write(key, type(record), encode_value(record))
        self._replay(key, record, offset)

    def _write_tombstone(self, key: SharePartitionKey) -> None:
        # The snapshot's key is enough: updates without a snapshot are ignored when the log is read.
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
        for offset, stored in internal_topic_records(partition):
            self._take(offset, stored)

    def _take(self, offset: int, stored: InternalRecord) -> None:
        read = decode(stored.key, stored.value)
        if read is None:
            return
        key, record = read
        if record is None:
            self._persisted.pop(key, None)
        else:
            self._replay(key, record, offset)


def key_of(key: SharePartitionKey) -> str:
    """Return a share partition's key for FindCoordinator: ``group:topicId:partition``, with the topic id in
    base64url."""
    group, topic_id, partition = key
    return f"{group}:{base64.urlsafe_b64encode(topic_id).decode().rstrip('=')}:{partition}"


def is_key(key: str) -> bool:
    """Return whether a string has the form of a share partition's key. It is split from the right: the group id can
    contain colons."""
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
