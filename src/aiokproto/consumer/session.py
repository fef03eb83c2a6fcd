"""Fetch sessions (KIP-227): a Fetch names only what has changed since the last one. Pure.

A broker that grants a session remembers its partitions and where each is to be read from, and its answers leave out
partitions without news. Both sides count requests (the epoch), so that a lost or doubled one is noticed; after any
doubt the session is closed and made anew with a full request. Session id 0 is none: the broker had no room for it, and
every request is a full one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from aiokproto.error_codes import ErrorCode
from aiokproto.types import TopicPartition

_FULL = 0
_LAST_EPOCH = 2**31 - 1


class Wanted(NamedTuple):
    """What is wanted of a partition: a change of any of these is told to the broker."""

    topic_id: bytes
    offset: int
    leader_epoch: int
    max_bytes: int


class FetchPlan(NamedTuple):
    """What a request has to say."""

    session_id: int
    epoch: int
    partitions: dict[TopicPartition, Wanted]
    forgotten: dict[TopicPartition, Wanted]


class FetchSession:
    """The session with one broker."""

    def __init__(self) -> None:
        self._id = 0
        self._epoch = _FULL
        self._told: dict[TopicPartition, Wanted] = {}

    def plan(self, wanted: Mapping[TopicPartition, Wanted]) -> FetchPlan:
        """The next request. :meth:`answered` or :meth:`failed` has to follow before the next one."""
        told = self._told
        self._told = dict(wanted)
        if self._epoch == _FULL:
            return FetchPlan(self._id, _FULL, dict(wanted), {})
        changed = {key: value for key, value in wanted.items() if told.get(key) != value}
        # A topic that was deleted and made anew is another one to the broker.
        forgotten = {
            key: value for key, value in told.items() if key not in wanted or wanted[key].topic_id != value.topic_id
        }
        return FetchPlan(self._id, self._epoch, changed, forgotten)

    def answered(self, error_code: int, session_id: int) -> None:
        """Take in the answer's top level."""
        if error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
            self._id = 0
            self._epoch = _FULL
        elif error_code:
            self._epoch = _FULL
        elif self._epoch == _FULL:
            self._id = session_id
            self._epoch = 1 if session_id else _FULL
        else:
            self._epoch = 1 if self._epoch == _LAST_EPOCH else self._epoch + 1

    def failed(self) -> None:
        """No answer came: nobody knows whether the broker has counted the request."""
        self._epoch = _FULL
