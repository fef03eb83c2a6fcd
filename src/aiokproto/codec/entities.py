"""What a message is about: its topics, partitions, groups and transactional ids, whatever their fields are called.

What works on any API goes by the roles that declarations give to fields: routing a request, dividing it among brokers,
joining their answers, refusing it, a fault that is injected.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from copy import copy
from typing import Any, NamedTuple, TypeVar

from aiokproto.codec.schema import FieldSpec, Role, Struct
from aiokproto.codec.wire import ZERO_UUID

S = TypeVar("S", bound=Struct)
K = TypeVar("K", bound=Hashable)


class Subject(NamedTuple):
    """What a request or a part of one is about, as far as it says; or what is looked for, None for any."""

    topic: str | None = None
    partition: int | None = None
    group: str | None = None
    transaction: str | None = None

    def fits(self, other: Subject) -> bool:
        """Whether ``other`` is among what is looked for."""
        return all(mine is None or mine == theirs for mine, theirs in zip(self, other, strict=True))


ANYTHING = Subject()

NameOf = Callable[[bytes], "str | None"]
"""Topic id → name."""

_PLACES = {
    Role.TOPIC_NAME: "topic",
    Role.TOPIC_ID: "topic",
    Role.PARTITION_INDEX: "partition",
    Role.GROUP_ID: "group",
    Role.TRANSACTIONAL_ID: "transaction",
    # Those of other kinds have no clash to fear: each request asks for keys of one kind.
    Role.COORDINATOR_KEY: "group",
}


def subject(part: Struct, within: Subject, name_of: NameOf) -> Subject:
    """What a struct is about, inside of what is about ``within``."""
    for spec in part.fields():
        if not (spec.array or spec.mentioned) and spec.role in _PLACES:
            within = _narrowed(within, spec, getattr(part, spec.name), name_of)
    return within


def _narrowed(within: Subject, spec: FieldSpec, value: Any, name_of: NameOf) -> Subject:
    assert spec.role is not None
    if value is None or value in ("", ZERO_UUID):
        return within
    if spec.role is Role.TOPIC_ID:
        value = name_of(value)
    return within._replace(**{_PLACES[spec.role]: value})


def lists(part: Struct) -> Iterator[FieldSpec]:
    """The fields of a struct that list what it is about, and have any."""
    for spec in part.fields():
        if spec.array and _names_subjects(spec) and getattr(part, spec.name):
            yield spec


def _names_subjects(spec: FieldSpec) -> bool:
    if spec.mentioned:
        return False
    if spec.struct is None:
        return spec.role in _PLACES
    return any(_names_subjects(each) for each in spec.struct.fields())


def subjects(part: Struct, name_of: NameOf, within: Subject = ANYTHING) -> Iterator[Subject]:
    """All that a message is about, in its order; itself where it lists nothing."""
    about = subject(part, within, name_of)
    inner = list(lists(part))
    if not inner:
        yield about
    for spec in inner:
        for item in getattr(part, spec.name):
            if spec.struct is None:
                yield _narrowed(about, spec, item, name_of)
            else:
                yield from subjects(item, name_of, about)


def divide(part: S, by: Callable[[Subject], K], name_of: NameOf, within: Subject = ANYTHING) -> dict[K, S]:
    """Divide a message by what it is about: one part for each value of ``by``, in the order of their first subjects.

    All else in the message is in each of the parts. The parts share with it what was not divided.
    """
    about = subject(part, within, name_of)
    inner = list(lists(part))
    if not inner:
        return {by(about): part}
    divided: dict[K, S] = {}
    for spec in inner:
        for item in getattr(part, spec.name):
            pieces: dict[K, Any]
            if spec.struct is None:
                pieces = {by(_narrowed(about, spec, item, name_of)): item}
            else:
                pieces = divide(item, by, name_of, about)
            for key, piece in pieces.items():
                if key not in divided:
                    divided[key] = _without(part, inner)
                getattr(divided[key], spec.name).append(piece)
    return divided


def _without(part: S, emptied: list[FieldSpec]) -> S:
    made = copy(part)
    for spec in emptied:
        setattr(made, spec.name, [])
    return made


def split(part: S, wanted: Subject, name_of: NameOf) -> tuple[S | None, S | None]:
    """Divide a message in what is not about ``wanted`` and what is; None where there is nothing of the kind."""
    divided = divide(part, wanted.fits, name_of)
    return divided.get(False), divided.get(True)


def merge(into: Struct, other: Struct, name_of: NameOf) -> None:
    """Add what a response lists to what another of the same kind does: the reverse of :func:`divide`."""
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
