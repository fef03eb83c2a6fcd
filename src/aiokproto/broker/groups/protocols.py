"""The choice of a classic group's protocol, which for consumers is the assignor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from aiokproto.broker.groups.classic_member import ClassicMember


def common_protocols(members: Collection[ClassicMember]) -> frozenset[str]:
    """Return the protocols that every member supports."""
    return frozenset.intersection(*(member.names for member in members)) if members else frozenset()


def select_protocol(members: Collection[ClassicMember]) -> str | None:
    """Return the protocol of the next generation.

    Each member votes for the first in its list that all members support; the one with the most votes wins.
    """
    candidates = common_protocols(members)
    votes = Counter(
        next(name for name, _ in member.protocols if name in candidates) for member in members if candidates
    )
    return votes.most_common(1)[0][0] if votes else None
