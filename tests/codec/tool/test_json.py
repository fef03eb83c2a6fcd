"""Messages as JSON and back."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from aiokproto.codec.json import (
    UNKNOWN_TAGS,
    from_json,
    json_name,
    records_as_size,
    to_json,
)
from aiokproto.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokproto.codec.messages.fetch import FetchableTopicResponse, FetchResponse, LeaderIdAndEpoch, PartitionData
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.schema import FieldSpec, Message, Payload, Struct, field, float64, int64, uuid
from aiokproto.errors import DecodeError, EncodeError
from tests.codec.fill import all_messages, fill


class Sample(Payload, versions="0-1", flexible="1+"):
    number: int64 = 0
    ratio: float64 = 0.0
    flag: bool = False
    blob: bytes | None = None
    id: uuid = field("1+", tag=0, default=bytes(16))


@pytest.mark.parametrize("message", all_messages(), ids=lambda message: message.__name__)
def test_every_version_goes_through_json_and_back(message: type[Message]) -> None:
    for version in range(message.versions.lowest, message.versions.highest + 1):
        for seed in range(3):
            made = fill(message, version, seed)
            text = json.dumps(to_json(made, version), allow_nan=False)
            again = from_json(message, json.loads(text), version)
            assert again == made
            assert again.encode(version) == made.encode(version)


def test_names_in_json_are_kafkas() -> None:
    """Only KRaft's names differ from plain camel-casing."""
    expected = {
        "throttle_time_ms": "throttleTimeMs",
        "is_kraft_controller": "isKRaftController",
        "kraft_version": "kRaftVersion",
        "kraft_version_feature": "kRaftVersionFeature",
        "v3_and_below_client_id": "v3AndBelowClientId",
    }
    assert {name: json_name(name) for name in expected} == expected


def test_no_two_fields_of_a_struct_share_a_name() -> None:
    seen: set[type[Struct]] = set()

    def visit(struct: type[Struct]) -> None:
        if struct not in seen:
            seen.add(struct)
            names = [json_name(spec.name) for spec in struct.fields()]
            assert len(set(names)) == len(names)
            for spec in struct.fields():
                if spec.struct is not None:
                    visit(spec.struct)

    for message in all_messages():
        visit(message)
    assert len(seen) > 500


def test_a_message_in_json() -> None:
    """Tagged fields at their default are left out; a topic id is Kafka's short base64; the rest is in wire order."""
    partition = PartitionData(
        partition_index=0, error_code=0, high_watermark=2**62, records=b"\xff\xfe", current_leader=LeaderIdAndEpoch()
    )
    topic = FetchableTopicResponse(topic_id=bytes(range(240, 256)), partitions=[partition])
    made = FetchResponse(session_id=7, responses=[topic])
    document = to_json(made, 13)
    assert list(document) == ["throttleTimeMs", "errorCode", "sessionId", "responses"]
    assert document["responses"][0]["topicId"] == "8PHy8_T19vf4-fr7_P3-_w"
    assert document["responses"][0]["partitions"] == [
        {
            "partitionIndex": 0,
            "errorCode": 0,
            "highWatermark": 2**62,
            "lastStableOffset": -1,
            "logStartOffset": -1,
            "abortedTransactions": [],
            "preferredReadReplica": -1,
            "records": "//4=",
        }
    ]
    partition.current_leader = LeaderIdAndEpoch(leader_id=3, leader_epoch=4)
    shown = to_json(made, 13, records=records_as_size)["responses"][0]["partitions"][0]
    assert shown["currentLeader"] == {"leaderId": 3, "leaderEpoch": 4}
    assert shown["recordsSizeInBytes"] == 2
    assert "records" not in shown


def test_numbers_that_json_lacks_are_in_quotes() -> None:
    for text, value in (("NaN", float("nan")), ("Infinity", float("inf")), ("-Infinity", float("-inf"))):
        document = to_json(Sample(number=1, ratio=value), 0)
        assert document["ratio"] == text
        assert repr(from_json(Sample, document, 0).ratio) == repr(value)


def test_defaults_may_be_missing() -> None:
    assert from_json(Sample, {"number": 5, "ratio": 2}, 1) == Sample(number=5, ratio=2.0)
    assert from_json(Sample, {}, 0) == Sample()


def test_unknown_tags_are_kept_in_order() -> None:
    document = {"number": 1, UNKNOWN_TAGS: {"200": "AQ==", "100": ""}}
    made = from_json(Sample, document, 1)
    assert list(made.unknown_tags or {}) == [100, 200]
    assert to_json(made, 1)[UNKNOWN_TAGS] == {"100": "", "200": "AQ=="}


WRONG: list[tuple[type[Message], int, Any, str]] = [
    (Sample, 0, [], "Sample v0: body: expected an object, got an array"),
    (Sample, 0, {"number": True}, "number: expected int64, got true"),
    (Sample, 0, {"number": 1.0}, "number: expected int64, got 1.0"),
    (Sample, 0, {"number": 2**63}, "number: 9223372036854775808 does not fit int64"),
    (Sample, 0, {"number": None}, "number: null, but the field is not nullable in this version"),
    (Sample, 0, {"number": 1, "ratio": "fast"}, "ratio: expected float64, got 'fast'"),
    (Sample, 0, {"number": 1, "ratio": 10**400}, "does not fit float64"),
    (Sample, 0, {"number": 1, "flag": 0}, "flag: expected bool, got 0"),
    (Sample, 0, {"number": 1, "blob": "%"}, "blob: expected base64, got '%'"),
    (Sample, 0, {"number": 1, "blob": 1}, "blob: expected base64, got 1"),
    (Sample, 1, {"number": 1, "id": "AAAA"}, "id: expected a uuid as 22 characters"),
    (Sample, 1, {"number": 1, "id": "A" * 21 + "ü"}, "id: expected a uuid as 22 characters"),
    (Sample, 1, {"number": 1, UNKNOWN_TAGS: []}, "_unknownTaggedFields: expected an object"),
    (Sample, 1, {"number": 1, UNKNOWN_TAGS: {"-1": ""}}, "_unknownTaggedFields: '-1' is not a tag"),
    (Sample, 1, {"number": 1, UNKNOWN_TAGS: {"4294967296": ""}}, "is not a tag"),
    (Sample, 2, {"number": 1}, "Sample has versions 0-1, not 2"),
    (MetadataRequest, 9, {"topics": {}}, "MetadataRequest v9: topics: expected an array, got an object"),
    (MetadataRequest, 9, {"topics": [{"name": "t", "nmae": "t"}]}, "topics[0].nmae: MetadataRequestTopic has no such"),
    (MetadataRequest, 0, {"topics": None}, "topics: null, but the field is not nullable"),
    (
        ProduceRequest,
        3,
        {
            "acks": 1,
            "timeoutMs": 1,
            "topicData": [{"name": "t", "partitionData": [{"index": 0, "recordsSizeInBytes": 9}]}],
        },
        "topicData[0].partitionData[0].records: only its size is given, not its bytes",
    ),
]


@pytest.mark.parametrize(("message", "version", "data", "complaint"), WRONG)
def test_invalid_json_is_reported_with_its_path(
    message: type[Message], version: int, data: Any, complaint: str
) -> None:
    with pytest.raises(DecodeError, match=re.escape(complaint)):
        from_json(message, data, version)


def test_a_value_that_the_version_cannot_encode() -> None:
    with pytest.raises(
        EncodeError,
        match=r"v0: allowAutoTopicCreation: .* would be lost: this version lacks the field \(versions 4\+",
    ):
        to_json(MetadataRequest(topics=[], allow_auto_topic_creation=False), 0)
    with pytest.raises(EncodeError, match=r"topics: None, but the field is not nullable"):
        to_json(MetadataRequest(topics=None), 0)
    with pytest.raises(EncodeError, match="MetadataRequest has versions 0-13, not 14"):
        to_json(MetadataRequest(topics=[]), 14)
    wrong: Any = CreatableTopic(name="t", num_partitions=1, replication_factor=1, assignments=7, configs=[])  # type: ignore[arg-type]
    with pytest.raises(EncodeError, match=r"topics\[0\].assignments: a int does not fit"):
        to_json(CreateTopicsRequest(topics=[wrong]), 2)


def test_a_field_of_another_version_is_left_to_the_encoder() -> None:
    made = from_json(MetadataRequest, {"topics": [{"name": "t"}], "allowAutoTopicCreation": False}, 0)
    assert made == MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=False)
    with pytest.raises(EncodeError, match="allow_auto_topic_creation"):
        made.encode(0)


def test_every_default_can_be_shown() -> None:
    """A struct's default is shown as `{}`, which is true only while no declaration makes another one."""

    def visit(spec: FieldSpec) -> None:
        if spec.struct is not None:
            if not spec.array and spec.default_value() is not None:
                assert spec.default_value() == spec.struct()
            for inner in spec.struct.fields():
                visit(inner)
        if spec.array:
            assert not spec.default_value()

    for message in all_messages():
        for spec in message.fields():
            visit(spec)
