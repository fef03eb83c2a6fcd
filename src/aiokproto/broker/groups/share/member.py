"""A member of a share group, and its heartbeat."""

from __future__ import annotations

from dataclasses import dataclass

from aiokproto.broker.groups.assignment import TopicIdPartitions


@dataclass(frozen=True)
class ShareHeartbeat:
    """A ShareGroupHeartbeat request. None in a field means unchanged since the last heartbeat."""

    member_id: str
    epoch: int
    rack_id: str | None = None
    topics: frozenset[str] | None = None
    client_id: str = ""
    client_host: str = ""


@dataclass(eq=False)
class ShareMember:
    """A member of a share group.

    Attributes:
        topics: The topic names it subscribes to.
        epoch: The assignment epoch of ``assigned``.
        previous_epoch: The epoch before. A heartbeat with it is accepted when the response with the new one was lost.
        assigned: The partitions it reads: its target assignment as of its last heartbeat.
        session_deadline: When it is removed unless it sends a heartbeat (s).
    """

    member_id: str
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: frozenset[str] = frozenset()
    epoch: int = 0
    previous_epoch: int = 0
    assigned: TopicIdPartitions = frozenset()
    session_deadline: float | None = None
