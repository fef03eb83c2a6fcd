"""A query in its own processes, which are killed (-9), all of them, at a chosen step of a batch.

Run as ``python -m tests.spark.stream.killed_query '{"topic": …}'``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark.sql.types import StructType

from aiokproto.spark.options import parse_stream_options
from aiokproto.spark.source import KafkaDataSource
from aiokproto.spark.stream.stream_reader import KafkaStreamReader
from tests.spark.killable import run_killable
from tests.spark.session import start_session
from tools.setup.project import ROOT

CALLS = ("initialOffset", "latestOffset", "partitions", "read")
STEPS = tuple(f"{when} {call}" for call in CALLS for when in ("before", "after"))
_STEP = "KILLED_AT"
_GROUP = "KILLED_GROUP"


@dataclass(frozen=True)
class KilledQuery:
    """The work, and the step at which it is killed.

    Attributes:
        topic: The topic to read.
        bootstrap_servers: The cluster.
        folder: Where the rows and the checkpoint are.
        at: One of ``STEPS``; empty: it is not killed.
    """

    topic: str
    bootstrap_servers: str
    folder: str
    at: str = ""

    def run(self) -> int:
        """Run it until all that is there is read; the exit status, minus the signal that killed it."""
        return run_killable("tests.spark.stream.killed_query", json.dumps(asdict(self)))


def step(name: str) -> None:
    if os.environ.get(_STEP) == name:
        os.killpg(int(os.environ[_GROUP]), signal.SIGKILL)


class KilledReader(KafkaStreamReader):
    def initialOffset(self) -> dict[str, Any]:
        step("before initialOffset")
        found = super().initialOffset()
        step("after initialOffset")
        return found

    def latestOffset(self, start: dict[str, Any] | None = None, limit: Any = None) -> dict[str, Any]:
        step("before latestOffset")
        found = super().latestOffset(start, limit)
        step("after latestOffset")
        return found

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Any:
        step("before partitions")
        found = super().partitions(start, end)
        step("after partitions")
        return found

    def read(self, partition: Any) -> Any:
        step("before read")
        yield from super().read(partition)
        step("after read")


class KilledSource(KafkaDataSource):
    @classmethod
    def name(cls) -> str:
        return "killed"

    def streamReader(self, schema: StructType) -> KilledReader:
        return KilledReader(parse_stream_options(self.options))


def main(query: KilledQuery, warehouse: Path) -> None:
    os.environ |= {_STEP: query.at, _GROUP: str(os.getpgid(0))}
    spark = start_session(warehouse, {"spark.executorEnv.PYTHONPATH": str(ROOT)})
    spark.dataSource.register(KilledSource)
    options = {
        "kafka.bootstrap.servers": query.bootstrap_servers,
        "subscribe": query.topic,
        "startingOffsets": "earliest",
        "maxOffsetsPerTrigger": "4",
    }
    running = (
        spark.readStream.format("killed")
        .options(**options)
        .load()
        .select("partition", "offset")
        .writeStream.option("checkpointLocation", f"{query.folder}/checkpoint")
        .trigger(availableNow=True)
        .start(f"{query.folder}/rows")
    )
    running.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(KilledQuery(**json.loads(sys.argv[1])), Path(sys.argv[2]))
