"""Heartbeats of a classic member: they keep its session alive, and their responses confirm it."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from aiokproto.cluster import ClusterClient
from aiokproto.cluster.coordinator_requests import HELD_BACK, RETRIED, CoordinatorRequests
from aiokproto.cluster.pool import MAIN
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import KafkaError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.changes import PartitionOwner
from aiokproto.group.config import GroupConfig
from aiokproto.group.membership import LOST, Membership, Phase
from aiokproto.group.session import Session

if TYPE_CHECKING:
    from aiokproto.group.classic_member import ClassicMember

log = logging.getLogger("aiokproto.group")

_KNOWN = frozenset({Action.ACCEPT, Action.REJOIN})
"""Actions that mean that the coordinator knows the member."""


class Heartbeat:
    """Sends heartbeats, even while the application processes records for a long time.

    Attributes:
        session: The session that they keep alive.
    """

    def __init__(
        self,
        cluster: ClusterClient,
        config: GroupConfig,
        membership: Membership,
        requests: CoordinatorRequests,
        member: ClassicMember,
        owner: PartitionOwner,
    ) -> None:
        self.session = Session(config.group_id, config.session_timeout, membership, owner)
        self._cluster = cluster
        self._config = config
        self._membership = membership
        self._requests = requests
        self._member = member
        # A session has to have room for several attempts, or a single lost response would end it.
        self._timeout = min(cluster.config.request_timeout, config.session_timeout / 3)

    async def run(self) -> None:
        """Send heartbeats until cancelled.

        Raises:
            KafkaError: A heartbeat failed permanently.
        """
        failures = 0
        try:
            while True:
                # The pause after a failure is shorter than an interval: there must be several attempts in the rest of
                # the session.
                await asyncio.sleep(
                    self._cluster.backoff.delay(failures) if failures else self._config.heartbeat_interval
                )
                # Between sessions the task sleeps instead of ending. This way, there's one task for the member's whole
                # life, and only one end to watch.
                if self._membership.in_session:
                    failures = 0 if await self._send_heartbeat() else failures + 1
        finally:
            self.session.stop()

    async def _send_heartbeat(self) -> bool:
        """Send one heartbeat. Return whether the coordinator responded."""
        # Take the time before looking up the coordinator: if the time is too early, the session only seems shorter.
        membership, sent_at = self._membership, asyncio.get_running_loop().time()
        # Store this: the response is judged by the generation of the request.
        generation = membership.generation
        situation = Situation(HeartbeatRequest.api_key, member=True)
        try:
            # Heartbeats don't use the group connection while the member is joining: brokers respond in order, and may
            # hold back JoinGroup for minutes.
            channel = HELD_BACK if membership.phase is Phase.STABLE else MAIN
            response = await self._requests.once(membership.heartbeat(), timeout=self._timeout, channel=channel)
        except KafkaError as error:
            action = classify(error, situation)
            if action not in RETRIED:
                # This ends the task, which ends the member (ClassicMember._heartbeats_ended).
                raise
            log.debug("group %s: heartbeat: %s", self._config.group_id, error)
            self._requests.prepare_retry(action, f"Heartbeat: {error}")
            return False
        if not membership.is_current(generation):
            # If the generation has changed, the response is meaningless.
            if generation == membership.generation:
                self._responded_while_joining(classify(ErrorCode(response.error_code), situation), sent_at)
            return True
        # Update the state machine first, because it forgets the generation if that is lost. Then leave the note for the
        # loop.
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
        self._member.heartbeat_refused(action, refusal)
        # These count as successful responses, too; only retriable errors (COORDINATOR_NOT_AVAILABLE) count as failures.
        return action in LOST or action is Action.REJOIN

    def _responded_while_joining(self, action: Action, sent_at: float) -> None:
        """Handle a response received while joining. It shows whether the member, which is still reading its partitions,
        is still in the group."""
        if action in _KNOWN:
            self.session.confirm(sent_at)
        # The session just becomes unconfirmed: JoinGroup will report the loss, and only the loop acts on it.
        # ILLEGAL_GENERATION doesn't mean a loss, because the next generation may have started.
        elif action is Action.REJOIN_AS_NEW:
            self.session.mark_unconfirmed()
