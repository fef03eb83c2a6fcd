"""The texts of messages and fields: readable at run time, and complete."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from aiokproto.cli.codec.grammar import meaning
from aiokproto.cli.codec.reference import reference
from aiokproto.codec import documentation
from aiokproto.codec.documentation import describe, describe_field
from aiokproto.codec.registry import api_keys, lookup, payload_names, request, response
from aiokproto.codec.schema import FieldSpec, Message, Payload, Role, Struct, int32

SELF_EXPLAINING_NAMES = {"throttle_time_ms", "error_code", "error_message"}
SELF_EXPLAINING_ROLES = {Role.TOPIC_NAME, Role.TOPIC_ID, Role.PARTITION_INDEX}


class Documented(Payload, versions="0"):
    """A message with texts.

    And a second paragraph.
    """

    timeout_ms: int32 = 0
    """How long to wait,
    in ms."""
    bare: int32 = 0


def _modules() -> Iterator[type[Message]]:
    for key in api_keys():
        yield from (response(key), request(key))
    yield from map(lookup, payload_names())


def _structs(message: type[Struct]) -> Iterator[type[Struct]]:
    yield message
    for spec in message.fields():
        if spec.struct is not None:
            yield from _structs(spec.struct)


def _explains_itself(spec: FieldSpec) -> bool:
    """Whether name and role say everything: three names, three roles, and structs, whose own fields follow."""
    plain_name = spec.name in SELF_EXPLAINING_NAMES and spec.tag is None
    return plain_name or spec.role in SELF_EXPLAINING_ROLES or spec.struct is not None


def test_every_field_has_a_text_unless_its_name_says_it_all() -> None:
    missing = {
        f"{struct.__module__}.{struct.__name__}.{spec.name}"
        for message in _modules()
        for struct in _structs(message)
        for spec in struct.fields()
        if not describe_field(spec) and not _explains_itself(spec)
    }
    assert sorted(missing) == []


def test_every_message_has_a_docstring() -> None:
    assert [message.__name__ for message in _modules() if not describe(message)] == []


def test_every_request_and_response_names_its_errors() -> None:
    apis = [message for message in _modules() if not issubclass(message, Payload)]
    assert [message.__name__ for message in apis if "Errors: " not in describe(message).replace("\n", " ")] == []


def test_every_request_names_its_sender() -> None:
    requests = [message for message in _modules() if message.__name__.endswith("Request")]
    assert [message.__name__ for message in requests if "Sent by" not in describe(message).replace("\n", " ")] == []


def test_texts_are_read_from_the_source() -> None:
    assert describe(Documented) == "A message with texts.\n\nAnd a second paragraph."
    assert [describe_field(spec) for spec in Documented.fields()] == ["How long to wait, in ms.", ""]
    assert meaning(Documented, 0) == (
        "  A message with texts.\n\n  And a second paragraph.\n\n  timeout_ms: How long to wait, in ms.\n"
    )


def test_a_field_without_its_struct_has_no_text() -> None:
    assert describe_field(FieldSpec("name", "string", None)) == ""


def test_without_source_there_are_no_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    def unreadable(_: object) -> str:
        raise OSError("could not get source code")

    monkeypatch.setattr("inspect.getsource", unreadable)
    documentation._texts.cache_clear()
    try:
        assert describe(Documented) == ""
        assert meaning(Documented, 0) == ""
    finally:
        documentation._texts.cache_clear()


def test_encoding_and_decoding_do_not_load_the_reader_of_texts() -> None:
    """Texts cost nothing until a tool asks for one."""
    program = (
        "import sys\n"
        "from aiokproto.codec.messages.create_topics import CreateTopicsRequest as R\n"
        "R.decode(R().encode(7), 7)\n"
        "print('aiokproto.codec.documentation' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "False"


def test_export_carries_the_texts() -> None:
    apis = {api["name"]: api for api in reference()["apis"]}
    heartbeat = apis["BrokerHeartbeat"]["request"]
    assert heartbeat["about"] == describe(lookup("BrokerHeartbeatRequest"))
    fields = {field["python"]: field for field in heartbeat["fields"]}
    assert fields["want_fence"]["about"]
