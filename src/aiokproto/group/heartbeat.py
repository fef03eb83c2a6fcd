"""The session of a member: heartbeats keep it, and their responses say whether it still holds."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from aiokproto.cluster import Cluster
from aiokproto.cluster.pool import MAIN
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import KafkaError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.group.config import GroupConfig
from aiokproto.group.membership import LOST, Membership, Phase
from aiokproto.group.requests import AGAIN, HELD_BACK, GroupRequests

log = logging.getLogger("aiokproto.group")

_KNOWN = frozenset({Action.ACCEPT, Action.REJOIN})
"""Responses to a member that the coordinator knows."""


class Heartbeat:
    """Sends heartbeats, however long records are processed.

    Invariant: the session is confirmed only if the coordinator has answered a request that was sent within the session
    timeout. After a silence longer than that (the coordinator is cut off, or this process was suspended) it may have
    removed the member, so the session counts as unconfirmed until the coordinator answers again. The timer notices with
    the loop's first turn after a suspension, :meth:`check_session` before it.

    Attributes:
        confirmed: Whether the coordinator has confirmed the session within the session timeout.
    """

    def __init__(
        self,
        cluster: Cluster,
        config: GroupConfig,
        membership: Membership,
        requests: GroupRequests,
        on_answer: Callable[[Action, KafkaError], None],
        on_session: Callable[[bool], None],
    ) -> None:
        """``on_answer`` takes a response that changes something; ``on_session`` each change of :attr:`confirmed`."""
        self.confirmed = True
        self._cluster = cluster
        self._config = config
        self._membership = membership
        self._requests = requests
        self._on_answer = on_answer
        self._on_session = on_session
        self._sent_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        # Several attempts have to fit into a session, or one lost answer would end it.
        self._timeout = min(cluster.config.request_timeout, config.session_timeout / 3)

    def confirm(self, sent_at: float) -> None:
        """The coordinator has answered a request that was sent at that loop time, and knows the member."""
        self._sent_at = max(self._sent_at, sent_at)
        loop = asyncio.get_running_loop()
        if loop.time() - self._sent_at >= self._config.session_timeout:
            self._doubt()
            return
        if self._timer is None:
            self._timer = loop.call_at(self._sent_at + self._config.session_timeout, self._session_ended)
        self._set_confirmed(True)

    async def run(self) -> None:
        """Send heartbeats, for ever.

        Raises:
            KafkaError: The coordinator cannot be asked, for good.
        """
        failures = 0
        try:
            while True:
                await asyncio.sleep(self._cluster.backoff(failures) if failures else self._config.heartbeat_interval)
                if self._membership.in_session:
                    failures = 0 if await self._beat() else failures + 1
        finally:
            if self._timer is not None:
                self._timer.cancel()

    async def _beat(self) -> bool:
        """One heartbeat; whether the coordinator has answered it."""
        membership, sent_at = self._membership, asyncio.get_running_loop().time()
        generation = membership.generation
        situation = Situation(HeartbeatRequest.api_key, member=True)
        try:
            # Not behind a JoinGroup, which the coordinator holds back, and all that follows on its connection.
            channel = HELD_BACK if membership.phase is Phase.STABLE else MAIN
            response = await self._requests.once(membership.heartbeat(), timeout=self._timeout, channel=channel)
        except KafkaError as error:
            action = classify(error, situation)
            if action not in AGAIN:
                raise
            log.debug("group %s: heartbeat: %s", self._config.group_id, error)
            self._requests.prepare_retry(action, f"Heartbeat: {error}")
            return False
        if not membership.is_current(generation):
            if generation == membership.generation:
                self._joins(classify(ErrorCode(response.error_code), situation), sent_at)
            return True
        action = membership.answered(response.error_code, generation, HeartbeatRequest.api_key)
        if action in _KNOWN:
            self.confirm(sent_at)
        if action is Action.ACCEPT:
            return True
        refusal = error_for(response.error_code, f"Heartbeat of group {self._config.group_id!r}")
        self._requests.prepare_retry(action, str(refusal))
        self._on_answer(action, refusal)
        return action in LOST or action is Action.REJOIN

    def _joins(self, action: Action, sent_at: float) -> None:
        """Take in the answer to a member that waits for the next generation: is what it still reads still its own?"""
        if action in _KNOWN:
            self.confirm(sent_at)
        elif action is Action.REJOIN_AS_NEW:
            self._doubt()

    def check_session(self) -> None:
        """Notice a session that is unconfirmed before the loop has had a turn in which the timer could."""
        if (
            self._timer is not None
            and asyncio.get_running_loop().time() - self._sent_at >= self._config.session_timeout
        ):
            self._timer.cancel()
            self._session_ended()

    def _session_ended(self) -> None:
        """The timer's end, unless the session was confirmed since."""
        loop = asyncio.get_running_loop()
        self._timer = None
        if not self._membership.in_session:
            return
        ends_at = self._sent_at + self._config.session_timeout
        if loop.time() < ends_at:
            self._timer = loop.call_at(ends_at, self._session_ended)
            return
        self._doubt()

    def _doubt(self) -> None:
        """The coordinator has confirmed nothing that was sent within the session timeout."""
        if self.confirmed:
            silence = asyncio.get_running_loop().time() - self._sent_at
            log.warning(
                "group %s: nothing confirmed by the coordinator in %.1f s: the session may be over",
                self._config.group_id,
                silence,
            )
        self._set_confirmed(False)

    def _set_confirmed(self, confirmed: bool) -> None:
        if confirmed != self.confirmed:
            self.confirmed = confirmed
            self._on_session(confirmed)
