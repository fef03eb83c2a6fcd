"""Fetch sessions (KIP-227): the broker remembers what a client fetches, and each side sends only what changed."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field

from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, PartitionData
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.runtime import current

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
NO_SESSION = 0

_MAX_EPOCH = (1 << 31) - 1

Key = tuple[str, bytes, int]
"""Topic name (before v13) or id (since), and partition: what of both is not used is empty."""


@dataclass
class CachedPartition:
    """A partition in a session: what to fetch, and what the client was last told."""

    request: FetchPartition
    told: tuple[int, int] | None = None


@dataclass
class FetchSession:
    """A session; with id 0, a single full fetch that nobody remembers."""

    session_id: int
    by_id: bool
    epoch: int = 1
    incremental: bool = False
    partitions: OrderedDict[Key, CachedPartition] = field(default_factory=OrderedDict)

    def update(self, request: FetchRequest) -> None:
        """Take over what a request adds, changes and removes."""
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                self.partitions.pop((forgotten.topic, forgotten.topic_id, index), None)
        for topic in request.topics:
            for partition in topic.partitions:
                key = (topic.topic, topic.topic_id, partition.partition)
                known = self.partitions.get(key)
                if known is None:
                    self.partitions[key] = CachedPartition(partition)
                else:
                    known.request = partition

    def select(self, answers: Iterable[tuple[Key, PartitionData]]) -> list[tuple[Key, PartitionData]]:
        """The answers that the client has to be told: if incremental, what has data, an error or moved marks."""
        selected = []
        for key, answer in answers:
            known = self.partitions[key]
            marks = (answer.high_watermark, answer.log_start_offset)
            news = answer.records or answer.error_code or answer.diverging_epoch.epoch >= 0 or known.told != marks
            if news or not self.incremental:
                selected.append((key, answer))
            # After an error the client must hear of the partition again, even if nothing moved meanwhile.
            known.told = None if answer.error_code else marks
        if self.session_id:
            # Who got data goes to the end, so that a small max_bytes does not starve the others.
            for key, answer in selected:
                if answer.records:
                    self.partitions.move_to_end(key)
        return selected


class FetchSessionCache:
    """The sessions of one node; when they are too many, the one longest unused goes."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def begin(self, request: FetchRequest, version: int) -> FetchSession:
        """The session that a request belongs to, with the request applied to it.

        Raises:
            BrokerError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR.
        """
        by_id = version >= 13
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(request.session_id, None)
            session = FetchSession(NO_SESSION, by_id)
            if request.session_epoch == INITIAL_EPOCH and request.topics and self._slots:
                session.session_id = self._new_id()
                self._sessions[session.session_id] = session
                if len(self._sessions) > self._slots:
                    self._sessions.popitem(last=False)
        else:
            session = self._continue(request, by_id)
        session.update(request)
        return session

    def partitions(self, session_id: int) -> list[Key]:
        """What a session fetches, nothing if it is unknown."""
        session = self._sessions.get(session_id)
        return list(session.partitions) if session is not None else []

    def end(self, session_id: int) -> None:
        """Forget a session of which the client was not told."""
        self._sessions.pop(session_id, None)

    def _continue(self, request: FetchRequest, by_id: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            raise BrokerError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise BrokerError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        if session.by_id != by_id:
            raise BrokerError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self._sessions.move_to_end(session.session_id)
        session.incremental = True
        session.epoch = session.epoch % _MAX_EPOCH + 1
        return session

    def _new_id(self) -> int:
        while True:
            session_id = current().random.randint(1, _MAX_EPOCH)
            if session_id not in self._sessions:
                return session_id
