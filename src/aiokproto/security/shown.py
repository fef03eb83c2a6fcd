"""What a peer says, in errors and logs: on one line, of limited length, and without secrets that it repeats. Pure."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 200
"""Longest part of a peer's text, in characters."""
LONGEST_REASON = 1000
"""The same, of the sentence with which a broker rejects a login."""

_SHORTEST = 4
"""Shorter ones are in most words, and hiding them would only hide those."""


def shown(text: str, longest: int = LONGEST, *, hidden: Iterable[str] = ()) -> str:
    """Return a peer's text for an error.

    Args:
        text: The text.
        longest: How much of it is shown, in characters.
        hidden: Secrets that the peer has received, and may repeat.
    """
    for secret in hidden:
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, "…")
    return "".join(char if char.isprintable() else "?" for char in text[:longest])
