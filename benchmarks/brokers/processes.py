"""Brokers as processes of their own, each with one node and an empty data directory, gone at the end."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import aiokproto
from benchmarks.clients.programs import MissingError
from benchmarks.clients.programs import kfake as kfake_command
from benchmarks.runner import ROOT
from tests.kafka import cluster, probe
from tests.kafka.cluster import KafkaCluster
from tools.setup.project import kafka_version

MEMORY = Path("/dev/shm")
"""Where Linux has a file system in memory."""
START_SECONDS = 60.0
STOP_SECONDS = 10.0


class StartError(Exception):
    """A broker ended instead of serving; has the last line it wrote to stderr."""


@dataclass(frozen=True)
class Running:
    """A broker that serves.

    Attributes:
        process_id: Of the process whose CPU time and memory are the broker's.
        start_ms: From starting the process to its first answer about metadata.
    """

    bootstrap: str
    process_id: int
    version: str
    start_ms: float


@contextmanager
def own(*, in_memory: bool) -> Iterator[Running]:
    """The embedded broker, run from the command line; its segment files are in memory or in the temporary directory."""
    if in_memory and not MEMORY.is_dir():
        raise MissingError(f"there is no file system in memory at {MEMORY}")
    with tempfile.TemporaryDirectory(dir=MEMORY if in_memory else None, prefix="benchmarks-") as data:
        command = [sys.executable, "-m", "aiokproto", "broker", "--until-stdin-closes", "--data-dir", data]
        with _program(command) as running:
            yield running


@contextmanager
def kfake() -> Iterator[Running]:
    """franz-go's broker for tests, which keeps all in memory."""
    with _program(kfake_command()) as running:
        yield running


@contextmanager
def kafka() -> Iterator[Running]:
    """Real Kafka; formatting its storage is a part of its start."""
    if reason := cluster.missing():
        raise MissingError(reason)
    started = time.perf_counter()
    kafka = _Kafka(1, heap="1g")
    with kafka:
        yield Running(kafka.bootstrap_servers, kafka.process_id, kafka_version(), _milliseconds_since(started))


class _Kafka(KafkaCluster):
    @property
    def process_id(self) -> int:
        return self._processes[1].pid


@contextmanager
def _program(command: Sequence[str]) -> Iterator[Running]:
    """A program whose first line has its address, and maybe its version; it ends when its stdin is closed."""
    started = time.perf_counter()
    with tempfile.TemporaryFile("w+") as errors:
        process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors, text=True
        )
        try:
            assert process.stdout is not None, "started with a pipe"
            bootstrap, *version = process.stdout.readline().split() or [""]
            if not bootstrap:
                errors.seek(0)
                raise StartError((errors.read().strip().splitlines() or ["it wrote nothing"])[-1])
            _await_metadata(bootstrap)
            took = _milliseconds_since(started)
            yield Running(bootstrap, process.pid, version[0] if version else aiokproto.__version__, took)
        finally:
            _end(process)


def _await_metadata(bootstrap: str) -> None:
    host, _, port = bootstrap.rpartition(":")
    deadline = time.monotonic() + START_SECONDS
    while not probe.known_brokers((host, int(port))):
        if time.monotonic() > deadline:
            raise StartError(f"the broker at {bootstrap} does not answer")


def _end(process: subprocess.Popen[str]) -> None:
    try:
        process.communicate(timeout=STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()


def _milliseconds_since(started: float) -> float:
    return (time.perf_counter() - started) * 1e3
