"""The rebalance loop: joins generation after generation, and has each change of partitions carried out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from collections.abc import Set as AbstractSet

from aiokproto.cluster import ClusterClient, CoordinatorKind
from aiokproto.cluster.backoff import Backoff
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, KafkaError
from aiokproto.failures import Action
from aiokproto.group.changes import Change, ChangeKind, PartitionOwner
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
"""Seconds before the next generation after an assignment that cannot be decoded. Each one stops all members of an eager
group: longer than the pauses after failures that concern this member alone."""


class RebalanceLoop:
    """Moves the member from generation to generation.

    Events in between (the subscription changes, a heartbeat or commit gets its response) only leave a note, by
    :meth:`rejoin`, :meth:`lose` or :meth:`fail`; the loop acts on the notes one after the other.

    Invariant: :attr:`owned` changes only here, and the owner has carried out each change before the next starts. A
    partition is assigned, then either revoked or lost, alternately.

    Attributes:
        owned: The partitions that this member owns.
        outside: Whether it is not a member, and has no subscription for which to join.
        settled: Set while no generation is being joined.
        lost_reason: Why the group continued without this member, until the owner has received the LOST change.
        left_reason: Why it stays out of the group although it has a subscription.
        join_failure: Why the last attempt to join failed; empty after a success.
        rebalances: How long it took to join each generation.
        joining_since: When joining the current one began (s, the loop's clock); None while none is being joined.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        config: GroupConfig,
        membership: Membership,
        joining: Joining,
        owner: PartitionOwner,
        interrupted: Callable[[AbstractSet[TopicPartition]], None],
    ) -> None:
        """``interrupted`` is called with the partitions that other members may own from now on."""
        self.owned: set[TopicPartition] = set()
        self.outside = True
        self.settled = asyncio.Event()
        self.lost_reason = ""
        self.left_reason = ""
        self.join_failure = ""
        self.rebalances = Timing()
        self.joining_since: float | None = None
        # Whether the last response to a JoinGroup was that the member is known from now on (KIP-394).
        self._known = False
        self._cluster = cluster
        self._config = config
        self._membership = membership
        self._joining = joining
        self._owner = owner
        self._interrupted = interrupted
        # Given up before joining. Until the next generation no other member owns them, and it may assign them back.
        self._returning: set[TopicPartition] = set()
        self._topics: frozenset[str] = frozenset()
        # Assigned by the last generation without being subscribed.
        self._unwanted: set[TopicPartition] = set()
        self._assignment_backoff = Backoff(_FIRST_PAUSE, _LONGEST_PAUSE, uniform)
        self._rejoin_reason = "first join"
        self._failure: BaseException | None = None
        # The JoinGroup in progress, so that a note can cut it short.
        self._attempt: asyncio.Task[set[TopicPartition] | JoinFailure] | None = None
        # Set by every note, cleared by the loop before it looks at the state: a note made later is seen in the next
        # round.
        self._noted = asyncio.Event()

    @property
    def has_subscription(self) -> bool:
        """Whether topics are subscribed."""
        return bool(self._topics)

    # Notes

    def set_topics(self, topics: frozenset[str]) -> None:
        """Replace the subscription; without topics the member leaves the group."""
        if topics != self._topics:
            self._topics = topics
            # Cleared by the call and not by the first JoinGroup: from now on Consumer.assign() has to be refused.
            self.outside = self.outside and not topics
            self.rejoin("the subscription changed")

    def set_left_reason(self, reason: str) -> None:
        """Leave the group in spite of the subscription; with an empty reason, join again."""
        self.left_reason = reason
        self.rejoin("records are requested again")

    def rejoin(self, reason: str) -> None:
        """Join the next generation."""
        self._rejoin_reason = reason
        self._note()

    def lose(self, error: KafkaError) -> None:
        """Note that the group continued without this member."""
        self.lost_reason = str(error)
        # At once, while the loop may be waiting for the owner to finish a REVOKE: that must stop waiting for commits
        # that cannot succeed.
        if self.owned:
            self._owner.lost()
        self.rejoin(str(error))

    def fail(self, error: BaseException) -> None:
        """Note that the group refuses this member for good: :meth:`run` raises the error."""
        # The first: later ones are its consequences.
        self._failure = self._failure or error
        self._note()

    def take(self, action: Action, error: KafkaError) -> None:
        """Note the action that the response to a heartbeat or commit asks for."""
        if action is Action.REJOIN:
            self.rejoin("the group is rebalancing")
        elif action in LOST:
            self.lose(error)
        elif action is Action.STOP:
            self.fail(error)

    def _note(self) -> None:
        self._noted.set()
        if not self._can_join() and self._attempt is not None:
            # Do not wait for JoinGroup: the coordinator can hold its response back for a whole rebalance timeout.
            self._attempt.cancel()

    def _can_join(self) -> bool:
        return bool(self._topics) and not self.left_reason and self._failure is None

    # The loop

    async def run(self) -> None:
        """Be a member whenever there is a subscription, until cancelled.

        Raises:
            KafkaError: The group refuses this member for good.
        """
        while True:
            self._noted.clear()
            # Checked in the order of urgency: an error ends everything, lost partitions come before new ones.
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
        # Before the await: a second loss during it is a new note.
        self.lost_reason = ""
        self._left_to_others()
        await self._give_up(ChangeKind.LOST, set(self.owned))

    async def _stay_out(self) -> None:
        reason = self.left_reason
        # A reason means that the application has stopped requesting records: a revocation would only wait for it.
        await self._give_up(ChangeKind.LOST if reason else ChangeKind.REVOKE, set(self.owned))
        # The owner's callbacks may have subscribed again meanwhile: then there is no reason to leave.
        if self._can_join() or self._failure is not None:
            return
        self._left_to_others()
        await self._joining.leave(reason or "unsubscribed", _LEAVE_TIMEOUT)
        self.outside = not self._topics
        await self._owner.apply(Change(ChangeKind.LEFT, []))
        if not self._can_join():
            await self._noted.wait()

    async def _rebalance(self) -> None:
        # Eager assignors: all, before joining, as the leader may give any partition to another member at once.
        # Cooperative: only what is unsubscribed.
        gone = {each for each in self.owned if not self._joining.cooperative or each.topic not in self._topics}
        await self._give_up(ChangeKind.REVOKE, gone, joins=True)
        if self.lost_reason or not self._can_join():
            return
        assigned = await self._join()
        if assigned is None:
            return
        self._left_to_others(but=assigned)
        # The subscription may have changed while joining, or the leader saw an older one.
        unwanted = {each for each in assigned if each.topic not in self._topics}
        assigned -= unwanted
        revoked, added = self.owned - assigned, assigned - self.owned
        # Before the new ones are added: processing of what leaves ends first, and its offsets are committed in this
        # generation.
        await self._give_up(ChangeKind.REVOKE, revoked)
        if self.lost_reason:
            return
        # Before the owner hears of it: it may commit from inside its callback.
        self.owned |= added
        self._log_generation(len(added), len(revoked))
        await self._owner.apply(Change(ChangeKind.ASSIGN, sorted(added)))
        if revoked:
            # Cooperative rebalancing: revoked partitions are assigned to their new owners in the next generation
            # (KIP-429).
            # guard: partitions that were given up are assigned again
            self.rejoin("partitions were given up")
        elif unwanted and not self._unwanted:
            # A static member that is back with another subscription is assigned what it had before. Once: an assignor
            # that does so every time would keep the group from ever being stable.
            self.rejoin("topics were assigned that are not subscribed")
        elif reason := self._joining.outdated():
            # A topic has grown while the assignment was on its way.
            self.rejoin(reason)
        self._unwanted = unwanted
        # Set already if anything was noted since _join cleared it.
        await self._noted.wait()

    def _left_to_others(self, but: AbstractSet[TopicPartition] = frozenset()) -> None:
        self._interrupted(self._returning - but)
        self._returning = set()

    async def _give_up(self, kind: ChangeKind, partitions: set[TopicPartition], *, joins: bool = False) -> None:
        """Give up partitions; ``joins``: in order to join the next generation, which may assign them back."""
        if not partitions:
            return
        # Less than the rebalance timeout: the heartbeat that announced the rebalance was up to an interval late.
        # A tenth is left for the JoinGroup itself.
        timeout = max(self._config.max_poll_interval * 0.9 - self._config.heartbeat_interval, 0.1)
        deadline = asyncio.get_running_loop().time() + timeout
        await self._owner.apply(Change(kind, sorted(partitions), deadline))
        # After the owner is done: until then its commits are those of an owner.
        self.owned -= partitions
        if joins:
            self._returning |= partitions
        else:
            self._interrupted(partitions)

    @property
    def problem(self) -> str:
        """Why joining has not ended yet."""
        failure = self.join_failure or self._cluster.coordinator_failure(CoordinatorKind.GROUP, self._config.group_id)
        if failure:
            return failure
        if self._known:
            return "the group rebalances, and its coordinator waits for the other members to join again"
        return "no response from the coordinator: it is silent, or waits for other members, as the group rebalances"

    async def _join(self) -> set[TopicPartition] | None:
        """Join, with retries, and return the assigned partitions. None if the owned ones are lost, or joining must
        stop."""
        failures, undecodable, loop = 0, 0, asyncio.get_running_loop()
        started = self.joining_since = loop.time()
        self._known = False
        self.settled.clear()
        try:
            while self._can_join():
                # Each attempt sends the newest subscription, which serves all notes made before it.
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
                # The coordinator has given the member its id, and takes its time for the next response.
                self._known = isinstance(error, BrokerError) and error.code == ErrorCode.MEMBER_ID_REQUIRED
                self.join_failure = "" if self._known else str(error)
                failures += 1
                if action in LOST:
                    # The group may have continued without this member.
                    self._left_to_others()
                # The loop must have LOST carried out before it joins: those partitions may be read elsewhere.
                if action in LOST and self.owned:
                    self.lose(error)
                    return None
                # The first refusal of this kind changes the request (a member id, for example), so retry without
                # backoff.
                if action is not Action.REJOIN or failures > 1:
                    # The first failures are usual (a coordinator that moves); from the third on it is a problem, every
                    # tenth time.
                    level = logging.WARNING if failures % 10 == 3 else logging.DEBUG
                    log.log(level, "group %s: attempt %d to join: %s", self._config.group_id, failures, error)
                    await asyncio.sleep(self._cluster.backoff.delay(failures))
            return None
        finally:
            self.joining_since = None
            # Also when joining is given up: a commit that waits must look at the state, not hang.
            self.settled.set()

    async def _pause_without_assignment(self, error: KafkaError, attempt: int) -> None:
        """Wait before the next generation, since nobody knows what this one assigns to the member; the next rebalance
        of the others ends the wait. (Java's consumer raises the error from each poll(), and does not rejoin.)"""
        # Of an eager group the others may own anything by now. A cooperative one takes nothing away without a second
        # rebalance, in which the member says what it still owns.
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
        # As heartbeats go on, they can note that the group rebalances, or has lost the member.
        await wait_until(self._noted, asyncio.get_running_loop().time() + pause)

    async def _attempt_to_join(self) -> set[TopicPartition] | JoinFailure | None:
        """Make one attempt to join. Return None if it was cancelled because the member must not join any more."""
        # A task of its own: _note() must be able to cancel the wait for JoinGroup without cancelling the loop.
        self._attempt = create_task(
            self._joining.attempt(self._topics, self.owned, self._rejoin_reason), name="aiokproto-consumer-join"
        )
        try:
            # asyncio.wait tells the two cancellations apart: the attempt's own is a result, the loop's is raised here.
            await asyncio.wait([self._attempt])
            return None if self._attempt.cancelled() else self._attempt.result()
        finally:
            attempt, self._attempt = self._attempt, None
            # False if it is done. Otherwise the loop was cancelled: the attempt must not change the membership
            # afterwards.
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
