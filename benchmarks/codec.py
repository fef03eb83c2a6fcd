"""``python -m benchmarks.codec``: the codec alone, beside kafka-python and kio where they are installed.

Every codec decodes the same bytes, and has to encode what it decoded to these bytes again.
"""

from __future__ import annotations

import importlib.util
import time
import timeit
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from io import BytesIO
from typing import Any, NamedTuple

from aiokproto.codec.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from aiokproto.codec.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokproto.codec.schema import Response
from benchmarks.tables import Table, console, show

VERSION = 12
ROUNDS = 8
OURS = "aiokproto"
PEERS = {"kafka-python": "kafka", "kio": "kio"}
"""Distribution → the package it installs."""

Decode = Callable[[bytes], Any]
Encode = Callable[[Any], bytes]


@dataclass(frozen=True)
class Sample:
    """A message to measure with."""

    name: str
    message: Response
    module: str
    """Where kafka-python has it."""

    @property
    def raw(self) -> bytes:
        return self.message.encode(VERSION)


def samples() -> list[Sample]:
    return [
        Sample("MetadataResponse", metadata_response(), "kafka.protocol.metadata"),
        Sample("FetchResponse", fetch_response(), "kafka.protocol.consumer"),
    ]


def metadata_response() -> MetadataResponse:
    """10 brokers, 100 topics of 6 partitions, 3 replicas."""
    brokers = [
        MetadataResponseBroker(node_id=node, host=f"broker-{node}.example.org", port=9092, rack=f"zone-{node % 3}")
        for node in range(10)
    ]
    topics = [
        MetadataResponseTopic(
            error_code=0,
            name=f"topic-number-{number}",
            topic_id=(number + 1).to_bytes(16, "big"),
            partitions=[_partition(index, (number + index) % 10) for index in range(6)],
        )
        for number in range(100)
    ]
    return MetadataResponse(brokers=brokers, cluster_id="Zm9yIG1lYXN1cmluZy4uLg", controller_id=1, topics=topics)


def _partition(index: int, leader: int) -> MetadataResponsePartition:
    nodes = [(leader + offset) % 10 for offset in range(3)]
    return MetadataResponsePartition(
        error_code=0, partition_index=index, leader_id=leader, leader_epoch=7, replica_nodes=nodes, isr_nodes=nodes
    )


def fetch_response() -> FetchResponse:
    """50 partitions with 4 KiB of records each."""
    records = bytes(index & 0xFF for index in range(4096))
    partitions = [
        PartitionData(
            partition_index=index,
            error_code=0,
            high_watermark=1000 + index,
            last_stable_offset=1000 + index,
            log_start_offset=0,
            records=records,
        )
        for index in range(50)
    ]
    return FetchResponse(session_id=1, responses=[FetchableTopicResponse(topic="flights", partitions=partitions)])


def _own(sample: Sample) -> tuple[Decode, Encode]:
    message = type(sample.message)
    return lambda raw: message.decode(raw, VERSION), lambda decoded: bytes(decoded.encode(VERSION))


def _kafka_python(sample: Sample) -> tuple[Decode, Encode]:
    message = getattr(import_module(sample.module), sample.name)
    return lambda raw: message.decode(raw, version=VERSION), lambda decoded: bytes(decoded.encode())


def _kio(sample: Sample) -> tuple[Decode, Encode]:
    serial = import_module("kio.serial")
    api = sample.name.removesuffix("Response").lower()
    message = getattr(import_module(f"kio.schema.{api}.v{VERSION}.response"), sample.name)
    reader, writer = serial.entity_reader(message), serial.entity_writer(message)

    def encode(decoded: Any) -> bytes:
        out = BytesIO()
        writer(out, decoded)
        return out.getvalue()

    return lambda raw: reader(raw, 0)[0], encode


CODECS: Mapping[str, Callable[[Sample], tuple[Decode, Encode]]] = {
    OURS: _own,
    "kafka-python": _kafka_python,
    "kio": _kio,
}


@dataclass(frozen=True)
class Timing:
    """CPU microseconds; no times, and why, where a codec was not measured."""

    codec: str
    message: str
    bytes: int
    decode_us: float | None = None
    encode_us: float | None = None
    note: str = ""


class _Meter:
    """The minimal CPU microseconds of a call: anything above is noise of the machine."""

    def __init__(self, call: Callable[[], object], seconds: float) -> None:
        self._timer = timeit.Timer(call, timer=time.process_time)
        self._number = 1
        while (once := self._timer.timeit(self._number)) < seconds:
            self._number *= 2
        self.us = once / self._number * 1e6

    def run(self) -> None:
        self.us = min(self.us, self._timer.timeit(self._number) / self._number * 1e6)


class _Pair(NamedTuple):
    """A codec at work on a message."""

    decode: _Meter
    encode: _Meter
    note: str


def _pair(codec: str, sample: Sample, seconds: float) -> _Pair | None:
    if codec in PEERS and importlib.util.find_spec(PEERS[codec]) is None:
        return None
    raw = sample.raw
    decode, encode = CODECS[codec](sample)
    decoded = decode(raw)
    note = "" if encode(decoded) == raw else "encodes other bytes than it decoded"
    return _Pair(_Meter(lambda: decode(raw), seconds), _Meter(lambda: encode(decoded), seconds), note)


def _timing(codec: str, sample: Sample, pair: _Pair | None) -> Timing:
    size = len(sample.raw)
    if pair is None:
        return Timing(codec, sample.name, size, note="not installed")
    return Timing(codec, sample.name, size, pair.decode.us, pair.encode.us, pair.note)


def measure(*, quick: bool = False) -> dict[str, Any]:
    """All timings, as in the JSON file. The codecs take turns, so that a slow moment of the machine affects all."""
    seconds = 0.01 if quick else 0.1
    pairs = [(codec, sample, _pair(codec, sample, seconds)) for sample in samples() for codec in CODECS]
    for _ in range(ROUNDS):
        for _, _, pair in pairs:
            if pair is not None:
                pair.decode.run()
                pair.encode.run()
    return {
        "versions": {codec: _version(codec) for codec in CODECS},
        "timings": [asdict(_timing(*each)) for each in pairs],
    }


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except ModuleNotFoundError:
        return None


def tables(results: Mapping[str, Any]) -> list[Table]:
    ours = {timing["message"]: timing for timing in results["timings"] if timing["codec"] == OURS}
    rows = []
    for timing in results["timings"]:
        base = ours[timing["message"]]
        figures = []
        for what in ("decode_us", "encode_us"):
            took = timing[what]
            figures += ["-", "-"] if took is None else [f"{took:,.1f}", f"{took / base[what]:.2f}"]
        version = results["versions"][timing["codec"]] or ""
        what = f"{timing['message']}, {timing['bytes']:,} B"
        rows.append([what, f"{timing['codec']} {version}", *figures, timing["note"]])
    figures = ["decode", "decode ratio", "encode", "encode ratio"]
    title = f"The codec: responses of version {VERSION}, CPU µs"
    return [Table(title, ("message", "codec", *figures, "note"), rows, figures)]


if __name__ == "__main__":
    for table in tables(measure()):
        show(console(), table)
