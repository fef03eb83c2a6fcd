"""Members of classic groups, the choice of their protocol, and the requests and results of the classic protocol."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from aiokproto.error_codes import ErrorCode

Waiter = object
"""Identifies a waiting request: the group returns it with the result. The coordinator passes a future."""

Protocols = tuple[tuple[str, bytes], ...]
"""Name and metadata of the protocols (assignors) that a member supports, in its order of preference."""


class ClassicGroupState(Enum):
    """The states of a classic group, with their names in DescribeGroups."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"


@dataclass(frozen=True)
class JoinRequest:
    """A JoinGroup request. Times are in seconds."""

    member_id: str = ""
    instance_id: str | None = None
    protocol_type: str = "consumer"
    protocols: Protocols = ()
    session_timeout: float = 10.0
    rebalance_timeout: float = 300.0
    client_id: str = ""
    client_host: str = ""
    requires_known_member_id: bool = False
    """Whether a new member is refused with MEMBER_ID_REQUIRED and an id to join with (KIP-394, JoinGroup v4).

    Otherwise, a client that retries a JoinGroup whose response was lost leaves behind a member that never heartbeats.
    """
    supports_skipping_assignment: bool = False
    """Whether the client knows ``skip_assignment``, for a static leader that restarted (KIP-814, JoinGroup v9)."""


class JoinedMember(NamedTuple):
    """A member as the leader sees it in the JoinGroup response."""

    member_id: str
    instance_id: str | None
    metadata: bytes


class JoinResult(NamedTuple):
    """The result of JoinGroup. ``members`` is empty except for the leader."""

    error: ErrorCode
    member_id: str = ""
    generation: int = -1
    protocol_type: str | None = None
    protocol: str | None = None
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()
    skip_assignment: bool = False


class SyncResult(NamedTuple):
    """The result of SyncGroup."""

    error: ErrorCode
    protocol_type: str | None = None
    protocol: str | None = None
    assignment: bytes = b""


class Identity(NamedTuple):
    """The member, generation and instance id that a request claims. ``generation`` -1 means no group membership."""

    member_id: str
    generation: int = -1
    instance_id: str | None = None


@dataclass(eq=False)
class ClassicMember:
    """A member of a classic group. Times are in seconds.

    A client can't send heartbeats while its JoinGroup or SyncGroup is waiting: ``session_deadline`` is None during that
    time.
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
    # Cached, because every JoinGroup compares the names of all members.
    names: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        self.names = frozenset(name for name, _ in self.protocols)

    def rejoin(self, request: JoinRequest) -> None:
        """Update the member from a later JoinGroup."""
        self.protocols = request.protocols
        self.names = frozenset(name for name, _ in request.protocols)
        self.session_timeout = request.session_timeout
        self.rebalance_timeout = request.rebalance_timeout
        self.client_id = request.client_id
        self.client_host = request.client_host

    def metadata(self, protocol: str | None) -> bytes:
        """Return its metadata for a protocol, or empty bytes if it doesn't support the protocol."""
        return next((metadata for name, metadata in self.protocols if name == protocol), b"")

    def renew_session(self, now: float) -> None:
        """Restart its session timeout."""
        self.session_deadline = now + self.session_timeout


# ---- the protocol of a generation, which for consumers is the assignor


def common_protocols(members: Collection[ClassicMember]) -> frozenset[str]:
    """Return the protocols that every member supports."""
    return frozenset.intersection(*(member.names for member in members)) if members else frozenset()


def select_protocol(members: Collection[ClassicMember]) -> str | None:
    """Return the protocol of the next generation.

    Each member votes for the first protocol in its list that all members support. The one with the most votes wins.
    """
    candidates = common_protocols(members)
    votes = Counter(
        next(name for name, _ in member.protocols if name in candidates) for member in members if candidates
    )
    return votes.most_common(1)[0][0] if votes else None


def supports_group(request: JoinRequest, members: Iterable[ClassicMember], protocol_type: str | None) -> bool:
    """Return whether this member and all others have a protocol of the group's type in common.

    If not, the member is rejected: the group could not select a protocol for the next generation.
    """
    names = {name for name, _ in request.protocols}
    if not names or not request.protocol_type:
        return False
    # The member's own earlier JoinGroup doesn't count: a lone member can change all its protocols.
    others = [member for member in members if member.member_id != request.member_id]
    if not others:
        return True
    return request.protocol_type == protocol_type and bool(names & common_protocols(others))
