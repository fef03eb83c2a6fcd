"""The verb `encode`."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

import pytest

from aiokproto.cli.codec.main import main
from aiokproto.codec.frames import encode_request, encode_response
from aiokproto.codec.messages.controlled_shutdown import ControlledShutdownRequest
from aiokproto.codec.messages.heartbeat import HeartbeatResponse
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.registry import api_keys, request, response
from aiokproto.codec.schema import Request
from tests.codec.fill import fill
from tests.codec.tool.conftest import Run

METADATA = bytes(encode_request(MetadataRequest(topics=None), 4, 1, "me"))
BODY = '{"topics": null, "allowAutoTopicCreation": true}'


@pytest.mark.parametrize("key", api_keys())
def test_decoded_messages_are_encoded_unchanged(run: Run, key: int) -> None:
    """Every version of every API, as a stream of requests and one of responses."""
    versions = range(request(key).versions.lowest, request(key).versions.highest + 1)
    requests = b"".join(_request(request(key), version) for version in versions)
    answered = b"".join(bytes(encode_response(fill(response(key), v, 1), v, v)) for v in versions)  # type: ignore[arg-type]
    given = [f"--as={version}={key}:{version}" for version in versions]
    for options, data in (([], requests), (["--response", *given], answered)):
        code, out, err = run("decode", "--records-base64", "--framing", "length", *options, data.hex())
        assert (code, err) == (0, "")
        code, out, err = run("encode", "-", stdin=out.encode())
        assert (code, err) == (0, "")
        assert bytes.fromhex(out.replace("\n", "")) == data


def _request(message: type[Request[Any]], version: int) -> bytes:
    made: Any = fill(message, version, 1)
    return bytes(encode_request(made, version, version, "" if message.header_version(version) == 0 else "client"))


def test_a_body_gets_a_header(run: Run) -> None:
    options = ["--as", "Metadata:4", "--client-id", "me", "--correlation-id", "1"]
    assert run("encode", *options, BODY) == (0, f"{METADATA.hex()}\n", "")
    assert run("encode", *options, "--no-length", BODY).out == f"{METADATA[4:].hex()}\n"
    assert run("encode", *options, "--no-header", BODY).out == f"{MetadataRequest(topics=None).encode(4).hex()}\n"
    answer = encode_response(HeartbeatResponse(error_code=0), 4, 9)
    out = run("encode", "--as", "Heartbeat:4", "--response", "--correlation-id", "9", '{"errorCode": 0}').out
    assert bytes.fromhex(out) == answer


def test_a_header_without_client_id(run: Run) -> None:
    out = run("encode", "--as", "ControlledShutdown:0", '{"brokerId": 1}').out
    assert bytes.fromhex(out) == encode_request(ControlledShutdownRequest(broker_id=1), 0, 0, "")


def test_a_payload_has_no_header(run: Run) -> None:
    key = '{"group": "g", "topic": "t", "partition": 7}'
    assert run("encode", "--as", "OffsetCommitKey:0", key).out == "00016700017400000007\n"
    document = json.dumps({"payload": "OffsetCommitKey", "version": 0, "prefix": 1, "body": json.loads(key)})
    assert run("encode", document).out == "000100016700017400000007\n"


def test_trailing_bytes_are_written_again(run: Run) -> None:
    data = f"{METADATA[4:].hex()}beef"
    document = run("decode", "--framing", "none", data).out
    assert run("encode", "--no-length", document).out == f"{data}\n"


@pytest.mark.parametrize("to", ["base64", "binary"])
def test_other_forms_of_output(to: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "body.json"
    file.write_text(BODY * 2)
    out = io.TextIOWrapper(io.BytesIO())
    monkeypatch.setattr(sys, "stdout", out)
    code = main(["encode", "--to", to, "--as", "Metadata:4", "--client-id", "me", "--correlation-id", "1", f"@{file}"])
    out.flush()
    assert code == 0
    written = out.buffer.getvalue()
    assert written == {"binary": METADATA * 2, "base64": b"AAAAEQADAAQAAAABAAJtZf////8B\n" * 2}[to]


HEADER = '"header": {"requestApiKey": 3, "requestApiVersion": 4, "correlationId": 1}'
PARTITION = '{"index": 0, "records": [{"baseOffset": 3}]}'
PRODUCE = f'{{"acks": 1, "timeoutMs": 1, "topicData": [{{"name": "t", "partitionData": [{PARTITION}]}}]}}'
WRONG = [
    (["{"], "error: not JSON: Expecting property name"),
    (["-"], "error: the input is empty\n"),
    (["[" * 100_000], "error: not JSON: "),
    (["@missing"], "error: [Errno 2] No such file"),
    (["--as", "Metadata:4", "[]"], "error: MetadataRequest v4: body: expected an object, got an array\n"),
    (["--as", "Metadata:4", '{"topics": [{"name": 1}]}'], "error: MetadataRequest v4: topics[0].name: expected string"),
    (
        ["--as", "Metadata:4", BODY + '{"topic": null}'],
        "error: document 2: MetadataRequest v4: topic: Metadata",
    ),
    (["--as", "Metadata:4", BODY + "nonsense"], "error: not JSON: Expecting value"),
    (
        ["--as", "Metadata:0", '{"topics": [], "allowAutoTopicCreation": false}'],
        "error: MetadataRequest v0: allow_auto",
    ),
    (['{"request": "Metadata", "body": {}}'], "error: '(none given)' is not a version\n"),
    (['{"request": "Nothing", "version": 1, "body": {}}'], "error: no API or message is called 'Nothing'"),
    (['{"request": "EndTxnMarker", "version": 0, "body": {}}'], "error: EndTxnMarker is not a request\n"),
    (
        ['{"request": "Metadata", "version": 4, "bodi": 1, "body": {}}'],
        "error: the document has unknown members: bodi\n",
    ),
    (
        [f'{{"request": "Metadata", "version": 5, {HEADER}, "body": {BODY}}}'],
        "error: the header says ApiKey 3 v4, the document MetadataRequest v5, which is ApiKey 3\n",
    ),
    (
        ['{"payload": "EndTxnMarker", "version": 0, "header": {}, "body": {"coordinatorEpoch": 1}}'],
        "error: EndTxnMarker has no header\n",
    ),
    (
        ['{"payload": "EndTxnMarker", "version": 0, "prefix": "x", "body": {"coordinatorEpoch": 1}}'],
        "error: prefix 'x' is not an int16\n",
    ),
    (
        [f'{{"request": "Metadata", "version": 4, "trailingBytes": 1, "body": {BODY}}}'],
        "error: trailingBytes is not base64\n",
    ),
    (
        ['{"payload": "EndTxnMarker", "version": 0, "frameVersion": 1, "body": {"coordinatorEpoch": 1}}'],
        "error: EndTxnMarker has no frame of version 1\n",
    ),
    (['{"records": [{"value": 1}]}'], "error: records[0].value: expected base64, got 1\n"),
    (
        ["--as", "Produce:3", PRODUCE],
        "error: ProduceRequest v3: topicData[0].partitionData[0].records[0].records: missing\n",
    ),
]
USAGE = [
    (["{}"], "error: the JSON does not name its message: give --as NAME:VERSION\n"),
    (["--as", "OffsetCommitKey", "{}"], "error: OffsetCommitKey needs a version: --as OffsetCommitKey:0\n"),
]


@pytest.mark.parametrize(
    ("arguments", "complaint", "expected"), [*((*row, 1) for row in WRONG), *((*row, 2) for row in USAGE)]
)
def test_an_error_is_one_line(run: Run, arguments: list[str], complaint: str, expected: int) -> None:
    code, _, err = run("encode", *arguments)
    assert code == expected
    assert err.startswith(complaint)
    assert err.count("\n") == 1
