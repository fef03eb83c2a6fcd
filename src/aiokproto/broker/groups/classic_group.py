"""The classic group: who belongs to it, and the rebalances in which its members agree on a new generation.

Theory of operation::

    Empty ──join──▶ PreparingRebalance ──all joined, or time is up──▶ CompletingRebalance ──leader synced──▶ Stable
      ▲                    ▲   │                                              │                                │
      └── nobody is left ──┼───┘                                              │                                │
                           └────── somebody joins, leaves, expires or changes ┴────────────────────────────────┘

*PreparingRebalance* collects JoinGroup requests; they stay parked until every known member has sent one, or until the
longest rebalance timeout among the members is over; who has not joined by then is out, save static members (KIP-345).
Each such round is a generation. Then the leader, which alone is told all members, computes the assignment and sends it
with SyncGroup, and the parked SyncGroup requests are answered from it (*CompletingRebalance* → *Stable*).

No I/O, no clock: requests come with a *ticket* and the time, answers are collected with :meth:`Group.drain`, and
:meth:`Group.tick` must be called when :meth:`Group.next_deadline` has come. Times are seconds on any one clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import ClassVar

from aiokproto.broker.groups.classic_member import (
    ClassicGroupState,
    ClassicMember,
    Identity,
    JoinedMember,
    JoinRequest,
    JoinResult,
    SyncResult,
    Waiter,
)
from aiokproto.broker.groups.protocols import common_protocols, select_protocol
from aiokproto.error_codes import ErrorCode
from aiokproto.runtime import current

NEW_MEMBER_JOIN_TIMEOUT = 300.0
"""Seconds a new member may wait parked in its first JoinGroup: nothing else tells that its client has gone."""

Reply = tuple[Waiter, JoinResult | SyncResult]


class ClassicGroup:
    """A classic group.

    Attributes:
        group_id: Its name.
        state: Where it is in the cycle above.
        generation: Number of the last completed round of joins.
        protocol_type: What its members call themselves, "consumer" nearly always; None before the first.
        protocol: The protocol (assignor) chosen for this generation.
        leader: Member id of the leader.
        members: The members by id, in the order they came.
        empty_since: When it became empty; None while it is not.
        changed: Something that has to outlive this coordinator changed; who saves it clears the flag.
    """

    type: ClassVar = "classic"

    def __init__(
        self,
        group_id: str,
        now: float = 0.0,
        *,
        initial_delay: float = 0.0,
        max_size: int = 1 << 31,
        make_id: Callable[[str], str] = lambda prefix: f"{prefix}-{current().uuid()}",
    ) -> None:
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, ClassicMember] = {}
        self.empty_since: float | None = now
        self.changed = False
        self._initial_delay = initial_delay
        self._max_size = max_size
        self._make_id = make_id
        self._static: dict[str, str] = {}
        self._pending: dict[str, float] = {}
        self._awaiting_sync: set[str] = set()
        self._join_deadline: float | None = None
        self._sync_deadline: float | None = None
        # The first round of an empty group waits for more members to come, in steps, up to this much in all (KIP-134).
        self._initial_delay_left: float | None = None
        self._new_member_added = False
        self._replies: list[Reply] = []

    # ---- what the coordinator calls

    def drain(self) -> list[Reply]:
        """The answers that became ready, each once."""
        replies, self._replies = self._replies, []
        return replies

    def join(self, waiter: Waiter, request: JoinRequest, now: float) -> None:
        """JoinGroup. Answered at once or when the round is complete."""
        result = self._join(waiter, request, now)
        if result is not None:
            self._replies.append((waiter, result))

    def sync(
        self,
        waiter: Waiter,
        identity: Identity,
        assignments: dict[str, bytes],
        now: float,
        protocol_type: str | None = None,
        protocol: str | None = None,
    ) -> None:
        """SyncGroup; ``assignments`` are the leader's. Answered at once or when the leader has sent them."""
        error = self._check(identity)
        wrong = (protocol_type or self.protocol_type) != self.protocol_type or (
            protocol or self.protocol
        ) != self.protocol
        if not error and wrong:
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        if not error and self.state is ClassicGroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error:
            self._replies.append((waiter, SyncResult(error)))
            return
        member = self.members[identity.member_id]
        self._awaiting_sync.discard(identity.member_id)
        self._answer_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_waiter = waiter
        member.session_deadline = None
        if self.state is ClassicGroupState.STABLE:
            self._answer_sync(member, self._assigned(member), now)
        elif identity.member_id == self.leader:
            for each in self.members.values():
                each.assignment = assignments.get(each.member_id, b"")
            self.state = ClassicGroupState.STABLE
            self.changed = True
            for each in self.members.values():
                self._answer_sync(each, self._assigned(each), now)

    def heartbeat(self, identity: Identity, now: float) -> ErrorCode:
        """Heartbeat: the member lives; it learns whether it should join anew."""
        error = self._check(identity)
        if error:
            return error
        if self.members[identity.member_id].session_deadline is not None:
            self.members[identity.member_id].renew_session(now)
        return (
            ErrorCode.REBALANCE_IN_PROGRESS if self.state is ClassicGroupState.PREPARING_REBALANCE else ErrorCode.NONE
        )

    def leave(self, member_id: str, instance_id: str | None, now: float) -> ErrorCode:
        """LeaveGroup for one member. A static one may be named by its instance id alone."""
        if self.state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not member_id and instance_id is not None:
            member_id = self._static.get(instance_id, "")
        if member_id in self._pending:
            del self._pending[member_id]
            self._try_complete_join(now)
            return ErrorCode.NONE
        error = self._check_identity(Identity(member_id, instance_id=instance_id))
        if not error:
            self._remove(self.members[member_id], now)
        return error

    def check_commit(self, identity: Identity, now: float) -> ErrorCode:
        """Whether this member may commit offsets; that it does counts as a heartbeat."""
        if self.state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        # Without a generation: a consumer that assigns itself partitions and uses the group as a name for its offsets.
        if identity.generation < 0 and not self.members:
            return ErrorCode.NONE
        error = self._check(identity)
        if error:
            return error
        member = self.members[identity.member_id]
        if member.session_deadline is not None:
            member.renew_session(now)
        return (
            ErrorCode.REBALANCE_IN_PROGRESS if self.state is ClassicGroupState.COMPLETING_REBALANCE else ErrorCode.NONE
        )

    def next_deadline(self) -> float | None:
        """When :meth:`tick` has something to do; None if nothing can happen by time alone."""
        deadlines = [member.session_deadline for member in self.members.values()]
        deadlines += [*self._pending.values(), self._join_deadline, self._sync_deadline]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def tick(self, now: float) -> None:
        """Let what is overdue happen."""
        late = [member_id for member_id, deadline in self._pending.items() if deadline <= now]
        for member_id in late:
            del self._pending[member_id]
        if late:
            self._try_complete_join(now)
        for member in list(self.members.values()):
            if (
                member.session_deadline is not None
                and member.session_deadline <= now
                and member.member_id in self.members
            ):
                self._remove(member, now)
        if self._join_deadline is not None and self._join_deadline <= now:
            self._join_timeout_elapsed(now)
        if self._sync_deadline is not None and self._sync_deadline <= now:
            self._sync_deadline = None
            for member in [self.members[member_id] for member_id in self._awaiting_sync]:
                if member.member_id in self.members:
                    self._remove(member, now)

    def kill(self, error: ErrorCode) -> None:
        """The group is deleted, or its coordinator moves: answer everything parked with ``error``."""
        for member in self.members.values():
            self._answer_join(member, JoinResult(error, member.member_id))
            self._answer_sync(member, SyncResult(error))
        self.members.clear()
        self._pending.clear()
        self._static.clear()
        self._awaiting_sync.clear()
        self._join_deadline = self._sync_deadline = None
        self.state = ClassicGroupState.DEAD

    def rebalance(self, now: float) -> None:
        """Begin a round of joins."""
        self._prepare(now)

    def restore(
        self,
        members: Iterable[ClassicMember],
        now: float,
        *,
        generation: int,
        protocol_type: str,
        protocol: str | None,
        leader: str | None,
    ) -> None:
        """Become what an earlier coordinator wrote down. Sessions begin anew."""
        self.members = {member.member_id: member for member in members}
        self._static = {m.instance_id: m.member_id for m in self.members.values() if m.instance_id is not None}
        self.generation, self.protocol_type = generation, protocol_type or None
        self.protocol, self.leader = protocol, leader
        self.state = ClassicGroupState.STABLE if self.members else ClassicGroupState.EMPTY
        self.empty_since = None if self.members else now
        for member in self.members.values():
            member.renew_session(now)

    # ---- joining

    def _join(self, waiter: Waiter, request: JoinRequest, now: float) -> JoinResult | None:
        if self.state is ClassicGroupState.DEAD:
            return JoinResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)
        if not self._accepts(request.member_id):
            return JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED, request.member_id)
        if not self._has_common_protocol(request):
            return JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        if request.member_id in self._pending:
            self._add(request.member_id, waiter, request, now)
            return None
        if request.member_id:
            error = self._check_identity(Identity(request.member_id, instance_id=request.instance_id))
            if error:
                return JoinResult(error, request.member_id)
            return self._rejoin(self.members[request.member_id], waiter, request, now)
        return self._join_new_member(waiter, request, now)

    def _join_new_member(self, waiter: Waiter, request: JoinRequest, now: float) -> JoinResult | None:
        member_id = self._make_id(request.instance_id or request.client_id)
        if request.instance_id is not None:
            if request.instance_id in self._static:
                return self._replace_static(member_id, waiter, request, now)
        elif request.requires_known_member_id:
            self._pending[member_id] = now + request.session_timeout
            return JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        self._add(member_id, waiter, request, now)
        return None

    def _rejoin(self, member: ClassicMember, waiter: Waiter, request: JoinRequest, now: float) -> JoinResult | None:
        unchanged = member.protocols == request.protocols
        answered = unchanged and (
            # In CompletingRebalance it may have missed the answer to its JoinGroup; when stable, only the leader can
            # ask for a rebalance by joining as it is.
            self.state is ClassicGroupState.COMPLETING_REBALANCE
            or (self.state is ClassicGroupState.STABLE and member.member_id != self.leader)
        )
        if answered:
            member.renew_session(now)
            return self._joined(member)
        member.rejoin(request)
        self._park(member, waiter)
        self._prepare(now)
        return None

    def _replace_static(self, member_id: str, waiter: Waiter, request: JoinRequest, now: float) -> JoinResult | None:
        """A static member has restarted: it takes over what its predecessor had, if possible without a rebalance."""
        assert request.instance_id is not None
        member = self.members.pop(self._static[request.instance_id])
        previous = member.member_id
        self._answer_join(member, JoinResult(ErrorCode.FENCED_INSTANCE_ID, previous))
        self._answer_sync(member, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        member.member_id = member_id
        member.rejoin(request)
        self.members[member_id] = member
        self._static[request.instance_id] = member_id
        if previous in self._awaiting_sync:
            self._awaiting_sync.remove(previous)
            self._awaiting_sync.add(member_id)
        was_leader = self.leader == previous
        if was_leader:
            self.leader = member_id
        if self.state is ClassicGroupState.STABLE and select_protocol(self.members.values()) == self.protocol:
            self.changed = True
            member.renew_session(now)
            if not was_leader:
                return self._joined(member)
            if request.supports_skipping_assignment:
                return self._joined(member)._replace(skip_assignment=True)
            # An old client must not think it leads: it would send an assignment for a generation that has one.
            return self._joined(member)._replace(leader=previous, members=())
        self._park(member, waiter)
        self._prepare(now)
        return None

    def _add(self, member_id: str, waiter: Waiter, request: JoinRequest, now: float) -> None:
        member = ClassicMember(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout,
            request.rebalance_timeout,
            request.protocols,
        )
        if not self.members:
            self.protocol_type = request.protocol_type
        if self.state is ClassicGroupState.PREPARING_REBALANCE and self._initial_delay_left is not None:
            self._new_member_added = True
        self.members[member_id] = member
        self._pending.pop(member_id, None)
        if self.leader is None:
            self.leader = member_id
        if request.instance_id is not None:
            self._static[request.instance_id] = member_id
        self._park(member, waiter)
        member.session_deadline = now + NEW_MEMBER_JOIN_TIMEOUT
        self._prepare(now)

    def _park(self, member: ClassicMember, waiter: Waiter) -> None:
        self._answer_join(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.join_waiter = waiter
        member.session_deadline = None

    # ---- the round of joins

    def _prepare(self, now: float) -> None:
        if self.state is not ClassicGroupState.PREPARING_REBALANCE:
            for member in self.members.values():
                self._answer_sync(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS), now)
            if self.state is ClassicGroupState.COMPLETING_REBALANCE:
                for member in self.members.values():
                    member.assignment = b""
            timeout = self._rebalance_timeout()
            if self.state is ClassicGroupState.EMPTY:
                self._initial_delay_left = max(timeout - self._initial_delay, 0.0)
                self._new_member_added = False
                timeout = self._initial_delay
            self._join_deadline = now + timeout
            self._sync_deadline = None
            self._awaiting_sync.clear()
            self.state = ClassicGroupState.PREPARING_REBALANCE
            self.empty_since = None
        self._try_complete_join(now)

    def _try_complete_join(self, now: float) -> None:
        if self.state is not ClassicGroupState.PREPARING_REBALANCE or self._join_deadline is None:
            return
        if self._initial_delay_left is not None:
            if self._join_deadline <= now:
                self._join_timeout_elapsed(now)
        elif not self._pending and all(member.join_waiter is not None for member in self.members.values()):
            self._complete_join(now)

    def _join_timeout_elapsed(self, now: float) -> None:
        if self._initial_delay_left and self._new_member_added:
            step = min(self._initial_delay, self._initial_delay_left)
            self._initial_delay_left -= step
            self._new_member_added = False
            self._join_deadline = now + step
        else:
            self._complete_join(now)

    def _complete_join(self, now: float) -> None:
        self._initial_delay_left = None
        for member in list(self.members.values()):
            if member.join_waiter is None and member.instance_id is None:
                self._forget(member)
        if self.members and not self._elect_leader():
            # Only static members are left and none of them is back: their sessions will end this.
            self._join_deadline = now + self._rebalance_timeout()
            return
        self._join_deadline = None
        self.generation += 1
        if not self.members:
            self._become_empty(now)
            return
        self.protocol = select_protocol(self.members.values())
        self.state = ClassicGroupState.COMPLETING_REBALANCE
        self._awaiting_sync = set(self.members)
        self._sync_deadline = now + self._rebalance_timeout()
        for member in self.members.values():
            self._answer_join(member, self._joined(member), now)

    def _elect_leader(self) -> bool:
        """The leader stays if it has joined, else the first who has takes over."""
        joined = [member.member_id for member in self.members.values() if member.join_waiter is not None]
        if joined and self.leader not in joined:
            self.leader = joined[0]
        return bool(joined)

    def _become_empty(self, now: float) -> None:
        self.state = ClassicGroupState.EMPTY
        self.protocol = self.leader = None
        self.empty_since = now
        self.changed = True

    # ---- leaving

    def _remove(self, member: ClassicMember, now: float) -> None:
        self._answer_join(member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id))
        self._answer_sync(member, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        self._forget(member)
        if self.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            self._prepare(now)
        else:
            self._try_complete_join(now)

    def _forget(self, member: ClassicMember) -> None:
        del self.members[member.member_id]
        self._awaiting_sync.discard(member.member_id)
        if member.instance_id is not None:
            self._static.pop(member.instance_id, None)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    # ---- answers

    def _answer_join(self, member: ClassicMember, result: JoinResult, now: float | None = None) -> None:
        if member.join_waiter is not None:
            self._replies.append((member.join_waiter, result))
            member.join_waiter = None
            if now is not None:
                member.renew_session(now)

    def _answer_sync(self, member: ClassicMember, result: SyncResult, now: float | None = None) -> None:
        if member.sync_waiter is not None:
            self._replies.append((member.sync_waiter, result))
            member.sync_waiter = None
            if now is not None:
                member.renew_session(now)

    def _joined(self, member: ClassicMember) -> JoinResult:
        members: tuple[JoinedMember, ...] = ()
        if member.member_id == self.leader:
            members = tuple(
                JoinedMember(m.member_id, m.instance_id, m.metadata(self.protocol)) for m in self.members.values()
            )
        return JoinResult(
            ErrorCode.NONE,
            member.member_id,
            self.generation,
            self.protocol_type,
            self.protocol,
            self.leader or "",
            members,
        )

    def _assigned(self, member: ClassicMember) -> SyncResult:
        return SyncResult(ErrorCode.NONE, self.protocol_type, self.protocol, member.assignment)

    # ---- questions

    def _check(self, identity: Identity) -> ErrorCode:
        """Whether that is a member of the current generation."""
        if self.state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self._check_identity(identity)
        if not error and identity.generation != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        return error

    def _check_identity(self, identity: Identity) -> ErrorCode:
        if identity.instance_id is not None:
            known = self._static.get(identity.instance_id)
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != identity.member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if identity.member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def _has_common_protocol(self, request: JoinRequest) -> bool:
        """Whether the member's protocols leave the group at least one that all can do."""
        names = {name for name, _ in request.protocols}
        if not names or not request.protocol_type:
            return False
        others = [member for member in self.members.values() if member.member_id != request.member_id]
        if not others:
            return True
        return request.protocol_type == self.protocol_type and bool(names & common_protocols(others))

    def _accepts(self, member_id: str) -> bool:
        if self.state is ClassicGroupState.EMPTY or member_id in self.members:
            return True
        return len(self.members) < self._max_size

    def _rebalance_timeout(self) -> float:
        return max((member.rebalance_timeout for member in self.members.values()), default=0.0)
