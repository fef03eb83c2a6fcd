"""The session of a member: heartbeats keep it alive, and their responses confirm it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from aiokproto.cluster import ClusterClient
from aiokproto.cluster.coordinator_requests import HELD_BACK, RETRIED, CoordinatorRequests
from aiokproto.cluster.pool import MAIN
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import KafkaError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.config import GroupConfig
from aiokproto.group.membership import LOST, Membership, Phase

log = logging.getLogger("aiokproto.group")

_KNOWN = frozenset({Action.ACCEPT, Action.REJOIN})
"""Actions of responses to a member that the coordinator knows."""


class Heartbeat:
    """Sends heartbeats, however long the application processes records.

    Invariant: the session is confirmed only if the coordinator has responded to a request that was sent within the
    session timeout. After a longer silence (the coordinator cannot be reached, or this process was suspended) it may
    have removed the member, so the session counts as unconfirmed until the next response. After a suspension a timer
    notices this in the event loop's first iteration, and :meth:`check_session` even before.

    Attributes:
        confirmed: Whether the coordinator has confirmed the session within the session timeout.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        config: GroupConfig,
        membership: Membership,
        requests: CoordinatorRequests,
        on_response: Callable[[Action, KafkaError], None],
        on_session: Callable[[bool], None],
    ) -> None:
        """``on_response`` receives responses that ask for an action; ``on_session`` each change of
        :attr:`confirmed`."""
        # True before the first join: there is no session that could have ended.
        self.confirmed = True
        self._cluster = cluster
        self._config = config
        self._membership = membership
        self._requests = requests
        self._on_response = on_response
        self._on_session = on_session
        # When the newest request that was confirmed was sent. Not when its response came: that may have lain in the
        # socket through a suspension.
        self._sent_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        # Several attempts have to fit into a session: otherwise one lost response would end it.
        self._timeout = min(cluster.config.request_timeout, config.session_timeout / 3)

    def confirm(self, sent_at: float) -> None:
        """Note that the coordinator knows the member, by the response to a request sent at that loop time."""
        # Responses of two connections can arrive in another order than their requests were sent.
        self._sent_at = max(self._sent_at, sent_at)
        loop = asyncio.get_running_loop()
        # The response of a session that has run out while it was under way.
        if loop.time() - self._sent_at >= self._config.session_timeout:
            self._mark_unconfirmed()
            return
        # Not moved with every heartbeat: the timer looks at _sent_at when it runs, and sets itself again.
        if self._timer is None:
            self._timer = loop.call_at(self._sent_at + self._config.session_timeout, self._session_ended)
        self._set_confirmed(True)

    async def run(self) -> None:
        """Send heartbeats until cancelled.

        Raises:
            KafkaError: Heartbeats fail for good.
        """
        failures = 0
        try:
            while True:
                # After a failure sooner than an interval: what is left of the session must see several attempts.
                await asyncio.sleep(self._cluster.backoff(failures) if failures else self._config.heartbeat_interval)
                # Asleep and not stopped between sessions: one task for the member's whole life, with one end to watch.
                if self._membership.in_session:
                    failures = 0 if await self._send_heartbeat() else failures + 1
        finally:
            if self._timer is not None:
                self._timer.cancel()

    async def _send_heartbeat(self) -> bool:
        """Send one heartbeat. Return whether the coordinator responded."""
        # Before the coordinator is looked up: too early a time can only make the session look shorter.
        membership, sent_at = self._membership, asyncio.get_running_loop().time()
        # Remembered: the response is judged by the generation of the request.
        generation = membership.generation
        situation = Situation(HeartbeatRequest.api_key, member=True)
        try:
            # While joining, not on the group connection: brokers respond in order, and JoinGroup may be held back for
            # minutes.
            channel = HELD_BACK if membership.phase is Phase.STABLE else MAIN
            response = await self._requests.once(membership.heartbeat(), timeout=self._timeout, channel=channel)
        except KafkaError as error:
            action = classify(error, situation)
            if action not in RETRIED:
                # Ends the task, which ends the member (GroupMember._heartbeats_ended).
                raise
            log.debug("group %s: heartbeat: %s", self._config.group_id, error)
            self._requests.prepare_retry(action, f"Heartbeat: {error}")
            return False
        if not membership.is_current(generation):
            # Of an earlier generation nothing can be learned.
            if generation == membership.generation:
                self._responded_while_joining(classify(ErrorCode(response.error_code), situation), sent_at)
            return True
        # First the state machine, which forgets the generation if it is lost; then the note for the loop.
        action = membership.responded(response.error_code, generation, HeartbeatRequest.api_key)
        if action in _KNOWN:
            self.confirm(sent_at)
        if action is Action.ACCEPT:
            return True
        refusal = error_for(response.error_code, f"Heartbeat of group {self._config.group_id!r}")
        self._requests.prepare_retry(action, str(refusal))
        self._on_response(action, refusal)
        # These are responses too; only what is retried (COORDINATOR_NOT_AVAILABLE) counts as a failure.
        return action in LOST or action is Action.REJOIN

    def _responded_while_joining(self, action: Action, sent_at: float) -> None:
        """Handle a response received while joining: is the member, which still reads its partitions, still in the
        group?"""
        if action in _KNOWN:
            self.confirm(sent_at)
        # Only doubted: JoinGroup will report the loss, and the loop alone acts on it. ILLEGAL_GENERATION is no sign, as
        # the next generation may have begun.
        elif action is Action.REJOIN_AS_NEW:
            self._mark_unconfirmed()

    def check_session(self) -> None:
        """Check the session before the event loop could run the timer, as right after a suspension."""
        if (
            self._timer is not None
            and asyncio.get_running_loop().time() - self._sent_at >= self._config.session_timeout
        ):
            self._timer.cancel()
            self._session_ended()

    def _session_ended(self) -> None:
        """Handle the timer; the session may have been confirmed since it was set."""
        loop = asyncio.get_running_loop()
        # Nothing to time between sessions; the next confirmation sets it again.
        self._timer = None
        if not self._membership.in_session:
            return
        ends_at = self._sent_at + self._config.session_timeout
        if loop.time() < ends_at:
            self._timer = loop.call_at(ends_at, self._session_ended)
            return
        self._mark_unconfirmed()

    def _mark_unconfirmed(self) -> None:
        """Count the session as unconfirmed."""
        if self.confirmed:
            silence = asyncio.get_running_loop().time() - self._sent_at
            log.warning(
                "group %s: no confirmation from the coordinator in %.1f s: the session may have expired",
                self._config.group_id,
                silence,
            )
        self._set_confirmed(False)

    def _set_confirmed(self, confirmed: bool) -> None:
        if confirmed != self.confirmed:
            self.confirmed = confirmed
            self._on_session(confirmed)
