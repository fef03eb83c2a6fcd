"""How the tests' Java processes start fast: options for all of them, and an archive of Kafka's classes (AppCDS).

A broker or a client spends most of its start on loading and verifying classes. Java can write the loaded classes to an
archive, which other processes map into memory. An archive is made for one Java and one class path. A longer class path
that starts with it can use it, too, and Java ignores an archive that doesn't fit.
"""

from __future__ import annotations

import os
from pathlib import Path

OPTIONS = "JDK_JAVA_OPTIONS"
"""The environment variable with options of every ``java`` that is started."""

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Options for processes that end soon. Compiling less, and collecting with one thread, takes half the CPU time."""


def archive_of(java: Path, jars: Path) -> Path:
    """Return the archive's path for the classes in a folder of jars. `tests.kafka.template` makes the brokers'."""
    program = java.resolve()
    return jars / f"classes-{program.parts[-3]}-{program.stat().st_mtime_ns:x}.jsa"


def java_command(java: Path, jars: Path, *more: Path) -> list[str]:
    """The command of a Java process whose class path has the jars of a folder, and then ``more``.

    Its options and its class to run follow.
    """
    archive = archive_of(java, jars)
    # Benchmarks run the same brokers without options for tests.
    shares = QUICK in os.environ.get(OPTIONS, "") and archive.exists()
    path = os.pathsep.join(map(str, (*sorted(jars.glob("*.jar")), *more)))
    return [str(java), *([f"-XX:SharedArchiveFile={archive}"] if shares else []), "-cp", path]
