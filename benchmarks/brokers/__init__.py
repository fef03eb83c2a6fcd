"""The embedded broker beside others: what a message costs the process of the broker, whichever client it comes from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import partial

from benchmarks.brokers import processes
from benchmarks.brokers.processes import Running

Start = Callable[[], AbstractContextManager[Running]]

BROKERS: Mapping[str, Start] = {
    "aiokproto, in memory": partial(processes.own, in_memory=True),
    "aiokproto, on disk": partial(processes.own, in_memory=False),
    "kfake, in memory": processes.kfake,
    "Apache Kafka, on disk": processes.kafka,
}
"""Name → how it is started; raises `MissingError` where that cannot be, `StartError` if it fails."""
