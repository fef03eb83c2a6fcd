"""The requests of streams groups (KIP-1071): find or create the group, apply the request, write what changed."""

from __future__ import annotations

from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.store import Entry, GroupStore
from aiokproto.broker.groups.streams.group import StreamsGroup, StreamsHeartbeatResult
from aiokproto.broker.groups.streams.member import StreamsHeartbeat
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


class StreamsGroupCoordinator(GroupStore):
    """The part of the group coordinator that serves streams groups."""

    def streams_group(self, group_id: str) -> StreamsGroup:
        """Return a streams group.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND.
        """
        return self._streams_group(group_id)[1]

    def streams_heartbeat(self, group_id: str, heartbeat: StreamsHeartbeat) -> StreamsHeartbeatResult:
        """Apply a StreamsGroupHeartbeat of a member that joins or stays. Joining creates the group.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, or see :meth:`StreamsGroup.heartbeat`.
        """
        if heartbeat.joins:
            self._create_streams_group(group_id)
        entry, group = self._streams_group(group_id)
        try:
            return group.heartbeat(heartbeat, self._now())
        finally:
            self._finish_operation(entry)

    def streams_leave(self, group_id: str, member_id: str, instance_id: str | None, epoch: int) -> None:
        """Apply a StreamsGroupHeartbeat of a member that leaves: permanently (-1), or as a static member (-2).

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        entry, group = self._streams_group(group_id)
        group.remove_or_keep_static(member_id, instance_id, epoch)
        self._finish_operation(entry)

    def _streams_group(self, group_id: str) -> tuple[Entry, StreamsGroup]:
        entry = self._entries.get(group_id)
        if entry is None or not isinstance(entry.group, StreamsGroup):
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, detail=f"there is no streams group {group_id!r}")
        return entry, entry.group

    def _create_streams_group(self, group_id: str) -> None:
        """Create the group if there is none. An empty classic group is replaced, and its committed offsets stay."""
        entry = self._entries.get(group_id)
        new_group = StreamsGroup(group_id, self._topics, self.streams_settings(group_id))
        if entry is None:
            self._entries[group_id] = Entry(new_group)
        # An admin client can set offsets before an application starts, which creates a classic group without members.
        elif isinstance(entry.group, ClassicGroup) and not entry.group.members:
            self._write_tombstones(entry)
            entry.group = new_group
