"""Fetch sessions (KIP-227): the broker caches the partitions that a client fetches, and each side sends only changes.

A full Fetch (epoch 0) creates a session. An incremental Fetch (epoch 1 and up) lists the partitions that were added,
changed or forgotten, and its response contains only partitions with records, an error, or a changed high watermark or
log start offset. The epoch increases by one with each request, so a lost or repeated request is detected. If that
happens, the client sends a full Fetch again.

A session saves the client work, and costs the broker memory. If all slots are taken, a new session replaces an old one
by Kafka's rule: a session that hasn't been used for two minutes, or a smaller session that is older than two minutes.
If there is no such session, or the sessions have too many partitions, the broker serves the Fetch without a session,
which every client understands.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, PartitionData
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from aiokproto.runtime import current

INITIAL_EPOCH, FINAL_EPOCH = 0, -1
NO_SESSION = 0

MAX_PARTITIONS = 100_000
"""Maximum number of partitions in all sessions together. Each entry takes a few hundred bytes, even if the partition
doesn't exist."""

_EVICTION_SECONDS = 120.0
"""Kafka's ``MIN_INCREMENTAL_FETCH_SESSION_EVICTION_MS``."""

_MAX_EPOCH = (1 << 31) - 1

Key = tuple[str, bytes, int]
"""Topic name (before v13), topic id (v13+), and partition index. The name or id that isn't used is empty."""


@dataclass
class CachedPartition:
    """A partition in a session: what to fetch, and the high watermark and log start offset that were reported last."""

    request: FetchPartition
    reported: tuple[int, int] | None = None


@dataclass
class FetchSession:
    """A fetch session. Id 0 is a full Fetch without a session; ``wanted`` is whether it requests one."""

    session_id: int
    by_id: bool
    wanted: bool = False
    created: float = 0.0
    used: float = 0.0
    epoch: int = 1
    incremental: bool = False
    partitions: OrderedDict[Key, CachedPartition] = field(default_factory=OrderedDict)

    def update(self, request: FetchRequest) -> None:
        """Apply the partitions that a request adds, changes and forgets."""
        for forgotten in request.forgotten_topics_data:
            for index in forgotten.partitions:
                self.partitions.pop((forgotten.topic, forgotten.topic_id, index), None)
        for topic in request.topics:
            for partition in topic.partitions:
                key = (topic.topic, topic.topic_id, partition.partition)
                known = self.partitions.get(key)
                # A known partition keeps its position in the order and its reported offsets.
                if known is None:
                    self.partitions[key] = CachedPartition(partition)
                else:
                    known.request = partition

    def select(self, answers: Iterable[tuple[Key, PartitionData]]) -> list[tuple[Key, PartitionData]]:
        """Return the partitions to include in the response: all of them for a full Fetch, the changed ones for an
        incremental Fetch."""
        selected = []
        for key, answer in answers:
            known = self.partitions[key]
            offsets = (answer.high_watermark, answer.log_start_offset)
            changed = (
                answer.records
                or answer.error_code
                or answer.diverging_epoch.epoch >= 0
                or answer.preferred_read_replica >= 0
                or known.reported != offsets
            )
            if changed or not self.incremental:
                selected.append((key, answer))
            # The next response after an error must include the partition, even if its offsets haven't moved.
            known.reported = None if answer.error_code else offsets
        if self.session_id:
            # Partitions with records move to the end so that a small max_bytes doesn't starve the other partitions.
            for key, answer in selected:
                if answer.records:
                    self.partitions.move_to_end(key)
        return selected


class FetchSessionCache:
    """The fetch sessions of one node.

    Args:
        slots: Maximum number of sessions.
        now: Returns the current time (s).
    """

    def __init__(self, slots: int, now: Callable[[], float]) -> None:
        self._slots = slots
        self._now = now
        # The least recently used session comes first.
        self._sessions: OrderedDict[int, FetchSession] = OrderedDict()

    def session_for(self, request: FetchRequest, version: int) -> FetchSession:
        """Return the session of a request, with the request applied to it.

        Raises:
            BrokerError: FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH or FETCH_SESSION_TOPIC_ID_ERROR.
        """
        by_id = version >= 13
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            # A full Fetch replaces the client's session. A Fetch with the final epoch closes it.
            self._sessions.pop(request.session_id, None)
            session = FetchSession(NO_SESSION, by_id, wanted=request.session_epoch == INITIAL_EPOCH)
        else:
            session = self._continue(request, by_id)
        before = len(session.partitions)
        session.update(request)
        if session.incremental and len(session.partitions) > before and self._size() > MAX_PARTITIONS:
            self._sessions.pop(session.session_id)
            raise BrokerError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.incremental and not session.partitions:
            # As in Kafka, a session ends when it has lost its last partition: the response contains session id 0, and
            # the client starts over with a full Fetch.
            self._sessions.pop(session.session_id)
            return FetchSession(NO_SESSION, by_id)
        return session

    def keep(self, session: FetchSession) -> None:
        """Create a session for a full Fetch if it requests one and there is room."""
        size = len(session.partitions)
        if session.session_id or not session.wanted:
            return
        if self._size() + size <= MAX_PARTITIONS and self._has_slot(size):
            session.session_id = self._new_id()
            session.created = session.used = self._now()
            self._sessions[session.session_id] = session

    def partitions(self, session_id: int) -> list[Key]:
        """Return the partitions of a session, or an empty list if there is no such session."""
        session = self._sessions.get(session_id)
        return list(session.partitions) if session is not None else []

    def end(self, session_id: int) -> None:
        """Remove a session because its id was not sent to the client."""
        self._sessions.pop(session_id, None)

    def _continue(self, request: FetchRequest, by_id: bool) -> FetchSession:
        session = self._sessions.get(request.session_id)
        if session is None:
            # The session was evicted, or the broker has restarted. The client sends a full Fetch, which creates a new
            # session.
            raise BrokerError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != request.session_epoch:
            raise BrokerError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        # The session's keys are either names or ids, so a client that switches between versions has to start over
        # (KIP-516).
        if session.by_id != by_id:
            raise BrokerError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        self._sessions.move_to_end(session.session_id)
        session.used = self._now()
        session.incremental = True
        # The epoch wraps to 1: epoch 0 would mean a full Fetch.
        session.epoch = session.epoch % _MAX_EPOCH + 1
        return session

    def _size(self) -> int:
        return sum(len(session.partitions) for session in self._sessions.values())

    def _has_slot(self, size: int) -> bool:
        """Return whether there is a slot for a session of ``size`` partitions. Evict another session if necessary."""
        if len(self._sessions) < self._slots:
            return True
        if not self._slots:
            return False
        before = self._now() - _EVICTION_SECONDS
        oldest = next(iter(self._sessions.values()))
        if oldest.used >= before:
            old = [each for each in self._sessions.values() if each.created < before]
            oldest = min(old, key=lambda each: len(each.partitions), default=oldest)
            if oldest.created >= before or len(oldest.partitions) >= size:
                return False
        del self._sessions[oldest.session_id]
        return True

    def _new_id(self) -> int:
        while True:
            # The id is random, as in Kafka (FetchSessionCache.newSessionId()), so a client can't guess another client's
            # session.
            session_id = current().random.randint(1, _MAX_EPOCH)
            if session_id not in self._sessions:
                return session_id
