"""Tells what a request names again.

A name is a few bytes, and what it names can be a megabyte: a topic with its partitions, a group with its members. A
request could have a response of any size, and hold up the event loop for as long as making it takes.
"""

from __future__ import annotations

from collections.abc import Hashable


class Once:
    """Is true for each name once."""

    def __init__(self) -> None:
        self._known: set[tuple[Hashable, ...]] = set()

    def __call__(self, *name: Hashable) -> bool:
        """Return whether a name comes for the first time."""
        before = len(self._known)
        self._known.add(name)
        return len(self._known) > before
