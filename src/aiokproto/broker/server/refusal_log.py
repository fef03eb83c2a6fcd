"""Warnings of connections that the broker closes: one for each, as long as these are few."""

from __future__ import annotations

import asyncio
import logging

from aiokproto.security.shown import shown
from aiokproto.texts import counted

MAX_LOGGED = 10
WINDOW = 10.0
"""At most so many lines in so many seconds: everyone can cause them, also without a login."""

_LONGEST = 500
"""Longest text of a line, in characters: it can have what the client has sent."""

log = logging.getLogger("aiokproto.broker")


class RefusalLog:
    """Logs which connections a node closes, and why; what is left out is counted, and the number logged.

    Args:
        node_id: The node.
    """

    def __init__(self, node_id: int) -> None:
        self._node_id = node_id
        self._closed = 0
        self._end: asyncio.TimerHandle | None = None

    def warn(self, peer: object, why: str, bug: Exception | None = None) -> None:
        """Log that a connection is closed; for a bug as an error, with its traceback."""
        if self._end is None:
            self._end = asyncio.get_running_loop().call_later(WINDOW, self.report)
        self._closed += 1
        if self._closed <= MAX_LOGGED:
            level = logging.WARNING if bug is None else logging.ERROR
            text = "broker %d closes the connection from %s: %s"
            log.log(level, text, self._node_id, peer, shown(why, _LONGEST), exc_info=bug)

    def report(self) -> None:
        """End the window: log how many lines were left out in it."""
        if self._end is not None:
            self._end.cancel()
            self._end = None
        if self._closed > MAX_LOGGED:
            more = counted(self._closed - MAX_LOGGED, "more connection")
            log.warning("broker %d closed %s within %g s", self._node_id, more, WINDOW)
        self._closed = 0
