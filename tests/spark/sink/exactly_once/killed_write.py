"""A query that writes exactly once, in its own processes, which are killed (-9) at a chosen step of a batch.

Run as ``python -m tests.spark.sink.exactly_once.killed_write '{"source": …}' WAREHOUSE``.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pyspark import TaskContext
from pyspark.sql.datasource import WriterCommitMessage
from pyspark.sql.types import StructType

from aiokproto.spark.sink.exactly_once.coordinator import Coordinator
from aiokproto.spark.sink.exactly_once.state_topic import StateTopic
from aiokproto.spark.sink.exactly_once.transactions import Transactions
from aiokproto.spark.sink.exactly_once.writers import TransactionalStreamWriter
from aiokproto.spark.sink.options import parse_write_options
from aiokproto.spark.source import KafkaDataSource
from tests.spark.killable import run_killable
from tests.spark.session import start_session
from tools.setup.project import ROOT

_STEP, _GROUP = "KILLED_AT", "KILLED_GROUP"

DRIVER = (
    "before plan",
    "after plan",
    "before write",
    "after write",
    "before state 0",
    "after state 0",
    "before commit",
    "after commit",
    "before state 1",
    "after state 1",
)
"""Where all processes are killed. ``state 0`` is the intent, ``commit`` the transactions, ``state 1`` is done."""

TASK = ("task before rows", "task after rows")
"""Where the Python worker of a first attempt is killed: Spark runs the task again."""


@dataclass(frozen=True)
class KilledWrite:
    """The work, and the step at which it is killed.

    Attributes:
        source: The topic to read.
        target: The topic to write.
        bootstrap_servers: The cluster.
        checkpoint: The folder of the checkpoint.
        at: One of the steps; empty: it is not killed.
    """

    source: str
    target: str
    bootstrap_servers: str
    checkpoint: str
    at: str = ""

    def run(self) -> int:
        """Run it until all that is there is written; the exit status, minus the signal that killed it."""
        return run_killable("tests.spark.sink.exactly_once.killed_write", json.dumps(asdict(self)))


def step(name: str) -> None:
    if os.environ.get(_STEP) == name:
        os.killpg(int(os.environ[_GROUP]), signal.SIGKILL)


def around(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
    async def called(*args: Any, **options: Any) -> Any:
        step(f"before {name}")
        found = await call(*args, **options)
        step(f"after {name}")
        return found

    return called


def patched_state() -> None:
    """Number the records that a commit writes, in the process that commits."""
    writes = 0
    original = StateTopic.write

    async def write(self: StateTopic, *records: Any) -> Any:
        nonlocal writes
        number, writes = writes, writes + 1
        return await around(f"state {number}", original)(self, *records)

    StateTopic.write = write  # type: ignore[method-assign]
    Transactions.commit = around("commit", Transactions.commit)  # type: ignore[method-assign]


class KilledWriter(TransactionalStreamWriter):
    def __getstate__(self) -> dict[str, Any]:
        if self._plan is None:
            Coordinator.plan = around("plan", Coordinator.plan)  # type: ignore[method-assign]
        return super().__getstate__()

    def write(self, iterator: Iterator[Any]) -> Any:
        step("before write")
        context = TaskContext.get()
        assert context is not None
        first = context.attemptNumber() == 0

        def rows() -> Iterator[Any]:
            if first and os.environ.get(_STEP) == "task before rows":
                os.kill(os.getpid(), signal.SIGKILL)
            yield from iterator

        written = super().write(rows())
        if first and os.environ.get(_STEP) == "task after rows":
            os.kill(os.getpid(), signal.SIGKILL)
        step("after write")
        return written

    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        patched_state()
        super().commit(messages, batchId)


class KilledSource(KafkaDataSource):
    @classmethod
    def name(cls) -> str:
        return "killed"

    def streamWriter(self, schema: StructType, overwrite: bool) -> KilledWriter:
        options = parse_write_options(self.options, stream=True)
        assert options.transactions is not None
        columns = [(field.name, field.dataType.simpleString()) for field in schema.fields]
        return KilledWriter(options, options.transactions, columns)


def main(query: KilledWrite, warehouse: Path) -> None:
    os.environ |= {_STEP: query.at, _GROUP: str(os.getpgid(0))}
    # A local cluster fails a job with its first failed task, unless the master says otherwise.
    settings = {"spark.executorEnv.PYTHONPATH": str(ROOT), "spark.master": "local[2,3]"}
    spark = start_session(warehouse, settings)
    spark.dataSource.register(KilledSource)
    options = {"kafka.bootstrap.servers": query.bootstrap_servers}
    reading = {**options, "subscribe": query.source, "startingOffsets": "earliest", "maxOffsetsPerTrigger": "4"}
    writing = {**options, "topic": query.target, "semantics": "exactly_once", "checkpointLocation": query.checkpoint}
    rows = spark.readStream.format("aiokproto").options(**reading).load().select("value")
    running = rows.writeStream.format("killed").options(**writing).trigger(availableNow=True).start()
    running.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    main(KilledWrite(**json.loads(sys.argv[1])), Path(sys.argv[2]))
