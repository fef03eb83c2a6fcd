"""The state machine of a classic group member. Pure: no sockets, no clock, no event loop.

A group moves through *generations*. To enter the next one, every member sends JoinGroup; the coordinator holds the
responses back until all members have joined (or the rebalance timeout has passed), and makes one of them the leader.
The leader computes the assignment and sends it with SyncGroup; the others send an empty SyncGroup, and each response
holds the member's own partitions. From then on heartbeats keep the member's session alive; their responses also
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

:mod:`aiokproto.failures` decides what a response means. After ILLEGAL_GENERATION the coordinator still knows the member
id, after UNKNOWN_MEMBER_ID it does not. MEMBER_ID_REQUIRED (KIP-394) assigns the id before the member joins, so that a
client that joins and crashes leaves no member behind. A static member (KIP-345) is identified by its instance id: it
does not leave when it stops, and gets its partitions back without a rebalance when it returns in time;
FENCED_INSTANCE_ID means that another process uses the same instance id.

The *coordinator* of a group is a broker, and can move: after NOT_COORDINATOR and the like it is looked up again.
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
"""Actions after the group has continued without the member."""


class Phase(Enum):
    """The member's progress within a generation."""

    UNJOINED = auto()
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()


@dataclass
class Membership:
    """The state of the member: creates its requests, and changes with their responses only.

    Attributes:
        group_id: The group.
        instance_id: The static identity, None for a dynamic member.
        session_timeout: Seconds without a heartbeat after which the coordinator removes the member.
        rebalance_timeout: Seconds that the coordinator waits for all members to join.
        member_id: The id that the coordinator has assigned; empty before the first join.
        generation: The current generation; -1 if in none.
        protocol: The assignor that the group agreed on.
        leads: Whether this member computes the assignment.
        members: If it leads, the subscriptions: member id → (instance id, encoded subscription).
        skip_assignment: Whether the members keep their partitions although this one leads (KIP-814).
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
        """Return the request to join the next generation: assignors by preference, each with its subscription."""
        self.phase = Phase.JOINING
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=int(self.session_timeout * 1000),
            rebalance_timeout_ms=int(self.rebalance_timeout * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()],
            # Kafka limits the text to 255 characters (KIP-800); null, not empty, if there is none.
            reason=reason[:255] or None,
        )

    def joined(self, response: JoinGroupResponse) -> Action:
        """Handle the response to :meth:`join`. Return what to do."""
        # The policy maps MEMBER_ID_REQUIRED to REJOIN: the next request has the id.
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
        """Return the request for this member's partitions; the leader's holds the assignments of all members."""
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
        """Whether the coordinator expects heartbeats: also while the member joins the next generation."""
        return self.generation >= 0 and self.phase is not Phase.UNJOINED

    def is_current(self, generation: int) -> bool:
        """Return whether the response to a heartbeat or commit sent in ``generation`` still concerns the member.

        One that was sent in an earlier generation does not; nor does one that is received while the member joins the
        next generation, which the coordinator may have started already.
        """
        # guard: a response to an earlier generation says nothing about this one -> True
        return generation == self.generation and self.phase is Phase.STABLE

    def responded(self, code: int, generation: int, api: int) -> Action:
        """Handle the error code of a heartbeat or commit sent in ``generation``. Return what to do; ACCEPT if
        outdated."""
        # Outdated responses must not move the member: it may have joined the next generation already.
        return self._take(code, api) if self.is_current(generation) else Action.ACCEPT

    def leave(self, reason: str, *, for_good: bool = False) -> LeaveGroupRequest | None:
        """Return the request to leave; None if it is not a member, or a static one, which stays unless ``for_good``."""
        if not self.member_id or (self.instance_id is not None and not for_good):
            return None
        return LeaveGroupRequest(
            group_id=self.group_id,
            # For versions before 3, the list for later ones: whoever builds the request for a version picks one.
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
            # UNKNOWN_MEMBER_ID: the id is dead. After ILLEGAL_GENERATION it is kept, and joins without a new one.
            if action is Action.REJOIN_AS_NEW:
                self.member_id = ""
            self._leave_generation()
        return action

    def _leave_generation(self) -> None:
        self.generation = -1
        self.leads = False
        self.phase = Phase.UNJOINED
