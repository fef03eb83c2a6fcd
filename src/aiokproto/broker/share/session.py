"""Share sessions (KIP-932): the broker remembers which partitions a member fetches, so requests list only changes.

A member has one session on each node that it fetches from. A ShareFetch with epoch 0 creates it, and each later request
carries the next epoch, so a lost or repeated request is detected. The session ends with a request with epoch -1, or
with the connection on which it was created. The records that the member has acquired through it are then released.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

INITIAL_EPOCH, FINAL_EPOCH = 0, -1

_MAX_EPOCH = (1 << 31) - 1

TopicIdPartition = tuple[bytes, int]
"""Topic id and partition."""


class ShareSessionKey(NamedTuple):
    """The key of a share session: a member of a share group."""

    group_id: str
    member_id: str


class ShareSession:
    """A member's session on a node.

    Attributes:
        key: The member.
        epoch: The epoch that its next request must have.
        connection: The connection on which it was created.
    """

    def __init__(self, key: ShareSessionKey, connection: object) -> None:
        self.key = key
        self.epoch = INITIAL_EPOCH + 1
        self.connection = connection
        # Whether the next response must include the partition even without records: once after it was added, and once
        # after an error, to show the member that the error is over.
        self._partitions: dict[TopicIdPartition, bool] = {}

    @property
    def partitions(self) -> list[TopicIdPartition]:
        """The partitions to fetch. The first one rotates, so a small limit doesn't starve the other partitions."""
        partitions = list(self._partitions)
        # As in Kafka's PartitionRotateStrategy, they are rotated by the session epoch, which grows by one with each
        # request.
        turn = self.epoch % len(partitions) if partitions else 0
        return partitions[turn:] + partitions[:turn]

    def update(self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]) -> None:
        """Add partitions, then remove the forgotten ones. Adding a partition again has no effect."""
        for partition in added:
            # A known partition isn't set again. The request may list it only because of its acknowledgements.
            self._partitions.setdefault(partition, True)
        for partition in forgotten:
            self._partitions.pop(partition, None)

    def must_include(self, partition: TopicIdPartition, *, changed: bool, failed: bool) -> bool:
        """Return whether the response must include a partition: it changed, failed, is new, or failed last time."""
        due = changed or failed or self._partitions.get(partition, False)
        if partition in self._partitions:
            self._partitions[partition] = failed
        return due


class ShareSessions:
    """The share sessions of a node."""

    def __init__(self, max_sessions: int) -> None:
        """Start without sessions. ``max_sessions`` is ``group.share.max.share.sessions``."""
        self._max_sessions = max_sessions
        self._sessions: dict[ShareSessionKey, ShareSession] = {}

    def create(self, key: ShareSessionKey, connection: object) -> ShareSession:
        """Create a session, which replaces one that the member already has.

        Raises:
            BrokerError: SHARE_SESSION_LIMIT_REACHED.
        """
        # The old session's records aren't released: the member may have restarted, or only lost a response. They stay
        # locked until their acquisition locks expire, as in Kafka.
        self._sessions.pop(key, None)
        if len(self._sessions) >= self._max_sessions:
            raise BrokerError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                detail=f"there are {self._max_sessions} sessions, the limit (group.share.max.share.sessions)",
            )
        session = self._sessions[key] = ShareSession(key, connection)
        return session

    def next_request(self, key: ShareSessionKey, epoch: int) -> ShareSession:
        """Return the member's session for a request with an epoch, and advance the session's epoch.

        Raises:
            BrokerError: SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get(key)
        if session is None:
            raise BrokerError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        # A member that closes its session may not know the epoch if a response was lost.
        if epoch != FINAL_EPOCH:
            if epoch != session.epoch:
                raise BrokerError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            # The epoch wraps to 1: 0 would create a session.
            session.epoch = session.epoch % _MAX_EPOCH + 1
        return session

    def is_open(self, session: ShareSession) -> bool:
        """Return whether a session has not been closed or replaced."""
        return self._sessions.get(session.key) is session

    def close(self, session: ShareSession) -> None:
        """Close a session."""
        if self.is_open(session):
            del self._sessions[session.key]

    def of_connection(self, connection: object) -> list[ShareSession]:
        """Return the sessions that were created on a connection."""
        return [each for each in self._sessions.values() if each.connection is connection]

    def has_group(self, group_id: str) -> bool:
        """Return whether a member of a group has a session on this node."""
        return any(key.group_id == group_id for key in self._sessions)
