"""A member of a classic group: what it is, and what each answer makes of it. No sockets, no clock, no event loop.

A group moves through *generations*. To enter the next one, every member sends JoinGroup; the coordinator holds the
answers back until all have come (or the rebalance timeout has passed), and names one of them leader. The leader
computes who reads what and hands it in with SyncGroup; the others send SyncGroup with nothing in it, and all get their
own part. From then on heartbeats keep the member in; their answer is also how it hears that the next generation is
being formed.

::

              join              ok                    ok
    UNJOINED ──────→ JOINING ──────────→ SYNCING ──────────────→ STABLE ───┐ heartbeat, commit: ok
        ↑               │ ↑                 │                      │  ↑────┘
        │               │ └─────────────────┴──────────────────────┘
        │               │   REBALANCE_IN_PROGRESS: same member, next generation
        └───────────────┴── UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION: the group went on without us; what we read is lost

Each answer is judged by one table, :data:`VERDICTS`. What is lost differs: after ILLEGAL_GENERATION the coordinator
still knows the member id, after UNKNOWN_MEMBER_ID it does not. MEMBER_ID_REQUIRED (KIP-394) gives the id first, so that
a client that joins and vanishes leaves no ghost behind. A static member (KIP-345) is known by its instance id: it does
not leave when it stops, and when it is back it gets its old part without a rebalance; FENCED_INSTANCE_ID means that
another process runs under the same name, which no retry can mend.

The *coordinator* of a group is a broker, and moves: NOT_COORDINATOR and its kind say "ask again who it is".
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
from aiokproto.group.protocol import PROTOCOL_TYPE


class Phase(Enum):
    """Where in the life of a generation the member is."""

    UNJOINED = auto()
    JOINING = auto()
    SYNCING = auto()
    STABLE = auto()


class Verdict(Enum):
    """What an answer asks for."""

    PROCEED = auto()
    """It worked."""
    RETRY = auto()
    """The same again, after a pause."""
    FIND_COORDINATOR = auto()
    """The same again, after asking who the coordinator is."""
    REJOIN = auto()
    """Join the next generation; what this member reads is still its own until it has joined."""
    LOST = auto()
    """The group went on without this member: what it read belongs to others. Join anew."""
    FATAL = auto()
    """Nothing that is tried again can work."""


_COORDINATOR_MOVED = {
    ErrorCode.NOT_COORDINATOR: Verdict.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE: Verdict.FIND_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS: Verdict.RETRY,
}

VERDICTS: Mapping[ErrorCode, Verdict] = {
    ErrorCode.NONE: Verdict.PROCEED,
    **_COORDINATOR_MOVED,
    ErrorCode.MEMBER_ID_REQUIRED: Verdict.REJOIN,
    ErrorCode.REBALANCE_IN_PROGRESS: Verdict.REJOIN,
    ErrorCode.UNKNOWN_MEMBER_ID: Verdict.LOST,
    ErrorCode.ILLEGAL_GENERATION: Verdict.LOST,
}
"""What each error code of the group APIs means; one that is not here is retried if Kafka calls it retriable."""


def verdict(code: int) -> Verdict:
    """What an error code asks for."""
    known = ErrorCode(code)
    return VERDICTS.get(known, Verdict.RETRY if known.retriable else Verdict.FATAL)


@dataclass
class Membership:
    """The member. It makes its requests, and takes in their answers; nothing else changes it.

    Attributes:
        group_id: The group.
        instance_id: The static identity, None for a dynamic member.
        session_timeout: Seconds without a heartbeat after which the coordinator gives the member up.
        rebalance_timeout: Seconds that the coordinator waits for all members to join.
        member_id: What the coordinator calls it; empty before it has joined.
        generation: The generation it is in; -1 when in none.
        protocol: The assignor that the group agreed on.
        leads: Whether it computes the assignment.
        members: What each member said, where it leads: member id → (instance id, subscription bytes).
        skip_assignment: Whether, though it leads, the members keep what they have (KIP-814).
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
        """The request to enter the next generation: assignors by preference, each with the subscription for it."""
        self.phase = Phase.JOINING
        return JoinGroupRequest(
            group_id=self.group_id,
            session_timeout_ms=int(self.session_timeout * 1000),
            rebalance_timeout_ms=int(self.rebalance_timeout * 1000),
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocols=[JoinGroupRequestProtocol(name=name, metadata=data) for name, data in protocols.items()],
            reason=reason[:255] or None,
        )

    def joined(self, response: JoinGroupResponse) -> Verdict:
        """Take in the answer to :meth:`join`."""
        judged = self._judge(response.error_code)
        if response.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = response.member_id
        if judged is Verdict.PROCEED:
            self.phase = Phase.SYNCING
            self.member_id = response.member_id
            self.generation = response.generation_id
            self.protocol = response.protocol_name or ""
            self.leads = response.leader == response.member_id
            self.skip_assignment = response.skip_assignment
            self.members = {
                member.member_id: (member.group_instance_id, bytes(member.metadata)) for member in response.members
            }
        return judged

    def sync(self, assignments: Mapping[str, bytes]) -> SyncGroupRequest:
        """The request for this member's part; the leader puts in everyone's."""
        return SyncGroupRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
            protocol_type=PROTOCOL_TYPE,
            protocol_name=self.protocol,
            assignments=[
                SyncGroupRequestAssignment(member_id=who, assignment=data) for who, data in assignments.items()
            ],
        )

    def synced(self, code: int) -> Verdict:
        """Take in the error code of the answer to :meth:`sync`."""
        judged = self._judge(code)
        if judged is Verdict.PROCEED:
            self.phase = Phase.STABLE
        return judged

    def heartbeat(self) -> HeartbeatRequest:
        """The request to stay in."""
        return HeartbeatRequest(
            group_id=self.group_id,
            generation_id=self.generation,
            member_id=self.member_id,
            group_instance_id=self.instance_id,
        )

    def beaten(self, code: int, generation: int) -> Verdict:
        """Take in the error code of a heartbeat or commit that was sent in ``generation``.

        One that was sent in an earlier generation says nothing about this one; nor does one that comes while the next
        is being joined, which the coordinator may have begun already.
        """
        if code and (generation != self.generation or self.phase is not Phase.STABLE):
            return Verdict.PROCEED
        return self._judge(code)

    def leave(self, reason: str) -> LeaveGroupRequest | None:
        """The request to be out at once; None where there is nothing to leave, or a static member who stays."""
        if not self.member_id or self.instance_id is not None:
            return None
        return LeaveGroupRequest(
            group_id=self.group_id,
            member_id=self.member_id,
            members=[MemberIdentity(member_id=self.member_id, reason=reason[:255])],
        )

    def forget(self) -> None:
        """Be nobody again: the group has no such member, or will not have it after :meth:`leave`."""
        self.member_id = ""
        self._fall_out()

    def _judge(self, code: int) -> Verdict:
        judged = verdict(code)
        if judged is Verdict.LOST:
            if code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            self._fall_out()
        return judged

    def _fall_out(self) -> None:
        self.generation = -1
        self.leads = False
        self.phase = Phase.UNJOINED
