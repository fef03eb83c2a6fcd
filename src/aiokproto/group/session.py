"""The session of a member: whether its coordinator has confirmed it recently."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiokproto.group.changes import ItemOwner, PartitionOwner
from aiokproto.group.epoch_membership import EpochMembership
from aiokproto.group.membership import Membership

log = logging.getLogger("aiokproto.group")

BLOCKED = 1.0
"""A warning is logged if the event loop is more than this many seconds late."""


class Session:
    """Keeps the time since the coordinator last confirmed the member.

    Invariant: the session is confirmed only if the coordinator has responded to a request that was sent within the
        session timeout. After a longer silence (the coordinator cannot be reached, or this process was suspended) it
        may have removed the member, so the session counts as unconfirmed until the next response. After a suspension, a
        timer notices this in the event loop's first iteration, and :meth:`check` even earlier.

    Attributes:
        confirmed: Whether the coordinator has confirmed the session within the session timeout.
        timeout: The session timeout in seconds.
    """

    def __init__(
        self,
        group_id: str,
        timeout: float,
        membership: Membership | EpochMembership[Any],
        owner: PartitionOwner | ItemOwner[Any],
    ) -> None:
        """Each change of :attr:`confirmed` is reported to ``owner``."""
        self.confirmed = True
        self._group_id = group_id
        self.timeout = timeout
        self._membership = membership
        self._owner = owner
        self._sent_at = 0.0
        self._timer: asyncio.TimerHandle | None = None

    def confirm(self, sent_at: float) -> None:
        """Note that the coordinator knows the member: it has responded to a request sent at ``sent_at`` (loop time)."""
        self._sent_at = max(self._sent_at, sent_at)
        loop = asyncio.get_running_loop()
        if loop.time() - self._sent_at >= self.timeout:
            self.mark_unconfirmed()
            return
        if self._timer is None:
            self._timer = loop.call_at(self._sent_at + self.timeout, self._ended)
        self._set_confirmed(True)

    def check(self) -> None:
        """Check the session before the event loop can run the timer, such as right after a suspension."""
        if self._timer is not None and asyncio.get_running_loop().time() - self._sent_at >= self.timeout:
            self._timer.cancel()
            self._ended()

    def limit(self, timeout: float) -> None:
        """Replace the session timeout (in seconds), even for the current session."""
        self.timeout = timeout
        if self._timer is not None:
            self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_at(self._sent_at + timeout, self._ended)

    def stop(self) -> None:
        """Stop the timer."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def mark_unconfirmed(self, late: float = 0.0) -> None:
        """Mark the session as unconfirmed. ``late`` is how many seconds too late the event loop did so."""
        if self.confirmed:
            silence = asyncio.get_running_loop().time() - self._sent_at
            cause = ""
            if late >= BLOCKED:
                cause = (
                    f"; the event loop did not run for {late:.1f} s: a call blocked it, or the process was suspended"
                )
            log.warning(
                "group %s: no confirmation from the coordinator in %.1f s: the session may have expired%s",
                self._group_id,
                silence,
                cause,
            )
        self._set_confirmed(False)

    def _ended(self) -> None:
        """Handle the timer. The session may have been confirmed since it was set."""
        loop = asyncio.get_running_loop()
        self._timer = None
        if not self._membership.in_session:
            return
        ends_at = self._sent_at + self.timeout
        if loop.time() < ends_at:
            self._timer = loop.call_at(ends_at, self._ended)
            return
        self.mark_unconfirmed(loop.time() - ends_at)

    def _set_confirmed(self, confirmed: bool) -> None:
        if confirmed != self.confirmed:
            self.confirmed = confirmed
            self._owner.session(confirmed)
