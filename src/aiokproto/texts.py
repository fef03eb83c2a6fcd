"""Texts of peers and addresses, as errors, logs and options have them."""

from __future__ import annotations

_SHOWN = 500
"""Characters that are shown: each name that Kafka accepts is shorter than 250, and a line of the log stays readable."""


def shortened(text: object, shown: int = _SHOWN) -> str:
    """Return a text of a peer for an error or the log: its beginning, and how long it is, if it is long.

    A name in a response can have 32 kB, and an error text is repeated by each call that waits.
    """
    whole = text if isinstance(text, str) else repr(text)
    return whole if len(whole) <= shown else f"{whole[:shown]}… ({len(whole)} characters)"


def is_unicode(text: str) -> bool:
    """Return whether UTF-8 can have a text: not if it has a lone surrogate, which JSON and file names can bring in."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def address(host: str, port: int) -> str:
    """Return ``host:port``, with brackets around an IPv6 address."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
