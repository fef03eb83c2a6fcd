"""What a declaration means: defaults, absent fields, nulls, tags, and errors that name the field."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.codec.explain import check_structs
from aiokproto.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aiokproto.codec.messages.consumer_group_heartbeat import Assignment, ConsumerGroupHeartbeatResponse
from aiokproto.codec.messages.create_topics import CreatableTopic, CreateTopicsRequest
from aiokproto.codec.messages.fetch import FetchableTopicResponse, FetchRequest, FetchResponse, PartitionData
from aiokproto.codec.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseBroker,
)
from aiokproto.codec.schema import Struct, Versions, int32
from aiokproto.errors import DecodeError, EncodeError
from tests.codec.fill import all_messages


def test_ranges_read_and_print_as_kafka_writes_them() -> None:
    for text in ("3", "0-2", "4+", "none"):
        assert str(Versions.parse(text)) == text
    assert 4 in Versions.parse("4+")
    assert 3 not in Versions.parse("4+")
    assert 0 not in Versions.parse("none")


def test_a_misspelt_field_is_an_error() -> None:
    with pytest.raises(TypeError, match="topic"):
        MetadataRequest(topic=[])  # type: ignore[call-arg]


def test_every_message_has_its_own_defaults() -> None:
    """A change in a list or struct of one instance doesn't show in another one."""
    for message in all_messages():
        one, two = message(), message()
        assert one == two
        for spec in message.fields():
            value = getattr(one, spec.name)
            assert value == spec.default_value()
            if isinstance(value, list | Struct):
                assert value is not getattr(two, spec.name)


def test_defaults_are_the_same_as_in_kafkas_classes() -> None:
    topic = CreatableTopic(name="t", num_partitions=1, replication_factor=1)
    request = CreateTopicsRequest(topics=[topic])
    again = CreateTopicsRequest.decode(request.encode(7), 7)
    assert (again.timeout_ms, again.validate_only) == (60_000, False)
    assert again.topics == [CreatableTopic(name="t", num_partitions=1, replication_factor=1)]


def test_a_field_without_a_default_is_refused() -> None:
    class Wanting(Struct):
        number: int32

    with pytest.raises(TypeError, match=r"Wanting\.number has no default"):
        Wanting(number=1)


def test_defaults_are_the_declared_ones() -> None:
    one = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[])
    two = FetchRequest(max_wait_ms=1, min_bytes=1, topics=[])
    one.forgotten_topics_data.append(None)  # type: ignore[arg-type]
    assert two.forgotten_topics_data == []
    assert two.isolation_level == 0
    assert two.replica_id == -1


def test_a_value_that_the_version_lacks_is_an_error_unless_ignorable() -> None:
    with pytest.raises(EncodeError, match=r"MetadataRequest v3: allow_auto_topic_creation: bool False .* 4\+"):
        MetadataRequest(topics=None, allow_auto_topic_creation=False).encode(3)
    response = MetadataResponse(brokers=[], topics=[], cluster_id="ignorable")
    assert MetadataResponse.decode(response.encode(1), 1).cluster_id is None


def test_null_only_where_the_version_allows_it() -> None:
    assert MetadataRequest(topics=None).encode(1) == b"\xff\xff\xff\xff"
    with pytest.raises(EncodeError, match="MetadataRequest v0: topics: None"):
        MetadataRequest(topics=None).encode(0)
    with pytest.raises(DecodeError, match=r"MetadataRequest v0: topics .*null"):
        MetadataRequest.decode(b"\xff\xff\xff\xff", 0)


def test_an_encode_error_names_the_path_and_leaves_the_buffer_alone() -> None:
    bad = MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="a", port="9092")], topics=[])  # type: ignore[arg-type]
    out = bytearray(b"before")
    with pytest.raises(EncodeError, match=r"MetadataResponse v12: brokers\[0\]\.port: str '9092' does not fit int32"):
        bad.encode_into(out, 12)
    assert out == b"before"


@pytest.mark.parametrize("value", [1, b"bytes", "x" * 40_000, "\ud800"])
def test_values_that_are_not_strings(value: object) -> None:
    topic = MetadataRequestTopic(name=value)  # type: ignore[arg-type]
    for version in (1, 12):
        with pytest.raises(EncodeError, match=r"topics\[0\]\.name"):
            MetadataRequest(topics=[topic]).encode(version)


def test_a_decode_error_names_version_path_and_position() -> None:
    data = MetadataResponse(brokers=[MetadataResponseBroker(node_id=1, host="abc", port=1)], topics=[]).encode(0)
    with pytest.raises(DecodeError, match=r"MetadataResponse v0: brokers\[0\]\.host at byte 10 of 12"):
        MetadataResponse.decode(data[:12], 0)


def test_versions_that_do_not_exist() -> None:
    with pytest.raises(EncodeError, match="MetadataRequest has versions 0-13, not 14"):
        MetadataRequest(topics=None).encode(14)
    with pytest.raises(DecodeError, match="MetadataRequest has versions 0-13, not -1"):
        MetadataRequest.decode(b"", -1)


def test_unknown_tagged_fields_survive_in_order() -> None:
    request = ApiVersionsRequest(client_software_name="a", client_software_version="1")
    request.unknown_tags = {200: b"later", 0: b"hello"}
    data = request.encode(3)
    assert data == b"\x02a\x021\x02\x00\x05hello\xc8\x01\x05later"
    back = ApiVersionsRequest.decode(data, 3)
    assert back.unknown_tags == {0: b"hello", 200: b"later"}
    assert back.encode(3) == data
    with pytest.raises(EncodeError, match="unknown_tags"):
        back.encode(2)


def test_a_tag_out_of_order_or_twice_is_refused() -> None:
    for tags in (b"\x02\x05\x00\x04\x00", b"\x02\x05\x00\x05\x00"):
        with pytest.raises(DecodeError, match="tags"):
            ApiVersionsRequest.decode(b"\x01\x01" + tags, 3)


def test_tagged_fields_are_left_out_at_their_default() -> None:
    response = ApiVersionsResponse(error_code=0, api_keys=[])
    assert response.encode(3) == b"\x00\x00\x01\x00\x00\x00\x00\x00"
    response.finalized_features_epoch = 7
    assert ApiVersionsResponse.decode(response.encode(3), 3).finalized_features_epoch == 7


def test_a_nullable_struct_is_marked_by_a_byte() -> None:
    response = ConsumerGroupHeartbeatResponse(throttle_time_ms=0, error_code=0, member_epoch=1, heartbeat_interval_ms=5)
    nothing = response.encode(0)
    assert nothing.endswith(b"\xff\x00")
    response.assignment = Assignment(topic_partitions=[])
    assert response.encode(0) == nothing[:-2] + b"\x01\x01\x00\x00"


def test_record_sets_are_views_of_the_input() -> None:
    partition = PartitionData(partition_index=0, error_code=0, high_watermark=9, records=b"0123456789")
    topic = FetchableTopicResponse(topic="t", partitions=[partition])
    data = FetchResponse(responses=[topic]).encode(4)
    records = FetchResponse.decode(data, 4).responses[0].partitions[0].records
    assert isinstance(records, memoryview)
    assert records.obj is data
    assert bytes(records) == b"0123456789"


def test_the_generated_source_is_available() -> None:
    text = MetadataRequest.source(9)
    assert "def encode(m, out):" in text
    assert "def decode(data, pos):" in text


NOT_CONFIGS: Any = ["x"]


@pytest.mark.parametrize(
    ("topics", "error"),
    [
        ("a", "topics: expected a list, got str 'a'"),
        (5, "topics: expected a list, got int 5"),
        (["a"], r"topics\[0\]: expected CreatableTopic, got str 'a'"),
        ([CreatableTopic(name="a"), 1.5], r"topics\[1\]: expected CreatableTopic, got float 1.5"),
        ([CreatableTopic(configs=NOT_CONFIGS)], r"topics\[0\]\.configs\[0\]: expected .*, got str 'x'"),
    ],
)
def test_a_value_in_place_of_a_struct(topics: Any, error: str) -> None:
    wrong = CreateTopicsRequest(topics=topics)
    with pytest.raises(EncodeError, match=f"^CreateTopicsRequest: {error}"):
        check_structs(wrong)
    with pytest.raises(EncodeError, match=f"^CreateTopicsRequest v5: {error}"):
        wrong.encode(5)


def test_every_message_passes_the_check_of_its_structs() -> None:
    for message in all_messages():
        check_structs(message())
