"""Reading requests and answers for what routing needs to know of them (pure).

Messages differ in what they call a group or a topic, and in where an error code stands. What is here holds for all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from aiokproto.cluster.coordinators import CoordinatorKind
from aiokproto.codec.schema import Request, Response, Route, Struct
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ConfigurationError

COORDINATED = {
    Route.GROUP: CoordinatorKind.GROUP,
    Route.TRANSACTION: CoordinatorKind.TRANSACTION,
    Route.SHARE: CoordinatorKind.SHARE,
}

WRONG_BROKER = frozenset(
    {
        ErrorCode.NOT_CONTROLLER,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    }
)
"""About the broker as a whole, also where each item of an answer has the code for itself."""

_KEY_FIELDS = {
    Route.GROUP: ("group_id", "group_ids", "groups", "groups_names"),
    Route.TRANSACTION: (
        "transactional_id",
        "v3_and_below_transactional_id",
        "transactions",
        "transactional_ids",
    ),
    Route.SHARE: (),
}
_TOPIC_LISTS = ("topics", "topic_data")
_TOPIC_FIELDS = ("name", "topic")
_PARTITION_LISTS = ("partitions", "partition_data", "partition_indexes")
_PARTITION_FIELDS = ("partition_index", "partition", "index")


def coordinator_key(request: Request[Any]) -> str | None:
    """The group or transactional id that a request is about; None: any broker will do (InitProducerId without one).

    Raises:
        ConfigurationError: It has none, or several: each of these may have a coordinator of its own.
    """
    keys: list[str | None] = []
    for name in _KEY_FIELDS[request.route]:
        value = getattr(request, name, "")
        items = value if isinstance(value, list) else [value]
        keys += [_key_of(item, request.route) for item in items if item != ""]
    distinct = list(dict.fromkeys(keys))
    if len(distinct) != 1:
        api = type(request).__name__
        has = f"is about {len(distinct)} ids" if distinct else "has no id"
        raise ConfigurationError(f"{api} {has}: it goes to the coordinator of one (say which by `key` or `node`)")
    return distinct[0]


def _key_of(item: Any, route: Route) -> str | None:
    if not isinstance(item, Struct):
        return None if item is None else str(item)
    name = "group_id" if route is Route.GROUP else "transactional_id"
    return str(getattr(item, name))


def partitions_of(request: Request[Any]) -> Iterator[tuple[str | bytes, int]]:
    """The partitions that a request is about, the topic by name, or by id where the request has no name."""
    for topic in next((getattr(request, name) for name in _TOPIC_LISTS if hasattr(request, name)), []):
        named = next((getattr(topic, name) for name in _TOPIC_FIELDS if getattr(topic, name, "")), None)
        for partition in next((getattr(topic, name) for name in _PARTITION_LISTS if hasattr(topic, name)), []):
            if isinstance(partition, Struct):
                partition = next(getattr(partition, name) for name in _PARTITION_FIELDS if hasattr(partition, name))
            yield (named if named is not None else topic.topic_id), partition


def answer_code(response: Response) -> ErrorCode:
    """The code that holds for a whole answer: the top one, or what all items have, if that is about the broker."""
    top = getattr(response, "error_code", 0)
    if top:
        return ErrorCode(top)
    for name in type(response)._declared:
        items = getattr(response, name)
        if isinstance(items, list) and items and isinstance(items[0], Struct):
            codes = {getattr(item, "error_code", 0) for item in items}
            if len(codes) == 1 and (code := ErrorCode(codes.pop())) in WRONG_BROKER:
                return code
    return ErrorCode.NONE
