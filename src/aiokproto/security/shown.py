"""The texts of peers in errors and logs: on one line, with a limited length, and without secrets. Pure."""

from __future__ import annotations

from collections.abc import Iterable

LONGEST = 200
"""Maximum length of a peer's text that is shown, in characters."""
LONGEST_REASON = 1000
"""The same for the reason with which a broker rejects a login."""

_SHORTEST = 4
"""Shorter secrets aren't hidden, since they're part of many words, and hiding them would only hide these."""


def shown(text: str, longest: int = LONGEST, *, hidden: Iterable[str] = ()) -> str:
    """Return a peer's text for an error.

    Args:
        text: The text.
        longest: The maximum length that is shown, in characters.
        hidden: Secrets that the peer has received and may repeat.
    """
    for secret in hidden:
        if len(secret) >= _SHORTEST:
            text = text.replace(secret, "…")
    return "".join(char if char.isprintable() else "?" for char in text[:longest])
