"""``python -m benchmarks.codec``: the codec and its import time, beside kafka-python and kio where they are installed.

Every codec decodes the same bytes, and has to encode what it decoded to these bytes again.
"""

from __future__ import annotations

import importlib.util
import os
import resource
import statistics
import subprocess
import sys
import time
import timeit
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib import import_module
from importlib.metadata import version
from io import BytesIO
from typing import Any

from rich.console import Console
from rich.table import Table

from aiokproto.codec.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData
from aiokproto.codec.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokproto.codec.schema import Response
from benchmarks import report, runner

VERSION = 12
OURS = "aiokproto"
PEERS = {"kafka-python": "kafka", "kio": "kio"}
"""Distribution → the package it installs."""
EVERY_MESSAGE = (
    "from aiokproto.codec import registry\n"
    "for key in registry.api_keys(): registry.request(key), registry.response(key)"
)
IMPORTS = {
    "python (nothing)": "pass",
    "aiokproto": "import aiokproto",
    "aiokproto: one message": "import aiokproto.codec.messages.metadata",
    "aiokproto: every message": EVERY_MESSAGE,
    "aiokproto: every message and payload": (
        f"{EVERY_MESSAGE}\nfor name in registry.payload_names(): registry.lookup(name)"
    ),
    "aiokproto: Producer and Consumer": "from aiokproto import Consumer, Producer",
    "asyncio": "import asyncio",
    "aiokafka": "import aiokafka",
    "confluent-kafka": "import confluent_kafka",
    "kafka-python": "import kafka",
    "kio: one message": "import kio.schema.metadata.v12.response, kio.serial",
}

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


def _timing(codec: str, sample: Sample, seconds: float) -> Timing:
    raw = sample.raw
    nothing = Timing(codec, sample.name, len(raw), note="not installed")
    if codec in PEERS and importlib.util.find_spec(PEERS[codec]) is None:
        return nothing
    decode, encode = CODECS[codec](sample)
    decoded = decode(raw)
    note = "" if encode(decoded) == raw else "encodes other bytes than it decoded"
    return Timing(
        codec, sample.name, len(raw), _best(lambda: decode(raw), seconds), _best(lambda: encode(decoded), seconds), note
    )


def _best(call: Callable[[], object], seconds: float) -> float:
    """The least CPU microseconds that a call takes: what is above is the machine's doing."""
    timer = timeit.Timer(call, timer=time.process_time)
    number = 1
    while (once := timer.timeit(number)) < seconds / 5:
        number *= 2
    return min(once, *timer.repeat(4, number)) / number * 1e6


def _imports(repeat: int) -> Iterator[tuple[str, float | None]]:
    """What each import takes in milliseconds of a fresh interpreter, the interpreter itself included; median."""
    for name, code in IMPORTS.items():
        # The first writes the bytecode that all later ones read, as an installed package has it.
        times = [_cpu_seconds(code) for _ in range(repeat + 1)][1:]
        known = [seconds * 1e3 for seconds in times if seconds is not None]
        yield name, statistics.median(known) if known else None


def _cpu_seconds(code: str) -> float | None:
    """CPU seconds of a process that runs ``code``, or None if it cannot."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, cwd=runner.ROOT, env=environment, check=False
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return None if done.returncode else after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(*, quick: bool = False) -> dict[str, Any]:
    """All timings, as JSON has them."""
    seconds = 0.05 if quick else 0.5
    timings = [asdict(_timing(codec, sample, seconds)) for sample in samples() for codec in CODECS]
    return {
        "versions": {codec: _version(codec) for codec in CODECS},
        "timings": timings,
        "imports_ms": dict(_imports(2 if quick else 7)),
    }


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except ModuleNotFoundError:
        return None


def show(out: Console, results: Mapping[str, Any]) -> None:
    table = Table("message", "codec", title=f"Codec, responses of version {VERSION}, CPU µs", title_justify="left")
    for heading in ("decode", "ratio", "encode", "ratio"):
        table.add_column(heading, justify="right")
    table.add_column("note")
    ours = {timing["message"]: timing for timing in results["timings"] if timing["codec"] == OURS}
    for timing in results["timings"]:
        base = ours[timing["message"]]
        figures = []
        for what in ("decode_us", "encode_us"):
            took = timing[what]
            figures += ["-", "-"] if took is None else [f"{took:,.1f}", f"{took / base[what]:.2f}"]
        version = results["versions"][timing["codec"]] or ""
        table.add_row(
            f"{timing['message']}, {timing['bytes']:,} B", f"{timing['codec']} {version}", *figures, timing["note"]
        )
    out.print(table)
    table = Table("import", title="Interpreter start and import, CPU ms", title_justify="left")
    table.add_column("ms", justify="right")
    for name, took in results["imports_ms"].items():
        table.add_row(name, "cannot be imported" if took is None else f"{took:.0f}")
    out.print(table)


if __name__ == "__main__":
    show(report.console(), measure())
