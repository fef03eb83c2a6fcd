"""How long a response makes the client hold its next request back (pure; KIP-219)."""

from __future__ import annotations

from aiokproto.codec.schema import Response

MAX_THROTTLE = 60.0
"""Longest pause in seconds that one response can impose. A broker's field is an int32 of milliseconds, 24 days."""


def throttle(response: Response, version: int) -> float:
    """Return for how many seconds the client must send nothing on this connection; 0.0 for no throttle.

    Only versions from KIP-219 on count (``client_throttles``). Before, the broker delayed the response itself, and
    ``throttle_time_ms`` reports a delay that has already happened.
    """
    # Not every response has the field; ApiVersions has it, Produce with acks=0 has no response at all.
    milliseconds: int = getattr(response, "throttle_time_ms", 0)
    if milliseconds <= 0 or version not in response.client_throttles:
        return 0.0
    # A limit, as on everything that a peer controls: one wrong field must not silence a client for weeks.
    return min(milliseconds / 1000, MAX_THROTTLE)
