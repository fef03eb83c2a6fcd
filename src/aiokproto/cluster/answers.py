"""What each response has to contain, and what happens if it doesn't (pure).

A response that can be decoded may still not answer its request: it leaves an item out, names an item twice or one that
wasn't requested, or has an impossible value. Starting brokers, proxies, other implementations and bugs can all cause
this. Only :func:`check` handles it, between the decoder and the reader of the response:

* An item that wasn't requested is dropped.
* If an item appears twice, the first one counts. (The partitions of one topic may come in several entries.)
* An item that is left out, or has an impossible value, gets the error code that :data:`ANSWERS` declares for its API:
  its value is unknown, and it is requested again with a backoff. It never counts as nonexistent.
* If the response, or the entry that contains the item, has an error code of its own, no item in it counts as missing.

Items are found by the roles of fields (:class:`~aiokproto.codec.schema.Role`), so a declaration names only the fields
whose values it checks. A response to :meth:`Client.request <aiokproto.Client.request>` belongs to the application, and
isn't changed.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from functools import lru_cache
from typing import Any, NamedTuple

from aiokproto.cluster.snapshot import is_address, is_topic_name
from aiokproto.codec.entities import names_entity
from aiokproto.codec.messages.find_coordinator import Coordinator, FindCoordinatorResponse
from aiokproto.codec.messages.metadata import MetadataResponse
from aiokproto.codec.refusal import Names, refuse_parts
from aiokproto.codec.registry import api_name
from aiokproto.codec.schema import FieldSpec, Request, Response, Struct
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.texts import shortened

GAPS = 16
"""In a Metadata response, a topic's partition indexes must be below twice the number of listed partitions plus this.
Indexes can have gaps, but a single huge index must not allocate a huge list."""

_NAMED, _LONGEST_NAME = 3, 60
"""How many items a message names, and at most how many characters of each."""

_LOG_EVERY = 60.0
"""Minimum seconds between two warnings about an API."""

logger = logging.getLogger("aiokproto.cluster")

_ERROR_FIELDS = ("error_code", "partition_error_code")


class Mismatch(NamedTuple):
    """What is wrong with a response: ``what`` happened to ``item``."""

    what: str
    item: str


class Answer(NamedTuple):
    """How to check the response to a request.

    Attributes:
        missing: The error code for an item that is not answered, or for the response if it has no items. None for a
            response that belongs to a session: it lists only changes, and ``why`` says what matches them.
        possible: Returns whether an item's values are possible. Called with the requested item and the item in the
            response, if that has no error; with the whole request and response if the request has no items.
        tidy: Removes impossible values from parts of the response that aren't items. Yields what it did.
        from_version: The first version in which brokers answer every item. In earlier versions the reader of the
            response decides what a left-out item means.
        whole: Whether the response is about the request as a whole, although both list entities.
        why: The reason, if nothing is checked.
    """

    missing: ErrorCode | None
    possible: Callable[[Any, Any], bool] | None = None
    tidy: Callable[[Any], Iterator[Mismatch]] | None = None
    from_version: int = 0
    whole: bool = False
    why: str = ""


def check(request: Request[Any], response: Response, version: int) -> list[Mismatch]:
    """Make a response match its request: drop, add and reject items as :data:`ANSWERS` declares. Changes it in place.

    Returns:
        What was wrong; normally empty.
    """
    answer = ANSWERS.get(request.api_key)
    if answer is None:
        # The client never sends this request on its own.
        return []
    mismatches = list(answer.tidy(response)) if answer.tidy is not None else []
    if answer.missing is None:
        return mismatches
    lists = None if answer.whole else _lists(type(request), type(response), version)
    if lists is not None and getattr(request, lists.source.name):
        _match(request, response, lists, {}, version, answer, mismatches)
    elif not _error(response) and answer.possible is not None and not answer.possible(request, response):
        # The request names no items, or asks about all of them.
        mismatches.append(Mismatch("an impossible value", ""))
        setattr(response, "error_code", answer.missing)  # noqa: B010 - what every such response has
    return mismatches


class AnswerChecker:
    """Checks responses, and logs what was wrong: at most once a minute per API, since every response may be wrong."""

    def __init__(self, now: Callable[[], float]) -> None:
        """``now`` returns the time (s)."""
        self._now = now
        self._logged: dict[int, float] = {}

    def check(self, request: Request[Any], response: Response, version: int, node: int) -> None:
        """Run :func:`check`, and log what it finds. ``node`` is the broker's id, for the log."""
        mismatches = check(request, response, version)
        if not mismatches:
            return
        now, last = self._now(), self._logged.get(request.api_key)
        loud = last is None or now - last >= _LOG_EVERY
        if loud:
            self._logged[request.api_key] = now
        level = logging.WARNING if loud else logging.DEBUG
        api = api_name(request.api_key)
        logger.log(level, "broker %d: its %s response is none to the request: %s", node, api, described(mismatches))


def described(mismatches: list[Mismatch]) -> str:
    """Summarize in one line what was wrong with a response."""
    texts = []
    for what, count in Counter(each.what for each in mismatches).items():
        named = [each.item for each in mismatches if each.what == what and each.item][:_NAMED]
        some = ", ".join(named) + (", …" if count > len(named) else "")
        texts.append(f"{what}: {some}" if named else what)
    return "; ".join(texts)


def _match(
    asked: Struct, given: Struct, lists: _Lists, above: Names, version: int, answer: Answer, mismatches: list[Mismatch]
) -> None:
    """Match the items in a part of the request with the items in the same part of the response."""
    assert answer.missing is not None
    wanted: list[Any] = getattr(asked, lists.source.name)
    indexes: dict[tuple[Any, Any], int] = {}
    for index, item in enumerate(wanted):
        for key in _keys(lists.source, item):
            indexes.setdefault(key, index)
    received: list[Struct] = getattr(given, lists.target.name)
    found: list[Struct | None] = [None] * len(wanted)
    for item in received:
        keys = _keys(lists.target, item)
        at = next((indexes[key] for key in keys if key in indexes), None)
        first = None if at is None else found[at]
        if at is None:
            # guard: an item that was not requested is dropped -> found.append(item)
            mismatches.append(Mismatch("not requested", _named(above, keys)))
        elif first is None:
            found[at] = item
        elif lists.below is not None:
            # This is another entry for the same topic. The call below drops whatever it repeats.
            inner = lists.below.target.name
            setattr(first, inner, [*getattr(first, inner), *getattr(item, inner)])
        else:
            mismatches.append(Mismatch("named twice", _named(above, keys)))
    missing = []
    for index, (source, item) in enumerate(zip(wanted, found, strict=True)):
        if item is None:
            if version < answer.from_version:
                continue
            what = "left out"
        elif lists.below is not None:
            if getattr(source, lists.below.source.name) is not None:
                names = {**above, **dict(_keys(lists.source, source))}
                _match(source, item, lists.below, names, version, answer, mismatches)
            continue
        elif answer.possible is None or _error(item) or answer.possible(source, item):
            continue
        else:
            # guard: an impossible value counts as no value -> continue
            what, found[index] = "an impossible value", None
        # If the whole response has an error, that is the answer for each item.
        if not _error(given):
            mismatches.append(Mismatch(what, _named(above, _keys(lists.source, source))))
            missing.append(source)
    kept = [item for item in found if item is not None]
    if len(kept) != len(received):
        setattr(given, lists.target.name, kept)
    if missing:
        part = copy(asked)
        setattr(part, lists.source.name, missing)
        # guard: what a response leaves out is not known -> refuse_parts(part, given, above, version, ErrorCode.NONE)
        refuse_parts(part, given, above, version, answer.missing)


class _Lists(NamedTuple):
    """The fields that list the items, in a part of a request and in the same part of its response.

    ``below`` is the same for the fields nested in the items.
    """

    source: FieldSpec
    target: FieldSpec
    below: _Lists | None


@lru_cache(maxsize=512)
def _lists(asked: type[Struct], given: type[Struct], version: int) -> _Lists | None:
    source, target = _items(asked, version), _items(given, version)
    if source is None or target is None:
        return None
    below = None
    if source.struct is not None and target.struct is not None:
        below = _lists(source.struct, target.struct, version)
    return _Lists(source, target, below)


def _items(part: type[Struct], version: int) -> FieldSpec | None:
    """Return the field that lists the items of a part of a message; in any version there's at most one."""
    return next(
        (spec for spec in part.fields() if spec.array and version in spec.versions and names_entity(spec)), None
    )


@lru_cache(maxsize=512)
def _naming(part: type[Struct]) -> tuple[tuple[Any, str], ...]:
    return tuple((spec.role, spec.name) for spec in part.fields() if not spec.array and names_entity(spec))


def _keys(spec: FieldSpec, item: Any) -> list[tuple[Any, Any]]:
    """Return the keys that identify an item, such as a topic's name and id."""
    if spec.struct is None:
        return [(spec.role, item)]
    naming = _naming(spec.struct)
    keys = [(role, value) for role, name in naming if (value := getattr(item, name)) not in (None, "", ZERO_UUID)]
    return keys or [(role, getattr(item, name)) for role, name in naming]


def _named(above: Names, keys: list[tuple[Any, Any]]) -> str:
    # Write a topic's id only if its name isn't known.
    values = [*above.values(), *(value for _, value in keys[:1])]
    texts = [value for value in values if isinstance(value, str | int)] or [value.hex() for value in values]
    return "-".join(shortened(text, _LONGEST_NAME) for text in texts)


def _error(part: Struct) -> int:
    for name in _ERROR_FIELDS:
        code: int = getattr(part, name, 0)
        if code:
            return code
    return 0


# What the APIs declare


def _coordinator(asked: Any, given: Coordinator | FindCoordinatorResponse) -> bool:
    # Node id 0 is a broker, so only the address shows that there is no coordinator.
    return is_address(given.node_id, given.host, given.port)


def _tidy_metadata(response: MetadataResponse) -> Iterator[Mismatch]:
    brokers = {}
    for node in response.brokers:
        if not is_address(node.node_id, node.host, node.port):
            yield Mismatch("a broker without an address", f"{node.node_id}")
        elif node.node_id in brokers:
            yield Mismatch("named twice", f"broker {node.node_id}")
        else:
            brokers[node.node_id] = node
    response.brokers = list(brokers.values())
    topics = []
    for topic in response.topics:
        # If an invalid name was requested, brokers answer it with an error.
        if topic.name and not topic.error_code and not is_topic_name(topic.name):
            yield Mismatch("not requested", shortened(topic.name, _LONGEST_NAME))
            continue
        topics.append(topic)
        partitions = {}
        most = 2 * len(topic.partitions) + GAPS
        for partition in topic.partitions:
            if not 0 <= partition.partition_index < most:
                yield Mismatch("an impossible partition", f"{topic.name}-{partition.partition_index}")
            elif partition.partition_index in partitions:
                yield Mismatch("named twice", f"{topic.name}-{partition.partition_index}")
            else:
                partitions[partition.partition_index] = partition
        topic.partitions = list(partitions.values())
        # The topic is being created, or the broker hasn't heard of its partitions yet. Treat it like a topic without
        # leaders: it isn't ready.
        # guard: a topic without partitions is not ready
        if not partitions and not topic.error_code:
            topic.error_code = ErrorCode.LEADER_NOT_AVAILABLE
    response.topics = topics


def _offset(asked: Any, given: Any) -> bool:
    # Version 0 returns a list of offsets instead.
    return given.offset >= -1 and given.timestamp >= -1 and all(offset >= 0 for offset in given.old_style_offsets)


def _epoch_end(asked: Any, given: Any) -> bool:
    # The response is the last epoch in the leader's log that isn't after the requested one.
    return bool(given.end_offset >= -1 and -1 <= given.leader_epoch <= asked.leader_epoch)


def _joined(asked: Any, given: Any) -> bool:
    # A coordinator never changes the id of a member that it knows. If this client took another id, the coordinator
    # would refuse its requests, and the group would wait for the known member until its session expires.
    return given.generation_id >= 0 and bool(given.member_id) and asked.member_id in ("", given.member_id)


def _possible_epoch(asked: Any, given: Any) -> bool:
    # A member that leaves sends a special epoch, and the broker repeats it.
    if asked.member_epoch < 0:
        return True
    target = given.assignment.topic_partitions if getattr(given, "assignment", None) is not None else ()
    return given.member_epoch >= 0 and all(min(topic.partitions, default=0) >= 0 for topic in target)


_LEADER = ErrorCode.LEADER_NOT_AVAILABLE
"""The result is unknown: request the metadata again, then ask the leader that it names."""
_COORDINATOR = ErrorCode.COORDINATOR_NOT_AVAILABLE
"""The result is unknown: look the coordinator up again, and ask it after a backoff."""

_CONNECTING = Answer(None, why="read while the connection is made, before any request: net/versions.py, net/open.py")
_LOGIN = Answer(None, why="the exchange of a SASL mechanism judges each message: net/authentication.py")
_FETCHED = Answer(None, why="has news only; the partitions of the session are known to its reader")
_PUSHED = Answer(None, why="the subscription is opaque, and nothing but metrics depends on it: cluster/telemetry.py")

ANSWERS: Mapping[int, Answer] = {
    0: Answer(
        None, why="what is left out may be in the log: producer/responses.py retries it as after a lost connection"
    ),
    1: _FETCHED,
    2: Answer(_LEADER, _offset),
    3: Answer(_LEADER, tidy=_tidy_metadata),
    8: Answer(_COORDINATOR),
    # Event Hubs leaves out partitions without a committed offset, and doesn't support later versions. (Kafka includes
    # them.)
    9: Answer(_COORDINATOR, lambda asked, given: given.committed_offset >= -1, from_version=9),
    10: Answer(_COORDINATOR, _coordinator),
    11: Answer(_COORDINATOR, _joined),
    12: Answer(_COORDINATOR),
    13: Answer(_COORDINATOR),
    14: Answer(_COORDINATOR),
    16: _CONNECTING,
    17: _LOGIN,
    18: _CONNECTING,
    22: Answer(_COORDINATOR, lambda asked, given: given.producer_id >= 0 and given.producer_epoch >= 0),
    23: Answer(_LEADER, _epoch_end),
    24: Answer(_COORDINATOR),
    25: Answer(_COORDINATOR),
    26: Answer(_COORDINATOR),
    28: Answer(_COORDINATOR),
    32: Answer(None, why="a hint that the reader checks: group/consumer_member.py"),
    36: _LOGIN,
    65: Answer(_COORDINATOR, lambda asked, given: given.producer_id >= 0 and given.producer_epoch >= 0),
    68: Answer(_COORDINATOR, _possible_epoch, whole=True),
    71: _PUSHED,
    72: _PUSHED,
    76: Answer(_COORDINATOR, _possible_epoch, whole=True),
    78: _FETCHED,
    79: _FETCHED,
    88: Answer(_COORDINATOR, lambda asked, given: asked.member_epoch < 0 or given.member_epoch >= 0, whole=True),
    93: Answer(_COORDINATOR, whole=True),
}
"""By ApiKey, for every request that the client sends on its own."""
