"""Which texts a declaration needs, and the blanks of a draft in their place.

The class docstring and the string literal after a field are the only home of a message's texts: the reference, the
JSON export and `aiokproto codec show --explain` read them from there. A draft has a blank where a text is needed, and
:func:`missing` names blanks and missing texts alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from aiokproto.codec.documentation import describe, describe_field
from aiokproto.codec.registry import api_keys, lookup, payload_names, request, response
from aiokproto.codec.schema import Message, Request, Response, Role, Route, Struct

BLANK = "…"
"""Placeholder of a text in a draft."""

SELF_EXPLAINING_NAMES = frozenset({"throttle_time_ms", "error_code", "error_message"})
"""Fields with the same meaning in every message. A tagged one is an exception, which needs a text."""

SELF_EXPLAINING_ROLES = frozenset({Role.TOPIC_NAME, Role.TOPIC_ID, Role.PARTITION_INDEX})
"""Roles that are the whole meaning of a field."""

DESTINATIONS: dict[Route, tuple[str, ...]] = {
    Route.ANY: ("any broker",),
    Route.EVERY: ("every broker", "each broker"),
    Route.LEADER: ("leader",),
    Route.LEADERS: ("leader",),
    Route.CONTROLLER: ("controller", "leader of the quorum"),
    Route.GROUP: ("coordinator",),
    Route.TRANSACTION: ("coordinator",),
    Route.SHARE: ("share coordinator",),
    Route.BROKER: ("broker", "server"),
    Route.CONFIGURED: ("broker",),
    Route.QUORUM: ("controller", "leader", "voter", "node"),
}
"""Route → words of which one is in the sentence about who sends the request, so that text and route agree."""


def needs_text(name: str, role: Role | None, *, tagged: bool) -> bool:
    """Return whether a field needs a text, because neither its name nor its role says it all."""
    return role not in SELF_EXPLAINING_ROLES and (tagged or name not in SELF_EXPLAINING_NAMES)


def messages() -> Iterator[type[Message]]:
    """Return every request, response, header and payload."""
    for key in api_keys():
        yield from (request(key), response(key))
    yield from map(lookup, payload_names())


def missing(declared: Iterable[type[Message]]) -> list[str]:
    """Return one line for each text that is missing, blank or incomplete, with the place and what to write."""
    found: dict[str, None] = {}
    for message in declared:
        found.update(dict.fromkeys(_of_message(message)))
        for struct in structs(message):
            found.update(dict.fromkeys(_of_struct(struct)))
    return list(found)


def structs(message: type[Struct]) -> Iterator[type[Struct]]:
    """Return a message and the structs inside it."""
    yield message
    for spec in message.fields():
        if spec.struct is not None:
            yield from structs(spec.struct)


_NO_FIELD_TEXT = "add a string literal after the field: meaning, unit, sentinel values"


def _of_struct(struct: type[Struct]) -> Iterator[str]:
    where = f"{struct.__module__}.{struct.__name__}"
    about = describe(struct)
    summary = about.partition("\n\n")[0]
    if not about or BLANK in about:
        yield f"{where}: add a docstring: what the struct is"
    elif not summary.endswith(".") or summary[0].islower():
        yield f"{where}: end the first paragraph of the docstring with a full stop, begin it with a capital"
    for spec in struct.fields():
        # A field that is a struct has the struct's text, which is checked there.
        if spec.struct is None:
            text = describe_field(spec)
            if BLANK in text or (not text and needs_text(spec.name, spec.role, tagged=spec.tag is not None)):
                yield f"{where}.{spec.name}: {_NO_FIELD_TEXT}"


def _of_message(message: type[Message]) -> Iterator[str]:
    where = f"{message.__module__}.{message.__name__}"
    about = " ".join(describe(message).split())
    if issubclass(message, (Request, Response)) and "Errors: " not in about:
        yield f"{where}: list the error codes of the response in the docstring, after `Errors:`"
    if not issubclass(message, Request):
        return
    sender = about[about.find("Sent by") :].partition(" Errors: ")[0] if "Sent by" in about else ""
    if not sender:
        yield f"{where}: name the sender and the receiver in the docstring, after `Sent by`"
    elif not any(word in sender for word in DESTINATIONS[message.route]):
        yield f"{where}: the route is {message.route.name}, but the docstring says {sender!r}"
