"""The objects that clients and brokers hold: the items of all containers that can be reached from them."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Mapping
from enum import Enum
from gc import get_referents
from types import ModuleType
from typing import Any

_CONTAINERS = (dict, list, set, deque)
_OTHERS = (type, ModuleType, Enum, asyncio.AbstractEventLoop)
_BOUNDED = {
    # The keys are APIs and versions, which become known with time.
    "ClientProtocol._headers",
    "BrokerVersions._picked",
    # These are the versions of a broker's last connection. The sink and the metadata remember it, whether or not it is
    # the same.
    "BrokerVersions.ranges",
    "BrokerVersions.features",
    # The history keeps the newest hundred.
    "EpochHistory._entries",
}


def held_items(clients: Mapping[str, object], *, tuples: bool = False) -> Counter[str]:
    """Return the number of items in the containers that can be reached from clients, by attribute.

    The search goes through containers and instances of the library's classes. The key is the client, the class and the
    attribute, so objects that come and go (a connection, a cursor) are counted under one key. With ``tuples`` the items
    of tuples and frozen sets, which are replaced as a whole, count too.
    """
    items: Counter[str] = Counter()
    seen: set[int] = set()
    left: list[tuple[str, Any]] = [(name, client) for name, client in clients.items()]
    while left:
        place, found = left.pop()
        if id(found) in seen or isinstance(found, _OTHERS):
            continue
        seen.add(id(found))
        if isinstance(found, _CONTAINERS):
            if place.partition(" ")[2] not in _BOUNDED:
                items[place] += len(found)
            values = [*found.keys(), *found.values()] if isinstance(found, dict) else list(found)
            left += [(f"{place}[]", value) for value in values]
        elif isinstance(found, tuple | frozenset):
            items[place] += len(found) if tuples else 0
            left += [(place, value) for value in found]
        elif _is_ours(found):
            left += _attributes(place.split(" ")[0], found)
    return items


def _is_ours(found: object) -> bool:
    # The simulated network has a trace of all events.
    return type(found).__module__.startswith("aiokproto.") and ".simulation." not in type(found).__module__


def _attributes(client: str, owner: Any) -> list[tuple[str, Any]]:
    kind = type(owner)
    named = dict(getattr(owner, "__dict__", {}))
    for base in kind.__mro__:
        slots = base.__dict__.get("__slots__", ())
        for slot in (slots,) if isinstance(slots, str) else slots:
            if (value := getattr(owner, slot, None)) is not None:
                named[slot] = value
    known = {id(value) for value in named.values()} | {id(getattr(owner, "__dict__", None))}
    # The attributes of compiled classes have no names.
    rest = [value for value in get_referents(owner) if id(value) not in known]
    return [(f"{client} {kind.__name__}.{name}", value) for name, value in named.items()] + [
        (f"{client} {kind.__name__}", value) for value in rest
    ]
