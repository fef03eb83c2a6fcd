"""Changes that a peer can make to a response: changes that no decoder notices, and some that it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from random import Random
from typing import Any

from aiokproto.codec.entities import names_entity
from aiokproto.codec.schema import FieldSpec, Response, Role, Struct
from aiokproto.error_codes import ErrorCode

_CODES = (ErrorCode.UNKNOWN_SERVER_ERROR, 9999, -7)
_ERRORS = ("error_code", "partition_error_code")
_KEPT = (*_ERRORS, "throttle_time_ms", "acknowledge_error_code")
"""Numbers that always mean something. The tests of codes and of throttling have their own values."""


class Raw(Response, key=-1, versions="0"):
    """A response whose bytes are changed after it was encoded."""

    def __init__(self, response: Response, change: Callable[[bytes], bytes]) -> None:
        self._response = response
        self._change = change

    def header_version(self, version: int) -> int:  # type: ignore[override] # of the response that it has
        return self._response.header_version(version)

    def encode_into(self, out: bytearray, version: int) -> None:
        out += self._change(self._response.encode(version))


def mutated(random: Random, how: str, response: Response, version: int) -> Response:
    """Return a response that is changed in the way that ``how`` says."""
    if how in _BYTES:
        return Raw(response, lambda data: _BYTES[how](random, data))
    if how == NULL:
        data = with_null(random, response, version)
        return Raw(response, lambda _: data)
    _FIELDS[how](random, response, version)
    return response


def damage(random: Random, how: str, part: Struct, version: int) -> None:
    """Change what is inside a part of a response; ``how`` is one of `FIELDS`."""
    _FIELDS[how](random, part, version)


def with_null(random: Random, response: Response, version: int) -> bytes:
    """Encode a response with null in place of a text, bytes or list that must not be null by its schema.

    No encoder writes that. The position is found where the encodings with nothing and with one byte or item first
    differ, which is the end of the length.
    """
    sized = [
        (part, spec)
        for part in _structs(response)
        for spec in part.fields()
        if version in spec.versions and version not in spec.nullable and spec.tag is None and _EMPTY.get(_form(spec))
    ]
    if not sized:
        return response.encode(version)
    part, spec = random.choice(sized)
    empty, one, width = _EMPTY[_form(spec)]
    if spec.array:
        one = [spec.struct() if spec.struct is not None else _ITEMS.get(spec.kind, 0)]
    setattr(part, spec.name, empty)
    data = response.encode(version)
    setattr(part, spec.name, one)
    longer = response.encode(version)
    setattr(part, spec.name, empty)
    last = next(place for place in range(len(data)) if data[place] != longer[place])
    if response.flexible and version in response.flexible:
        return data[:last] + b"\0" + data[last + 1 :]
    return data[: last + 1 - width] + b"\xff" * width + data[last + 1 :]


def _form(spec: FieldSpec) -> str:
    return "array" if spec.array else spec.kind


_EMPTY: dict[str, tuple[Any, Any, int]] = {"array": ([], None, 4), "string": ("", "x", 2), "bytes": (b"", b"x", 4)}
"""For each type with a length: the empty value, the smallest other value, and the bytes of the length before flexible
versions."""

_ITEMS = {"string": "x", "bytes": b"x", "uuid": bytes(16), "bool": False}


def _nulls(random: Random, part: Struct, version: int) -> None:
    for each in list(_structs(part)):
        for spec in each.fields():
            if version in spec.versions and version in spec.nullable and random.random() < 0.7:
                setattr(each, spec.name, None)


def _lists(part: Struct, version: int) -> Iterator[tuple[Struct, str]]:
    """Yield the lists of items, inner lists first."""
    for spec in part.fields():
        if version not in spec.versions:
            continue
        value = getattr(part, spec.name)
        for item in value if spec.array and value else [value]:
            if isinstance(item, Struct):
                yield from _lists(item, version)
        if spec.array and (names_entity(spec) or spec.struct is not None) and value:
            yield part, spec.name


def _structs(part: Struct) -> Iterator[Struct]:
    yield part
    for spec in part.fields():
        value = getattr(part, spec.name)
        for item in value if isinstance(value, list) else [value]:
            if isinstance(item, Struct):
                yield from _structs(item)


def _each_list(change: Callable[[Random, list[Any]], list[Any]]) -> Callable[[Random, Struct, int], None]:
    def apply(random: Random, response: Struct, version: int) -> None:
        for owner, name in list(_lists(response, version)):
            setattr(owner, name, change(random, list(getattr(owner, name))))

    return apply


def _renamed(random: Random, item: Any) -> Any:
    if isinstance(item, int):
        return item + 77
    if isinstance(item, str):
        return item + "x"
    if isinstance(item, bytes):
        return random.randbytes(16)
    if not isinstance(item, Struct):
        return item
    other = copy(item)
    for spec in item.fields():
        value = getattr(item, spec.name)
        if spec.role is not None and not spec.array and value is not None:
            setattr(other, spec.name, _renamed(random, value))
    return other


def _named_anew(random: Random, item: Any) -> Any:
    """Return a copy of an item with a name that no response has had before."""
    if isinstance(item, int):
        return random.randrange(1 << 30)
    if isinstance(item, str):
        return f"new-{random.getrandbits(64)}"
    if isinstance(item, bytes):
        return random.randbytes(16)
    other = copy(item)
    for spec in item.fields():
        value = getattr(item, spec.name)
        if spec.role is not None and not spec.array and value is not None:
            setattr(other, spec.name, _named_anew(random, value))
    return other


def _roles(roles: tuple[Role, ...], change: Callable[[Random, Any], Any]) -> Callable[[Random, Struct, int], None]:
    def apply(random: Random, response: Struct, version: int) -> None:
        for part in list(_structs(response)):
            for spec in part.fields():
                if spec.role in roles and version in spec.versions:
                    value = getattr(part, spec.name)
                    new = [change(random, each) for each in value] if spec.array else change(random, value)
                    setattr(part, spec.name, new)

    return apply


def _numbers(value: Callable[[int], int]) -> Callable[[Random, Struct, int], None]:
    def apply(random: Random, response: Struct, version: int) -> None:
        for part in list(_structs(response)):
            for spec in part.fields():
                plain = spec.kind.startswith("int") and not spec.array and spec.role is None
                if plain and version in spec.versions and spec.name not in _KEPT:
                    setattr(part, spec.name, value(int(spec.kind.removeprefix("int"))))

    return apply


def _codes(random: Random, response: Struct, version: int) -> None:
    code = random.choice(_CODES)
    for part in list(_structs(response)):
        for spec in part.fields():
            if spec.name in _ERRORS and version in spec.versions:
                setattr(part, spec.name, code)


def _texts(random: Random, response: Struct, version: int) -> None:
    for part in list(_structs(response)):
        for spec in part.fields():
            if spec.kind == "string" and not spec.array and version in spec.versions and getattr(part, spec.name):
                setattr(part, spec.name, "n" * 30_000)


def _payloads(random: Random, response: Struct, version: int) -> None:
    for part in list(_structs(response)):
        for spec in part.fields():
            value = getattr(part, spec.name)
            if spec.kind in ("bytes", "recordset") and value:
                setattr(part, spec.name, bytes(value)[: len(value) // 2])


_PARTITION = (Role.PARTITION_INDEX,)
_TOPIC = (Role.TOPIC_NAME, Role.TOPIC_ID, Role.GROUP_ID, Role.COORDINATOR_KEY)

_FIELDS: dict[str, Callable[[Random, Struct, int], None]] = {
    "an item is left out": _each_list(lambda random, items: items[1:]),
    "nothing is listed": _each_list(lambda random, items: []),
    "an item comes twice": _each_list(lambda random, items: [*items, items[0]]),
    "an item is added": _each_list(lambda random, items: [_renamed(random, items[0]), *items]),
    "topics have other names": _roles(_TOPIC, _renamed),
    "partitions are negative": _roles(_PARTITION, lambda random, value: -1 - value),
    "partitions are huge": _roles(_PARTITION, lambda random, value: 999_999 + value),
    "numbers are negative": _numbers(lambda bits: -(1 << (bits - 1))),
    "numbers are huge": _numbers(lambda bits: (1 << (bits - 1)) - 1),
    "codes are unknown": _codes,
    "texts are long": _texts,
    "payloads are cut": _payloads,
    "what can be null is": _nulls,
    "items are ever new": _each_list(
        lambda random, items: [*items, *(_named_anew(random, items[0]) for _ in range(20))]
    ),
}

_BYTES: dict[str, Callable[[Random, bytes], bytes]] = {
    "it is cut": lambda random, data: data[: len(data) // 2],
    "it is noise": lambda random, data: random.randbytes(len(data)),
}

NULL = "what cannot be null is"

FIELDS = tuple(_FIELDS)
MUTATIONS = (*FIELDS, *_BYTES, NULL)
