"""Fetch sessions (KIP-227): a Fetch request lists only the partitions that have changed since the last request. Pure.

A broker that grants a session remembers its partitions and their offsets, and its responses leave out partitions
without news. Both sides count requests (the session epoch), which detects a lost or repeated request. Whenever the
state is in doubt, a new session starts with a full request. Session id 0 means that there is no session because the
broker has no room for one; in that case every request is a full request.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from aiokproto.codec.wire import ZERO_UUID
from aiokproto.types import TopicPartition

_FULL = 0
_NO_SESSION = -1
_LAST_EPOCH = 2**31 - 1


class FetchPosition(NamedTuple):
    """What is requested of a partition. Each change has to be sent to the broker.

    Attributes:
        topic_id: The topic's id; zeros if it's requested by name.
        offset: The first offset to fetch.
        leader_epoch: The expected leader epoch (KIP-320); -1 means any.
        last_epoch: The leader epoch of the last fetched batch, which lets the leader detect that its log has diverged
            from what was fetched; -1 if unknown.
        max_bytes: The size limit for this partition in the response.
        version: The cursor's version, to recognize outdated responses; not sent.
    """

    topic_id: bytes
    offset: int
    leader_epoch: int
    last_epoch: int
    max_bytes: int
    version: object


class FetchPlan(NamedTuple):
    """The content of a Fetch request.

    Attributes:
        session_id: The session's id; 0 if there is none.
        epoch: The session epoch: 0 starts a session, -1 is a request outside any session.
        partitions: Partitions that are new or have changed.
        forgotten: Partitions to remove from the session.
        by_name: Whether the request has to use topic names because an id is unknown.
    """

    session_id: int
    epoch: int
    partitions: Mapping[TopicPartition, FetchPosition]
    forgotten: Mapping[TopicPartition, FetchPosition]
    by_name: bool


class FetchSessionHandler:
    """The fetch session with one broker.

    Attributes:
        wanted: Everything the session requests from the broker.
    """

    def __init__(self) -> None:
        self.wanted: dict[TopicPartition, FetchPosition] = {}
        self._topics: dict[bytes, str] = {}
        # The number of partitions of each topic id in `wanted`.
        self._counts: Counter[bytes] = Counter()
        # Topic ids that the last plan has removed. Its response may still mention them; later responses cannot.
        self._removed: set[bytes] = set()
        # The number of partitions in `wanted` without a topic id. If there is one, names are needed.
        self._without_id = 0
        self._id = 0
        self._epoch = _FULL

    def plan(self, changes: Mapping[TopicPartition, FetchPosition | None]) -> FetchPlan:
        """Return the next request. A change of None removes the partition.

        The cost depends on the number of changes, unless a session starts. Call :meth:`responded` or :meth:`restart`
        afterwards.
        """
        for topic_id in self._removed:
            if not self._counts[topic_id]:
                del self._topics[topic_id], self._counts[topic_id]
        self._removed.clear()
        changed: dict[TopicPartition, FetchPosition] = {}
        forgotten: dict[TopicPartition, FetchPosition] = {}
        for partition, wanted in changes.items():
            before = self.wanted.get(partition)
            # `version` is compared, too: a seek to the same offset has to be sent again, because the response in flight
            # is dropped.
            if wanted == before:
                continue
            if wanted is not None:
                changed[partition] = wanted
            # Remove the former topic: to the broker, a topic that was deleted and created again is a different topic.
            if before is not None and (wanted is None or before.topic_id != wanted.topic_id):
                forgotten[partition] = before
            self._replace(partition, before, wanted)
        # A version with names can also remove partitions that were requested by id: the names are the same.
        by_name = self._without_id > 0 or any(wanted.topic_id == ZERO_UUID for wanted in forgotten.values())
        # A full request lists everything, so nothing has to be forgotten.
        if self._epoch == _FULL:
            return FetchPlan(self._id, _FULL, dict(self.wanted), {}, by_name)
        return FetchPlan(self._id, self._epoch, changed, forgotten, by_name)

    def _replace(self, partition: TopicPartition, before: FetchPosition | None, wanted: FetchPosition | None) -> None:
        # Usually the topic is unchanged, and only the position differs.
        if before is None or wanted is None or before.topic_id != wanted.topic_id:
            self._count(before, wanted)
        if before is not None:
            self._without_id -= before.topic_id == ZERO_UUID
        if wanted is None:
            self.wanted.pop(partition, None)
            return
        self.wanted[partition] = wanted
        self._topics[wanted.topic_id] = partition.topic
        self._without_id += wanted.topic_id == ZERO_UUID

    def _count(self, before: FetchPosition | None, wanted: FetchPosition | None) -> None:
        if wanted is not None:
            self._counts[wanted.topic_id] += 1
        if before is not None:
            self._counts[before.topic_id] -= 1
            if not self._counts[before.topic_id]:
                self._removed.add(before.topic_id)

    def topic(self, topic_id: bytes) -> str:
        """Return the name of a topic that was requested by its id; empty if it wasn't."""
        return self._topics.get(topic_id, "")

    def responded(self, session_id: int) -> None:
        """Note a successful response."""
        if self._epoch == _FULL:
            self._id = session_id
            # Id 0 means that the broker didn't grant a session, so the next request is full again.
            self._epoch = 1 if session_id else _FULL
        else:
            # It wraps to 1, because epoch 0 would start a session.
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def restart(self, *, known: bool) -> list[TopicPartition]:
        """Start a new session: the broker doesn't have this one, or may not have counted the request.

        Args:
            known: Whether the broker may still have the session. If so, its id is sent, to let the broker remove it.

        Returns:
            The partitions that had been requested, and have to be requested again.
        """
        requested = list(self.wanted)
        self.wanted.clear()
        self._topics.clear()
        self._counts.clear()
        self._removed.clear()
        self._without_id = 0
        # guard: a fetch session ends with a request that failed
        self._epoch = _FULL
        if not known:
            self._id = 0
        return requested


def outside(partition: TopicPartition, wanted: FetchPosition) -> FetchPlan:
    """Return a request for one partition outside the session, which doesn't change the session."""
    return FetchPlan(0, _NO_SESSION, {partition: wanted}, {}, wanted.topic_id == ZERO_UUID)
