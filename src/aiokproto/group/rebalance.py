"""The rebalance loop: it joins one generation after another, and has each change of partitions carried out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Set as AbstractSet

from aiokproto.cluster import ClusterClient, CoordinatorKind
from aiokproto.cluster.backoff import Backoff
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, KafkaError
from aiokproto.failures import Action
from aiokproto.group.changes import Change, ChangeKind, PartitionOwner
from aiokproto.group.commits import Commits
from aiokproto.group.config import GroupConfig
from aiokproto.group.joining import JoinFailure, Joining
from aiokproto.group.membership import LOST, Membership
from aiokproto.observe.observers import Timing
from aiokproto.runtime import create_task, uniform
from aiokproto.runtime.timeouts import wait_until
from aiokproto.texts import counted
from aiokproto.types import TopicPartition

log = logging.getLogger("aiokproto.group")

_LEAVE_TIMEOUT = 3.0

_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 30.0
"""Seconds to wait before the next generation if an assignment can't be decoded. Each generation stops all members of an
eager group, so these pauses are longer than the pauses after failures that only concern this member."""


class RebalanceLoop:
    """Moves the member from generation to generation.

    Events in between (the subscription changes, a heartbeat or commit gets its response) only leave a note, by
    :meth:`rejoin`, :meth:`lose` or :meth:`fail`; the loop acts on the notes one at a time.

    Invariant: :attr:`owned` changes only here, and the owner has carried out each change before the next one starts.
    Each partition is alternately assigned and then either revoked or lost.

    Attributes:
        owned: The partitions that this member owns.
        outside: Whether it isn't a member and has no subscription to join for.
        join_ended: Set while no generation is being joined.
        lost_reason: Why the group continued without this member, until the owner has received the LOST change.
        left_reason: Why it stays out of the group despite its subscription.
        join_failure: Why the last attempt to join failed; empty if it succeeded.
        rebalances: How long it took to join each generation.
        joining_since: When joining the current generation started (loop time); None if no generation is being joined.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        config: GroupConfig,
        membership: Membership,
        joining: Joining,
        owner: PartitionOwner,
        commits: Commits,
    ) -> None:
        self.owned: set[TopicPartition] = set()
        self.outside = True
        self.join_ended = asyncio.Event()
        self.lost_reason = ""
        self.left_reason = ""
        self.join_failure = ""
        self.rebalances = Timing()
        self.joining_since: float | None = None
        # Whether the last JoinGroup response assigned the member its id (KIP-394).
        self._known = False
        self._cluster = cluster
        self._config = config
        self._membership = membership
        self._joining = joining
        self._owner = owner
        self._commits = commits
        # Partitions that were given up before joining. No other member owns them until the next generation, which may
        # assign them back.
        self._returning: set[TopicPartition] = set()
        self._topics: frozenset[str] = frozenset()
        # Partitions that the last generation assigned even though they aren't subscribed.
        self._unwanted: set[TopicPartition] = set()
        self._assignment_backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, uniform)
        self._rejoin_reason = "first join"
        self._failure: BaseException | None = None
        # The JoinGroup in progress. A note can cut it short.
        self._attempt: asyncio.Task[set[TopicPartition] | JoinFailure] | None = None
        # Every note sets this. The loop clears it before it looks at the state, so a later note is seen in the next
        # round.
        self._noted = asyncio.Event()

    @property
    def has_subscription(self) -> bool:
        """Whether topics are subscribed."""
        return bool(self._topics)

    # Notes

    def set_topics(self, topics: frozenset[str]) -> None:
        """Replace the subscription. If there are no topics, the member leaves the group."""
        if topics != self._topics:
            self._topics = topics
            # Clear it in this call and not with the first JoinGroup: Consumer.assign() must already raise.
            self.outside = self.outside and not topics
            self.rejoin("the subscription changed")

    def set_left_reason(self, reason: str) -> None:
        """Leave the group despite the subscription. If the reason is empty, rejoin."""
        self.left_reason = reason
        self.rejoin("records are requested again")

    def rejoin(self, reason: str) -> None:
        """Join the next generation."""
        self._rejoin_reason = reason
        self._note()

    def lose(self, error: KafkaError) -> None:
        """Note that the group has continued without this member."""
        self.lost_reason = str(error)
        # Do this immediately: the loop may be waiting for the owner to finish a REVOKE, which must stop waiting for
        # commits that can't succeed.
        if self.owned:
            self._owner.lost()
        self.rejoin(str(error))

    def fail(self, error: BaseException) -> None:
        """Note that the group has permanently rejected this member: :meth:`run` raises the error."""
        # Keep the first error: later errors are its consequences.
        self._failure = self._failure or error
        self._note()

    def take(self, action: Action, error: KafkaError) -> None:
        """Note the action that the response to a heartbeat or commit requires."""
        if action is Action.REJOIN:
            self.rejoin("the group is rebalancing")
        elif action in LOST:
            self.lose(error)
        elif action is Action.STOP:
            self.fail(error)

    def _note(self) -> None:
        self._noted.set()
        if not self._can_join() and self._attempt is not None:
            # Don't wait for JoinGroup: the coordinator can hold back its response for a whole rebalance timeout.
            self._attempt.cancel()

    def _can_join(self) -> bool:
        return bool(self._topics) and not self.left_reason and self._failure is None

    # The loop

    async def run(self) -> None:
        """Be a member whenever there is a subscription, until cancelled.

        Raises:
            KafkaError: The group has permanently rejected this member.
        """
        while True:
            self._noted.clear()
            # The most urgent note comes first: an error ends everything, and lost partitions come before new ones.
            if self._failure is not None:
                raise self._failure
            if self.lost_reason:
                await self._lose()
            elif not self._can_join():
                await self._stay_out()
            else:
                await self._rebalance()

    async def _lose(self) -> None:
        log.warning("group %s: lost all partitions: %s", self._config.group_id, self.lost_reason)
        # Clear it before the await: another loss during the await is a new note.
        self.lost_reason = ""
        self._left_to_others()
        await self._give_up(ChangeKind.LOST, set(self.owned))

    async def _stay_out(self) -> None:
        reason = self.left_reason
        # If there's a reason, the application has stopped requesting records, and a revocation would only wait for it.
        await self._give_up(ChangeKind.LOST if reason else ChangeKind.REVOKE, set(self.owned))
        # If the owner's callbacks have subscribed again, there's no longer a reason to leave.
        if self._can_join() or self._failure is not None:
            return
        self._left_to_others()
        await self._joining.leave(reason or "unsubscribed", _LEAVE_TIMEOUT)
        self.outside = not self._topics
        await self._owner.apply(Change(ChangeKind.LEFT, []))
        if not self._can_join():
            await self._noted.wait()

    async def _rebalance(self) -> None:
        # If any assignor is eager, the member gives up all partitions before joining: the leader may assign any of them
        # to another member immediately. If all assignors are cooperative, it gives up only partitions that aren't
        # subscribed.
        given_up = {
            partition
            for partition in self.owned
            if not self._joining.cooperative or partition.topic not in self._topics
        }
        await self._give_up(ChangeKind.REVOKE, given_up, joins=True)
        if self.lost_reason or not self._can_join():
            return
        assigned = await self._join()
        if assigned is None:
            return
        self._left_to_others(but=assigned)
        # The subscription may have changed while joining, or the leader may have seen an older one.
        unwanted = {partition for partition in assigned if partition.topic not in self._topics}
        assigned -= unwanted
        revoked, added = self.owned - assigned, assigned - self.owned
        # Revoke before adding the new partitions: the processing of revoked partitions ends first, and their offsets
        # are committed in this generation.
        await self._give_up(ChangeKind.REVOKE, revoked)
        if self.lost_reason:
            return
        # Add them before calling the owner: it may commit from inside its callback.
        self.owned |= added
        self._log_generation(len(added), len(revoked))
        await self._owner.apply(Change(ChangeKind.ASSIGN, sorted(added)))
        if revoked:
            # Revoked partitions go to their new owners in the next generation, in cooperative rebalancing (KIP-429).
            # guard: partitions that were given up are assigned again
            self.rejoin("partitions were given up")
        elif unwanted and not self._unwanted:
            # A static member that returns with a new subscription is assigned what it had before. It rejoins because of
            # that only once: if an assignor does this every time, the group would never become stable.
            self.rejoin("topics were assigned that are not subscribed")
        elif reason := self._joining.outdated():
            # The number of a topic's partitions has changed while the assignment was on its way.
            self.rejoin(reason)
        self._unwanted = unwanted
        # If there was a note since _join cleared the event, it's already set.
        await self._noted.wait()

    def _left_to_others(self, but: AbstractSet[TopicPartition] = frozenset()) -> None:
        self._commits.interrupted(self._returning - but)
        self._returning = set()

    async def _give_up(self, kind: ChangeKind, partitions: set[TopicPartition], *, joins: bool = False) -> None:
        """Give up partitions. ``joins`` says whether this is to join the next generation, which may assign them
        back."""
        if not partitions:
            return
        # This is less than the rebalance timeout, because the heartbeat that announced the rebalance was up to an
        # interval late. A tenth is left for the JoinGroup itself.
        timeout = max(self._config.max_poll_interval * 0.9 - self._config.heartbeat_interval, 0.1)
        deadline = asyncio.get_running_loop().time() + timeout
        await self._owner.apply(Change(kind, sorted(partitions), deadline))
        # Remove them only after the owner is done: until then, it may commit their offsets.
        self.owned -= partitions
        if joins:
            self._returning |= partitions
        else:
            self._commits.interrupted(partitions)

    @property
    def problem(self) -> str:
        """Why joining hasn't finished yet."""
        failure = self.join_failure or self._cluster.coordinator_failure(CoordinatorKind.GROUP, self._config.group_id)
        if failure:
            return failure
        if self._known:
            return "the group rebalances, and its coordinator waits for the other members to join again"
        return "no response from the coordinator: it is silent, or waits for other members, as the group rebalances"

    async def _join(self) -> set[TopicPartition] | None:
        """Join, with retries, and return the assigned partitions. Return None if the owned partitions are lost, or if
        joining must stop."""
        failures, undecodable, loop = 0, 0, asyncio.get_running_loop()
        started = self.joining_since = loop.time()
        self._known = False
        self.join_ended.clear()
        try:
            while self._can_join():
                # Each attempt sends the newest subscription, so it covers all earlier notes.
                self._noted.clear()
                result = await self._attempt_to_join()
                if result is None or isinstance(result, set):
                    self.join_failure = ""
                    if result is not None:
                        self.rebalances.add(loop.time() - started)
                    return result
                if result.joined:
                    await self._pause_without_assignment(result.error, undecodable := undecodable + 1)
                    if self.lost_reason:
                        return None
                    continue
                action, error = result.action, result.error
                # The coordinator has assigned the member its id, and the next response may take a while.
                self._known = isinstance(error, BrokerError) and error.code == ErrorCode.MEMBER_ID_REQUIRED
                self.join_failure = "" if self._known else str(error)
                failures += 1
                if action in LOST:
                    # The group may have continued without this member.
                    self._left_to_others()
                # The loop must have LOST carried out before joining: other members may be reading those partitions.
                if action in LOST and self.owned:
                    self.lose(error)
                    return None
                # The first error of this kind changes the request (for example, it adds a member id), so retry without
                # backoff.
                if action is not Action.REJOIN or failures > 1:
                    # The first two failures are normal (a coordinator that moves). The third is a problem: log it, and
                    # then every tenth one.
                    level = logging.WARNING if failures % 10 == 3 else logging.DEBUG
                    log.log(level, "group %s: attempt %d to join: %s", self._config.group_id, failures, error)
                    await asyncio.sleep(self._cluster.backoff.delay(failures))
            return None
        finally:
            self.joining_since = None
            # Set it even if joining is given up: a waiting commit must check the state instead of hanging.
            self.join_ended.set()

    async def _pause_without_assignment(self, error: KafkaError, attempt: int) -> None:
        """Wait before the next generation: the member couldn't decode its assignment in this one. If the other members
        rebalance, the wait ends. (Java's consumer raises the error from each poll(), and doesn't rejoin.)"""
        # The other members of an eager group may own anything by now. A cooperative group doesn't take anything away
        # without a second rebalance, where the member reports what it still owns.
        self._left_to_others()
        pause, member = self._assignment_backoff.delay(attempt), self._membership
        self.join_failure = f"the assignment of member {member.member_id} cannot be decoded: {error}"
        log.warning(
            "group %s: generation %d: %s; it joins the next one in %.1f s",
            self._config.group_id,
            member.generation,
            self.join_failure,
            pause,
        )
        self._rejoin_reason = "the assignment cannot be decoded"
        # Heartbeats continue, and can note that the group is rebalancing, or has lost the member.
        await wait_until(self._noted, asyncio.get_running_loop().time() + pause)

    async def _attempt_to_join(self) -> set[TopicPartition] | JoinFailure | None:
        """Make one attempt to join. Return None if it was cancelled because the member should no longer join."""
        # This needs its own task: _note() must be able to cancel the wait for JoinGroup without cancelling the loop.
        self._attempt = create_task(
            self._joining.attempt(self._topics, self.owned, self._rejoin_reason), name="aiokproto-consumer-join"
        )
        try:
            # asyncio.wait distinguishes the two cancellations: the attempt's is a result, and the loop's is raised
            # here.
            await asyncio.wait([self._attempt])
            return None if self._attempt.cancelled() else self._attempt.result()
        finally:
            attempt, self._attempt = self._attempt, None
            # If the attempt is done, cancel() returns False. If not, the loop was cancelled, and the attempt must not
            # change the membership afterwards.
            if attempt.cancel():
                await asyncio.wait([attempt])

    def _log_generation(self, added: int, revoked: int) -> None:
        member = self._membership
        log.info(
            "group %s: generation %d as %s%s with %s: %s, %d added, %d revoked (%s)",
            self._config.group_id,
            member.generation,
            member.member_id,
            " (leader)" if member.leads else "",
            member.protocol,
            counted(len(self.owned), "partition"),
            added,
            revoked,
            self._rejoin_reason,
        )
