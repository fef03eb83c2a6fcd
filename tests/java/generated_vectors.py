"""Test vectors of every generated message of a Kafka release, which the Java program in ``src`` writes."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from tests.java.compiler import command, run
from tools.setup.project import MESSAGES_RELEASES, messages_jars, messages_ready
from tools.setup.system import find_java

SOURCES = Path(__file__).parent / "src"


class Vector(NamedTuple):
    """A message that Java has written, and read back unchanged."""

    release: str
    name: str
    version: int
    style: str
    data: bytes
    values: dict[str, Any]
    """Kafka's JSON of it."""
    unknown_tags: list[dict[int, bytes]]
    """The unknown tagged fields of every struct that has any, in the order of the structs."""

    def __str__(self) -> str:
        return f"{self.name} v{self.version} ({self.release}, {self.style})"


class HeaderVersions(NamedTuple):
    """The header versions of a request and its response in Kafka."""

    release: str
    api_key: int
    version: int
    request: int
    response: int


class Generated(NamedTuple):
    vectors: list[Vector]
    headers: list[HeaderVersions]


def missing() -> str | None:
    """Return what the machine lacks to run Java, and the way to get it; None if nothing."""
    if find_java() is None:
        return "Kafka's messages need Java 17 or later"
    if not messages_ready():
        return "the jars with Kafka's messages are not there: `make kafka` fetches them"
    return None


def generate(seeds: int) -> Generated:
    """Run the program for each release, with ``seeds`` random fillings of each kind."""
    generated = Generated([], [])
    for release in MESSAGES_RELEASES:
        with tempfile.TemporaryDirectory(prefix="aiokproto-java-") as folder:
            _write(release, seeds, Path(folder))
            for row in _rows(Path(folder, "vectors.tsv")):
                _sort(release, row, generated)
    return generated


def _write(release: str, seeds: int, folder: Path) -> None:
    of_kafka = map(str, sorted(messages_jars(release).glob("kafka-*.jar")))
    program = command(SOURCES, "Vectors", jars=messages_jars(release))
    run([*program, str(folder / "vectors.tsv"), str(seeds), *of_kafka])


def _rows(path: Path) -> Iterator[list[str]]:
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            yield line.rstrip("\n").split("\t")


def _sort(release: str, row: list[str], generated: Generated) -> None:
    kind, *rest = row
    if kind == "api":
        key, version, request, response = map(int, rest)
        generated.headers.append(HeaderVersions(release, key, version, request, response))
        return
    name, text, style, data, values, unknown = rest
    tags = [{int(tag): bytes.fromhex(held) for tag, held in struct.items()} for struct in json.loads(unknown)]
    generated.vectors.append(Vector(release, name, int(text), style, bytes.fromhex(data), json.loads(values), tags))
