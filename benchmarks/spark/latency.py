"""How long rows take through a stream that starts each batch as soon as the last one is done."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Sequence
from datetime import datetime
from threading import Thread
from typing import TYPE_CHECKING, Any

from benchmarks import values
from benchmarks.runner import percentiles
from benchmarks.topics import Fill, Topics

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PACE = 0.005
"""Seconds between two rows."""
WARM_UP = 0.4
"""The part of the rows that is not counted: batches that Spark compiles for."""


def measure(spark: SparkSession, servers: str, connector: str, seconds: float) -> dict[str, float]:
    """Median and 99th percentile (ms) of rows, from sending to the end of their batch; and those of batches."""
    topics, name = Topics(servers), f"bench-spark-{time.time_ns()}"
    topics.create(name, 1)
    try:
        sent = _stream(spark, servers, connector, name, topics, seconds)
    finally:
        topics.delete(name)
        topics.close()
    return sent


def _stream(
    spark: SparkSession, servers: str, connector: str, name: str, topics: Topics, seconds: float
) -> dict[str, float]:
    given = {"kafka.bootstrap.servers": servers, "subscribe": name, "startingOffsets": "earliest"}
    rows = spark.readStream.format(connector).options(**given).load()
    sent: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        writing = rows.writeStream.format("noop").option("checkpointLocation", folder)
        query = writing.trigger(processingTime="0 seconds").start()
        try:
            sender = Thread(target=_send, args=(topics, name, int(seconds / PACE), sent))
            sender.start()
            sender.join()
            query.processAllAvailable()
            progress = [one for one in query.recentProgress if one["numInputRows"]]
        finally:
            query.stop()
    return _figures(sent, progress)


def _send(topics: Topics, name: str, count: int, sent: list[float]) -> None:
    value = values.rows(100)[:1]
    for _ in range(count):
        # Before the request: a batch can end before its response has come.
        sent.append(time.time())
        topics.fill(name, Fill(1, value, 1))
        time.sleep(max(sent[0] + PACE * len(sent) - time.time(), 0))


def _figures(sent: list[float], progress: Sequence[Any]) -> dict[str, float]:
    done, waits, took = 0, [], []
    for one in progress:
        count, durations = one["numInputRows"], one["durationMs"]
        began = datetime.fromisoformat(str(one["timestamp"]).replace("Z", "+00:00")).timestamp()
        ended = began + durations["triggerExecution"] / 1000
        if done >= WARM_UP * len(sent):
            took.append(durations["triggerExecution"] / 1000)
            waits += [ended - row for row in sent[done : done + count]]
        done += count
    rows, batches = percentiles(waits), percentiles(took)
    return {
        "row p50 ms": rows["p50 ms"],
        "row p99 ms": rows["p99 ms"],
        "batch p50 ms": batches["p50 ms"],
        "batch p99 ms": batches["p99 ms"],
    }
