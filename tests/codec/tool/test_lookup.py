"""The verbs that look something up: list, show, diff, export."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from aiokproto.cli.codec.diff import changes
from aiokproto.cli.codec.grammar import grammar
from aiokproto.codec.registry import api_keys, lookup, payload_names
from aiokproto.codec.schema import Payload, Struct, field, int32, recordset, string
from tests.codec.fill import all_versions
from tests.codec.tool.conftest import Run

METADATA_9 = """\
Metadata Request (Version: 9) => [topics] allow_auto_topic_creation include_cluster_authorized_operations \
include_topic_authorized_operations TAG_BUFFER
  topics => name TAG_BUFFER  ; can be null
    name => COMPACT_STRING
  allow_auto_topic_creation => BOOLEAN
  include_cluster_authorized_operations => BOOLEAN
  include_topic_authorized_operations => BOOLEAN

Metadata Response (Version: 9) => throttle_time_ms [brokers] cluster_id controller_id [topics] \
cluster_authorized_operations TAG_BUFFER
  throttle_time_ms => INT32
  brokers => node_id host port rack TAG_BUFFER
    node_id => INT32
    host => COMPACT_STRING
    port => INT32
    rack => COMPACT_NULLABLE_STRING
  cluster_id => COMPACT_NULLABLE_STRING
  controller_id => INT32
  topics => error_code name is_internal [partitions] topic_authorized_operations TAG_BUFFER
    error_code => INT16
    name => COMPACT_STRING
    is_internal => BOOLEAN
    partitions => error_code partition_index leader_id leader_epoch [replica_nodes] [isr_nodes] [offline_replicas] \
TAG_BUFFER
      error_code => INT16
      partition_index => INT32
      leader_id => INT32
      leader_epoch => INT32
      replica_nodes => INT32
      isr_nodes => INT32
      offline_replicas => INT32
    topic_authorized_operations => INT32
  cluster_authorized_operations => INT32
"""

PRODUCE_3 = """\
Produce Request (Version: 3) => transactional_id acks timeout_ms [topic_data]
  transactional_id => NULLABLE_STRING
  acks => INT16
  timeout_ms => INT32
  topic_data => name [partition_data]
    name => STRING
    partition_data => index records
      index => INT32
      records => RECORDS
"""

API_VERSIONS_3 = """\
ApiVersions Response (Version: 3) => error_code [api_keys] throttle_time_ms TAG_BUFFER
  error_code => INT16
  api_keys => api_key min_version max_version TAG_BUFFER
    api_key => INT16
    min_version => INT16
    max_version => INT16
  throttle_time_ms => INT32
  supported_features<tag: 0> => name min_version max_version TAG_BUFFER
    name => COMPACT_STRING
    min_version => INT16
    max_version => INT16
  finalized_features_epoch<tag: 1> => INT64
  finalized_features<tag: 2> => name max_version_level min_version_level TAG_BUFFER
    name => COMPACT_STRING
    max_version_level => INT16
    min_version_level => INT16
  zk_migration_ready<tag: 3> => BOOLEAN
"""


HEADER_2 = """\
Request Header v2 => request_api_key request_api_version correlation_id client_id TAG_BUFFER
  request_api_key => INT16
  request_api_version => INT16
  correlation_id => INT32
  client_id => NULLABLE_STRING
"""

ASSIGNMENT_0 = """\
ConsumerProtocolAssignment (Version: 0) => [assigned_partitions] user_data
  assigned_partitions => topic [partitions]
    topic => STRING
    partitions => INT32
  user_data => NULLABLE_BYTES
"""


class Inner(Struct):
    kept: string | None = field(nullable="1+", default="")
    records: recordset | None = None
    gone: int32 = field("0-1", default=0)


class Evolving(Payload, versions="0-2", flexible="2+"):
    inner: list[Inner] | None = field(nullable="2+", factory=list)
    tagged: int32 = field("2+", tag=4, default=0)


def test_list_has_every_api_and_payload(run: Run) -> None:
    code, out, err = run("list")
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert "   3  Metadata                                0-13      9-13      -         any broker" in lines
    assert "  22  InitProducerId                          0-6       2-6       6         coordinator of the" in out
    assert "      OffsetCommitValue                       0-4       4         -" in lines
    assert len(lines) == len(api_keys()) + len(payload_names()) + 3


@pytest.mark.parametrize("name", ["Metadata", "metadata", "3"])
def test_show_both_messages_of_an_api(run: Run, name: str) -> None:
    assert run("show", name, "9") == (0, METADATA_9, "")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["Produce", "3", "--request"], PRODUCE_3),
        (["ProduceRequest", "3"], PRODUCE_3),
        (["18", "3", "--response"], API_VERSIONS_3),
        (["RequestHeader", "2"], HEADER_2),
        (["ApiVersionsRequest", "0"], "ApiVersions Request (Version: 0) =>\n"),
        (["ConsumerProtocolAssignment", "0"], ASSIGNMENT_0),
    ],
)
def test_show_one_message(run: Run, arguments: list[str], expected: str) -> None:
    assert run("show", *arguments) == (0, expected, "")


def test_show_takes_the_newest_stable_version(run: Run) -> None:
    assert run("show", "InitProducerIdRequest").out.startswith("InitProducerId Request (Version: 5) => ")


def test_every_version_has_a_grammar_with_a_rule_for_every_field() -> None:
    for message, version in all_versions():
        rules = grammar(message, version).splitlines()
        fields = [spec for spec in message.fields() if version in spec.versions]
        assert sum(1 for rule in rules if rule.startswith("  ") and rule[2] != " ") == len(fields)


def test_what_changed(run: Run) -> None:
    code, out, _ = run("diff", "Fetch", "12", "13", "--request")
    assert code == 0
    assert out == (
        "FetchRequest 12 → 13\n"
        "  - topics[].topic: string\n"
        "  + topics[].topic_id: uuid\n"
        "  - forgotten_topics_data[].topic: string\n"
        "  + forgotten_topics_data[].topic_id: uuid\n"
    )


def test_every_kind_of_change() -> None:
    assert [str(change) for change in changes(Evolving, 0, 1)] == ["~ inner[].kept: not null → can be null"]
    assert [str(change) for change in changes(Evolving, 1, 2)] == [
        "~ not flexible → flexible (compact lengths, tagged fields)",
        "~ inner[]: not null → can be null",
        "- inner[].gone: int32",
        "+ tagged: int32, tag 4",
    ]
    assert "+ inner[].gone: int32" in map(str, changes(Evolving, 2, 1))
    assert changes(Evolving, 1, 1) == []


def test_equal_versions_are_reported_as_equal(run: Run) -> None:
    out = run("diff", "Fetch", "1", "2").out
    assert out == "FetchRequest 1 → 2\n  no difference\n\nFetchResponse 1 → 2\n  no difference\n"


def test_the_reference_is_complete_and_the_same_each_time(run: Run) -> None:
    first, second = run("export"), run("export", "--indent", "1")
    assert first.out == second.out
    document = json.loads(first.out)
    assert [api["apiKey"] for api in document["apis"]] == api_keys()
    assert [payload["name"] for payload in document["payloads"]] == sorted(payload_names())
    assert {"code": 3, "name": "UNKNOWN_TOPIC_OR_PARTITION", "retriable": True, "refreshMetadata": True} in document[
        "errors"
    ]


def test_a_field_in_the_reference(run: Run) -> None:
    document = json.loads(run("export").out)
    fetch = document["apis"][1]
    assert (fetch["name"], fetch["route"]) == ("Fetch", "leader")
    assert fetch["request"]["headerVersions"]["11"] == 1
    assert fetch["request"]["headerVersions"]["12"] == 2
    fields = {one["name"]: one for one in fetch["request"]["fields"]}
    fields["clusterId"].pop("about", None)
    assert fields["clusterId"] == {
        "name": "clusterId",
        "python": "cluster_id",
        "type": "string",
        "versions": "12-18",
        "nullable": "12-18",
        "ignorable": True,
        "tag": 0,
        "default": None,
    }
    assert fields["maxWaitMs"]["default"] == 0
    (topic,) = [one for one in fields["forgottenTopicsData"]["fields"] if one["name"] == "topic"]
    assert topic["versions"] == "7-12"


def test_a_reference_knows_every_field_of_every_message(run: Run) -> None:
    document = json.loads(run("export").out)

    def count(fields: list[dict[str, Any]], struct: type[Struct]) -> None:
        assert [one["python"] for one in fields] == [spec.name for spec in struct.fields()]
        for one, spec in zip(fields, struct.fields(), strict=True):
            if spec.struct is not None:
                count(one["fields"], spec.struct)

    messages = [*document["payloads"], *(api[kind] for api in document["apis"] for kind in ("request", "response"))]
    for message in messages:
        count(message["fields"], lookup(message["name"]))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["show", "Metdata"], "error: no API or message is called 'Metdata'; did you mean Metadata?"),
        (["show", "9999"], "error: no API or message is called '9999'; `list` shows all\n"),
        (["show", "Metadata", "14"], "error: MetadataRequest has versions 0-13, not 14\n"),
        (["show", "Metadata", "new"], "error: 'new' is not a version\n"),
        (["diff", "OffsetCommitKey", "0", "1"], "error: OffsetCommitKey has versions 0, not 1\n"),
    ],
)
def test_an_unknown_name_is_a_one_line_error(run: Run, arguments: list[str], complaint: str) -> None:
    code, out, err = run(*arguments)
    assert code == 2
    assert err.startswith(complaint)
    assert err.count("\n") == 1
    assert out == ""


@pytest.mark.parametrize("arguments", [[], ["open"], ["show"], ["list", "--all"], ["records", "--as", "x", "f"]])
def test_an_unknown_argument_is_a_one_line_error(
    run: Run, arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as stop:
        run(*arguments)
    assert stop.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize("verb", [[], ["list"], ["show"], ["diff"], ["decode"], ["encode"], ["records"], ["export"]])
def test_help(run: Run, verb: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        run(*verb, "--help")
    assert stop.value.code == 0
    assert capsys.readouterr().out.startswith("usage: python -m aiokproto.codec")


def test_the_module_can_be_run() -> None:
    command = [sys.executable, "-m", "aiokproto.codec", "show", "Heartbeat", "0", "--response"]
    result = subprocess.run(command, capture_output=True, text=True, check=True)
    assert result.stdout == "Heartbeat Response (Version: 0) => error_code\n  error_code => INT16\n"


def test_a_closed_output_pipe_is_not_an_error() -> None:
    command = [sys.executable, "-m", "aiokproto.codec", "export"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(1)
        process.stdout.close()
        assert process.stderr.read() == b""


def test_the_codec_does_not_load_the_tool() -> None:
    code = "import sys, aiokproto.codec.json; print(*[m for m in sys.modules if '.cli' in m or m == 'argparse'])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
