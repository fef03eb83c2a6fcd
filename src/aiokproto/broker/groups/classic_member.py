"""What goes into a group and comes out of it, and a member as the group sees it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from aiokproto.error_codes import ErrorCode

Waiter = object
"""A parked request: whatever the caller wants back together with the answer."""

Protocols = tuple[tuple[str, bytes], ...]
"""Name and metadata of the protocols a member can do, the one it likes best first."""


class ClassicGroupState(Enum):
    """The states of a group, with the names DescribeGroups gives them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True)
class JoinRequest:
    """A JoinGroup request. Times in seconds."""

    member_id: str = ""
    instance_id: str | None = None
    protocol_type: str = "consumer"
    protocols: Protocols = ()
    session_timeout: float = 10.0
    rebalance_timeout: float = 300.0
    client_id: str = ""
    client_host: str = ""
    requires_known_member_id: bool = False
    """A member without an id is given one and must come back with it (KIP-394, JoinGroup v4)."""
    supports_skipping_assignment: bool = False
    """It understands that a leader which only restarted need not assign again (KIP-814, JoinGroup v9)."""


class JoinedMember(NamedTuple):
    """What the leader is told of a member."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The answer to JoinGroup."""

    error: ErrorCode
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncResult(NamedTuple):
    """The answer to SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Identity(NamedTuple):
    """Who says it is a member, of which generation."""

    member_id: str
    generation: int = -1
    instance_id: str | None = None


@dataclass(eq=False)
class ClassicMember:
    """A member of a group.

    A parked JoinGroup or SyncGroup is a sign of life: ``session_deadline`` is None while it lasts.
    """

    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    session_timeout: float
    rebalance_timeout: float
    protocols: Protocols
    assignment: bytes = b""
    join_waiter: Waiter | None = None
    sync_waiter: Waiter | None = None
    session_deadline: float | None = None
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = frozenset(name for name, _ in self.protocols)

    def rejoin(self, request: JoinRequest) -> None:
        """Take over what a later JoinGroup says."""
        self.protocols = request.protocols
        self.names = frozenset(name for name, _ in request.protocols)
        self.session_timeout = request.session_timeout
        self.rebalance_timeout = request.rebalance_timeout
        self.client_id = request.client_id
        self.client_host = request.client_host

    def metadata(self, protocol: str | None) -> bytes:
        """Its metadata for a protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def renew_session(self, now: float) -> None:
        """It was heard of: the session begins anew."""
        self.session_deadline = now + self.session_timeout
