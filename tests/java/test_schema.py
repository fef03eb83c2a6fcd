"""Our declarations beside the definitions in Kafka's jars; and that the comparison finds every kind of difference."""

from __future__ import annotations

import copy
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tools.schema import definitions
from tools.schema.__main__ import main, our_jars
from tools.schema.check import KNOWN, check
from tools.setup.project import MESSAGES_RELEASES

pytestmark = pytest.mark.java

Json = dict[str, Any]


@pytest.fixture(scope="module")
def kafka() -> list[list[definitions.Definition]]:
    return definitions.read(our_jars())


def field(json: Json, name: str) -> Json:
    """A field of the message or of its structs."""
    fields = list(json["fields"])
    for found in fields:
        if found["name"] == name:
            made: Json = found
            return made
        fields += found.get("fields", [])
    raise KeyError(name)


def test_declarations_are_the_same_as_in_kafka(kafka: list[list[definitions.Definition]]) -> None:
    report = check(kafka)
    assert report.findings == []
    assert report.known == list(KNOWN)
    assert len(report.compared) == 838
    # Kafka publishes no definitions of its metadata log's records, but their bytes are compared.
    assert all(name.endswith("Record") for name in report.uncovered)


@pytest.mark.parametrize("release", MESSAGES_RELEASES)
def test_every_message_of_a_release_is_declared(kafka: list[list[definitions.Definition]], release: str) -> None:
    """It's true even for messages whose definition comes from a newer release."""
    defined = {
        (it.identity, version) for found in kafka for it in found if it.release == release for version in range_of(it)
    }
    assert len(defined) > 700
    compared = check(kafka).compared
    names = {it.identity: found[0].name for found in kafka for it in found}
    lacking = {(names[identity], version) for identity, version in defined} - compared
    # Keys of coordinators were numbered by record type.
    assert {name for name, _ in lacking if not name.endswith("Key")} <= {where.split()[0] for where in KNOWN}


def range_of(definition: definitions.Definition) -> range:
    return range(definition.versions.lowest, definition.versions.highest + 1)


CHANGES: dict[str, tuple[Callable[[Json], Any], str]] = {
    "a new version": (lambda it: it.update(validVersions="0-14"), "MISSING MetadataRequest 14"),
    "no such version": (lambda it: it.update(validVersions="0-12"), "EXTRA MetadataRequest 13"),
    "a new field": (
        lambda it: it["fields"].append({"name": "NewThing", "type": "bool", "versions": "13+"}),
        "MISSING MetadataRequest 13: new_thing",
    ),
    "no such field": (lambda it: it["fields"].pop(), "EXTRA MetadataRequest 8: include_topic_authorized_operations"),
    "a field of a struct": (
        lambda it: field(it, "Topics")["fields"].pop(),
        "EXTRA MetadataRequest 0: topics.name",
    ),
    "another type": (
        lambda it: field(it, "TopicId").update(type="int64"),
        "DIFFERS MetadataRequest 10: topics.topic_id: type is 'uuid', Kafka's 'int64'",
    ),
    "null": (
        lambda it: field(it, "Topics").update(nullableVersions="2+"),
        "DIFFERS MetadataRequest 1: topics: nullable is True, Kafka's False",
    ),
    "a default": (
        lambda it: field(it, "AllowAutoTopicCreation").update(default="false"),
        "DIFFERS MetadataRequest 4: allow_auto_topic_creation: default is True, Kafka's False",
    ),
    "an entity": (
        lambda it: field(it, "Name").update(entityType="groupId"),
        "DIFFERS MetadataRequest 0: topics.name: entity is 'topicName', Kafka's 'groupId'",
    ),
    "a tag": (
        lambda it: field(it, "AllowAutoTopicCreation").update(tag=3, taggedVersions="11+"),
        "DIFFERS MetadataRequest 11: allow_auto_topic_creation: tag is None, Kafka's 3",
    ),
    "the order": (
        lambda it: it["fields"].reverse(),
        "DIFFERS MetadataRequest 4: order is ['topics', 'allow_auto_topic_creation'], Kafka's ['allow_auto_",
    ),
    "ignorable": (
        lambda it: field(it, "TopicId").update(ignorable="false"),
        "DIFFERS MetadataRequest 9: topics.topic_id: ignorable is True, Kafka's False",
    ),
    "flexible versions": (
        lambda it: it.update(flexibleVersions="10+"),
        "DIFFERS MetadataRequest 9: flexible is True, Kafka's False",
    ),
    "a field that is not flexible": (
        lambda it: field(it, "Name").update(flexibleVersions="none"),
        "DIFFERS MetadataRequest 12: topics.name: flexible is True, Kafka's False",
    ),
    "an unstable version": (
        lambda it: it.update(latestVersionUnstable=True),
        "DIFFERS MetadataRequest 13: unstable is False, Kafka's True",
    ),
    "a new message": (
        lambda it: it.update(name="NewThingRequest", apiKey=999),
        "MISSING NewThingRequest 0-13",
    ),
}


@pytest.mark.parametrize(("change", "finding"), CHANGES.values(), ids=CHANGES.keys())
def test_a_changed_declaration_is_reported(
    kafka: list[list[definitions.Definition]], change: Callable[[Json], Any], finding: str
) -> None:
    newest = next(found[0] for found in kafka if found[0].name == "MetadataRequest")
    changed = copy.deepcopy(newest.json)
    assert check([[newest]]).findings == []
    change(changed)
    assert any(line.startswith(finding) for line in check([[newest._replace(json=changed)]]).findings)


def test_one_jar_can_be_given(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The exit code says whether there are findings, which name the release."""
    jar = tmp_path / "kafka-clients-9.8.7-rc1.jar"
    text = """{  // http://kafka.apache.org
      "apiKey": 12, "type": "response", "name": "HeartbeatResponse", "validVersions": "0-5", "flexibleVersions": "4+",
      /* Since
         version 1 */
      "fields": [
        {"name": "ThrottleTimeMs", "type": "int32", "versions": "1+", "ignorable": true, "about": "see http://x"},
        {"name": "ErrorCode", "type": "int16", "versions": "0+"}
      ]
    }"""
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("common/message/HeartbeatResponse.json", text)
    assert json.loads(definitions.strip_comments(text))["fields"][0]["about"] == "see http://x"
    assert main(["check", str(jar)]) == 1
    assert capsys.readouterr().out.startswith("MISSING HeartbeatResponse 5 (Kafka 9.8.7)\n")
    with zipfile.ZipFile(jar, "w") as archive:
        archive.writestr("common/message/HeartbeatResponse.json", text.replace('"0-5"', '"0-4"'))
    assert main(["check", str(jar)]) == 0
