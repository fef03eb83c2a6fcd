"""The benchmarks of PySpark: what they fill, what they show, and that they run."""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import cycle
from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker import Broker, ThreadedCluster
from aiokproto.records import decode
from benchmarks import pages, report, topics
from benchmarks.spark import latency
from benchmarks.spark import report as spark
from benchmarks.spark.data import DATA, PARTITIONS

ROOT = Path(__file__).resolve().parents[2]


def cell(way: str, kind: str = "read", cores: int = 2, **median: float) -> dict[str, Any]:
    error = None if median else "out of luck"
    return {
        "cores": cores,
        "kind": kind,
        "data": "100 B",
        "way": way,
        "rows": 1000,
        "rounds": 3,
        "median": median,
        "error": error,
    }


def results(*cells: dict[str, Any]) -> dict[str, Any]:
    return {
        "at": "2026-01-01T00:00:00+00:00",
        "whole": True,
        "machine": report.machine(),
        "broker": "a broker",
        "spark": "4.3.0",
        "load": 1.5,
        "tcp": False,
        "scale": 0.5,
        "rounds": 3,
        "cells": list(cells),
    }


FOUND = results(
    cell("aiokproto", rate=2.0, cpu_us=0.5, broker_cpu_us=0.1),
    cell("Spark's own"),
    cell("aiokproto", "write", rate=1.0, cpu_us=1.5),
    cell("aiokproto", "read", 1, rate=1.25, cpu_us=0.25),
)


def test_a_table_for_each_kind_of_work_and_number_of_tasks() -> None:
    reading, writing, alone = spark.tables(FOUND)
    assert [one.title for one in (reading, writing, alone)] == [
        "Reading: 2 tasks at a time",
        "Writing: 2 tasks at a time",
        "Reading: 1 task at a time",
    ]
    assert [list(row) for row in reading.rows] == [
        ["100 B", "1,000", "3", "aiokproto", "2.00", "0.50", "0.10"],
        ["100 B", "1,000", "3", "Spark's own", "failed", "failed", "failed"],
    ]
    assert list(writing.headings) == ["values", "rows", "rounds", "way", "million rows/s", "CPU µs a row"]


def test_the_page_has_figures_and_a_chart_of_the_newest_run() -> None:
    page = "<!-- start: spark -->\nold\n<!-- end: spark -->\n"
    new = pages.put(page, "spark", pages.with_spark(FOUND))
    assert "| 100 B | 1,000 | 3 | aiokproto | 2.00 | 0.50 | 0.10 |" in new
    assert "load average was 1.5" in new
    assert spark.CHART in new


def test_the_chart_has_what_was_read_with_most_tasks() -> None:
    pytest.importorskip("matplotlib")
    drawn = spark.svg(FOUND)
    assert drawn == spark.svg(FOUND)
    assert ">0.50<" in drawn
    assert ">0.25<" not in drawn
    assert "Spark's own" not in drawn


@pytest.mark.parametrize("name", DATA)
def test_topics_have_the_records_that_their_name_says(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = DATA[name]
    left = dict.fromkeys(range(PARTITIONS), 100)
    fill = data.fill(400)
    pairs = zip(cycle(fill.keys), cycle(fill.values), strict=True)
    found = [
        batch for round_ in topics._rounds(left, pairs, fill) for one in round_ for batch in decode(one.records or b"")
    ]
    sizes = [len(record.value or b"") for batch in found for record in batch]
    assert len(sizes) == 400
    assert data.smallest <= min(sizes) <= max(sizes) <= data.largest
    assert {record.key is not None for batch in found for record in batch} == {data.keyed}
    assert {batch.compression.name.lower() for batch in found} == {data.compression}
    assert (len(found) == 400) == (data.batch_bytes == 1)


def test_a_row_waits_until_its_batch_is_done() -> None:
    sent = [100.0 + n for n in range(10)]
    progress = [
        {"numInputRows": 4, "timestamp": "1970-01-01T00:01:45.000Z", "durationMs": {"triggerExecution": 9000}},
        {"numInputRows": 6, "timestamp": "1970-01-01T00:01:50.000Z", "durationMs": {"triggerExecution": 1000}},
    ]
    # The first batch has rows of the warm-up. The second ends at 111 s: its rows were sent at 104 to 109 s.
    assert latency._figures(sent, progress) == {
        "row p50 ms": 5000.0,
        "row p99 ms": 7000.0,
        "batch p50 ms": 1000.0,
        "batch p99 ms": 1000.0,
    }


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.thorough
def test_a_tiny_round_measures_every_way(tmp_path: Path) -> None:
    with ThreadedCluster(Broker()) as cluster:
        arguments = ("--bootstrap", cluster.bootstrap_servers, "--scale", "0.001", "--rounds", "1", "--warm-up", "0")
        command = (sys.executable, "-m", "benchmarks.spark", "--cores", "1", "--results", str(tmp_path), *arguments)
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (kept,) = tmp_path.iterdir()
    found = json.loads(kept.read_text())
    assert found["whole"]
    assert {one["kind"] for one in found["cells"]} == set(spark.TITLES)
    assert {one["data"] for one in found["cells"] if one["kind"] == "read"} == set(DATA)
