"""The assignor of share groups: who should read which partition, which several members may do at once."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Collection, Mapping, Sequence

from aiokproto.broker.groups.places import Place, Places

NAME = "simple"


def simple(
    wishes: Mapping[str, frozenset[bytes]], before: Mapping[str, Places], assignable: Mapping[bytes, Collection[int]]
) -> dict[str, Places]:
    """Every partition at as many members, and every member with as many partitions, as the others; else as before.

    Where members want different topics, this is so for each topic by itself.

    Args:
        wishes: The ids of the topics that each member wants.
        before: What each was to have so far.
        assignable: The partitions of each topic that can be read.

    Returns:
        What each is to have. Every partition that somebody wants is at somebody; and where there are no more members
        than partitions, at one alone.
    """
    if len(set(wishes.values())) <= 1:
        wanted = next(iter(wishes.values()), frozenset())
        pools = [(list(wishes), [(topic_id, index) for topic_id in wanted for index in assignable.get(topic_id, ())])]
    else:
        pools = [
            ([member_id for member_id, wish in wishes.items() if topic_id in wish], [(topic_id, i) for i in indexes])
            for topic_id, indexes in assignable.items()
        ]
    targets: dict[str, Places] = dict.fromkeys(wishes, frozenset())
    for members, places in pools:
        if members and places:
            for member_id, given in _spread(members, sorted(places), before).items():
                targets[member_id] |= given
    return targets


def _spread(members: Sequence[str], places: Sequence[Place], before: Mapping[str, Places]) -> dict[str, set[Place]]:
    sharing = -(-len(members) // len(places))
    room = _shares(sharing * len(places), members)
    holders: Counter[Place] = Counter()
    given: dict[str, set[Place]] = {member_id: set() for member_id in members}
    for member_id, mine in given.items():
        for place in sorted(before.get(member_id, frozenset()).intersection(places)):
            if len(mine) < room[member_id] and holders[place] < sharing:
                mine.add(place)
                holders[place] += 1
    waiting = deque(member_id for member_id, mine in given.items() if len(mine) < room[member_id])
    for place in places:
        for _ in range(sharing - holders[place]):
            taker = _next(waiting, given, place)
            # Who has room has this one already: a partition shared by one less does no harm.
            if taker is None:
                break
            given[taker].add(place)
            if len(given[taker]) == room[taker]:
                waiting.pop()
    return given


def _shares(total: int, members: Sequence[str]) -> dict[str, int]:
    """So many for each member that they come to ``total``, and differ by one at most."""
    ends = [-(-total * count // len(members)) for count in range(len(members) + 1)]
    return {member_id: ends[at + 1] - ends[at] for at, member_id in enumerate(members)}


def _next(waiting: deque[str], given: Mapping[str, set[Place]], place: Place) -> str | None:
    """Whoever waits longest of those without that partition; it is moved to the end."""
    for _ in range(len(waiting)):
        waiting.rotate(-1)
        if place not in given[waiting[-1]]:
            return waiting[-1]
    return None
