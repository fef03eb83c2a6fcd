"""Fetch sessions (KIP-227): a Fetch request names only the partitions that have changed since the last one. Pure.

A broker that grants a session remembers its partitions and their offsets, and its responses leave out partitions
without news. Both sides count requests (the session epoch), so that a lost or repeated request is detected. Whenever
the state is in doubt, a new session starts with a full request. Session id 0 means that there is no session because the
broker has no room for one; then every request is a full one.
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
        topic_id: The topic's id; zeros if it is requested by name.
        offset: The first offset to fetch.
        leader_epoch: The expected leader epoch (KIP-320); -1 for any.
        last_epoch: The leader epoch of the last fetched batch, which shows the leader whether its log has diverged from
            what was fetched; -1 if unknown.
        max_bytes: Limit of the response for this partition.
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
        session_id: The session's id; 0 for none.
        epoch: The session epoch: 0 starts a session, -1 is outside of any.
        partitions: Partitions that are new or have changed.
        forgotten: Partitions to remove from the session.
        by_name: Whether the request has to name topics because an id is unknown.
    """

    session_id: int
    epoch: int
    partitions: Mapping[TopicPartition, FetchPosition]
    forgotten: Mapping[TopicPartition, FetchPosition]
    by_name: bool


class FetchSessionHandler:
    """The fetch session with one broker.

    Attributes:
        wanted: What was requested from the broker so far.
    """

    def __init__(self) -> None:
        self.wanted: dict[TopicPartition, FetchPosition] = {}
        self._topics: dict[bytes, str] = {}
        # How many partitions of each topic id are in `wanted`.
        self._counts: Counter[bytes] = Counter()
        # Topic ids that the last plan has removed. Its response may still mention them; later responses can't.
        self._removed: set[bytes] = set()
        # How many of `wanted` have no topic id. One of them is enough to need names.
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
            # `version` is compared, too, so a seek to the same offset is sent again, because the response in flight is
            # dropped.
            if wanted == before:
                continue
            if wanted is not None:
                changed[partition] = wanted
            # Remove the former topic. To the broker a topic that was deleted and created again is another one.
            if before is not None and (wanted is None or before.topic_id != wanted.topic_id):
                forgotten[partition] = before
            self._replace(partition, before, wanted)
        # A version with names can remove partitions that were requested by id, too. The names are the same.
        by_name = self._without_id > 0 or any(wanted.topic_id == ZERO_UUID for wanted in forgotten.values())
        # A full request names everything, so nothing need be forgotten.
        if self._epoch == _FULL:
            return FetchPlan(self._id, _FULL, dict(self.wanted), {}, by_name)
        return FetchPlan(self._id, self._epoch, changed, forgotten, by_name)

    def _replace(self, partition: TopicPartition, before: FetchPosition | None, wanted: FetchPosition | None) -> None:
        # As a rule the topic is unchanged, and only the position differs.
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
        """Return the name of a topic that was requested by its id; empty if it was not."""
        return self._topics.get(topic_id, "")

    def responded(self, session_id: int) -> None:
        """Note a successful response."""
        if self._epoch == _FULL:
            self._id = session_id
            # Id 0 means that the broker grants no session, so the next request is full again.
            self._epoch = 1 if session_id else _FULL
        else:
            # It wraps to 1, because epoch 0 would start a session.
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def restart(self, *, known: bool) -> list[TopicPartition]:
        """Start a new session, because the broker doesn't have this one, or may not have counted the request.

        Args:
            known: Whether the broker may still have the session; its id is then sent, so that the broker can remove it.

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
    """Return a request for one partition outside of the session, which it does not change."""
    return FetchPlan(0, _NO_SESSION, {partition: wanted}, {}, wanted.topic_id == ZERO_UUID)
