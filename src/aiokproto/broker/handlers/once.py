"""Tells which names are repeated in a request.

A name is a few bytes, but it can stand for a megabyte: a topic with its partitions, a group with its members. With
repeated names a request could have a response of any size, which would hold up the event loop.
"""

from __future__ import annotations

from collections.abc import Hashable


class Once:
    """Is true for each name the first time only."""

    def __init__(self) -> None:
        self._known: set[tuple[Hashable, ...]] = set()

    def __call__(self, *name: Hashable) -> bool:
        """Return whether a name appears for the first time."""
        before = len(self._known)
        self._known.add(name)
        return len(self._known) > before
