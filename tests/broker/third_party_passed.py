"""Reports at the end of a run which third-party clients were tested, and in which version."""

from __future__ import annotations

import re
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

from tools.setup.project import TOOLS_POM, kafka_version


def _franz_go() -> str:
    required = re.search(r"franz-go (v\S+)", (Path(__file__).parent / "third_party" / "go.mod").read_text())
    return f"franz-go {required[1] if required else '?'}"


def _java() -> str:
    return f"Kafka's Java clients {kafka_version()}"


def _confluent() -> str:
    return f"confluent-kafka {version('confluent-kafka')}"


_NAMES: dict[str, Callable[[], str]] = {
    "test_tools.py": lambda: f"Kafka's command line tools {kafka_version(TOOLS_POM)}",
    "test_dump.py": lambda: f"Kafka's command line tools {kafka_version(TOOLS_POM)}",
    "franz_go": _franz_go,
    "kafkas_own": _java,
    "test_java": _java,
    "aiokafka": lambda: f"aiokafka {version('aiokafka')}",
    "kafka_python": lambda: f"kafka-python {version('kafka-python')}",
    "confluent": _confluent,
    "librdkafka": _confluent,
}


def client_of(test: str) -> str | None:
    """Return the client that a test is about, with its version, or None for most tests."""
    return next((tell() for name, tell in _NAMES.items() if name in test), None)
