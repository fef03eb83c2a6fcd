"""The verb `decode`."""

from __future__ import annotations

import json
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from aiokproto import records
from aiokproto.codec.frames import encode_request, encode_response
from aiokproto.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aiokproto.codec.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from aiokproto.codec.messages.heartbeat import HeartbeatResponse
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponse
from aiokproto.codec.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from aiokproto.records.control import ControlType, encode_end_transaction
from tests.codec.tool.conftest import Run

METADATA = bytes(encode_request(MetadataRequest(topics=[MetadataRequestTopic(name="tü")]), 12, 7, "me"))
METADATA_DOCUMENT = {
    "request": "Metadata",
    "version": 12,
    "header": {"requestApiKey": 3, "requestApiVersion": 12, "correlationId": 7, "clientId": "me"},
    "body": {
        "topics": [{"topicId": "AAAAAAAAAAAAAAAAAAAAAA", "name": "tü"}],
        "allowAutoTopicCreation": True,
        "includeTopicAuthorizedOperations": False,
    },
}
ANSWER = bytes(encode_response(MetadataResponse(brokers=[], topics=[], cluster_id="c"), 12, 7))
HEARTBEAT = bytes(encode_response(HeartbeatResponse(error_code=25), 4, 8))


def values(text: str) -> list[Any]:
    """The JSON documents in an output, one after another."""
    decoder, found, pos = json.JSONDecoder(), [], 0
    while pos < len(text):
        value, pos = decoder.raw_decode(text, pos)
        found.append(value)
        pos += 1
    return found


@pytest.mark.parametrize("length", [True, False], ids=["length", "bare"])
@pytest.mark.parametrize(
    "form", ["hex", "0x", "C", "colons", "base64", "url-safe", "spaced", "@hex", "@binary", "-base64", "-binary"]
)
def test_a_request_in_every_form_of_input(run: Run, tmp_path: Path, form: str, length: bool) -> None:
    data = METADATA if length else METADATA[4:]
    file, stdin = tmp_path / "input", b""
    texts = {
        "hex": data.hex(),
        "0x": f"0x{data.hex().upper()}",
        "C": ", ".join(f"{byte:#04x}" for byte in data),
        "colons": data.hex(":"),
        "base64": b64encode(data).decode(),
        "url-safe": b64encode(data).decode().translate(str.maketrans("+/", "-_")).rstrip("="),
        "spaced": data.hex(" ", 2),
    }
    if form.startswith("@"):
        file.write_bytes(data if form == "@binary" else data.hex("\n").encode())
        source = f"@{file}"
    elif form.startswith("-"):
        source, stdin = "-", data if form == "-binary" else b64encode(data) + b"\n"
    else:
        source = texts[form]
    code, out, err = run("decode", source, stdin=stdin)
    assert (code, err) == (0, "")
    assert values(out) == [METADATA_DOCUMENT]


def test_a_stream_of_requests(run: Run) -> None:
    stream = METADATA + bytes(encode_request(ListGroupsRequest(), 0, 8, None)) + METADATA
    code, out, _ = run("decode", "--lines", stream.hex())
    first, second, third = map(json.loads, out.splitlines())
    assert code == 0
    assert first == third == METADATA_DOCUMENT
    assert second == {
        "request": "ListGroups",
        "version": 0,
        "header": {"requestApiKey": 16, "requestApiVersion": 0, "correlationId": 8, "clientId": None},
        "body": {},
    }


def test_a_produce_request_without_length_is_not_taken_for_one_with(run: Run) -> None:
    """Read as a length, its ApiKey 0 and version are a few bytes."""
    frame = encode_request(ProduceRequest(acks=1, timeout_ms=1, topic_data=[]), 9, 1, "client")
    (document,) = values(run("decode", frame[4:].hex()).out)
    assert (document["request"], document["version"]) == ("Produce", 9)


def test_bytes_after_a_request_are_shown(run: Run) -> None:
    (document,) = values(run("decode", "--framing", "none", f"{METADATA[4:].hex()}beef").out)
    assert document == {**METADATA_DOCUMENT, "trailingBytes": "vu8="}


def test_a_response_of_a_given_kind(run: Run) -> None:
    for data in (ANSWER, ANSWER[4:]):
        (document,) = values(run("decode", "--response", "--as", "Metadata:12", data.hex()).out)
        assert (document["response"], document["version"]) == ("Metadata", 12)
        assert document["header"] == {"correlationId": 7}
        assert document["body"]["clusterId"] == "c"


def test_responses_by_correlation_id(run: Run) -> None:
    stream = (HEARTBEAT + ANSWER).hex()
    out = run("decode", "--response", "--as", "7=Metadata:12", "--as", "8=12:4", stream).out
    assert [one["response"] for one in values(out)] == ["Heartbeat", "Metadata"]
    out = run("decode", "--response", "--as", "7=Metadata:12", "--as", "Heartbeat:4", stream).out
    assert [one["response"] for one in values(out)] == ["Heartbeat", "Metadata"]


def test_responses_by_their_requests(run: Run, tmp_path: Path) -> None:
    """If an id is used again, its responses come in order."""
    sent = METADATA + bytes(encode_request(ApiVersionsRequest(), 0, 7, "me"))
    received = ANSWER + bytes(encode_response(ApiVersionsResponse(error_code=0, api_keys=[]), 0, 7))
    file = tmp_path / "sent"
    file.write_bytes(sent)
    out = run("decode", "--response", "--requests", f"@{file}", received.hex()).out
    assert [(one["response"], one["version"]) for one in values(out)] == [("Metadata", 12), ("ApiVersions", 0)]


def test_a_refused_api_versions_request_is_answered_in_version_0(run: Run) -> None:
    frame = encode_response(ApiVersionsResponse(error_code=35, api_keys=[]), 0, 1)
    (document,) = values(run("decode", "--response", "--as", "ApiVersions:4", frame.hex()).out)
    assert (document["version"], document["body"]["errorCode"]) == (0, 35)


def test_bodies_and_payloads(run: Run) -> None:
    body = MetadataRequest(topics=None).encode(4).hex()
    (document,) = values(run("decode", "--no-header", "--as", "Metadata:4", body).out)
    assert document == {
        "request": "Metadata",
        "version": 4,
        "body": {"topics": None, "allowAutoTopicCreation": True},
    }
    (document,) = values(run("decode", "--no-header", "--response", "--as", "Heartbeat:0", "0019").out)
    assert document == {"response": "Heartbeat", "version": 0, "body": {"errorCode": 25}}
    (document,) = values(run("decode", "--no-header", "--as", "ListGroups:0", "").out)
    assert document["body"] == {}
    key = {"group": "g", "topic": "t", "partition": 7}
    (document,) = values(run("decode", "--as", "OffsetCommitKey:0", "00016700017400000007").out)
    assert document == {"payload": "OffsetCommitKey", "version": 0, "body": key}
    (document,) = values(run("decode", "--as", "OffsetCommitKey", "000100016700017400000007").out)
    assert document == {"payload": "OffsetCommitKey", "prefix": 1, "version": 0, "body": key}
    topic = {"name": "t", "topicId": "AAAAAAAAAAAAAAAAAAAAAA"}
    (document,) = values(run("decode", "--as", "TopicRecord", f"0102000274{'0' * 34}").out)
    assert document == {"payload": "TopicRecord", "frameVersion": 1, "version": 0, "body": topic}
    (document,) = values(run("decode", "--as", "SnapshotFooterRecord", "000000").out)
    assert document == {"payload": "SnapshotFooterRecord", "version": 0, "body": {"version": 0}}
    (document,) = values(run("decode", "--as", "EndTxnMarker", "000000000005").out)
    assert document == {"payload": "EndTxnMarker", "prefix": 0, "version": 0, "body": {"coordinatorEpoch": 5}}


def produced(data: bytes) -> str:
    part = TopicProduceData(name="t", partition_data=[PartitionProduceData(index=0, records=data)])
    return bytes(encode_request(ProduceRequest(acks=-1, timeout_ms=1, topic_data=[part]), 9, 1, "me")).hex()


def test_record_sets_in_three_ways(run: Run) -> None:
    data = records.encode(
        [records.BatchRecord(0, 1000, b"k", None, (("h", b"v"),)), records.BatchRecord(1, 1001, None, b"w")],
        compression="gzip",
    )

    def shown(*options: str) -> dict[str, Any]:
        (document,) = values(run("decode", *options, produced(data)).out)
        partition: dict[str, Any] = document["body"]["topicData"][0]["partitionData"][0]
        return partition

    assert shown() == {"index": 0, "recordsSizeInBytes": len(data)}
    assert shown("--records-base64") == {"index": 0, "records": b64encode(data).decode()}
    (batch,) = shown("--records")["records"]
    assert (batch["baseOffset"], batch["lastOffset"], batch["magic"], batch["compression"]) == (0, 1, 2, "gzip")
    assert (batch["position"], batch["timestampType"]) == (0, "CREATE_TIME")
    assert (batch["producerId"], batch["isTransactional"], batch["isControl"]) == (-1, False, False)
    assert batch["sizeInBytes"] == len(data)
    assert batch["records"] == [
        {"offset": 0, "timestamp": 1000, "key": "aw==", "value": None, "headers": [{"key": "h", "value": "dg=="}]},
        {"offset": 1, "timestamp": 1001, "key": None, "value": "dw==", "headers": []},
    ]


def test_opened_record_sets_are_encoded_again(run: Run) -> None:
    """This holds even for damaged sets, and for sets that a broker has truncated."""
    whole = records.encode([records.BatchRecord(0, 1000, b"k", b"v", (("h", None), ("h", b"v")))], compression="zstd")
    for data in (whole, whole + whole[:-1], b"\xff" * 70, b""):
        frame = produced(data)
        code, out, err = run("decode", "--records", frame)
        assert (code, err) == (0, "")
        assert run("encode", out) == (0, f"{frame}\n", "")


def test_record_sets_of_kafkas_own_topics(run: Run) -> None:
    key = b"\0\x01\0\x01g\0\x01t\0\0\0\x07"
    frame = produced(records.encode([records.BatchRecord(0, 1000, key, None)]))
    (document,) = values(run("decode", "--records-as", "consumer-offsets", frame).out)
    (batch,) = document["body"]["topicData"][0]["partitionData"][0]["records"]
    assert batch["records"][0]["key"]["body"] == {"group": "g", "topic": "t", "partition": 7}
    assert run("encode", json.dumps(document)).out == f"{frame}\n"


def test_a_control_record_is_shown_with_its_type(run: Run) -> None:
    marker = encode_end_transaction(committed=True, producer_id=5, producer_epoch=0, coordinator_epoch=1, timestamp=1)
    partition = PartitionData(partition_index=0, error_code=0, high_watermark=1, records=marker)
    answer = FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[partition])])
    frame = encode_response(answer, 11, 1)
    (document,) = values(run("decode", "--response", "--as", "Fetch:11", "--records", frame.hex()).out)
    (batch,) = document["body"]["responses"][0]["partitions"][0]["records"]
    assert batch["isControl"] is True
    assert [one["controlType"] for one in batch["records"]] == [ControlType.COMMIT.name]


def test_a_file_without_its_at_sign_is_named(run: Run, tmp_path: Path) -> None:
    path = tmp_path / "sent.bin"
    path.write_bytes(b"\0")
    assert (
        run("decode", str(path)).err
        == f"error: the input is neither hex nor base64; the file of that name is @{path}\n"
    )


WRONG: list[tuple[list[str], str]] = [
    (["00"], "error: a request frame of 1 byte "),
    (["not base64!"], "error: the input is neither hex nor base64\n"),
    ([""], "error: the input is empty\n"),
    (["--from", "hex", "abc"], "error: the input is no hex\n"),
    (["000300000"], "error: the input has an odd number of hex digits\n"),
    (["0x0, 0x3"], "error: the input has an odd number of hex digits\n"),
    (["@missing"], "error: [Errno 2] No such file or directory: 'missing'\n"),
    ([METADATA[:20].hex()], "error: frame: its length is 38, but only 16 bytes are there\n"),
    ([(METADATA + METADATA[:9]).hex()], "error: frame 2 at byte 46: its length is 38, but only 5 bytes are there\n"),
    ([(METADATA + b"\0\0").hex()], "error: frame 2 at byte 42: 2 bytes are too few for its length\n"),
    ([(METADATA + bytes(4)).hex()], "error: frame 2 at byte 46: its length cannot be 0\n"),
    ([METADATA[4:20].hex()], "error: MetadataRequest v12: topics"),
    (["0000000a7fff0000000000000000"], "error: ApiKey 32767 is unknown\n"),
    (["0000000b0003006300000000ffff00"], "error: MetadataRequest has versions 0-13, not 99\n"),
    (["--response", "--as", "7=Metadata:8", ANSWER.hex()], "error: MetadataResponse v8: "),
    (["--response", "--requests", METADATA[:-1].hex(), "00"], "error: request frame 1 at byte 4: its length is 38"),
    (["--response", "--requests", "00000001ff", "00"], "error: request frame 1 at byte 4: a request frame of 1 byte "),
    (["--as", "OffsetCommitKey", "00"], "error: OffsetCommitKey: 1 byte, too few for the two-byte prefix\n"),
    (["--as", "TopicRecord", "010300"], "error: record type 3, but TopicRecord has 2\n"),
    (["--as", "OffsetCommitValue", "0009"], "error: OffsetCommitValue has versions 0-4, not 9\n"),
]
USAGE: list[tuple[list[str], str]] = [
    (["--from", "binary", "abc"], "error: binary input comes from a @file or from - (standard input)\n"),
    (["--as", "Metadata:12", "00"], "error: a request's header says what it is"),
    (["--no-header", "00"], "error: without a header, --as NAME:VERSION must say what it is\n"),
    (["--response", ANSWER.hex()], "error: the request of correlation id 7 is unknown"),
    (["--response", "--as", "Metadata", "00"], "error: 'Metadata' has no version: try Metadata:13\n"),
    (["--response", "--as", "x=Metadata:1", "00"], "error: 'x' is not a correlation id\n"),
    (["--response", "--as", "Metadata:x", "00"], "error: 'x' is not a version\n"),
    (["--response", "--as", "FetchRequest:1", ANSWER.hex()], "error: FetchRequest is not a response\n"),
]


@pytest.mark.parametrize(
    ("arguments", "complaint", "expected"), [*((*row, 1) for row in WRONG), *((*row, 2) for row in USAGE)]
)
def test_an_error_is_one_line(run: Run, arguments: list[str], complaint: str, expected: int) -> None:
    code, _, err = run("decode", *arguments)
    assert code == expected
    assert err.startswith(complaint)
    assert err.count("\n") == 1


def test_frames_before_a_wrong_one_are_shown(run: Run) -> None:
    code, out, err = run("decode", (METADATA + METADATA[:-2]).hex())
    assert code == 1
    assert values(out) == [METADATA_DOCUMENT]
    assert err == "error: frame 2 at byte 46: its length is 38, but only 36 bytes are there\n"
