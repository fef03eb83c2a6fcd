"""Hooks that keep every event, for tests."""

from __future__ import annotations

from typing import Any

from aiokproto.hooks import HookCalls, Hooks


class Recording(Hooks):
    """Keeps the events, in order."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    def of(self, kind: type) -> list[Any]:
        """The events of a class."""
        return [event for event in self.events if type(event) is kind]


def _keep(self: Recording, event: object) -> None:
    self.events.append(event)


# A method per event: only overridden ones are called.
for _name in HookCalls.__slots__:
    setattr(Recording, f"on_{_name}", _keep)
