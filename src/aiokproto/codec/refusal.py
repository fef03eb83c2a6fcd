"""Refuses a request by creating a response with the error code in every error field."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

from aiokproto.codec.messages.fetch import FetchRequest
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.schema import MISSING, FieldSpec, Request, Response, Role, Struct
from aiokproto.codec.steps import Steps, finish
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode

_ERRORS = frozenset({"error_code", "partition_error_code"})
_OF_PARTS = frozenset({FetchRequest.api_key, MetadataRequest.api_key})
"""APIs whose top-level error is not about the parts, but about the fetch session or the whole cluster."""
_OF_SESSION = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.REBOOTSTRAP_REQUIRED,
    }
)

Names = dict["Role | int", Any]
"""The entities that a part of a request names: by role, or by position among the item's key fields."""
_NOTHING = ("", ZERO_UUID)


def refuse(
    request: Request[Any], version: int, error: ErrorCode, message: str | None = None, *, of_parts: bool = False
) -> Response | None:
    """Return the response that refuses everything in a request.

    Args:
        request: The request.
        version: Its version; fields that the version lacks keep their default.
        error: The error code.
        message: The error message, for responses that have one.
        of_parts: Whether to set the error only on the smallest parts that the request names, not on their group or the
            whole request.

    Returns:
        The response, or None if it has no field for an error. In that case, only closing the connection can report it.
    """
    return finish(refusing(request, version, error, message, of_parts=of_parts))


def refusing(
    request: Request[Any], version: int, error: ErrorCode, message: str | None = None, *, of_parts: bool = False
) -> Steps[Response | None]:
    """Like :func:`refuse`, but in steps."""
    response: Response = request.response()
    _fill_numbers(response, version)
    of_parts = of_parts or request.api_key in _OF_PARTS
    if of_parts and error in _OF_SESSION:
        filled = _put(response, version, error, message)
        return response if filled else None
    inside = yield from _filling_lists(request, response, {}, version, error, message, of_parts)
    on_top = not (of_parts and inside) and _put(response, version, error, message)
    return response if inside or on_top else None


def refuse_parts(asked: Struct, response: Struct, above: Names, version: int, error: ErrorCode) -> None:
    """Refuse everything in part of a request, by adding to the same part of its response.

    Args:
        asked: The part of the request.
        response: The part of the response. It may already contain other items.
        above: The entities named by the enclosing parts.
        version: The version of both.
        error: The error code.
    """
    finish(_filling_lists(asked, response, above, version, error, None, of_parts=False))


def _put(part: Struct, version: int, error: ErrorCode, message: str | None) -> bool:
    """Write the error into a struct. Return whether there was a field for it."""
    codes, texts = _places(type(part), version)
    for name in codes:
        setattr(part, name, error)
    for name in texts:
        setattr(part, name, message)
    return bool(codes)


@cache
def _places(struct: type[Struct], version: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the fields for the error code, and for the message."""
    own = [spec for spec in struct.fields() if version in spec.versions and not spec.array]
    codes = tuple(spec.name for spec in own if spec.name in _ERRORS)
    return codes, tuple(spec.name for spec in own if spec.name == "error_message" and version in spec.nullable)


def _filling_lists(
    request: Struct,
    response: Struct,
    above: Names,
    version: int,
    error: ErrorCode,
    message: str | None,
    of_parts: bool,
) -> Steps[bool]:
    """Add an item to the response for each item of the request, in steps. Return whether any of them has the error."""
    filled = False
    sources, targets = _sources(type(request), version), _targets(type(response), version)
    if not sources or not targets:
        return False
    about = above | _names(request)
    for source, target in _pairs(type(request), type(response), version):
        assert target.struct is not None
        items = []
        for part in _parts(request, source, target, version):
            item = target.struct()
            _fill_numbers(item, version)
            inside = False
            if isinstance(part, Struct):
                _name(item, about | _names(part))
                inside = yield from _filling_lists(part, item, about, version, error, message, of_parts)
            else:
                _name(item, about | {source.role or 0: part})
            filled |= inside
            if not (of_parts and inside):
                filled |= _put(item, version, error, message)
            items.append(item)
            yield
        setattr(response, target.name, getattr(response, target.name) + items)
    return filled


@cache
def _pairs(request: type[Struct], response: type[Struct], version: int) -> tuple[tuple[FieldSpec, FieldSpec], ...]:
    """Pair each list of a request with the corresponding list of its response."""
    sources, targets = _sources(request, version), _targets(response, version)
    if len(targets) == 1:
        # The request has several lists, but the response has one for all of them.
        sources = tuple(source for source in sources if _item_names(source) == _item_names(sources[0]))
        targets *= len(sources)
    return tuple(zip(sources, targets, strict=False))


def _parts(request: Struct, source: FieldSpec, target: FieldSpec, version: int) -> Iterator[Any]:
    """Yield the items that have a corresponding item in the response: items of the list, or of lists inside those."""
    within = _within(source, target, version)
    for part in getattr(request, source.name) or ():
        if not within:
            yield part
        for inner in within:
            yield from getattr(part, inner.name) or ()


@cache
def _within(source: FieldSpec, target: FieldSpec, version: int) -> tuple[FieldSpec, ...]:
    """Return the lists, inside the items of a request's list, whose items have a corresponding item in the response.

    There are none if the items of the request's list itself have corresponding items.
    """
    assert target.struct is not None
    wanted = {by for by, _ in _naming(target.struct)}
    # AlterReplicaLogDirs lists topics by directory, but its response doesn't.
    if source.struct is None or wanted & _item_names(source):
        return ()
    return tuple(spec for spec in _sources(source.struct, version) if wanted & _item_names(spec))


@cache
def _sources(request: type[Struct], version: int) -> tuple[FieldSpec, ...]:
    return tuple(spec for spec in request.fields() if spec.array and not spec.mentioned and version in spec.versions)


@cache
def _targets(response: type[Struct], version: int) -> tuple[FieldSpec, ...]:
    return tuple(
        spec
        for spec in response.fields()
        if spec.array and version in spec.versions and spec.struct is not None and _has_error(spec.struct, version)
    )


def _has_error(struct: type[Struct], version: int) -> bool:
    return any(
        version in spec.versions
        and (spec.name in _ERRORS or (spec.struct is not None and spec.array and _has_error(spec.struct, version)))
        for spec in struct.fields()
    )


def _names(part: Struct) -> Names:
    values = ((by, getattr(part, name)) for by, name in _naming(type(part)))
    return {
        by: value for by, value in values if not isinstance(by, Role) or (value is not None and value not in _NOTHING)
    }


@cache
def _item_names(source: FieldSpec) -> set[Role | int | None]:
    return {source.role} if source.struct is None else {by for by, _ in _naming(source.struct)}


@cache
def _naming(struct: type[Struct]) -> tuple[tuple[Role | int, str], ...]:
    """Return the fields that identify a part."""
    naming: list[tuple[Role | int, str]] = []
    keys = 0
    for spec in struct.fields():
        if spec.key:
            naming.append((keys, spec.name))
            keys += 1
        elif spec.role is not None and not spec.array:
            naming.append((spec.role, spec.name))
    return tuple(naming)


def _name(item: Struct, names: Names) -> None:
    """Copy the identity of the request's part into the item of the response."""
    for by, name in _naming(type(item)):
        if by in names:
            setattr(item, name, names[by])


def _fill_numbers(part: Struct, version: int) -> None:
    for name, value in _numbers(type(part), version):
        setattr(part, name, value)


@cache
def _numbers(struct: type[Struct], version: int) -> tuple[tuple[str, Any], ...]:
    """Return the fields that don't have their default value in a refusal, with their values."""
    return tuple(
        (spec.name, spec.refused)
        for spec in struct.fields()
        if spec.refused is not MISSING and version in spec.versions
    )
