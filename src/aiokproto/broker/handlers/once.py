"""Detects names that are repeated in a request.

A name is a few bytes, but its part of the response can be a megabyte: a topic with its partitions, a group with its
members. By repeating names, a request could get a response of any size, which would block the event loop.
"""

from __future__ import annotations

from collections.abc import Hashable


class Once:
    """Returns True the first time it's called with a name, and False after that."""

    def __init__(self) -> None:
        self._known: set[tuple[Hashable, ...]] = set()

    def __call__(self, *name: Hashable) -> bool:
        """Return whether a name appears for the first time."""
        before = len(self._known)
        self._known.add(name)
        return len(self._known) > before
