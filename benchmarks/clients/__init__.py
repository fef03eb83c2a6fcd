"""One file per client, each with a `Client` called ``CLIENT``; only the process that measures a client imports it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from importlib import import_module
from typing import Any, Protocol

from benchmarks.work import Kind, Settings, Work

Run = Callable[[Work], None]
"""Connects, does the work under its meter, counts what was settled, and closes."""

CLIENTS = {"aiokproto": "own", "aiokafka": "aiokafka", "confluent-kafka": "confluent", "kafka-python": "kafka_python"}
"""Name → module, ours first: the others are compared with it."""


class Client(Protocol):
    """A client library, and its ways to do each kind of work."""

    def version(self) -> str: ...

    def stated(self, settings: Settings) -> Mapping[str, str]:
        """What a reader has to know to judge the figures: what it was told, and the defaults that matter."""
        ...

    def ways(self, kind: Kind) -> Mapping[str, Run]:
        """By the name of the call that is measured; the first is the one to compare others with."""
        ...


def load(name: str) -> Client:
    """Import a client.

    Raises:
        ImportError: It is not installed.
    """
    client: Client = import_module(f"benchmarks.clients.{CLIENTS[name]}").CLIENT
    return client


def in_loop(work: Callable[[Work], Coroutine[Any, Any, None]]) -> Run:
    """A coroutine function as a `Run`, on asyncio's own event loop."""

    def run(given: Work) -> None:
        asyncio.run(work(given))

    return run
