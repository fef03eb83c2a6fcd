"""The requests of share groups (KIP-932), and the initialization and deletion of their partitions' states.

The share coordinator stores the states in another topic. Each change to them is therefore first written to the group as
an intent, then made, then written to the group as done: see :mod:`aiokproto.broker.groups.share`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from aiokproto.broker.groups.assignment import HeartbeatResult
from aiokproto.broker.groups.reconciliation import JOIN_GROUP_MEMBER_EPOCH
from aiokproto.broker.groups.share.group import ShareGroup, ShareHeartbeat
from aiokproto.broker.groups.store import Entry, GroupStore
from aiokproto.broker.metadata.cluster_state import ClusterState
from aiokproto.broker.metadata.topics import Topic
from aiokproto.broker.share.coordinator import ShareCoordinator
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.texts import counted

StartOffsets = Mapping[int, int]
"""Start offset by partition index. -1 means that ``share.auto.offset.reset`` decides."""


class ShareGroupCoordinator(GroupStore):
    """The part of the group coordinator that serves share groups."""

    def __init__(self, state: ClusterState, states: ShareCoordinator | None = None) -> None:
        """Start without groups. ``states`` stores the states of share partitions."""
        super().__init__(state)
        self._states = states if states is not None else ShareCoordinator(state)

    def share_group(self, group_id: str) -> ShareGroup:
        """Return a share group.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND.
        """
        return self._share_group(group_id)[1]

    # ---- members

    def share_heartbeat(self, group_id: str, heartbeat: ShareHeartbeat) -> HeartbeatResult:
        """Apply a ShareGroupHeartbeat of a member that joins or stays. Joining creates the group.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, or see :meth:`ShareGroup.update_member`.
        """
        # A group is created only by a member that joins. A member that believes it's in the group must learn that the
        # group is gone.
        if heartbeat.epoch == JOIN_GROUP_MEMBER_EPOCH and group_id not in self._entries:
            self._new_share_group(group_id)
        entry, group = self._share_group(group_id)
        try:
            group.update_member(heartbeat, self._now())
            self._initialize(entry, group)
            return group.advance(heartbeat)
        finally:
            self._finish_operation(entry)

    def share_leave(self, group_id: str, member_id: str) -> HeartbeatResult:
        """Apply a ShareGroupHeartbeat of a member that leaves.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID.
        """
        entry, group = self._share_group(group_id)
        result = group.leave(member_id)
        self._finish_operation(entry)
        return result

    # ---- offsets

    def initialized_share_partitions(self, group_id: str) -> dict[bytes, list[int]]:
        """Return the partitions of a group that have a state, by topic id. Empty if it is not a share group."""
        entry = self._entries.get(group_id)
        if entry is None or not isinstance(entry.group, ShareGroup):
            return {}
        return {topic_id: sorted(topic.partitions) for topic_id, topic in entry.group.states.initialized.items()}

    def alter_share_offsets(
        self, group_id: str, start_offsets: Mapping[str, StartOffsets]
    ) -> dict[tuple[str, int], ErrorCode]:
        """Reset the start offsets of a group without members (AlterShareGroupOffsets). Creates the group if necessary.

        Args:
            group_id: The group.
            start_offsets: The start offset of each partition, by topic name.

        Returns:
            The error of each topic and partition, or NONE.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
        """
        if group_id in self._entries:
            self._check_empty(self.share_group(group_id))
        results = {
            (name, index): self._check_start(name, index, start)
            for name, offsets in start_offsets.items()
            for index, start in offsets.items()
        }
        accepted: dict[str, dict[int, int]] = {}
        for (name, index), error in results.items():
            if error is ErrorCode.NONE:
                accepted.setdefault(name, {})[index] = start_offsets[name][index]
        # There's nothing to write, and no reason to create the group.
        if not accepted:
            return results
        if group_id not in self._entries:
            self._new_share_group(group_id)
        entry, group = self._share_group(group_id)
        topics = {name: self._state.topics[name] for name in accepted}
        for name, offsets in accepted.items():
            group.states.start_initializing(topics[name].topic_id, name, offsets)
        # The intent is written before the share coordinator is called, so that another coordinator can continue from
        # here.
        self._write_changes(entry)
        for name, offsets in accepted.items():
            failed = self._initialize_states(group, topics[name].topic_id, offsets)
            results.update({(name, index): error for index, error in failed.items()})
        self._write_changes(entry)
        return results

    def delete_share_offsets(self, group_id: str, topics: Collection[Topic]) -> dict[str, ErrorCode]:
        """Delete the states of some topics of a group without members (DeleteShareGroupOffsets).

        Returns:
            The error of each topic by name, or NONE; UNKNOWN_TOPIC_OR_PARTITION if the group has no state for it.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP.
        """
        entry, group = self._share_group(group_id)
        self._check_empty(group)
        return {topic.name: self._delete_states(entry, group, topic) for topic in topics}

    # ---- for GroupCoordinator

    def _delete_share_states(self, entry: Entry, group: ShareGroup) -> None:
        """Delete all states of a group, before the group is deleted.

        Raises:
            BrokerError: The share coordinator failed. The group stays, and a later DeleteGroups continues.
        """
        known = {*group.states.initializing, *group.states.initialized, *group.states.deleting}
        for topic in [self._state.topic_by_id(topic_id) for topic_id in known]:
            error = self._delete_states(entry, group, topic) if topic is not None else ErrorCode.NONE
            # The topic stays in ``deleting``, where the next DeleteGroups continues.
            if error:
                raise BrokerError(error)

    def _remove_share_topic(self, entry: Entry, group: ShareGroup, topic: Topic) -> None:
        """Remove a deleted topic from a group. The share coordinator deletes its states by itself."""
        if group.states.remove_topic(topic.topic_id):
            self._write_changes(entry)

    # ---- internals

    def _new_share_group(self, group_id: str) -> None:
        self._entries[group_id] = Entry(ShareGroup(group_id, self._topics, self.share_settings(group_id)))

    def _share_group(self, group_id: str) -> tuple[Entry, ShareGroup]:
        entry = self._entries.get(group_id)
        if entry is None or not isinstance(entry.group, ShareGroup):
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, detail=f"there is no share group {group_id!r}")
        return entry, entry.group

    def _check_empty(self, group: ShareGroup) -> None:
        if group.members:
            has = f"the group has {counted(len(group.members), 'member')}"
            raise BrokerError(ErrorCode.NON_EMPTY_GROUP, detail=has)

    def _check_start(self, topic: str, index: int, start: int) -> ErrorCode:
        if self._state.find_partition(topic, index) is None:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        return ErrorCode.NONE if start >= -1 else ErrorCode.INVALID_REQUEST

    def _initialize(self, entry: Entry, group: ShareGroup) -> None:
        """Initialize the states that are missing. The next heartbeat retries those that fail."""
        missing = group.missing()
        # The intent is written before the share coordinator is called: see StatePartitionMetadata.
        for topic_id, partitions in missing.items():
            group.states.start_initializing(topic_id, self._topics.name(topic_id) or "", partitions)
        if missing:
            self._write_changes(entry)
        for topic_id, partitions in missing.items():
            # Partitions that are added to a topic which the group already reads start at 0, whatever
            # share.auto.offset.reset says: all their records are newer than the subscription, and "latest" would skip
            # some.
            start = 0 if topic_id in group.states.initialized else -1
            # The group epoch becomes the state epoch: each reset needs a higher one.
            self._initialize_states(group, topic_id, dict.fromkeys(sorted(partitions), start))
            group.changed = True

    def _initialize_states(self, group: ShareGroup, topic_id: bytes, offsets: StartOffsets) -> dict[int, ErrorCode]:
        """Initialize states whose intent is written. Return the errors by partition."""
        failed: dict[int, ErrorCode] = {}
        for index, start in offsets.items():
            try:
                self._states.initialize(group.group_id, topic_id, index, group.epoch, start)
            except BrokerError as error:
                failed[index] = error.code
        group.states.mark_initialized(topic_id, offsets.keys() - failed.keys())
        return failed

    def _delete_states(self, entry: Entry, group: ShareGroup, topic: Topic) -> ErrorCode:
        partitions = group.states.start_deleting(topic.topic_id)
        if not partitions and topic.topic_id not in group.states.deleting:
            return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        self._write_changes(entry)
        try:
            # All partitions of the topic are deleted: an earlier attempt may have deleted only some before it failed.
            for index in range(len(topic.partitions)):
                self._states.delete(group.group_id, topic.topic_id, index)
        except BrokerError as error:
            return error.code
        group.states.mark_deleted(topic.topic_id)
        self._write_changes(entry)
        return ErrorCode.NONE
