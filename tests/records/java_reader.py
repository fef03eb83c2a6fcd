"""Record sets as Kafka's code reads and writes them: ``java/RecordSets.java``, compiled against the fetched jars."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from zipfile import ZipFile

from aiokproto.codec.json import to_json
from aiokproto.records import RecordBatch, control_records, decode
from aiokproto.types import TimestampType
from tests.java.compiler import compiled, run
from tools.setup.project import MESSAGES_RELEASES, kafka_jars, messages_jars
from tools.setup.system import find_java

SOURCE = Path(__file__).parent / "java" / "RecordSets.java"
TIMESTAMP_TYPES = {
    TimestampType.NO_TIMESTAMP: "NoTimestampType",
    TimestampType.CREATE_TIME: "CreateTime",
    TimestampType.LOG_APPEND_TIME: "LogAppendTime",
}


def client_jars() -> list[Path]:
    """Return the client library of each release whose jars are there."""
    return [jar for release in MESSAGES_RELEASES for jar in messages_jars(release).glob("kafka-clients-*.jar")]


def classes_of(jar: Path) -> set[str]:
    with ZipFile(jar) as classes:
        return set(classes.namelist())


class JavaRecords:
    """Compile the program for one release; ``folder`` is for its source."""

    def __init__(self, jar: Path, folder: Path) -> None:
        java = find_java()
        assert java is not None
        source = folder / SOURCE.name
        source.write_text(for_release(SOURCE.read_text(), jar))
        # Both releases use the same compression libraries; the requested release comes first in the class path.
        libraries = [jar, *sorted(kafka_jars().glob("*.jar"))]
        path = ":".join(map(str, (compiled(source, libraries), *libraries)))
        self._program = [str(java), "-Xmx256m", "-cp", path, "RecordSets"]

    def written(self) -> dict[str, tuple[bytes, list[str]]]:
        """Return record sets that Java wrote, by name, and what Java reads in each of them."""
        return parse(run([*self._program, "write"]))

    def read(self, sets: Mapping[str, bytes]) -> dict[str, list[str]]:
        """Return what Java reads in record sets."""
        given = "".join(f"{name} {data.hex()}\n" for name, data in sets.items())
        return {name: lines for name, (_, lines) in parse(run([*self._program, "read"], given)).items()}


def for_release(source: str, jar: Path) -> str:
    """Return the program with the packages of a release, because classes moved in 4.x."""
    names = classes_of(jar)
    for package in ("record", "utils"):
        if not any(name.startswith(f"org/apache/kafka/common/{package}/internal") for name in names):
            source = source.replace(f"common.{package}.internals.", f"common.{package}.")
            source = source.replace(f"common.{package}.internal.", f"common.{package}.")
    return source


def parse(output: str) -> dict[str, tuple[bytes, list[str]]]:
    found: dict[str, tuple[bytes, list[str]]] = {}
    lines: list[str] = []
    for line in output.splitlines():
        if line.startswith("set "):
            _, name, text = line.split(" ")
            lines = []
            found[name] = bytes.fromhex(text.removeprefix(":")), lines
        else:
            lines.append(line)
    return found


def described(data: bytes) -> list[str]:
    """Return what this package reads in a record set, in the program's words."""
    return [line for batch in decode(data) for line in describe_batch(batch)]


def describe_batch(batch: RecordBatch) -> Iterator[str]:
    horizon = "none" if batch.delete_horizon is None else batch.delete_horizon
    time = TIMESTAMP_TYPES[batch.timestamp_type]
    yield (
        f"batch {batch.base_offset} {batch.last_offset} {batch.next_offset} magic={batch.magic} "
        f"codec={batch.compression.name.lower()} time={time} max={batch.max_timestamp} "
        f"producer={batch.producer_id}/{batch.producer_epoch}/{batch.base_sequence}/{batch.last_sequence} "
        f"txn={boolean(batch.is_transactional)} control={boolean(batch.is_control)} "
        f"epoch={batch.partition_leader_epoch} horizon={horizon} size={batch.size_in_bytes} count={len(batch)}"
    )
    said = control_records(batch) if batch.is_control else [None] * len(batch)
    for record, control in zip(batch, said, strict=True):
        headers = [f"{text(key.encode())}={text(value)}" for key, value in record.headers]
        yield words("record", record.offset, record.timestamp, text(record.key), text(record.value), *headers)
        if control is not None and control.value is not None:
            value = to_json(control.value, control.version)
            yield words("control", control.type.name, json.dumps(value, separators=(",", ":")))


def boolean(value: bool) -> str:
    return "true" if value else "false"


def text(value: bytes | None) -> str:
    return "null" if value is None else f":{value.hex()}"


def words(*parts: object) -> str:
    return " ".join(map(str, parts))


def same(names: Iterable[str], ours: Mapping[str, list[str]], javas: Mapping[str, list[str]]) -> dict[str, str]:
    """Return the first difference of each set; nothing if there is none."""
    found: dict[str, str] = {}
    for name in names:
        pairs = zip([*ours[name], "end"], [*javas[name], "end"], strict=False)
        if different := next((f"{one} <> {other}" for one, other in pairs if one != other), None):
            found[name] = different
    return found
