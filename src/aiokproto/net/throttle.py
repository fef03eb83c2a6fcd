"""Which answers ask the client to hold back (pure; KIP-219)."""

from __future__ import annotations

from aiokproto.codec.schema import Response

MAX_THROTTLE = 60.0
"""Longest pause in seconds that one answer can impose, whatever it says."""


def throttle(response: Response, version: int) -> float:
    """Seconds for which the broker wants no further request on this connection."""
    milliseconds: int = getattr(response, "throttle_time_ms", 0)
    if milliseconds <= 0 or version not in response.client_throttles:
        return 0.0
    return min(milliseconds / 1000, MAX_THROTTLE)
