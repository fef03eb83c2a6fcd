"""Assignors: how a group's partitions are distributed among its members. Pure functions of the subscriptions.

The member that the coordinator chooses as leader runs one of them, and sends the assignment of every member with
SyncGroup. All clients of a group must have the assignor under the same name. They should also compute the same
assignment, because any of them can be the leader: these four compute exactly what the Java client does, which
``tests/java`` verifies. They differ only where the Java client would assign a partition twice or not at all, or to a
member that doesn't read the topic.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aiokproto.errors import ConfigurationError
from aiokproto.group.assignors.base import Assignment, Assignor, Members, Racks, Subscription
from aiokproto.group.assignors.range import RangeAssignor
from aiokproto.group.assignors.roundrobin import RoundRobinAssignor
from aiokproto.group.assignors.sticky import CooperativeStickyAssignor, StickyAssignor

__all__ = [
    "Assignment",
    "Assignor",
    "CooperativeStickyAssignor",
    "Members",
    "Racks",
    "RangeAssignor",
    "RoundRobinAssignor",
    "StickyAssignor",
    "Subscription",
    "make_assignors",
]

_BY_NAME: dict[str, Callable[[], Assignor]] = {
    RangeAssignor.name: RangeAssignor,
    RoundRobinAssignor.name: RoundRobinAssignor,
    StickyAssignor.name: StickyAssignor,
    CooperativeStickyAssignor.name: CooperativeStickyAssignor,
}


def make_assignors(strategies: Sequence[str | Assignor]) -> list[Assignor]:
    """Return the assignors of ``partition_assignment_strategy``, in order of preference: names, or custom objects.

    Raises:
        ConfigurationError: A name is unknown or repeated, or there is none.
    """
    assignors: list[Assignor] = []
    for strategy in strategies:
        if isinstance(strategy, str) and strategy in _BY_NAME:
            assignors.append(_BY_NAME[strategy]())
        elif isinstance(strategy, Assignor):
            assignors.append(strategy)
        else:
            raise ConfigurationError(
                f"partition_assignment_strategy: {strategy!r} is unknown; valid names: {', '.join(_BY_NAME)}, "
                "or pass an Assignor object"
            )
    names = [assignor.name for assignor in assignors]
    if not names or len(set(names)) < len(names):
        raise ConfigurationError(f"partition_assignment_strategy: needs one or more different assignors, not {names}")
    return assignors
