"""A member of a share group. It has no way to go: what it should read, it reads from its next heartbeat on."""

from __future__ import annotations

from dataclasses import dataclass

from aiokproto.broker.groups.assignment import TopicIdPartitions


@dataclass(frozen=True)
class ShareHeartbeat:
    """A ShareGroupHeartbeat request: None means that nothing changed since the last."""

    member_id: str
    epoch: int
    rack_id: str | None = None
    topics: frozenset[str] | None = None
    client_id: str = ""
    client_host: str = ""


@dataclass(eq=False)
class ShareMember:
    """A member.

    Attributes:
        topics: The topics it names.
        epoch: The epoch of the target assignment that it follows.
        previous_epoch: The one before: a heartbeat of that epoch may have missed its answer.
        assigned: What it reads.
        session_deadline: When it is given up for lost.
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
