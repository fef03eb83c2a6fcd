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

Place = tuple[bytes, int]
"""Topic id and partition."""


class Who(NamedTuple):
    """A member of a share group."""

    group: str
    member: str


class ShareSession:
    """A member's session on a node.

    Attributes:
        who: The member.
        epoch: That of the next request.
        connection: On which it was begun.
    """

    def __init__(self, who: Who, connection: object) -> None:
        self.who = who
        self.epoch = INITIAL_EPOCH + 1
        self.connection = connection
        # With each, whether the member has to be told of it though there is nothing to tell.
        self._places: dict[Place, bool] = {}

    @property
    def places(self) -> list[Place]:
        """What is fetched; another one comes first each time, so that a small limit does not starve the others."""
        places = list(self._places)
        turn = self.epoch % len(places) if places else 0
        return places[turn:] + places[:turn]

    def update(self, added: Iterable[Place], forgotten: Iterable[Place]) -> None:
        """Fetch more, and then less."""
        for place in added:
            self._places.setdefault(place, True)
        for place in forgotten:
            self._places.pop(place, None)

    def tells(self, place: Place, *, news: bool, failed: bool) -> bool:
        """Whether the member has to be told of a partition: of each once, of news always, and after a failure again."""
        due = news or failed or self._places.get(place, False)
        if place in self._places:
            self._places[place] = failed
        return due


class ShareSessions:
    """The sessions of a node."""

    def __init__(self, slots: int) -> None:
        """Have room for ``slots`` of them (``group.share.max.share.sessions``)."""
        self._slots = slots
        self._sessions: dict[Who, ShareSession] = {}

    def begin(self, who: Who, connection: object) -> ShareSession:
        """A new session; one that the member had is forgotten.

        Raises:
            BrokerError: SHARE_SESSION_LIMIT_REACHED.
        """
        self._sessions.pop(who, None)
        if len(self._sessions) >= self._slots:
            raise BrokerError(
                ErrorCode.SHARE_SESSION_LIMIT_REACHED,
                detail=f"there are {self._slots} sessions, the limit (group.share.max.share.sessions)",
            )
        session = self._sessions[who] = ShareSession(who, connection)
        return session

    def go_on(self, who: Who, epoch: int) -> ShareSession:
        """The member's session, for its next request or for its last.

        Raises:
            BrokerError: SHARE_SESSION_NOT_FOUND or INVALID_SHARE_SESSION_EPOCH.
        """
        session = self._sessions.get(who)
        if session is None:
            raise BrokerError(ErrorCode.SHARE_SESSION_NOT_FOUND)
        if epoch != FINAL_EPOCH:
            if epoch != session.epoch:
                raise BrokerError(ErrorCode.INVALID_SHARE_SESSION_EPOCH)
            session.epoch = session.epoch % _MAX_EPOCH + 1
        return session

    def has(self, session: ShareSession) -> bool:
        """Whether a session goes on."""
        return self._sessions.get(session.who) is session

    def end(self, session: ShareSession) -> None:
        """Forget a session."""
        if self.has(session):
            del self._sessions[session.who]

    def of_connection(self, connection: object) -> list[ShareSession]:
        """The sessions that were begun on a connection."""
        return [each for each in self._sessions.values() if each.connection is connection]

    def knows(self, group: str) -> bool:
        """Whether a member of a group has a session here."""
        return any(who.group == group for who in self._sessions)
