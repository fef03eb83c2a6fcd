"""The classic group: its members, and the rebalances in which they agree on a new generation.

Theory of operation::

    Empty ──join──▶ PreparingRebalance ──all joined, or timeout──▶ CompletingRebalance ──leader synced──▶ Stable
      ▲                    ▲   │                                           │                                │
      └── no member left ──┼───┘                                           │                                │
                           └────── a member joins, leaves, expires ────────┴────────────────────────────────┘
                                   or changes its protocols

*PreparingRebalance* collects JoinGroup requests. They wait until every known member has sent one, or until the longest
rebalance timeout among the members has passed; members that have not joined by then are removed, except static ones
(KIP-345). Completing this barrier starts a generation. The leader, the only member that receives the list of members,
computes the assignment and sends it in SyncGroup. The other members' SyncGroup requests wait for it
(*CompletingRebalance* → *Stable*).

Only *PreparingRebalance* changes the generation, and only at its end: a member either joins the next generation or is
fenced with ILLEGAL_GENERATION.

The group does no I/O and has no clock: JoinGroup and SyncGroup take a *waiter* and the current time, and
:meth:`ClassicGroup.drain` returns each result with its waiter. The caller must call :meth:`ClassicGroup.tick` when
:meth:`ClassicGroup.next_deadline` has passed. Times are seconds on one monotonic clock.
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
    select_protocol,
    supports_group,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.runtime import current

NEW_MEMBER_JOIN_TIMEOUT = 300.0
"""How long the first JoinGroup of a new member can wait (s). The member doesn't send heartbeats yet, so nothing else
would show that its client is gone.
"""

Reply = tuple[Waiter, JoinResult | SyncResult]


class ClassicGroup:
    """A classic group.

    Attributes:
        group_id: Its id.
        state: Its state in the diagram above.
        generation: The current generation; it grows with each completed rebalance.
        protocol_type: The type of client, "consumer" or "connect" for example; None before the first member.
        protocol: The protocol (assignor) of this generation.
        leader: The leader's member id.
        members: The members by id, in the order in which they joined.
        empty_since: When it became empty; None while it has members.
        changed: Whether the group has to be written to the offsets topic. The store resets it.
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
        # No member ever has generation 0: the first completed rebalance makes it 1. Kafka starts the same way.
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
        # Member id by instance id (KIP-345).
        self._static_members: dict[str, str] = {}
        # Member ids returned with MEMBER_ID_REQUIRED that no client has used yet, with their expiry times (KIP-394).
        self._pending_join_members: dict[str, float] = {}
        # Members of this generation that haven't sent SyncGroup. Any that are left at the sync deadline are removed.
        self._pending_sync_members: set[str] = set()
        self._join_deadline: float | None = None
        self._sync_deadline: float | None = None
        # The first rebalance of an empty group waits for more members, to avoid one rebalance per member (KIP-134).
        # Each new member extends the wait by the initial delay, up to the rebalance timeout in total.
        self._initial_delay_left: float | None = None
        self._new_member_added = False
        self._replies: list[Reply] = []

    # ---- requests

    def drain(self) -> list[Reply]:
        """Return the results that became ready since the last call, with their waiters."""
        replies, self._replies = self._replies, []
        return replies

    def join(self, waiter: Waiter, request: JoinRequest, now: float) -> None:
        """Apply a JoinGroup. Its result is ready at once, or when the rebalance has collected all members."""
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
        """Apply a SyncGroup. Its result is ready at once, or when the leader has sent the ``assignments``."""
        # The sender's identity is checked before its protocol: a fenced member must learn that it is fenced, not that
        # its protocol is inconsistent.
        error = self._check_member(identity)
        # Before SyncGroup v5 (KIP-559) both are null. Null matches anything.
        wrong = (protocol_type or self.protocol_type) != self.protocol_type or (
            protocol or self.protocol
        ) != self.protocol
        if not error and wrong:
            error = ErrorCode.INCONSISTENT_GROUP_PROTOCOL
        # An assignment would belong to a generation that is ending, so the member has to join the next one.
        if not error and self.state is ClassicGroupState.PREPARING_REBALANCE:
            error = ErrorCode.REBALANCE_IN_PROGRESS
        if error:
            self._replies.append((waiter, SyncResult(error)))
            return
        member = self.members[identity.member_id]
        self._pending_sync_members.discard(identity.member_id)
        # A SyncGroup that is already waiting is an earlier attempt: the client disconnected and sent it again.
        self._complete_sync_request(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS))
        member.sync_waiter = waiter
        # The client can't send heartbeats on this connection while its request is waiting. The sync deadline limits the
        # wait instead.
        member.session_deadline = None
        if self.state is ClassicGroupState.STABLE:
            self._complete_sync_request(member, self._sync_result(member), now)
        # A follower's assignments are ignored, as in Kafka: only the leader knows all subscriptions.
        elif identity.member_id == self.leader:
            for member in self.members.values():
                # A member that the leader left out gets an empty assignment, not an error.
                member.assignment = assignments.get(member.member_id, b"")
            self.state = ClassicGroupState.STABLE
            self.changed = True
            for member in self.members.values():
                self._complete_sync_request(member, self._sync_result(member), now)

    def heartbeat(self, identity: Identity, now: float) -> ErrorCode:
        """Apply a Heartbeat. REBALANCE_IN_PROGRESS: the member has to send JoinGroup again."""
        error = self._check_member(identity)
        if error:
            return error
        # The deadline is None while a JoinGroup or SyncGroup of the member is waiting: a heartbeat must not start the
        # session before the response.
        if self.members[identity.member_id].session_deadline is not None:
            self.members[identity.member_id].renew_session(now)
        # In CompletingRebalance the member doesn't have to join again: it has joined this generation, and only needs
        # the leader's assignment.
        return (
            ErrorCode.REBALANCE_IN_PROGRESS if self.state is ClassicGroupState.PREPARING_REBALANCE else ErrorCode.NONE
        )

    def leave(self, member_id: str, instance_id: str | None, now: float) -> ErrorCode:
        """Apply LeaveGroup for one member. The instance id alone is enough to identify a static member."""
        if self.state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        if not member_id and instance_id is not None:
            member_id = self._static_members.get(instance_id, "")
        # The client was given this id and leaves without having joined. The rebalance must not wait for the id to
        # expire.
        if member_id in self._pending_join_members:
            del self._pending_join_members[member_id]
            # The rebalance may have waited for this member alone.
            self._try_complete_join(now)
            return ErrorCode.NONE
        # The generation isn't checked, because LeaveGroup doesn't carry one. A member can leave at any time.
        error = self._check_identity(Identity(member_id, instance_id=instance_id))
        if not error:
            self._remove_member(self.members[member_id], now)
        return error

    def check_commit(self, identity: Identity, now: float) -> ErrorCode:
        """Return the error of an OffsetCommit, or NONE. A valid commit counts as a heartbeat."""
        if self.state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        # A request without a generation comes from a consumer with manually assigned partitions, which uses the group
        # only to store offsets. A group with members rejects such a commit, because it would change the positions of
        # partitions that members own.
        if identity.generation < 0 and not self.members:
            return ErrorCode.NONE
        error = self._check_member(identity)
        if error:
            return error
        member = self.members[identity.member_id]
        if member.session_deadline is not None:
            member.renew_session(now)
        # During PreparingRebalance members commit what they have processed, before they revoke partitions and join. In
        # CompletingRebalance they have already joined, and another member may own the partition.
        return (
            ErrorCode.REBALANCE_IN_PROGRESS if self.state is ClassicGroupState.COMPLETING_REBALANCE else ErrorCode.NONE
        )

    def next_deadline(self) -> float | None:
        """Return when :meth:`tick` has to be called; None if no timeout is running."""
        deadlines = [member.session_deadline for member in self.members.values()]
        deadlines += [*self._pending_join_members.values(), self._join_deadline, self._sync_deadline]
        return min((deadline for deadline in deadlines if deadline is not None), default=None)

    def tick(self, now: float) -> None:
        """Apply the timeouts that have expired."""
        late = [member_id for member_id, deadline in self._pending_join_members.items() if deadline <= now]
        for member_id in late:
            del self._pending_join_members[member_id]
        if late:
            self._try_complete_join(now)
        for member in list(self.members.values()):
            if (
                member.session_deadline is not None
                and member.session_deadline <= now
                # Removing another member may have removed this one, too.
                and member.member_id in self.members
            ):
                self._remove_member(member, now)
        if self._join_deadline is not None and self._join_deadline <= now:
            self._join_timeout_elapsed(now)
        if self._sync_deadline is not None and self._sync_deadline <= now:
            self._sync_deadline = None
            # Without this deadline, a member that sends heartbeats but no SyncGroup would never be removed. If it were
            # the leader, the group would be stuck in CompletingRebalance.
            for member in [self.members[member_id] for member_id in self._pending_sync_members]:
                if member.member_id in self.members:
                    self._remove_member(member, now)

    def kill(self, error: ErrorCode) -> None:
        """End the group because it is deleted, unloaded or upgraded: all waiting requests fail with ``error``."""
        for member in self.members.values():
            self._complete_join_request(member, JoinResult(error, member.member_id))
            self._complete_sync_request(member, SyncResult(error))
        self.members.clear()
        self._pending_join_members.clear()
        self._static_members.clear()
        self._pending_sync_members.clear()
        self._join_deadline = self._sync_deadline = None
        self.state = ClassicGroupState.DEAD

    def rebalance(self, now: float) -> None:
        """Start a rebalance."""
        self._prepare_rebalance(now)

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
        """Restore the group from its record or from a consumer group. Session timeouts restart.

        A group with more than ``group.max.size`` members rebalances.
        """
        self.members = {member.member_id: member for member in members}
        self._static_members = {m.instance_id: m.member_id for m in self.members.values() if m.instance_id is not None}
        self.generation, self.protocol_type = generation, protocol_type or None
        self.protocol, self.leader = protocol, leader
        self.state = ClassicGroupState.STABLE if self.members else ClassicGroupState.EMPTY
        self.empty_since = None if self.members else now
        for member in self.members.values():
            member.renew_session(now)
        # The limit was lowered while the group wasn't loaded. The last members to rejoin are refused.
        if len(self.members) > self._max_size:
            self._prepare_rebalance(now)

    # ---- joining

    def _join(self, waiter: Waiter, request: JoinRequest, now: float) -> JoinResult | None:
        if self.state is ClassicGroupState.DEAD:
            return JoinResult(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)
        if not self._accepts(request.member_id):
            return self._refuse_excess_member(request.member_id)
        if not supports_group(request, self.members.values(), self.protocol_type):
            return JoinResult(ErrorCode.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        if request.member_id in self._pending_join_members:
            self._add_member(request.member_id, waiter, request, now)
            return None
        if request.member_id:
            error = self._check_identity(Identity(request.member_id, instance_id=request.instance_id))
            if error:
                return JoinResult(error, request.member_id)
            return self._join_existing_member(self.members[request.member_id], waiter, request, now)
        return self._join_new_member(waiter, request, now)

    def _refuse_excess_member(self, member_id: str) -> JoinResult:
        """Refuse a JoinGroup above ``group.max.size``, and remove the member if the group knows it.

        As in Kafka, this doesn't complete a rebalance that was waiting only for this member. Its timeout will.
        """
        self._pending_join_members.pop(member_id, None)
        if member_id in self.members:
            self._forget_member(self.members[member_id])
        return JoinResult(ErrorCode.GROUP_MAX_SIZE_REACHED)

    def _join_new_member(self, waiter: Waiter, request: JoinRequest, now: float) -> JoinResult | None:
        # The id has Kafka's form: a prefix that people recognize in logs and tools, a dash, and a UUID.
        member_id = self._make_id(request.instance_id or request.client_id)
        if request.instance_id is not None:
            if request.instance_id in self._static_members:
                return self._replace_static(member_id, waiter, request, now)
        # Static members don't need to know their id first: a retry is recognized by its instance id.
        elif request.requires_known_member_id:
            self._pending_join_members[member_id] = now + request.session_timeout
            return JoinResult(ErrorCode.MEMBER_ID_REQUIRED, member_id)
        self._add_member(member_id, waiter, request, now)
        return None

    def _join_existing_member(
        self, member: ClassicMember, waiter: Waiter, request: JoinRequest, now: float
    ) -> JoinResult | None:
        unchanged = member.protocols == request.protocols
        answered = unchanged and (
            # In CompletingRebalance, the response to its previous JoinGroup may have been lost. In Stable, a follower
            # that rejoins unchanged gets the current generation. The leader's JoinGroup starts a rebalance: only the
            # leader watches the subscribed topics, and it rejoins when one of them changes.
            self.state is ClassicGroupState.COMPLETING_REBALANCE
            or (self.state is ClassicGroupState.STABLE and member.member_id != self.leader)
        )
        if answered:
            member.renew_session(now)
            return self._join_result(member)
        # In PreparingRebalance this is the JoinGroup that the barrier waits for.
        member.rejoin(request)
        self._set_join_waiter(member, waiter)
        self._prepare_rebalance(now)
        return None

    def _replace_static(self, member_id: str, waiter: Waiter, request: JoinRequest, now: float) -> JoinResult | None:
        """Replace a static member that restarted and therefore has a new member id (KIP-345).

        If the group is stable and keeps its protocol, the new member gets the old one's assignment without a rebalance.
        The old member id is fenced: two processes with the same instance id can't both stay in the group.
        """
        assert request.instance_id is not None
        member = self.members.pop(self._static_members[request.instance_id])
        previous = member.member_id
        self._complete_join_request(member, JoinResult(ErrorCode.FENCED_INSTANCE_ID, previous))
        self._complete_sync_request(member, SyncResult(ErrorCode.FENCED_INSTANCE_ID))
        member.member_id = member_id
        member.rejoin(request)
        self.members[member_id] = member
        self._static_members[request.instance_id] = member_id
        if previous in self._pending_sync_members:
            self._pending_sync_members.remove(previous)
            self._pending_sync_members.add(member_id)
        was_leader = self.leader == previous
        if was_leader:
            self.leader = member_id
        # The restarted client may support different assignors. If that changes the group's protocol, a rebalance is
        # needed.
        if self.state is ClassicGroupState.STABLE and select_protocol(self.members.values()) == self.protocol:
            self.changed = True
            member.renew_session(now)
            if not was_leader:
                return self._join_result(member)
            if request.supports_skipping_assignment:
                return self._join_result(member)._replace(skip_assignment=True)
            # A client without KIP-814 gets the previous member id as the leader's. If it knew that it's the leader, it
            # would compute and send an assignment for a generation that already has one.
            return self._join_result(member)._replace(leader=previous, members=())
        self._set_join_waiter(member, waiter)
        self._prepare_rebalance(now)
        return None

    def _add_member(self, member_id: str, waiter: Waiter, request: JoinRequest, now: float) -> None:
        member = ClassicMember(
            member_id,
            request.instance_id,
            request.client_id,
            request.client_host,
            request.session_timeout,
            request.rebalance_timeout,
            request.protocols,
        )
        # The first member sets the protocol type of an empty group, even if the group has committed offsets.
        if not self.members:
            self.protocol_type = request.protocol_type
        if self.state is ClassicGroupState.PREPARING_REBALANCE and self._initial_delay_left is not None:
            self._new_member_added = True
        self.members[member_id] = member
        self._pending_join_members.pop(member_id, None)
        # Provisional: when the rebalance completes, _elect_leader() considers only members that have joined it.
        if self.leader is None:
            self.leader = member_id
        if request.instance_id is not None:
            self._static_members[request.instance_id] = member_id
        self._set_join_waiter(member, waiter)
        member.session_deadline = now + NEW_MEMBER_JOIN_TIMEOUT
        self._prepare_rebalance(now)

    def _set_join_waiter(self, member: ClassicMember, waiter: Waiter) -> None:
        # A JoinGroup that is already waiting is an earlier attempt of the same client, whose connection is gone.
        self._complete_join_request(member, JoinResult(ErrorCode.REBALANCE_IN_PROGRESS, member.member_id))
        member.join_waiter = waiter
        member.session_deadline = None

    # ---- the rebalance

    def _prepare_rebalance(self, now: float) -> None:
        # More members may join a rebalance in progress, but they don't extend it: its deadline was set when it started.
        if self.state is not ClassicGroupState.PREPARING_REBALANCE:
            for member in self.members.values():
                self._complete_sync_request(member, SyncResult(ErrorCode.REBALANCE_IN_PROGRESS), now)
            if self.state is ClassicGroupState.COMPLETING_REBALANCE:
                # These assignments belong to the previous generation, and a late SyncGroup must not return them.
                for member in self.members.values():
                    member.assignment = b""
            # The longest timeout applies, because the slowest member must have time to finish its processing before it
            # joins.
            timeout = self._rebalance_timeout()
            if self.state is ClassicGroupState.EMPTY:
                self._initial_delay_left = max(timeout - self._initial_delay, 0.0)
                self._new_member_added = False
                timeout = self._initial_delay
            self._join_deadline = now + timeout
            # Members no longer need an assignment of the generation that ends here.
            self._sync_deadline = None
            self._pending_sync_members.clear()
            self.state = ClassicGroupState.PREPARING_REBALANCE
            self.empty_since = None
        self._try_complete_join(now)

    def _try_complete_join(self, now: float) -> None:
        if self.state is not ClassicGroupState.PREPARING_REBALANCE or self._join_deadline is None:
            return
        if self._initial_delay_left is not None:
            # The initial delay always passes in full. It can't end when all known members have joined, since they
            # always have.
            if self._join_deadline <= now:
                self._join_timeout_elapsed(now)
        # A client that was given an id joins with it at once (KIP-394). If the rebalance didn't wait for it, its
        # JoinGroup would cause another rebalance.
        elif not self._pending_join_members and all(member.join_waiter is not None for member in self.members.values()):
            self._complete_join(now)

    def _join_timeout_elapsed(self, now: float) -> None:
        # The delay is extended only if a member joined, so a lone member waits only for one initial delay.
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
            # Static members stay until their sessions expire, so they can restart without a rebalance (KIP-345).
            if member.join_waiter is None and member.instance_id is None:
                self._forget_member(member)
        if self.members and not self._elect_leader():
            # The remaining members are static, and none has joined. They stay until their sessions expire.
            self._join_deadline = now + self._rebalance_timeout()
            return
        self._join_deadline = None
        # The generation of an empty group grows too: members of the previous one must be fenced if they come back.
        self.generation += 1
        if not self.members:
            self._become_empty(now)
            return
        self.protocol = select_protocol(self.members.values())
        self.state = ClassicGroupState.COMPLETING_REBALANCE
        self._pending_sync_members = set(self.members)
        # Kafka's pending-sync timeout: the leader gets as much time to assign as the members had to join.
        self._sync_deadline = now + self._rebalance_timeout()
        for member in self.members.values():
            self._complete_join_request(member, self._join_result(member), now)

    def _elect_leader(self) -> bool:
        """Keep the leader if it has joined; otherwise elect the first member that has. Return False if none has
        joined."""
        joined = [member.member_id for member in self.members.values() if member.join_waiter is not None]
        # The leader stays if possible, because a sticky assignor remembers the last assignment.
        if joined and self.leader not in joined:
            self.leader = joined[0]
        return bool(joined)

    def _become_empty(self, now: float) -> None:
        self.state = ClassicGroupState.EMPTY
        self.protocol = self.leader = None
        self.empty_since = now
        # The group outlives its members, because its offsets are in the log. The record says when it became empty
        # (KIP-211).
        self.changed = True

    # ---- leaving

    def _remove_member(self, member: ClassicMember, now: float) -> None:
        self._complete_join_request(member, JoinResult(ErrorCode.UNKNOWN_MEMBER_ID, member.member_id))
        self._complete_sync_request(member, SyncResult(ErrorCode.UNKNOWN_MEMBER_ID))
        self._forget_member(member)
        # The rebalance starts at once, not at the rebalance timeout: the partitions of a member that left must not stay
        # unread.
        if self.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            self._prepare_rebalance(now)
        else:
            self._try_complete_join(now)

    def _forget_member(self, member: ClassicMember) -> None:
        del self.members[member.member_id]
        self._pending_sync_members.discard(member.member_id)
        if member.instance_id is not None:
            self._static_members.pop(member.instance_id, None)
        # Provisional: the rebalance that follows every removal elects a leader that has joined.
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    # ---- results

    def _complete_join_request(self, member: ClassicMember, result: JoinResult, now: float | None = None) -> None:
        if member.join_waiter is not None:
            self._replies.append((member.join_waiter, result))
            member.join_waiter = None
            if now is not None:
                member.renew_session(now)

    def _complete_sync_request(self, member: ClassicMember, result: SyncResult, now: float | None = None) -> None:
        if member.sync_waiter is not None:
            self._replies.append((member.sync_waiter, result))
            member.sync_waiter = None
            if now is not None:
                member.renew_session(now)

    def _join_result(self, member: ClassicMember) -> JoinResult:
        members: tuple[JoinedMember, ...] = ()
        # The leader alone computes the assignment. The other members don't need the subscriptions.
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

    def _sync_result(self, member: ClassicMember) -> SyncResult:
        return SyncResult(ErrorCode.NONE, self.protocol_type, self.protocol, member.assignment)

    # ---- checks

    def _check_member(self, identity: Identity) -> ErrorCode:
        """Return the error of a request that claims this identity, or NONE for a member of the current generation."""
        if self.state is ClassicGroupState.DEAD:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        error = self._check_identity(identity)
        if not error and identity.generation != self.generation:
            error = ErrorCode.ILLEGAL_GENERATION
        return error

    def _check_identity(self, identity: Identity) -> ErrorCode:
        if identity.instance_id is not None:
            known = self._static_members.get(identity.instance_id)
            # The instance id is checked first: FENCED_INSTANCE_ID is fatal for a client, while UNKNOWN_MEMBER_ID makes
            # it join again.
            if known is None:
                return ErrorCode.UNKNOWN_MEMBER_ID
            if known != identity.member_id:
                return ErrorCode.FENCED_INSTANCE_ID
        return ErrorCode.NONE if identity.member_id in self.members else ErrorCode.UNKNOWN_MEMBER_ID

    def _accepts(self, member_id: str) -> bool:
        """Return whether ``group.max.size`` leaves room for a JoinGroup."""
        if self.state is ClassicGroupState.EMPTY:
            return True
        member = self.members.get(member_id)
        if self.state is ClassicGroupState.PREPARING_REBALANCE:
            # Only members that have joined this rebalance count, as in Kafka's acceptJoiningMember: the others are
            # removed when it completes, so there is room until then. This also shrinks a group that is too large after
            # the limit was lowered or a consumer group was downgraded: the last members to rejoin are rejected.
            joined = sum(each.join_waiter is not None for each in self.members.values())
            return (member is not None and member.join_waiter is not None) or joined < self._max_size
        return member is not None or len(self.members) < self._max_size

    def _rebalance_timeout(self) -> float:
        return max((member.rebalance_timeout for member in self.members.values()), default=0.0)
