"""What one measurement does, and the meter it does it under."""

from __future__ import annotations

import gc
import resource
import time
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

Kind = Literal["produce", "latency", "consume"]
KINDS: tuple[Kind, ...] = ("produce", "latency", "consume")

CHUNK = 10_000
"""Sends whose results a program holds before it looks at them, and records a consumer is asked for at most at once."""


@dataclass(frozen=True)
class Settings:
    """What every client is told alike. All else is left at the client's own default."""

    partitions: int = 6
    linger_ms: int = 5
    batch_bytes: int = 128 << 10
    in_flight: int = 5
    fetch_max_bytes: int = 50 << 20
    partition_fetch_bytes: int = 1 << 20


class Meter:
    """CPU seconds of this process, all its threads, and wall seconds, spent within ``with meter:``."""

    def __init__(self) -> None:
        self.cpu = 0.0
        self.wall = 0.0

    def __enter__(self) -> None:
        # What the warm-up left behind is not collected at the cost of what is measured.
        gc.collect()
        self._cpu, self._wall = _cpu_seconds(), time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.wall += time.perf_counter() - self._wall
        self.cpu += _cpu_seconds() - self._cpu


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


@dataclass
class Work:
    """``messages`` values of ``size`` bytes, to be written to ``topic`` or read from it.

    Connecting and learning about the topic are not measured. ``settled`` counts acknowledged or read messages,
    ``latencies`` has the seconds of each awaited send.
    """

    bootstrap: str
    topic: str
    messages: int
    size: int
    settings: Settings = field(default_factory=Settings)
    meter: Meter = field(default_factory=Meter)
    latencies: list[float] = field(default_factory=list)
    settled: int = 0

    @cached_property
    def value(self) -> bytes:
        return bytes(index & 0xFF for index in range(self.size))

    def linger_ms(self, kind: Kind) -> int:
        return 0 if kind == "latency" else self.settings.linger_ms

    def chunks(self) -> list[int]:
        """How many messages go into each chunk."""
        whole, rest = divmod(self.messages, CHUNK)
        return [CHUNK] * whole + [rest] * bool(rest)

    def warm_up(self, messages: int) -> Work:
        """The same for fewer messages, under a meter that nobody reads."""
        return replace(self, messages=min(messages, self.messages), meter=Meter(), latencies=[], settled=0)

    def read(self, values: int, size: int) -> None:
        """Count what was read, having checked that it is what was written."""
        if size != values * self.size:
            raise ValueError(f"{values} values of {self.size} bytes were expected, they have {size} bytes in all")
        self.settled += values
