"""Which of its members' protocols (assignors) a group uses."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from aiokproto.broker.groups.classic_member import ClassicMember


def common_protocols(members: Collection[ClassicMember]) -> frozenset[str]:
    """The protocols that every member can do."""
    return frozenset.intersection(*(member.names for member in members)) if members else frozenset()


def select_protocol(members: Collection[ClassicMember]) -> str | None:
    """The protocol for the next generation: each member votes for the one it likes best of those that all can do."""
    candidates = common_protocols(members)
    votes = Counter(
        next(name for name, _ in member.protocols if name in candidates) for member in members if candidates
    )
    return votes.most_common(1)[0][0] if votes else None
