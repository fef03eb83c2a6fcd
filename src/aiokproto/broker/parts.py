"""What a message is about: the topics, partitions and groups in it, whatever their fields are called in each API.

Kafka names the same thing differently from API to API (``partition``, ``partition_index``, ``index``). What works on
any API, an injected fault or the refusal of a request, goes by these roles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from typing import Any, NamedTuple

from aiokproto.codec.schema import FieldSpec, Struct
from aiokproto.codec.wire import ZERO_UUID

_PARTITION = frozenset({"partition", "partition_index", "partition_id", "index"})
_PARTITIONS = frozenset({"partitions", "partition_indexes"})
_TOPIC = frozenset({"topic", "topic_name"})
_TOPICS = frozenset({"topic_names"})
_GROUP = frozenset({"group_id"})
_GROUPS = frozenset({"groups", "groups_names", "group_ids", "coordinator_keys"})
_ASIDE = frozenset({"forgotten_topics_data"})
"""Lists of partitions that the request is not about."""


class Subject(NamedTuple):
    """What a request or a part of one is about, as far as it says; or what is looked for, None for any."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None

    def fits(self, other: Subject) -> bool:
        """Whether ``other`` is among what is looked for."""
        return all(mine is None or mine == theirs for mine, theirs in zip(self, other, strict=True))


ANYTHING = Subject()

NameOf = Callable[[bytes], "str | None"]
"""Topic id → name."""


def role(spec: FieldSpec, owner: type[Struct]) -> str | None:
    """Which part of a :class:`Subject` a field gives: that of its items, for an array."""
    name = spec.name
    if spec.struct is not None:
        return None
    if name in (_PARTITIONS if spec.array else _PARTITION):
        return "partition"
    if name in (_TOPICS if spec.array else _TOPIC) or (name == "name" and "Topic" in owner.__name__):
        return "topic"
    return "group" if name in (_GROUPS if spec.array else _GROUP) else None


def subject(part: Struct, within: Subject, name_of: NameOf) -> Subject:
    """What a struct is about, inside of what is about ``within``."""
    for spec in part.fields():
        value = getattr(part, spec.name)
        if spec.array or value is None:
            continue
        if spec.name == "topic_id":
            if value != ZERO_UUID:
                within = within._replace(topic=name_of(value))
            continue
        found = role(spec, type(part))
        if found is not None and value != "":
            within = within._replace(**{found: value})
    return within


def lists(part: Struct) -> Iterator[FieldSpec]:
    """The fields of a struct that list topics, partitions or groups, and have any."""
    for spec in part.fields():
        if spec.array and spec.name not in _ASIDE and getattr(part, spec.name) and _has_role(spec, type(part)):
            yield spec


def _has_role(spec: FieldSpec, owner: type[Struct]) -> bool:
    if spec.struct is None:
        return role(spec, owner) is not None
    inner = spec.struct
    return any(_has_role(each, inner) for each in inner.fields())


def split(part: Struct, wanted: Subject, name_of: NameOf, within: Subject = ANYTHING) -> tuple[Any, Any]:
    """Divide a message in what is not about ``wanted`` and what is; None where there is nothing of the kind."""
    about = subject(part, within, name_of)
    inner = list(lists(part))
    if not inner:
        return (None, part) if wanted.fits(about) else (part, None)
    kept, hit = copy(part), copy(part)
    found = left = False
    for spec in inner:
        others: list[Any] = []
        matching: list[Any] = []
        found_as = role(spec, type(part))
        for item in getattr(part, spec.name):
            if found_as is None:
                other, match = split(item, wanted, name_of, about)
            else:
                fits = wanted.fits(about._replace(**{found_as: item}))
                other, match = (None, item) if fits else (item, None)
            if other is not None:
                others.append(other)
            if match is not None:
                matching.append(match)
        setattr(kept, spec.name, others)
        setattr(hit, spec.name, matching)
        left, found = left or bool(others), found or bool(matching)
    return (kept if left else None), (hit if found else None)


def merge(into: Struct, other: Struct, name_of: NameOf) -> None:
    """Add the topics, partitions and groups of a response to those of another of the same kind."""
    for spec in lists(other):
        have: list[Any] = getattr(into, spec.name) or []
        setattr(into, spec.name, have)
        if spec.struct is None:
            have.extend(getattr(other, spec.name))
            continue
        known = {subject(item, ANYTHING, name_of): item for item in have}
        for item in getattr(other, spec.name):
            same = known.get(subject(item, ANYTHING, name_of))
            if same is None or not list(lists(item)):
                have.append(item)
            else:
                merge(same, item, name_of)
