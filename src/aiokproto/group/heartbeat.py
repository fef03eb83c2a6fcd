"""Heartbeats of a classic member: they keep its session alive, and their responses confirm it."""

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
from aiokproto.group.session import Session

log = logging.getLogger("aiokproto.group")

_KNOWN = frozenset({Action.ACCEPT, Action.REJOIN})
"""Actions of responses to a member that the coordinator knows."""


class Heartbeat:
    """Sends heartbeats, however long the application processes records.

    Attributes:
        session: The session that they keep alive.
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
        ``session.confirmed``."""
        self.session = Session(config.group_id, config.session_timeout, lambda: membership.in_session, on_session)
        self._cluster = cluster
        self._config = config
        self._membership = membership
        self._requests = requests
        self._on_response = on_response
        # Several attempts have to fit into a session: otherwise one lost response would end it.
        self._timeout = min(cluster.config.request_timeout, config.session_timeout / 3)

    async def run(self) -> None:
        """Send heartbeats until cancelled.

        Raises:
            KafkaError: Heartbeats fail for good.
        """
        failures = 0
        try:
            while True:
                # After a failure sooner than an interval: what is left of the session must see several attempts.
                await asyncio.sleep(
                    self._cluster.backoff.delay(failures) if failures else self._config.heartbeat_interval
                )
                # Asleep and not stopped between sessions: one task for the member's whole life, with one end to watch.
                if self._membership.in_session:
                    failures = 0 if await self._send_heartbeat() else failures + 1
        finally:
            self.session.stop()

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
            self.session.confirm(sent_at)
        if action is Action.ACCEPT:
            return True
        refusal = error_for(
            response.error_code,
            f"Heartbeat of {self._config.named}",
            None,
            self._cluster.asked(HeartbeatRequest, group=self._config.group_id),
        )
        self._requests.prepare_retry(action, str(refusal))
        self._on_response(action, refusal)
        # These are responses too; only what is retried (COORDINATOR_NOT_AVAILABLE) counts as a failure.
        return action in LOST or action is Action.REJOIN

    def _responded_while_joining(self, action: Action, sent_at: float) -> None:
        """Handle a response received while joining: is the member, which still reads its partitions, still in the
        group?"""
        if action in _KNOWN:
            self.session.confirm(sent_at)
        # Only doubted: JoinGroup will report the loss, and the loop alone acts on it. ILLEGAL_GENERATION is no sign, as
        # the next generation may have begun.
        elif action is Action.REJOIN_AS_NEW:
            self.session.mark_unconfirmed()
