"""Which answers ask the client to hold back (pure; KIP-219)."""

from __future__ import annotations

from aiokproto.codec.schema import Response

MAX_THROTTLE = 60.0
"""Longest pause in seconds that one answer can impose, whatever it says."""

# Up to these versions the broker has itself waited before it answered; a second wait here would double it. APIs that
# are not named came later, and never did.
_BROKER_WAITED = {
    0: 5,
    1: 7,
    2: 2,
    3: 5,
    8: 3,
    9: 3,
    10: 1,
    11: 2,
    12: 1,
    13: 1,
    14: 1,
    15: 1,
    16: 1,
    18: 1,
    19: 2,
    20: 1,
    21: 0,
    22: 0,
    24: 0,
    25: 0,
    26: 0,
    28: 0,
    29: 0,
    30: 0,
    31: 0,
    32: 1,
    33: 0,
    34: 0,
    35: 0,
    37: 0,
    38: 0,
    39: 0,
    40: 0,
    41: 0,
    42: 0,
}


def throttle(response: Response, version: int) -> float:
    """Seconds for which the broker wants no further request on this connection."""
    milliseconds: int = getattr(response, "throttle_time_ms", 0)
    if milliseconds <= 0 or version <= _BROKER_WAITED.get(response.api_key, -1):
        return 0.0
    return min(milliseconds / 1000, MAX_THROTTLE)
