"""The state machine of a classic group member. Pure: no sockets, no clock, no event loop.

A group moves through *generations*. To enter the next one, every member sends JoinGroup; the coordinator holds the
responses back until all members have joined (or the rebalance timeout has passed), and makes one of them the leader.
The leader computes the assignment and sends it with SyncGroup; the others send an empty SyncGroup. Each response
contains the member's own partitions. After that, heartbeats keep the member's session alive; their responses also
announce the next rebalance.

::

              join              ok                    ok
    UNJOINED ──────→ JOINING ──────────→ SYNCING ──────────────→ STABLE ───┐ heartbeat, commit: ok
        ↑               │ ↑                 │                      │  ↑────┘
        │               │ └─────────────────┴──────────────────────┤
        │               │   REBALANCE_IN_PROGRESS: same member,    │
        │               │   next generation                        │
        └───────────────┴──────────────────────────────────────────┘
          UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION: the group continued without it; its partitions are lost

:mod:`aiokproto.failures` decides what a response means. After ILLEGAL_GENERATION, the coordinator still knows the
member id; after UNKNOWN_MEMBER_ID, it doesn't. MEMBER_ID_REQUIRED (KIP-394) assigns the id before the member joins, so
a client that crashes while joining doesn't leave a member behind. A static member (KIP-345) is identified by its
instance id: it does not leave when it stops, and gets its partitions back without a rebalance when it returns in time;
FENCED_INSTANCE_ID means that another process uses the same instance id.

The *coordinator* of a group is a broker, and can move: after NOT_COORDINATOR and similar errors it is looked up again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol, JoinGroupResponse
from aiokproto.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokproto.codec.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from aiokproto.error_codes import ErrorCode
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.protocol import PROTOCOL_TYPE

LOST = frozenset({Action.REJOIN_LOST, Action.REJOIN_AS_NEW})
"""Actions that mean the group has continued without the member."""


class Phase(Enum):
    """The member's progress within a generation."""

    UNJOINED = auto()
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()


@dataclass
class Membership:
    """The state of the member. It creates the member's requests, and changes only with their responses.

    Attributes:
        group_id: The group.
        instance_id: The static identity; None for a dynamic member.
        session_timeout: The coordinator removes a member that hasn't sent a heartbeat for this many seconds.
        rebalance_timeout: How many seconds the coordinator waits for all members to join.
        member_id: The id that the coordinator has assigned; empty before the first join.
        generation: The current generation; -1 if there is none.
        protocol: The assignor that the group agreed on.
        leads: Whether this member computes the assignment.
        members: If it leads, the subscriptions: member id → (instance id, encoded subscription).
        skip_assignment: Whether the members keep their partitions even though this member leads (KIP-814).
    """

    group_id: str
    instance_id: str | None
    session_timeout: float
    rebalance_timeout: float
    member_id: str = ""
    generation: int = -1
    protocol: str = ""
    phase: Phase = Phase.UNJOINED
    leads: bool = False
    members: dict[str, tuple[str | None, bytes]] = field(default_factory=dict)
    skip_assignment: bool = False

    def join(self, protocols: Mapping[str, bytes], reason: str) -> JoinGroupRequest:
        """Return the request to join the next generation: assignors in order of preference, each with its
        subscription."""
        self.phase = Phase.JOINING
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=int(self.session_timeout * 1000),
            rebalance_timeout_ms=int(self.rebalance_timeout * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()],
            # Kafka limits the reason to 255 characters (KIP-800). If there is none, it's null, not empty.
            reason=reason[:255] or None,
        )

    def joined(self, response: JoinGroupResponse) -> Action:
        """Handle the response to :meth:`join`. Return what to do."""
        # The policy maps MEMBER_ID_REQUIRED to REJOIN: the next request includes the id.
        action = self._take(response.error_code, JoinGroupRequest.api_key)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        if action is Action.ACCEPT:
            self.phase = Phase.SYNCING
            self.member_id = response.member_id
            self.generation = response.generation_id
            self.protocol = response.protocol_name or ""
            self.leads = response.leader == response.member_id
            self.skip_assignment = response.skip_assignment
            self.members = {
                member.member_id: (member.group_instance_id, bytes(member.metadata)) for member in response.members
            }
        return action

    def sync(self, assignments: Mapping[str, bytes]) -> SyncGroupRequest:
        """Return the request for this member's partitions. The leader's request contains the assignments of all
        members."""
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=member_id, assignment=data)
                for member_id, data in assignments.items()
            ],
        )

    def synced(self, code: int) -> Action:
        """Handle the error code of the response to :meth:`sync`. Return what to do."""
        action = self._take(code, SyncGroupRequest.api_key)
        if action is Action.ACCEPT:
            self.phase = Phase.STABLE
        return action

    def heartbeat(self) -> HeartbeatRequest:
        """Return the request that keeps the session alive."""
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )

    @property
    def in_session(self) -> bool:
        """Whether the coordinator expects heartbeats, which it also does while the member is joining the next
        generation."""
        return self.generation >= 0 and self.phase is not Phase.UNJOINED

    def is_current(self, generation: int) -> bool:
        """Return whether the response to a heartbeat or commit sent in ``generation`` still concerns the member.

        It doesn't if the request was sent in an earlier generation, or if the response is received while the member is
        joining the next generation, which the coordinator may have already started.
        """
        # guard: a response to an earlier generation says nothing about this one -> True
        return generation == self.generation and self.phase is Phase.STABLE

    def responded(self, code: int, generation: int, api: int) -> Action:
        """Handle the error code of a heartbeat or commit sent in ``generation``. Return what to do, or ACCEPT if it's
        outdated."""
        # Outdated responses must not move the member: it may have already joined the next generation.
        return self._take(code, api) if self.is_current(generation) else Action.ACCEPT

    def leave(self, reason: str, *, for_good: bool = False) -> LeaveGroupRequest | None:
        """Return the request to leave. Return None if it isn't a member, or if it's a static member, which stays unless
        ``for_good``."""
        if not self.member_id or (self.instance_id is not None and not for_good):
            return None
        return LeaveGroupRequest(
            group_id=self.group_id,
            # Set both forms: the id for versions before 3, the list for later versions. The code that builds the
            # request for a version picks one.
            member_id=self.member_id,
            members=[MemberIdentity(member_id=self.member_id, group_instance_id=self.instance_id, reason=reason[:255])],
        )

    def forget(self) -> None:
        """Reset to a client that has never joined."""
        self.member_id = ""
        self._leave_generation()

    def _take(self, code: int, api: int) -> Action:
        action = classify(ErrorCode(code), Situation(api, member=True))
        if action in LOST:
            # After UNKNOWN_MEMBER_ID, the id is dead. After ILLEGAL_GENERATION, the member keeps it, and joins without
            # a new one.
            if action is Action.REJOIN_AS_NEW:
                self.member_id = ""
            self._leave_generation()
        return action

    def _leave_generation(self) -> None:
        self.generation = -1
        self.leads = False
        self.phase = Phase.UNJOINED
