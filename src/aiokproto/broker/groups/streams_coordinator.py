"""What requests do to streams groups."""

from __future__ import annotations

from aiokproto.broker.groups.classic_group import ClassicGroup
from aiokproto.broker.groups.store import Entry, GroupStore
from aiokproto.broker.groups.streams.group import StreamsGroup, StreamsHeartbeatResult
from aiokproto.broker.groups.streams.member import StreamsHeartbeat
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError


class StreamsGroupCoordinator(GroupStore):
    """The streams groups among all groups."""

    def streams_group(self, group_id: str) -> StreamsGroup:
        """A streams group.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND.
        """
        return self._streams_group(group_id)[1]

    def streams_heartbeat(self, group_id: str, heartbeat: StreamsHeartbeat) -> StreamsHeartbeatResult:
        """StreamsGroupHeartbeat of a member that joins or stays.

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, or why the group refuses it.
        """
        if heartbeat.joins:
            self._make_room_for_streams(group_id)
        entry, group = self._streams_group(group_id)
        try:
            return group.heartbeat(heartbeat, self._now())
        finally:
            self._finish_operation(entry)

    def streams_leave(self, group_id: str, member_id: str, instance_id: str | None, epoch: int) -> None:
        """StreamsGroupHeartbeat of a member that leaves, for good (-1) or to come back (-2).

        Raises:
            BrokerError: GROUP_ID_NOT_FOUND, UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
        """
        entry, group = self._streams_group(group_id)
        group.remove_or_keep_static(member_id, instance_id, epoch)
        self._finish_operation(entry)

    # ---- inside

    def _streams_group(self, group_id: str) -> tuple[Entry, StreamsGroup]:
        entry = self._entries.get(group_id)
        if entry is None or not isinstance(entry.group, StreamsGroup):
            raise BrokerError(ErrorCode.GROUP_ID_NOT_FOUND, detail=f"there is no streams group {group_id!r}")
        return entry, entry.group

    def _make_room_for_streams(self, group_id: str) -> None:
        """Have a streams group where there is no group, or a classic one without members, whose offsets stay."""
        entry = self._entries.get(group_id)
        fresh = StreamsGroup(group_id, self._topics, self.streams_settings(group_id))
        if entry is None:
            self._entries[group_id] = Entry(fresh)
        elif isinstance(entry.group, ClassicGroup) and not entry.group.members:
            self._write_tombstones(entry)
            entry.group = fresh
