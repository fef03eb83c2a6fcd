"""The answer to a request that is not served: the response's own form, with an error wherever it has room for one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aiokproto.codec.messages.fetch import FetchRequest
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.schema import FieldSpec, Request, Response, Role, Struct
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode

_ERRORS = frozenset({"error_code", "partition_error_code"})
_NAMES = frozenset(
    {"name", "user", "member_id", "group_instance_id", "resource_type", "resource_name", "feature", "entity"}
)
"""Beside what has a role: what says in an answer which part of the request it is about."""
_OTHERWISE = {"user": "name"}
"""Names of an answer that the request calls something else."""
_UNKNOWN = frozenset(
    {"base_offset", "log_append_time_ms", "offset", "timestamp", "high_watermark", "last_stable_offset", "end_offset"}
    | {"log_start_offset", "committed_offset", "low_watermark", "leader_epoch", "leader_id", "node_id"}
    | {"producer_id", "producer_epoch", "generation_id", "preferred_read_replica"}
)
"""Numbers that are -1 where there is nothing to tell."""
_OF_PARTS = frozenset({FetchRequest.api_key, MetadataRequest.api_key})
"""APIs whose error on top is about something else than the parts: the fetch session, the whole cluster."""
_OF_SESSION = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.REBOOTSTRAP_REQUIRED,
    }
)

Names = dict["Role | str", Any]
_NOTHING = ("", ZERO_UUID)


def refuse(request: Request[Any], version: int, error: ErrorCode, message: str | None = None) -> Response | None:
    """The response which refuses all that is in a request.

    Args:
        request: The request.
        version: Its version; only what the response has in it is filled in.
        error: The code, in each place for one.
        message: The text that goes with it, where the response has room.

    Returns:
        The response; None if it has no place for an error, and the connection has to say it by being closed.
    """
    response: Response = request.response()
    _fill_numbers(response, version)
    of_parts = request.api_key in _OF_PARTS
    if of_parts and error in _OF_SESSION:
        filled = _put(response, version, error, message)
        return response if filled else None
    inside = _fill_lists(request, response, {}, version, error, message)
    on_top = not (of_parts and inside) and _put(response, version, error, message)
    return response if inside or on_top else None


def _put(part: Struct, version: int, error: ErrorCode, message: str | None) -> bool:
    """Write the error, if there is a place for it here."""
    filled = False
    for spec in part.fields():
        if version not in spec.versions or spec.array:
            continue
        if spec.name in _ERRORS:
            setattr(part, spec.name, error)
            filled = True
        elif spec.name == "error_message" and version in spec.nullable:
            setattr(part, spec.name, message)
    return filled


def _fill_lists(
    request: Struct, response: Struct, above: Names, version: int, error: ErrorCode, message: str | None
) -> bool:
    """Make an item of the response for each of the request; returns whether any has the error."""
    filled = False
    about = above | _names(request)
    for source, target in zip(_sources(request, version), _targets(response, version), strict=False):
        assert target.struct is not None
        items = []
        for part in getattr(request, source.name) or ():
            item = target.struct()
            _fill_numbers(item, version)
            if isinstance(part, Struct):
                _name(item, about | _names(part))
                filled |= _fill_lists(part, item, about, version, error, message)
            else:
                _name(item, about | {source.role or "name": part})
            filled |= _put(item, version, error, message)
            items.append(item)
        setattr(response, target.name, items)
    return filled


def _sources(request: Struct, version: int) -> Iterator[FieldSpec]:
    for spec in request.fields():
        if spec.array and version in spec.versions:
            yield spec


def _targets(response: Struct, version: int) -> Iterator[FieldSpec]:
    for spec in response.fields():
        if spec.array and version in spec.versions and spec.struct is not None and _has_error(spec.struct, version):
            yield spec


def _has_error(struct: type[Struct], version: int) -> bool:
    return any(
        version in spec.versions
        and (spec.name in _ERRORS or (spec.struct is not None and spec.array and _has_error(spec.struct, version)))
        for spec in struct.fields()
    )


def _names(part: Struct) -> Names:
    """What a part of the request says that it is about, by role; what has none, by its field."""
    names: Names = {}
    for spec in part.fields():
        value = getattr(part, spec.name)
        if not spec.array and spec.struct is None and value is not None and not (spec.role and value in _NOTHING):
            names[spec.role or spec.name] = value
    return names


def _name(item: Struct, names: Names) -> None:
    """Say in the response's item which part of the request it is about."""
    for spec in item.fields():
        if spec.array or (spec.role is None and spec.name not in _NAMES):
            continue
        value = names.get(spec.role or spec.name, names.get(_OTHERWISE.get(spec.name, spec.name)))
        if value is not None:
            setattr(item, spec.name, value)


def _fill_numbers(part: Struct, version: int) -> None:
    for spec in part.fields():
        if spec.name in _UNKNOWN and version in spec.versions and spec.struct is None and not spec.array:
            setattr(part, spec.name, -1)
