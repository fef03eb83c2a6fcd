"""Brokers are started, measured, and shown side by side."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest

from benchmarks import report
from benchmarks.brokers import measure, processes, tables
from benchmarks.brokers.processes import Running, StartError
from benchmarks.clients.programs import MissingError
from benchmarks.work import Meter, memory
from tests.kafka import probe


def cell(kind: str, median: dict[str, float], error: str | None = None) -> dict[str, Any]:
    data = {"size": 100, "compression": "none"}
    options = {"partitions": 8}
    return {
        "client": "franz-go",
        "kind": kind,
        "data": data,
        "options": options,
        "median": median,
        "error": error,
    }


SLOW: dict[str, Any] = {
    "broker": "slow",
    "version": "1",
    "start_ms": 4000.4,
    "peak_mib": 10.0,
    "cells": [
        cell("produce", {"broker_cpu_us": 1.5, "wall_us": 2.0}),
        cell("latency", {"p50 ms": 1.0, "p99 ms": 2.0, "broker_cpu_us": 30.0}),
    ],
}
FAILING: dict[str, Any] = {
    "broker": "failing",
    "version": "2",
    "start_ms": 5.0,
    "peak_mib": 20.0,
    "cells": [cell("produce", {}, "out of luck"), cell("latency", {"p50 ms": 1.0, "p99 ms": 2.0})],
}
FOUND = [SLOW, {"broker": "absent", "missing": "Go is not installed"}, FAILING, {"broker": "dead", "error": "no luck"}]


def test_equal_rows_of_all_brokers_are_adjacent() -> None:
    shown = {table.title: [list(row) for row in table.rows] for table in tables.tables(FOUND)}
    assert shown == {
        "Brokers": [
            ["slow", "1", "4,000", "10"],
            ["absent", "left out: Go is not installed", "-", "-"],
            ["failing", "2", "5", "20"],
            ["dead", "cannot be measured", "-", "-"],
        ],
        "Brokers: messages written": [
            ["100 B, none", "8", "franz-go", "slow", "1.50", "500,000"],
            ["100 B, none", "8", "franz-go", "failing", "failed", "failed"],
        ],
        "Brokers: messages read": [],
        "Brokers: 100 B, one by one": [
            ["awaited send", "franz-go", "slow", "1.00", "2.00", "30.00"],
            ["awaited send", "franz-go", "failing", "1.00", "2.00", "-"],
        ],
    }


def test_failures_are_reported_with_the_results() -> None:
    assert report.failures({"brokers": FOUND}) == [
        "dead: no luck",
        "failing, produce, 100 B, none, franz-go: out of luck",
    ]


def test_a_broker_that_is_missing_and_one_that_fails_do_not_stop_the_others() -> None:
    @contextmanager
    def start(error: Exception) -> Iterator[Running]:
        raise error
        yield

    brokers = {"absent": partial(start, MissingError("no Go")), "dead": partial(start, StartError("no port"))}
    assert measure.measure(lambda text: None, brokers, clients=(measure.OURS,)) == [
        {"broker": "absent", "missing": "no Go"},
        {"broker": "dead", "error": "no port"},
    ]


def test_the_embedded_broker_runs_as_a_process_and_leaves_nothing_behind() -> None:
    with processes.own(in_memory=False) as running:
        host, _, port = running.bootstrap.rpartition(":")
        while not (known := probe.known_brokers((host, int(port)))):
            pass
        assert known == {0}
        assert memory("VmHWM", running.process_id) > 0
    assert running.start_ms > 0
    assert not probe.answers((host, int(port)))


def test_the_error_for_a_broker_that_ends_at_once_has_the_cause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "kfake_command", lambda: ["python", "-c", "raise SystemExit('no luck')"])
    with pytest.raises(StartError, match="no luck"), processes.kfake():
        pass


@pytest.mark.skipif("sys.platform != 'linux'")
def test_the_meter_measures_the_cpu_time_of_another_process() -> None:
    # Its own process is one as good as any: the same time is measured in two ways.
    meter = Meter(os.getpid())
    with meter:
        sum(range(1_000_000))
    assert meter.broker_cpu is not None
    assert 0 < meter.cpu <= meter.broker_cpu * 2
    assert Meter().broker_cpu is None


@pytest.mark.slow
@pytest.mark.thorough
def test_the_embedded_broker_is_measured_with_every_client_that_is_here() -> None:
    (found,) = measure.measure(lambda text: None, {"own": partial(processes.own, in_memory=False)}, messages=300)
    assert tables.failures([found]) == []
    assert found["peak_mib"] > 0
    ours = [cell for cell in found["cells"] if cell["client"] == measure.OURS]
    assert {cell["kind"] for cell in ours} == {"produce", "latency", "consume", "trip"}
    assert {cell["options"]["partitions"] for cell in ours} == {1, 8}
    assert all("wall_us" in cell["median"] for cell in found["cells"])
