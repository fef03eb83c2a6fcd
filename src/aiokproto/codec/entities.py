"""The entities that a message names: topics, partitions, groups and transactional ids, by the roles of its fields.

Declarations give each field its role. So routing a request, dividing it among brokers, merging their responses,
refusing it and injecting faults work for every API, without knowing its field names.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from copy import copy
from functools import cache
from typing import Any, NamedTuple, TypeVar

from aiokproto.codec.schema import FieldSpec, Role, Struct
from aiokproto.codec.steps import Steps, finish
from aiokproto.codec.wire import ZERO_UUID

S = TypeVar("S", bound=Struct)
K = TypeVar("K", bound=Hashable)


class Entity(NamedTuple):
    """The entity that a message, or part of one, names. In a filter (:meth:`matches`), None matches anything."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transaction: str | None = None

    def matches(self, other: Entity) -> bool:
        """Whether this filter includes ``other``."""
        return all(mine is None or mine == theirs for mine, theirs in zip(self, other, strict=True))


ANY_ENTITY = Entity()

NameOf = Callable[[bytes], "str | None"]
"""Topic id → name."""

_KINDS = {
    Role.TOPIC_NAME: "topic",
    Role.TOPIC_ID: "topic",
    Role.PARTITION_INDEX: "partition",
    Role.GROUP_ID: "group",
    Role.TRANSACTIONAL_ID: "transaction",
    # FindCoordinator's keys can be transactional ids too, but all keys in a request are of the same type.
    Role.COORDINATOR_KEY: "group",
}


def entity_of(part: Struct, within: Entity, name_of: NameOf) -> Entity:
    """Return the entity that a struct names, within the entity of the structs around it."""
    for spec in _naming(type(part)):
        within = _narrowed(within, spec, getattr(part, spec.name), name_of)
    return within


# These are cached, because a request can name a million partitions.
@cache
def _naming(struct: type[Struct]) -> list[FieldSpec]:
    return [spec for spec in struct.fields() if not (spec.array or spec.mentioned) and spec.role in _KINDS]


@cache
def _lists(struct: type[Struct]) -> list[FieldSpec]:
    return [spec for spec in struct.fields() if spec.array and names_entity(spec)]


def _narrowed(within: Entity, spec: FieldSpec, value: Any, name_of: NameOf) -> Entity:
    assert spec.role is not None
    if value is None or value in ("", ZERO_UUID):
        return within
    if spec.role is Role.TOPIC_ID:
        value = name_of(value)
    # _replace() would take much longer.
    topic, partition, group, transaction = within
    kind = _KINDS[spec.role]
    if kind == "partition":
        return Entity(topic, value, group, transaction)
    if kind == "topic":
        return Entity(value, partition, group, transaction)
    if kind == "group":
        return Entity(topic, partition, value, transaction)
    return Entity(topic, partition, group, value)


def listings(part: Struct) -> Iterator[FieldSpec]:
    """Yield the array fields of a struct that name entities and are not empty."""
    for spec in _lists(type(part)):
        if getattr(part, spec.name):
            yield spec


@cache
def names_entity(spec: FieldSpec) -> bool:
    """Whether a field or the structs in it name an entity that the message is about."""
    if spec.mentioned:
        return False
    if spec.struct is None:
        return spec.role in _KINDS
    return any(names_entity(inner) for inner in spec.struct.fields())


def entities(part: Struct, name_of: NameOf, within: Entity = ANY_ENTITY) -> Iterator[Entity]:
    """Yield the entities that a message names, in order. If its arrays don't name any, yield one for the message
    itself."""
    about = entity_of(part, within, name_of)
    inner = list(listings(part))
    if not inner:
        yield about
    for spec in inner:
        for item in getattr(part, spec.name):
            if spec.struct is None:
                yield _narrowed(about, spec, item, name_of)
            else:
                yield from entities(item, name_of, about)


def divide(part: S, by: Callable[[Entity], K], name_of: NameOf, within: Entity = ANY_ENTITY) -> dict[K, S]:
    """Divide a message into one part for each value of ``by``, in the order of their first entities.

    Every part contains the message's other fields. Their values are shared with the message, not copied.
    """
    return finish(dividing(part, by, name_of, within))


def dividing(part: S, by: Callable[[Entity], K], name_of: NameOf, within: Entity = ANY_ENTITY) -> Steps[dict[K, S]]:
    """Like :func:`divide`, but in steps."""
    about = entity_of(part, within, name_of)
    inner = list(listings(part))
    if not inner:
        return {by(about): part}
    divided: dict[K, S] = {}
    for spec in inner:
        for item in getattr(part, spec.name):
            pieces: dict[K, Any]
            if spec.struct is None:
                pieces = {by(_narrowed(about, spec, item, name_of)): item}
            else:
                pieces = yield from dividing(item, by, name_of, about)
            for key, piece in pieces.items():
                if key not in divided:
                    divided[key] = _without(part, inner)
                getattr(divided[key], spec.name).append(piece)
            yield
    return divided


def _without(part: S, emptied: list[FieldSpec]) -> S:
    made = copy(part)
    for spec in emptied:
        setattr(made, spec.name, [])
    return made


def split(part: S, wanted: Entity, name_of: NameOf) -> tuple[S | None, S | None]:
    """Divide a message into the part that ``wanted`` doesn't match and the part that it matches. Empty parts are
    None."""
    divided = divide(part, wanted.matches, name_of)
    return divided.get(False), divided.get(True)


def merge(into: Struct, others: Iterable[Struct], name_of: NameOf) -> None:
    """Add the entries of other responses to a response of the same class: the reverse of :func:`divide`."""
    finish(merging(into, others, name_of))


def merging(into: Struct, others: Iterable[Struct], name_of: NameOf) -> Steps[None]:
    """Like :func:`merge`, but in steps."""
    others = list(others)
    for spec in _lists(type(into)):
        added = [getattr(other, spec.name) or [] for other in others]
        if any(added):
            have: list[Any] = getattr(into, spec.name) or []
            setattr(into, spec.name, have)
            yield from _merging_items(have, added, spec, name_of)


def _merging_items(have: list[Any], added: list[list[Any]], spec: FieldSpec, name_of: NameOf) -> Steps[None]:
    if spec.struct is None:
        for items in added:
            have.extend(items)
        return
    # Index the items only once: a response may contain 100,000 items, and each may be refused separately, or name the
    # same entity again.
    known: dict[Entity, Struct] = {}
    for item in have:
        known[entity_of(item, ANY_ENTITY, name_of)] = item
        yield
    inner: dict[Entity, list[Struct]] = {}
    for items in added:
        appended: dict[Entity, Struct] = {}
        for item in items:
            about = entity_of(item, ANY_ENTITY, name_of)
            if about in known and any(listings(item)):
                inner.setdefault(about, []).append(item)
            else:
                have.append(item)
                appended[about] = item
            yield
        known |= appended
    for about, parts in inner.items():
        yield from merging(known[about], parts, name_of)
        yield
