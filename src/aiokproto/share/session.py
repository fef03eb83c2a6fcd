"""Share sessions (KIP-932): a request lists only the partitions that have changed since the last request. Pure.

A member has one session on each broker. A ShareFetch with epoch 0 opens it and lists all partitions. Each later
request, ShareFetch or ShareAcknowledge, has the next epoch, which detects a lost or repeated request. Epoch -1 closes
the session, and releases the records that the member has acquired. The broker also closes it when the connection that
opened it ends.

Unlike a fetch session, it can't be repaired: if a response is missing, the client doesn't know which records the broker
has locked for it. So the client closes the connection, which makes the broker release all of them, and opens a new one.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

FINAL_EPOCH = -1
_INITIAL_EPOCH = 0
_LAST_EPOCH = 2**31 - 1

TopicIdPartition = tuple[bytes, int]
"""Topic id and partition."""


class SharePlan(NamedTuple):
    """The session's part of a ShareFetch request.

    Attributes:
        epoch: The share session epoch; 0 opens the session.
        added: Partitions to add to the session.
        forgotten: Partitions to remove from the session.
    """

    epoch: int
    added: list[TopicIdPartition]
    forgotten: list[TopicIdPartition]


class ShareSessionHandler:
    """The share session with one broker.

    Attributes:
        epoch: The epoch of the next request.
    """

    def __init__(self) -> None:
        self.epoch = _INITIAL_EPOCH
        # Dictionaries used as ordered sets.
        self._partitions: dict[TopicIdPartition, None] = {}

    @property
    def is_open(self) -> bool:
        """Whether the broker has confirmed the session."""
        return self.epoch != _INITIAL_EPOCH

    def plan(self, wanted: Collection[TopicIdPartition], acknowledged: Collection[TopicIdPartition]) -> SharePlan:
        """Return the next ShareFetch request. Call :meth:`answered` or :meth:`reset` afterwards.

        Args:
            wanted: The partitions to fetch.
            acknowledged: The partitions that the request contains acknowledgements for. The broker adds every partition
                in a request to the session, so the same request removes the ones that aren't wanted.
        """
        assert self.is_open or not acknowledged, "a request that opens a session cannot acknowledge"
        added = [partition for partition in wanted if partition not in self._partitions]
        present = {**self._partitions, **dict.fromkeys(acknowledged)}
        forgotten = [partition for partition in present if partition not in wanted]
        self._partitions = dict.fromkeys(wanted)
        return SharePlan(self.epoch, added, forgotten)

    def answered(self) -> None:
        """Note a response: it means that the broker has counted the request."""
        self.epoch = 1 if self.epoch == _LAST_EPOCH else self.epoch + 1

    def reset(self) -> None:
        """Start a new session: this one has ended, or its state is unknown."""
        self.epoch = _INITIAL_EPOCH
        self._partitions.clear()
