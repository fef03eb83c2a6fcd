"""Text from peers in errors and logs: on one line, with a limited length, and without secrets. Pure."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 200
"""Maximum number of characters of a peer's text to show."""
LONGEST_REASON = 1000
"""The same for a broker's reason for rejecting a login."""

_SHORTEST = 4
"""Shorter secrets aren't hidden: they're part of many words, which would be hidden as well."""


def shown(text: str, longest: int = LONGEST, *, hidden: Iterable[str] = ()) -> str:
    """Return a peer's text for an error.

    Args:
        text: The text.
        longest: The maximum number of characters to show.
        hidden: Secrets that the peer has received and may repeat.
    """
    for secret in hidden:
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, "…")
    return "".join(char if char.isprintable() else "?" for char in text[:longest])
