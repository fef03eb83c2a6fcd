"""One file per client in Python, each with a `Client` called ``CLIENT``; only the process that measures it imports it.

Clients in other languages are programs that speak as `benchmarks.cell` does: `benchmarks.clients.programs` builds them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Protocol

from benchmarks.clients import programs
from benchmarks.work import Kind, Settings, Work

if TYPE_CHECKING:
    from benchmarks.loops import Asyncio

Run = Callable[[Work], None]
"""Connects, does the work under its meter, counts settled messages, and closes."""


@dataclass(frozen=True)
class Stated:
    """Facts about a client that explain its figures.

    Attributes:
        works_in: Where its work is done.
        differs: Common setting → this client's deviating value.
        notes: Additional settings, and defaults that matter.
    """

    works_in: str
    differs: Mapping[str, str] = field(default_factory=dict)
    notes: Sequence[str] = ()


class Client(Protocol):
    """A client library, and its ways to do each kind of work."""

    def version(self) -> str: ...

    def stated(self, settings: Settings) -> Stated: ...

    def ways(self, kind: Kind) -> Mapping[str, Run]:
        """By the name of the call that is measured; the first is the one to compare others with."""
        ...

    @property
    def asyncio(self) -> Asyncio | None:
        """For the measurements that only make sense in an event loop."""
        ...


@dataclass(frozen=True)
class Launch:
    """How to start the process that measures a client: command, and environment besides our own."""

    command: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)


def _python(module: str, **environment: str) -> Launch:
    return Launch([sys.executable, "-m", "benchmarks.cell", module], environment)


CLIENTS: Mapping[str, Callable[[], Launch]] = {
    "aiokproto": partial(_python, "own"),
    "aiokproto-pure": partial(_python, "own", AIOKPROTO_PURE="1"),
    "aiokafka": partial(_python, "aiokafka"),
    "confluent-kafka": partial(_python, "confluent"),
    "confluent-kafka-aio": partial(_python, "confluent_aio"),
    "kafka-python": partial(_python, "kafka_python"),
    "franz-go": lambda: Launch(programs.go()),
    "java": lambda: Launch(programs.java()),
}
"""Name → how it is started; raises `programs.MissingError` where that cannot be."""

MAIN = ("aiokproto", "aiokafka", "confluent-kafka", "kafka-python")
"""Those of a quick run."""


def load(module: str) -> Client:
    """Import a client.

    Raises:
        ImportError: It is not installed.
    """
    client: Client = import_module(f"benchmarks.clients.{module}").CLIENT
    return client
