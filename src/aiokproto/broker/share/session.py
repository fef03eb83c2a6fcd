"""Share sessions (KIP-932): what a member fetches from a node, and how far the two of them have come.

A member has one on each node that it fetches from. It ends when the member says so, and with the connection on which it
was begun; the records that the member had by it are then for others.
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
    """A member of a share group."""

    group_id: str
    member_id: str


class ShareSession:
    """A member's session on a node.

    Attributes:
        who: The member.
        epoch: That of the next request.
        connection: On which it was begun.
    """

    def __init__(self, key: ShareSessionKey, connection: object) -> None:
        self.key = key
        self.epoch = INITIAL_EPOCH + 1
        self.connection = connection
        # With each, whether the member has to be told of it though there is nothing to tell.
        self._partitions: dict[TopicIdPartition, bool] = {}

    @property
    def partitions(self) -> list[TopicIdPartition]:
        """What is fetched; another one comes first each time, so that a small limit does not starve the others."""
        partitions = list(self._partitions)
        turn = self.epoch % len(partitions) if partitions else 0
        return partitions[turn:] + partitions[:turn]

    def update(self, added: Iterable[TopicIdPartition], forgotten: Iterable[TopicIdPartition]) -> None:
        """Fetch more, and then less."""
        for partition in added:
            self._partitions.setdefault(partition, True)
        for partition in forgotten:
            self._partitions.pop(partition, None)

    def must_include(self, partition: TopicIdPartition, *, news: bool, failed: bool) -> bool:
        """Whether the member has to be told of a partition: of each once, of news always, and after a failure again."""
        due = news or failed or self._partitions.get(partition, False)
        if partition in self._partitions:
            self._partitions[partition] = failed
        return due


class ShareSessions:
    """The sessions of a node."""

    def __init__(self, max_sessions: int) -> None:
        """Have room for ``slots`` of them (``group.share.max.share.sessions``)."""
        self._max_sessions = max_sessions
        self._sessions: dict[ShareSessionKey, ShareSession] = {}

    def create(self, key: ShareSessionKey, connection: object) -> ShareSession:
        """A new session; one that the member had is forgotten.

        Raises:
            BrokerError: SHARE_SESSION_LIMIT_REACHED.
        """
        self._sessions.pop(key, None)
        if len(self._sessions) >= self._max_sessions:
            raise BrokerError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                detail=f"there are {self._max_sessions} sessions, the limit (group.share.max.share.sessions)",
            )
        session = self._sessions[key] = ShareSession(key, connection)
        return session

    def next_request(self, key: ShareSessionKey, epoch: int) -> ShareSession:
        """The member's session, for its next request or for its last.

        Raises:
            BrokerError: SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get(key)
        if session is None:
            raise BrokerError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != FINAL_EPOCH:
            if epoch != session.epoch:
                raise BrokerError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session.epoch = session.epoch % _MAX_EPOCH + 1
        return session

    def is_open(self, session: ShareSession) -> bool:
        """Whether a session goes on."""
        return self._sessions.get(session.key) is session

    def close(self, session: ShareSession) -> None:
        """Forget a session."""
        if self.is_open(session):
            del self._sessions[session.key]

    def of_connection(self, connection: object) -> list[ShareSession]:
        """The sessions that were begun on a connection."""
        return [each for each in self._sessions.values() if each.connection is connection]

    def has_group(self, group_id: str) -> bool:
        """Whether a member of a group has a session here."""
        return any(key.group_id == group_id for key in self._sessions)
