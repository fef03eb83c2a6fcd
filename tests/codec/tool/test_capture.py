"""A real exchange, recorded, decoded by the tool, and by Wireshark as a second opinion."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from base64 import b64decode
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Broker
from tests.codec.tool.capture import Conversation, recorder, write_pcap
from tests.codec.tool.conftest import Run

# Wireshark 4.0 can read these versions of each API, and the exchange uses no others.
NEWEST = {0: 8, 1: 11, 2: 5, 3: 9, 8: 8, 9: 7, 10: 3, 11: 7, 12: 4, 13: 4, 14: 5, 22: 3}


@pytest.fixture
async def conversations() -> list[Conversation]:
    """Records produced, and consumed by a group."""
    async with Broker() as broker:
        await broker.create_topic("captured")
        async with recorder(broker.bootstrap_servers, NEWEST) as recording:
            # Wireshark 4.0 doesn't know the cluster and node in ApiVersions (KIP-1242).
            options: dict[str, Any] = {
                "bootstrap_servers": f"127.0.0.1:{recording.port}",
                "metadata_cluster_check_enable": False,
            }
            async with Producer(client_id="writer", **options) as producer:
                await producer.send_many("captured", [b"first", b"second"])
            async with Consumer(
                "captured", client_id="reader", group_id="readers", auto_offset_reset="earliest", **options
            ) as consumer:
                async for record in consumer:
                    if record.value == b"second":
                        break
    return [one for one in recording.conversations if one.pieces]


def decoded(run: Run, conversation: Conversation, tmp_path: Path) -> tuple[list[Any], list[Any]]:
    """Return requests and responses of a connection, as the tool prints them."""
    sent, received = tmp_path / "sent", tmp_path / "received"
    sent.write_bytes(conversation.stream(sent=True))
    received.write_bytes(conversation.stream(sent=False))
    found = []
    for options in ([f"@{sent}"], ["--response", "--requests", f"@{sent}", f"@{received}"]):
        code, out, err = run("decode", "--lines", "--records", *options)
        assert (code, err) == (0, "")
        found.append([json.loads(line) for line in out.splitlines()])
    return found[0], found[1]


def test_a_captured_exchange(run: Run, conversations: list[Conversation], tmp_path: Path) -> None:
    exchanges = [decoded(run, conversation, tmp_path) for conversation in conversations]
    requests = [one for sent, _ in exchanges for one in sent]
    answered = [one for _, responses in exchanges for one in responses]
    assert {"ApiVersions", "Metadata", "Produce", "FindCoordinator", "JoinGroup", "Fetch", "OffsetCommit"} <= {
        one["request"] for one in requests
    }
    (produced,) = [one for one in requests if one["request"] == "Produce"]
    (batch,) = produced["body"]["topicData"][0]["partitionData"][0]["records"]
    assert [record["value"] for record in batch["records"]] == ["Zmlyc3Q=", "c2Vjb25k"]
    fetched = [
        record["value"]
        for one in answered
        if one["response"] == "Fetch"
        for topic in one["body"]["responses"]
        for partition in topic["partitions"]
        for batch in partition["records"] or []
        for record in batch["records"]
    ]
    assert fetched == ["Zmlyc3Q=", "c2Vjb25k"]


@pytest.mark.skipif(shutil.which("tshark") is None, reason="tshark is not installed")
def test_wireshark_reads_the_same(run: Run, conversations: list[Conversation], tmp_path: Path) -> None:
    capture = tmp_path / "exchange.pcap"
    write_pcap(capture, conversations)
    ours = [one for conversation in conversations for one in in_order(run, conversation, tmp_path)]
    theirs = dissected(capture)
    assert len(theirs) == len(ours) > 20
    compared = set()
    for text, document in zip(theirs, ours, strict=True):
        kind = "request" if "request" in document else "response"
        name = document[kind]
        title = f"Kafka ({'Offsets' if name == 'ListOffsets' else name} v{document['version']} {kind.title()})"
        assert text.splitlines()[0] == title
        header = document["header"]
        assert values_of(text, "Correlation ID") == [str(header["correlationId"])]
        assert values_of(text, "Client ID") == ([header["clientId"]] if kind == "request" else [])
        # Wireshark 4.0 knows only the header of later versions of ApiVersions.
        assert name == "ApiVersions" or "Malformed" not in text
        for label, key, shown in SAME.get((name, kind), ()):
            assert values_of(text, label) == [shown(value) for value in found(document["body"], key)], title
            compared.add((name, kind))
    assert compared == set(SAME)


def in_order(run: Run, conversation: Conversation, tmp_path: Path) -> list[Any]:
    """Return the tool's documents in the order in which the frames went over the connection."""
    requests, responses = map(iter, decoded(run, conversation, tmp_path))
    return [next(requests if piece.sent else responses) for piece in conversation.pieces]


def dissected(capture: Path) -> list[str]:
    """Return what Wireshark makes of each packet, from the line that names the message."""
    command = ["tshark", "-r", str(capture), "-2", "-V", "-O", "kafka"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [f"Kafka ({part}" for part in text.split("\nKafka (")[1:]]


def values_of(text: str, label: str) -> list[str]:
    return re.findall(rf"^ *{label}: (.*)$", text, re.MULTILINE)


def found(data: Any, key: str) -> list[Any]:
    """Yield the values of a key, at any level of a document."""
    if isinstance(data, list):
        return [value for item in data for value in found(item, key)]
    if not isinstance(data, dict):
        return []
    return [data[key]] if key in data else [value for item in data.values() for value in found(item, key)]


def crc(value: int) -> str:
    return f"{value:#010x}"


def quoted(value: str) -> str:
    return f'"{b64decode(value).decode()}"'


def as_hex(value: str) -> str:
    return b64decode(value).hex()


# API and kind → Wireshark's label, our name, and how Wireshark shows the value.
SAME: dict[tuple[str, str], list[tuple[str, str, Callable[[Any], str]]]] = {
    ("Produce", "request"): [
        ("Topic Name", "name", str),
        ("Timeout", "timeoutMs", str),
        ("CRC32", "crc", crc),
        ("Value", "value", quoted),
    ],
    ("Produce", "response"): [("Topic Name", "name", str), ("Offset", "baseOffset", str)],
    ("Fetch", "request"): [("Topic Name", "topic", str), ("Offset", "fetchOffset", str)],
    ("Fetch", "response"): [
        ("Fetch Session ID", "sessionId", str),
        ("Last Stable Offset", "lastStableOffset", str),
        ("CRC32", "crc", crc),
        ("Value", "value", quoted),
    ],
    ("JoinGroup", "request"): [
        ("Consumer Group", "groupId", str),
        ("Session Timeout", "sessionTimeoutMs", str),
        ("Protocol Metadata", "metadata", as_hex),
    ],
    ("OffsetCommit", "request"): [("Topic Name", "name", str), ("Offset", "committedOffset", str)],
    ("InitProducerId", "response"): [("Producer ID", "producerId", str)],
}
