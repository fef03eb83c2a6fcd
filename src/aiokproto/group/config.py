"""The options of a group member."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from aiokproto.group.assignors import Assignor

GroupProtocol = Literal["auto", "classic", "consumer"]
"""Who computes the assignment: a member (classic), or the broker (consumer; KIP-848)."""

LeaveMode = Literal["default", "leave", "remain"]
"""Whether a member leaves its group when it stops (KIP-1092). By default, a static member remains."""


@dataclass(frozen=True)
class GroupConfig:
    """The options of a group member.

    Attributes:
        group_id: The group.
        group_instance_id: The static identity (KIP-345); None for a dynamic member.
        session_timeout: The coordinator removes a member that hasn't sent a heartbeat for this many seconds.
        heartbeat_interval: Seconds between heartbeats.
        max_poll_interval: How many seconds the application can process records without requesting more, and how long a
            rebalance waits for it.
        client_rack: The member's rack, if known.
        protocol: Who computes the assignment.
        assignors: The assignors for the classic protocol, in order of preference.
        remote_assignor: The name of the broker's assignor; None leaves it to the broker. Only for the consumer
            protocol.
    """

    group_id: str
    group_instance_id: str | None = None
    session_timeout: float = 45.0
    heartbeat_interval: float = 3.0
    max_poll_interval: float = 300.0
    client_rack: str | None = None
    protocol: GroupProtocol = "classic"
    assignors: Sequence[Assignor] = ()
    remote_assignor: str | None = None

    @property
    def named(self) -> str:
        """The group, and the static identity if there is one, as they appear in errors."""
        instance = "" if self.group_instance_id is None else f" as group_instance_id {self.group_instance_id!r}"
        return f"group {self.group_id!r}{instance}"
