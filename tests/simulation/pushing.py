"""Client metrics (KIP-714) in a workload: clients push them all the time, and must not notice what happens to them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random

import pytest

from aiokproto.broker import Cluster
from aiokproto.broker.telemetry import ClientMetricsOptions
from aiokproto.cluster.cluster_client import ClusterClient
from aiokproto.cluster.telemetry import TelemetryReporter
from aiokproto.observe.metrics import MetricSource
from tests.simulation.faults import Fault, draw

APIS = ("PushTelemetry", "GetTelemetrySubscriptions")


def schedule(seed: int, others: Callable[[int], list[Fault]], until: float, brokers: int) -> list[Fault]:
    """Return the faults of a workload, and some faults of its pushes."""
    random = Random(f"{seed}/pushes")
    pushes = [draw(random, until, brokers, 1, APIS, weights=WEIGHTS) for _ in range(random.choice((1, 2, 4)))]
    return others(seed) + pushes


WEIGHTS = {"refuse": 4, "drop": 3, "delay_answers": 2, "serve_twice": 1, "throttle": 2}
"""The kinds of faults that concern one API."""


def want_metrics(cluster: Cluster) -> None:
    """Let all clients push all metrics, as often as a broker may request."""
    running = cluster._running
    wanted = {"metrics": "*", "interval.ms": "100"}
    running.telemetry.configure("all", ClientMetricsOptions(wanted, running.state.options))


@contextmanager
def early() -> Iterator[None]:
    """Let clients within the block request their subscription without waiting ten seconds."""
    made = TelemetryReporter.__init__

    def make(self: TelemetryReporter, cluster: ClusterClient, source: MetricSource) -> None:
        made(self, cluster, source, first_after=0.2)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TelemetryReporter, "__init__", make)
        yield
