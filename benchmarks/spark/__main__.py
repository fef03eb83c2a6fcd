"""``python -m benchmarks.spark``: PySpark with this package, with Spark's own connector, and with other clients.

All ways of a topic take turns, so that a slow moment of the machine affects all. Times are medians. CPU is that of all
processes of Spark: its Java process and its Python workers; the broker's is measured separately.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import report as machine
from benchmarks import tables
from benchmarks.__main__ import broker_at
from benchmarks.spark import latency, reading, report, writing
from benchmarks.spark.data import DATA, Data, topic_of
from benchmarks.spark.reading import Work
from benchmarks.spark.session import other_seconds, session, spark_seconds
from tests.spark.connector.jars import fetched_connector

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PARTS = ("read", "filter", "write", "latency")
FILTERED = "100 B"
WRITTEN = ("100 B", "1 KB")
WRITE_SHARE = 2
"""Rows that are written are so many times fewer than those that are read: writing takes longer."""
CONNECTORS = {"aiokproto": "aiokproto", "Spark's own": "kafka"}
STREAM_SECONDS = 60.0


@dataclass(frozen=True)
class Bench:
    """What is measured with, and what was found so far.

    Attributes:
        servers: The broker.
        cores: Tasks at a time.
        rounds: Measured rounds; one or more before warm up.
        official: Whether Spark's own connector is there.
        own_broker: Whether the broker is a process of these benchmarks, whose CPU time is known.
        cells: What was found.
    """

    spark: SparkSession
    servers: str
    cores: int
    rounds: int
    warm_up: int
    official: bool
    own_broker: bool
    cells: list[dict[str, Any]]

    def measure(self, kind: str, data: str, rows: int, ways: Mapping[str, Work]) -> None:
        """Do the work of all ways in turns."""
        found: dict[str, list[dict[str, float]]] = {name: [] for name in ways}
        errors: dict[str, str] = {}
        for turn in range(self.warm_up + self.rounds):
            for name, work in ways.items():
                # Once is enough for what takes many times as long, and little of that is Java, which would warm up.
                if name in errors or (name in reading.SLOW and turn < self.warm_up + self.rounds - 1):
                    continue
                print(f"local[{self.cores}] {kind} {data}, round {turn}: {name}", file=sys.stderr, flush=True)
                try:
                    figures = self._once(work, rows)
                # Whatever a client raises is its result.
                except Exception as error:  # noqa: BLE001
                    errors[name] = str(error).partition("\n")[0]
                    continue
                if turn >= self.warm_up:
                    found[name].append(figures)
        for name, rounds in found.items():
            self.add(kind, data, name, rows, _medians(rounds), len(rounds), errors.get(name))

    def add(
        self,
        kind: str,
        data: str,
        way: str,
        rows: int,
        figures: Mapping[str, float],
        rounds: int = 1,
        error: str | None = None,
    ) -> None:
        self.cells.append(
            {
                "cores": self.cores,
                "kind": kind,
                "data": data,
                "way": way,
                "rows": rows,
                "rounds": rounds,
                "median": dict(figures),
                "error": error,
            }
        )

    def _once(self, work: Work, rows: int) -> dict[str, float]:
        ours, others = spark_seconds(self.spark), other_seconds(self.spark)
        began = time.perf_counter()
        work()
        took = time.perf_counter() - began
        found = {"rate": rows / took / 1e6, "cpu_us": (spark_seconds(self.spark) - ours) / rows * 1e6}
        if self.own_broker:
            found["broker_cpu_us"] = (other_seconds(self.spark) - others) / rows * 1e6
        return found


def _medians(rounds: list[dict[str, float]]) -> dict[str, float]:
    return {name: statistics.median(one[name] for one in rounds) for name in rounds[0]} if rounds else {}


def read_and_filter(bench: Bench, data: Data, scale: float, parts: set[str]) -> None:
    rows = int(data.rows * scale)
    with topic_of(bench.servers, data, rows) as topic:
        if "read" in parts:
            ways = reading.ways(bench.spark, bench.servers, topic, official=bench.official)
            bench.measure("read", data.name, rows, ways)
        if "filter" in parts and data.name == FILTERED:
            ways = reading.filtered(bench.spark, bench.servers, topic, rows, official=bench.official)
            bench.measure("filter", data.name, rows, ways)


def write(bench: Bench, data: Data, scale: float) -> None:
    rows = int(data.rows * scale) // WRITE_SHARE
    with topic_of(bench.servers, data, 0) as topic:
        ways = writing.ways(bench.spark, bench.servers, topic, data.largest, rows, bench.cores, official=bench.official)
        bench.measure("write", data.name, rows, ways)


def stream(bench: Bench, scale: float) -> None:
    for name, connector in CONNECTORS.items():
        if connector != "kafka" or bench.official:
            seconds = max(STREAM_SECONDS * scale, 5.0)
            print(f"local[{bench.cores}] latency: {name}", file=sys.stderr, flush=True)
            figures = latency.measure(bench.spark, bench.servers, connector, seconds)
            bench.add("latency", "100 B", name, int(seconds / latency.PACE), figures)


def connector_jars() -> Path | None:
    """The jars of Spark's own connector that the tests use too; None, with a warning, if they cannot be fetched."""
    try:
        return fetched_connector()
    except pytest.skip.Exception as error:
        print(f"Spark's own connector is not measured: {error}", file=sys.stderr)
        return None


def save(folder: Path, results: Mapping[str, Any]) -> Path:
    """Keep what was found so far: a run takes long."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{results['at'].replace(':', '').replace('+0000', 'Z')}.json"
    path.write_text(json.dumps(results, indent=1))
    return path


@contextmanager
def measuring(arguments: argparse.Namespace, cores: int, servers: str, cells: list[Any]) -> Iterator[Bench]:
    with session(cores, arguments.jars, tcp=arguments.tcp) as spark:
        yield Bench(
            spark,
            servers,
            cores,
            arguments.rounds,
            arguments.warm_up,
            arguments.jars is not None,
            arguments.bootstrap is None,
            cells,
        )


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.spark", description=__doc__)
    parser.add_argument("--bootstrap", metavar="HOST:PORT", help="use this cluster instead of starting real Kafka")
    parser.add_argument("--scale", type=float, default=1.0, help="of the number of rows; 0.1 fits some minutes")
    parser.add_argument("--rounds", type=int, default=3, help="(default %(default)s)")
    parser.add_argument("--warm-up", type=int, default=2, help="rounds that Java compiles in (default %(default)s)")
    parser.add_argument("--cores", type=int, nargs="+", default=[2, 1], help="tasks at a time (default 2, then 1)")
    parser.add_argument(
        "--tcp", action="store_true", help="TCP between Java and Python, Spark's default, and not Unix domain sockets"
    )
    parser.add_argument("--only", choices=PARTS, action="append", help="part to measure; can be repeated")
    parser.add_argument("--data", choices=list(DATA), nargs="+", default=list(DATA), help="topics to measure")
    parser.add_argument("--jars", type=Path, metavar="DIR", help="Spark's own connector (default: that of the tests)")
    parser.add_argument("--results", type=Path, default=report.RESULTS, help="folder for the JSON")
    arguments = parser.parse_args()
    arguments.jars = arguments.jars or connector_jars()
    parts: set[str] = set(arguments.only or PARTS)
    results: dict[str, Any] = {
        "at": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        "whole": False,
        "machine": machine.machine(),
        "scale": arguments.scale,
        "rounds": arguments.rounds,
        "tcp": arguments.tcp,
        "cells": [],
    }
    with broker_at(arguments.bootstrap) as (servers, name, _):
        results["broker"] = name
        results["load"] = os.getloadavg()[1]
        for cores in arguments.cores:
            with measuring(arguments, cores, servers, results["cells"]) as bench:
                results["spark"] = bench.spark.version
                for data in map(DATA.__getitem__, arguments.data):
                    if parts & {"read", "filter"}:
                        read_and_filter(bench, data, arguments.scale, parts)
                    if "write" in parts and data.name in WRITTEN:
                        write(bench, data, arguments.scale)
                    save(arguments.results, results)
                if "latency" in parts:
                    stream(bench, arguments.scale)
    results["whole"] = arguments.only is None and set(arguments.data) == set(DATA)
    path = save(arguments.results, results)
    out = tables.console()
    for table in report.tables(results):
        tables.show(out, table)
    out.print(f"results: {path}", style="dim")
    return int(any(cell["error"] for cell in results["cells"]))


if __name__ == "__main__":
    sys.exit(main())
