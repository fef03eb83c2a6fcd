"""The work of one measurement, and its meter."""

from __future__ import annotations

import gc
import resource
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import cycle, islice
from pathlib import Path
from typing import Any, Literal

from benchmarks import values

Kind = Literal["produce", "latency", "transact", "consume", "start"]
KINDS: tuple[Kind, ...] = ("produce", "latency", "transact", "consume", "start")
"""The kinds of work, for which each client has ways of its own."""

CHUNK = 10_000
"""The number of sends before a program checks their results, and the most records of one read."""


IN_TRANSACTION = 100
"""Records of a transaction."""


@dataclass(frozen=True)
class Settings:
    """The settings of every client. All others are the client's own defaults."""

    partitions: int = 8
    linger_ms: int = 5
    batch_bytes: int = 128 << 10
    in_flight: int = 5
    idempotence: bool = True
    fetch_max_bytes: int = 50 << 20
    partition_fetch_bytes: int = 1 << 20


@dataclass(frozen=True)
class Data:
    """The size and compression of messages, and how they are protected on the way."""

    size: int
    compression: str = "none"
    protocol: str = "PLAINTEXT"

    def __str__(self) -> str:
        size = f"{self.size >> 10} KiB" if self.size and not self.size % 1024 else f"{self.size} B"
        return f"{size}, {self.compression}" + (f", {self.protocol}" if self.protocol != "PLAINTEXT" else "")


@dataclass(frozen=True)
class Security:
    """How to connect.

    Attributes:
        address: The listener's.
        protocol: ``PLAINTEXT``, ``SSL`` or ``SASL_SSL``, the last with SCRAM-SHA-256.
        cafile: The authority of the broker's certificate, in PEM.
    """

    address: str
    protocol: str = "PLAINTEXT"
    cafile: str = ""
    username: str = ""
    password: str = field(default="", repr=False)

    def options(self, username: str, password: str) -> dict[str, Any]:
        """The options of clients in Python; two of them by the names that they have there."""
        if self.protocol == "PLAINTEXT":
            return {}
        login = {"sasl_mechanism": "SCRAM-SHA-256", username: self.username, password: self.password}
        tls = {"security_protocol": self.protocol, "ssl_cafile": self.cafile}
        return {**tls, **login} if self.username else tls


class Meter:
    """CPU seconds of this process, all its threads, and wall seconds, spent within ``with meter:``.

    Attributes:
        broker_cpu: CPU seconds of the broker's process in the same time; None if they were not measured.
    """

    def __init__(self, broker: int | None = None) -> None:
        self.cpu = 0.0
        self.wall = 0.0
        self.broker_cpu = 0.0 if broker is not None and sys.platform == "linux" else None
        self._broker = broker

    def __enter__(self) -> None:
        # Garbage of the warm-up must not be collected during the measurement.
        gc.collect()
        self._broker_cpu = self._broker_seconds()
        self._cpu, self._wall = _cpu_seconds(), time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter() - self._wall
        self.cpu += _cpu_seconds() - self._cpu
        if self.broker_cpu is not None:
            self.broker_cpu += self._broker_seconds() - self._broker_cpu

    def _broker_seconds(self) -> float:
        if self._broker is None or self.broker_cpu is None:
            return 0.0
        # How Linux numbers the clock of another process, see clock_getcpuclockid(3).
        return time.clock_gettime(~self._broker << 3 | 2)


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def memory(what: Literal["VmRSS", "VmHWM"], process: int | Literal["self"] = "self") -> int:
    """Bytes of memory that a process (on Linux any) has now (VmRSS) or had at most (VmHWM).

    On Linux not by `getrusage`: its peak includes that of the process which this one was forked from.
    """
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)
    return next(int(line.split()[1]) for line in lines if line.startswith(what)) * 1024


@dataclass
class Work:
    """``messages`` values of ``size`` bytes, to be written to ``topic`` or read from it.

    Connecting and learning about the topic are not measured.

    Attributes:
        values_path: The file with the values.
        security: How to connect to ``bootstrap``.
        broker_process: The id of the broker's process, if its CPU time is to be measured too.
        options: Further settings of an extra measurement.
        settled: Messages acknowledged or read.
        connecting: Messages acknowledged before the meter ran.
        latencies: Seconds of each awaited send.
        figures: Results of an extra measurement: label with unit → value.
    """

    bootstrap: str
    topic: str
    messages: int
    size: int
    values_path: str
    compression: str = "none"
    protocol: str = "PLAINTEXT"
    security: Security = field(default_factory=lambda: Security(""))
    broker_process: int | None = None
    settings: Settings = field(default_factory=Settings)
    options: dict[str, float] = field(default_factory=dict)
    meter: Meter = field(init=False)
    settled: int = 0
    connecting: int = 0
    latencies: list[float] = field(default_factory=list)
    figures: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.meter = Meter(self.broker_process)

    @cached_property
    def _cycle(self) -> Iterator[bytes]:
        return cycle(values.read(Path(self.values_path), self.size))

    def values(self, count: int) -> Iterator[bytes]:
        """The next so many values to write."""
        return islice(self._cycle, count)

    def value(self) -> bytes:
        """The next one."""
        return next(self._cycle)

    def chunks(self) -> list[int]:
        """How many messages go into each chunk."""
        whole, rest = divmod(self.messages, CHUNK)
        return [CHUNK] * whole + [rest] * bool(rest)

    @property
    def transactional_id(self) -> str:
        """One for each topic, so that no two measurements fence each other."""
        return f"{self.topic}-transactions"

    def transactions(self) -> Iterator[Iterator[bytes]]:
        """The values of one transaction after the other."""
        for start in range(0, self.messages, IN_TRANSACTION):
            yield self.values(min(IN_TRANSACTION, self.messages - start))

    def warm_up(self, messages: int) -> Work:
        """The same for fewer messages, with a meter of its own."""
        return replace(self, messages=min(messages, self.messages), latencies=[], figures={})

    def read(self, values: int, size: int) -> None:
        """Check that the records read are those written, and count them."""
        if size != values * self.size:
            raise ValueError(f"{values} values of {self.size} bytes were expected, they have {size} bytes in all")
        self.settled += values
