"""The choice of a classic group's protocol, which for consumers is the assignor."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable

from aiokproto.broker.groups.classic_member import ClassicMember, JoinRequest


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


def supports_group(request: JoinRequest, members: Iterable[ClassicMember], protocol_type: str | None) -> bool:
    """Return whether this member and all others support one protocol of the group's type.

    A member without one is rejected: the group could not select a protocol for the next generation.
    """
    names = {name for name, _ in request.protocols}
    if not names or not request.protocol_type:
        return False
    # Without its own earlier JoinGroup: a member can change all its protocols if it is alone.
    others = [member for member in members if member.member_id != request.member_id]
    if not others:
        return True
    return request.protocol_type == protocol_type and bool(names & common_protocols(others))
