"""The texts of messages and fields: readable at run time, and complete."""

from __future__ import annotations

import subprocess
import sys

import pytest

from aiokproto.cli.codec.grammar import meaning
from aiokproto.cli.codec.reference import reference
from aiokproto.codec import documentation
from aiokproto.codec.documentation import describe, describe_field
from aiokproto.codec.registry import lookup
from aiokproto.codec.schema import (
    FieldSpec,
    Payload,
    Request,
    Response,
    Route,
    Struct,
    TopicId,
    field,
    int8,
    int16,
    int32,
)
from aiokproto.codec.wire import ZERO_UUID
from tools.schema.texts import messages, missing


class Documented(Payload, versions="0"):
    """A message with texts.

    And a second paragraph.
    """

    timeout_ms: int32 = 0
    """How long to wait,
    in ms."""
    bare: int32 = 0


class BlankResponse(Response, key=95, versions="0"):
    """…. Errors: …."""

    flavour: int8 = 0
    """…"""


class BlankRequest(Request[BlankResponse], key=95, versions="0", route=Route.CONTROLLER):
    """Do something.

    Sent by admin tools to any broker.

    Errors: see the response.
    """

    items: list[Unwritten] = field(factory=list)


class Unwritten(Struct):
    topic_id: TopicId = ZERO_UUID
    size: int32 = 0
    error_code: int16 = field(tag=0, default=0)


def test_every_declaration_has_its_texts() -> None:
    """First paragraph, sender, receiver, error codes, and the meaning of each field whose name doesn't say it all."""
    assert missing(messages()) == []


def test_missing_and_blank_texts_are_named() -> None:
    found = [line.removeprefix(f"{__name__}.").split(": ")[0] for line in missing([BlankRequest, BlankResponse])]
    assert found == [
        "BlankRequest",  # the receiver contradicts the route
        "Unwritten",
        "Unwritten.size",
        "Unwritten.error_code",
        "BlankResponse",
        "BlankResponse.flavour",
    ]


def test_documentation_is_read_from_the_source() -> None:
    assert describe(Documented) == "A message with texts.\n\nAnd a second paragraph."
    assert [describe_field(spec) for spec in Documented.fields()] == ["How long to wait, in ms.", ""]
    assert meaning(Documented, 0) == (
        "  A message with texts.\n\n  And a second paragraph.\n\n  timeout_ms: How long to wait, in ms.\n"
    )


def test_a_field_that_is_a_struct_has_its_own_text_or_the_text_of_the_struct() -> None:
    topics, cursor = (
        next(spec for spec in lookup("DescribeTopicPartitionsResponse").fields() if spec.name == name)
        for name in ("topics", "next_cursor")
    )
    assert topics.struct is not None
    assert describe_field(topics) == describe(topics.struct) != ""
    assert cursor.struct is not None
    assert describe_field(cursor) not in ("", describe(cursor.struct))
    shown = meaning(lookup("DescribeTopicPartitionsResponse"), 0)
    assert f"  topics[]: {describe(topics.struct)}\n" in shown
    exported = reference()["apis"]
    fields = next(api for api in exported if api["name"] == "DescribeTopicPartitions")["response"]["fields"]
    assert next(one for one in fields if one["python"] == "topics")["about"] == describe(topics.struct)


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


def test_encoding_and_decoding_do_not_load_the_documentation_reader() -> None:
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
