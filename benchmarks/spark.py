"""``python -m benchmarks.spark``: reading and writing with PySpark, here and by Spark's own connector, and loading.

Seconds and CPU are those of all processes of Spark: its Java process and its Python workers, not the broker's.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from aiokproto.spark import load
from benchmarks import values
from benchmarks.__main__ import broker_at
from benchmarks.tables import Table, console, show
from benchmarks.topics import Fill, Topics
from tests.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Ways = Mapping[str, Callable[[], object]]

PARTITIONS = 4
TICKS = os.sysconf("SC_CLK_TCK")
TUNED = {
    "kafka.max.poll.records": "20000",
    "kafka.max.partition.fetch.bytes": str(8 << 20),
    "kafka.fetch.max.bytes": str(8 << 20),
}
"""With its defaults Spark's own connector polls 500 records at a time."""
TUNED_WRITES = {
    "kafka.linger.ms": "5",
    "kafka.batch.size": "1000000",
    "kafka.buffer.memory": str(128 << 20),
}


@contextmanager
def session(jars: Path | None) -> Iterator[SparkSession]:
    with tempfile.TemporaryDirectory() as folder:
        # One task per core, so that tasks do not compete.
        jar_list = ",".join(map(str, sorted(jars.glob("*.jar")))) if jars else ""
        spark = start_session(Path(folder), {"spark.jars": jar_list} if jar_list else {})
        try:
            yield spark
        finally:
            spark.stop()


def descendants(process: int) -> Iterator[int]:
    """The processes that a process has started, and those that these have started."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        if fields := _stat(int(folder.name)):
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
    waiting = [process]
    while waiting:
        found = parents.get(waiting.pop(), [])
        yield from found
        waiting.extend(found)


def cpu_seconds() -> float:
    """Of all processes that this one has started, and of those of theirs that have ended."""
    used = 0
    for process in descendants(os.getpid()):
        if fields := _stat(process):
            used += sum(map(int, fields[11:15]))
    return used / TICKS


def _stat(process: int) -> list[str] | None:
    """The fields after the name in ``/proc/<pid>/stat``; None if the process has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None


def measured(work: Callable[[], object], rows: int, rounds: int) -> tuple[float, float]:
    """Million rows a second, and CPU microseconds a row: medians. The first round warms up."""
    rates, costs = [], []
    for _ in range(rounds + 1):
        cpu, wall = cpu_seconds(), time.perf_counter()
        work()
        rates.append(rows / (time.perf_counter() - wall) / 1e6)
        costs.append((cpu_seconds() - cpu) / rows * 1e6)
    return statistics.median(rates[1:]), statistics.median(costs[1:])


def ways(spark: SparkSession, servers: str, topic: str, *, official: bool) -> Ways:
    def read(connector: str, **options: str) -> Callable[[], object]:
        given = {"kafka.bootstrap.servers": servers, "subscribe": topic, **options}

        def run() -> None:
            spark.read.format(connector).options(**given).load().write.format("noop").mode("overwrite").save()

        return run

    def loaded() -> None:
        with tempfile.TemporaryDirectory() as out:
            load(spark, topic, out, bootstrap_servers=servers)

    found = {"aiokproto": read("aiokproto"), "aiokproto, value only": read("aiokproto", columns="value")}
    if official:
        found |= {"Spark's own": read("kafka"), "Spark's own, tuned": read("kafka", **TUNED)}
    return {**found, "aiokproto.spark.load": loaded}


def writers(spark: SparkSession, servers: str, topic: str, size: int, count: int, *, official: bool) -> Ways:
    """Write rows that cost Spark nothing to make, so that what is measured is the way into the topic."""

    def write(connector: str, **options: str) -> Callable[[], object]:
        given = {"kafka.bootstrap.servers": servers, "topic": topic, **options}

        def run() -> None:
            rows = spark.range(0, count, 1, 2).selectExpr(f"X'{'78' * size}' AS value")
            rows.write.format(connector).options(**given).mode("append").save()

        return run

    found = {"aiokproto, write": write("aiokproto")}
    if official:
        found |= {"Spark's own, write": write("kafka"), "Spark's own, write, tuned": write("kafka", **TUNED_WRITES)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="use this cluster instead of starting real Kafka")
    parser.add_argument("--mib", type=int, default=256, help="of values in each topic (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="(default %(default)s)")
    parser.add_argument("--jars", type=Path, metavar="DIR", help="Spark's own connector: measure it, too")
    arguments = parser.parse_args()
    out, rows = console(), []
    with broker_at(arguments.bootstrap) as (servers, name, _), session(arguments.jars) as spark:
        for size in (100, 1024):
            count = arguments.mib * (1 << 20) // size
            topics, topic = Topics(servers), f"bench-spark-{size}-{time.time_ns()}"
            topics.create(topic, PARTITIONS)
            topics.fill(topic, Fill(count, values.rows(size), 1 << 17))
            official = arguments.jars is not None
            # Writes come last: what they add would be read, too.
            every = {
                **ways(spark, servers, topic, official=official),
                **writers(spark, servers, topic, size, count, official=official),
            }
            for way, work in every.items():
                rate, cost = measured(work, count, arguments.rounds)
                rows.append((f"{size} B", way, f"{rate:.2f}", f"{cost:.2f}"))
            topics.delete(topic)
            topics.close()
    headings = ("values", "way", "million rows/s", "CPU µs a row")
    show(out, Table(f"PySpark, 2 tasks at a time; {name}", headings, rows, headings[2:]))


if __name__ == "__main__":
    main()
