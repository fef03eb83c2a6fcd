"""Fetch sessions (KIP-227): a Fetch names only what has changed since the last one. Pure.

A broker that grants a session remembers its partitions and where each is to be read from, and its responses leave out
partitions without news. Both sides count requests (the epoch), so that a lost or doubled one is noticed; after any
doubt a new session begins with a full request. Session id 0 is none: the broker had no room for it, and every request
is a full one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from aiokproto.codec.wire import ZERO_UUID
from aiokproto.types import TopicPartition

_FULL = 0
_NO_SESSION = -1
_LAST_EPOCH = 2**31 - 1


class FetchPosition(NamedTuple):
    """What is wanted of a partition: the broker has to know of each change.

    Attributes:
        topic_id: The topic's id; zeros if it is named.
        offset: From where.
        leader_epoch: Of the leader that is meant; -1 for any.
        max_bytes: How much at most.
        version: Of the cursor that it is for; the broker does not see it.
    """

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int
    version: int


class FetchPlan(NamedTuple):
    """What a request has to say.

    Attributes:
        session_id: The session's id; 0 for none.
        epoch: Its number in the session: 0 begins one, -1 is outside of any.
        partitions: What is new, or has changed.
        forgotten: What is not wanted any more.
        by_name: Whether topics have to be named, as an id is not known.
    """

    session_id: int
    epoch: int
    partitions: Mapping[TopicPartition, FetchPosition]
    forgotten: Mapping[TopicPartition, FetchPosition]
    by_name: bool


class FetchSessionHandler:
    """The session with one broker.

    Attributes:
        wanted: What the broker has been asked for.
    """

    def __init__(self) -> None:
        self.wanted: dict[TopicPartition, FetchPosition] = {}
        self._topics: dict[bytes, str] = {}
        self._without_id = 0
        self._id = 0
        self._epoch = _FULL

    def plan(self, changes: Mapping[TopicPartition, FetchPosition | None]) -> FetchPlan:
        """The next request; None stands for what is not wanted any more.

        Its cost is that of the changes, unless a session begins. :meth:`answered` or :meth:`restart` has to follow.
        """
        changed: dict[TopicPartition, FetchPosition] = {}
        forgotten: dict[TopicPartition, FetchPosition] = {}
        for partition, wanted in changes.items():
            before = self.wanted.get(partition)
            if wanted == before:
                continue
            if wanted is not None:
                changed[partition] = wanted
            # A topic that was deleted and created again is another one to the broker.
            if before is not None and (wanted is None or before.topic_id != wanted.topic_id):
                forgotten[partition] = before
            self._replace(partition, before, wanted)
        # By name also what is forgotten under an id: the names are the same.
        by_name = self._without_id > 0 or any(wanted.topic_id == ZERO_UUID for wanted in forgotten.values())
        if self._epoch == _FULL:
            return FetchPlan(self._id, _FULL, dict(self.wanted), {}, by_name)
        return FetchPlan(self._id, self._epoch, changed, forgotten, by_name)

    def _replace(self, partition: TopicPartition, before: FetchPosition | None, wanted: FetchPosition | None) -> None:
        if before is not None:
            self._without_id -= before.topic_id == ZERO_UUID
        if wanted is None:
            self.wanted.pop(partition, None)
            return
        self.wanted[partition] = wanted
        self._topics[wanted.topic_id] = partition.topic
        self._without_id += wanted.topic_id == ZERO_UUID

    def topic(self, topic_id: bytes) -> str:
        """The name of a topic that was asked for by its id; empty if it was not."""
        return self._topics.get(topic_id, "")

    def answered(self, session_id: int) -> None:
        """The request was served."""
        if self._epoch == _FULL:
            self._id = session_id
            self._epoch = 1 if session_id else _FULL
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def restart(self, *, known: bool) -> list[TopicPartition]:
        """Begin a new session: the broker does not have this one, or nobody knows whether it has counted the request.

        Args:
            known: Whether the broker may still have the old one, which is named then, so that it can be forgotten.

        Returns:
            What was asked for, which has to be asked for again.
        """
        asked = list(self.wanted)
        self.wanted.clear()
        self._topics.clear()
        self._without_id = 0
        self._epoch = _FULL
        if not known:
            self._id = 0
        return asked


def outside(partition: TopicPartition, wanted: FetchPosition) -> FetchPlan:
    """A request for one partition that leaves the session as it is."""
    return FetchPlan(0, _NO_SESSION, {partition: wanted}, {}, wanted.topic_id == ZERO_UUID)
