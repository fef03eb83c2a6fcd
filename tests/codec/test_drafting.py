"""The draft of a new message: its blanks are refused or found, and the rest is Kafka's definition."""

from __future__ import annotations

import importlib.util
import json
import sys
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.schema import Message
from tools.schema.__main__ import main, our_jars
from tools.schema.check import check_message
from tools.schema.definitions import Definition, read
from tools.schema.draft import draft_fields, draft_module
from tools.schema.texts import missing

Load = Callable[[str], ModuleType]

REQUEST: dict[str, Any] = {
    "apiKey": 999,
    "type": "request",
    "name": "BrewRequest",
    "validVersions": "1-3",
    "flexibleVersions": "2+",
    "latestVersionUnstable": True,
    "fields": [
        {"name": "GroupId", "type": "string", "versions": "0+", "nullableVersions": "2+", "entityType": "groupId"},
        {"name": "Topics", "type": "[]Topic", "versions": "0+", "about": "not our words"},
        {"name": "Rest", "type": "Range", "versions": "3+", "ignorable": True},
        {"name": "Strength", "type": "int8", "versions": "3+", "taggedVersions": "3+", "tag": "0", "default": "-1"},
    ],
    "commonStructs": [
        {"name": "Topic", "versions": "0+", "fields": [
            {"name": "TopicId", "type": "uuid", "versions": "2+", "ignorable": True},
            {"name": "Partitions", "type": "[]int32", "versions": "0+"},
            {"name": "Ranges", "type": "[]Range", "versions": "0+", "nullableVersions": "0+", "default": "null"},
        ]},
        {"name": "Range", "versions": "0+", "fields": [
            {"name": "FirstOffset", "type": "int64", "versions": "0+"},
        ]},
    ],
}  # fmt: skip
RESPONSE: dict[str, Any] = {
    "apiKey": 999,
    "type": "response",
    "name": "BrewResponse",
    "validVersions": "1-3",
    "flexibleVersions": "2+",
    "fields": [
        {"name": "ThrottleTimeMs", "type": "int32", "versions": "0+"},
        {"name": "ErrorCode", "type": "int16", "versions": "0+"},
        {"name": "Ranges", "type": "[]Range", "versions": "0+", "fields": [
            {"name": "LastOffset", "type": "int64", "versions": "0+", "default": "-1"},
        ]},
    ],
}  # fmt: skip

DRAFT = '''"""Brew (ApiKey 999): …."""

from __future__ import annotations

from aiokproto.codec.schema import (
    GroupId,
    PartitionIndex,
    Request,
    Response,
    Route,
    Struct,
    TopicId,
    field,
    int16,
    int32,
    int64,
    int8,
)
from aiokproto.codec.wire import ZERO_UUID


class BrewResponseRange(Struct):
    """…"""

    last_offset: int64 = -1
    """…"""


class BrewResponse(Response, key=999, versions="1-3", flexible="2+"):
    """… Errors: see `BrewRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    ranges: list[BrewResponseRange] = field(factory=list)


class BrewRequestRange(Struct):
    """…"""

    first_offset: int64 = 0
    """…"""


class Topic(Struct):
    """…"""

    topic_id: TopicId = field("2+", default=ZERO_UUID, ignorable=True)
    partitions: list[PartitionIndex] = field(factory=list)
    ranges: list[BrewRequestRange] | None = None


class BrewRequest(Request[BrewResponse], key=999, versions="1-3", flexible="2+", unstable="3", route=...):
    """…

    Sent by … to ….

    Errors: ….
    """

    group_id: GroupId | None = field(nullable="2+", default="")
    """…"""
    topics: list[Topic] = field(factory=list)
    rest: BrewRequestRange = field("3+", factory=BrewRequestRange, ignorable=True)
    strength: int8 = field("3+", tag=0, default=-1)
    """…"""
'''


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    """Import the text of a module from a file, because that's where texts are read from."""
    names: list[str] = []

    def loading(text: str) -> ModuleType:
        name = f"drafted_{len(names)}"
        path = tmp_path / f"{name}.py"
        path.write_text(text)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        names.append(name)
        spec.loader.exec_module(module)
        return module

    yield loading
    for name in names:
        del sys.modules[name]


def jar_of(folder: Path, *definitions: dict[str, Any]) -> Path:
    jar = folder / "kafka-clients-9.8.7.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        for definition in definitions:
            archive.writestr(f"common/message/{definition['name']}.json", json.dumps(definition))
    return jar


def differences(module: ModuleType, definition: Definition) -> list[str]:
    lowest, highest = definition.versions
    ours: type[Message] = getattr(module, definition.name)
    return [line for version in range(lowest, highest + 1) for line in check_message(ours, definition, version)]


def test_a_draft_of_a_new_api(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ruff")
    assert main(["draft", str(jar_of(tmp_path, REQUEST, RESPONSE)), "Brew"]) == 0
    assert capsys.readouterr().out == DRAFT


def test_blanks_of_a_draft_are_refused_or_found(load: Load) -> None:
    with pytest.raises(TypeError, match="BrewRequest has no route: declare the broker that it goes to"):
        load(DRAFT)
    routed = DRAFT.replace("route=...", "route=Route.GROUP")
    drafted = load(routed)
    declared = [drafted.BrewRequest, drafted.BrewResponse]
    places = [line.partition(": ")[0].partition(".")[2] for line in missing(declared)]
    assert sorted(places) == [
        "BrewRequest",  # blanks in its docstring
        "BrewRequest",  # the sender and receiver are not those of the route
        "BrewRequest.group_id",
        "BrewRequest.strength",
        "BrewRequestRange",
        "BrewRequestRange.first_offset",
        "BrewResponse",
        "BrewResponseRange",
        "BrewResponseRange.last_offset",
        "Topic",
    ]
    written = load(routed.replace("Sent by … to ….", "Sent by members to the coordinator.").replace("…", "Said."))
    assert missing([written.BrewRequest, written.BrewResponse]) == []
    request = written.BrewRequest(group_id=None, topics=[written.Topic(partitions=[4])], strength=7)
    assert written.BrewRequest.decode(request.encode(3), 3) == request
    assert differences(written, Definition("9.8.7", REQUEST)) == []
    assert differences(written, Definition("9.8.7", RESPONSE)) == []


def test_a_name_that_the_jar_does_not_define_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["draft", str(jar_of(tmp_path, REQUEST)), "Brwe"]) == 1
    assert capsys.readouterr().err == "kafka-clients-9.8.7.jar defines no Brwe\n"


@pytest.mark.java
def test_fields_that_a_release_adds(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It works in the message, in a struct, and as a struct of its own. A message with nothing new has an empty
    draft."""
    newest = next(found[0] for found in read(our_jars()) if found[0].name == "MetadataRequest")
    assert draft_fields(MetadataRequest, newest) == ""
    grown = json.loads(json.dumps(newest.json)) | {"validVersions": "0-14"}
    topics = next(one for one in grown["fields"] if one["name"] == "Topics")
    topics["fields"].append({"name": "Kind", "type": "int8", "versions": "14+", "default": "2"})
    broker = {"name": "BrokerId", "type": "int32", "versions": "14+", "entityType": "brokerId"}
    page = {"name": "Page", "type": "Page", "versions": "14+", "nullableVersions": "14+", "default": "null"}
    grown["fields"].append(page | {"fields": [broker]})
    assert main(["draft", str(jar_of(tmp_path, grown)), "MetadataRequest"]) == 0
    assert capsys.readouterr().out == (
        '# MetadataRequestTopic\nkind: int8 = field("14+", default=2)\n"""…"""\n\n\n'
        'class Page(Struct):\n    """…"""\n\n    broker_id: BrokerId = 0\n    """…"""\n\n\n'
        '# MetadataRequest\npage: Page | None = field("14+", default=None)\n'
    )


@pytest.mark.java
def test_drafts_of_all_of_kafkas_messages_are_as_defined(load: Load) -> None:
    drafted = 0
    for found in read(our_jars()):
        definition = found[0]
        if definition.json["type"] == "request":
            # The pair is one module, but each half can be drafted alone, apart from the name of the response.
            continue
        module = load(draft_module([definition]))
        assert differences(module, definition) == [], definition.name
        drafted += 1
    for (request, *_), (response, *_) in pairs():
        module = load(draft_module([request, response]).replace("route=...", "route=Route.ANY"))
        assert [*differences(module, request), *differences(module, response)] == [], request.name
        drafted += 1
    assert drafted > 190


def pairs() -> Iterator[tuple[list[Definition], list[Definition]]]:
    """Yield the definitions of requests, each with its response's."""
    by_identity = {found[0].identity: found for found in read(our_jars())}
    for found in by_identity.values():
        if found[0].json["type"] == "request":
            yield found, by_identity["response", found[0].json["apiKey"]]
