"""A session of Spark, and the CPU time of its processes: Java's, and the Python workers that it starts."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.runner import ROOT
from tests.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TICKS = os.sysconf("SC_CLK_TCK")


@contextmanager
def session(cores: int, jars: Path | None, *, tcp: bool = False) -> Iterator[SparkSession]:
    """A session with a task for each of ``cores``, and with Spark's own connector if ``jars`` are given.

    ``tcp``: Java and Python are connected by TCP, as is Spark's default, and not by Unix domain sockets.
    """
    # Workers import the data sources of the other clients.
    given = os.environ.get("PYTHONPATH", "")
    os.environ["PYTHONPATH"] = os.pathsep.join(dict.fromkeys(filter(None, (str(ROOT), *given.split(os.pathsep)))))
    settings = {
        "spark.master": f"local[{cores}]",
        "spark.driver.memory": "3g",
        # The Java of users, and not the one of tests.
        "spark.driver.extraJavaOptions": "",
        "spark.python.unix.domain.socket.enabled": str(not tcp).lower(),
        "spark.sql.streaming.numRecentProgressUpdates": "100000",
    }
    if jars is not None:
        settings["spark.jars"] = ",".join(map(str, sorted(jars.glob("*.jar"))))
    with tempfile.TemporaryDirectory() as folder:
        spark = start_session(Path(folder), settings)
        try:
            yield spark
        finally:
            spark.stop()


def spark_seconds(spark: SparkSession) -> float:
    """The CPU time of Java and of all processes that it has started, also of those that have ended."""
    gateway: Any = spark.sparkContext._gateway
    return _seconds([gateway.proc.pid, *_descendants(gateway.proc.pid)])


def other_seconds(spark: SparkSession) -> float:
    """The CPU time of the other processes that this one has started: that of the broker, if it is one of them."""
    return _seconds(_descendants(os.getpid())) - spark_seconds(spark)


def _seconds(processes: Iterator[int] | list[int]) -> float:
    # With the time of children that have ended.
    return sum(sum(map(int, fields[11:15])) for one in processes if (fields := _stat(one))) / TICKS


def _descendants(process: int) -> Iterator[int]:
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        if fields := _stat(int(folder.name)):
            parents.setdefault(int(fields[1]), []).append(int(folder.name))
    waiting = [process]
    while waiting:
        found = parents.get(waiting.pop(), [])
        yield from found
        waiting.extend(found)


def _stat(process: int) -> list[str] | None:
    """The fields after the name in ``/proc/<pid>/stat``; None if the process has ended."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return None
