"""How the tests' Java processes start fast: options for all of them, and an archive of Kafka's classes (AppCDS).

Loading and verifying classes is most of what a broker or a client does until it is there. Java can write them to an
archive as they are then in memory, and other processes map it. It is made for one Java and one class path; a path that
goes on after it may have it too, and Java leaves it alone if anything does not fit.
"""

from __future__ import annotations

import os
from pathlib import Path

OPTIONS = "JDK_JAVA_OPTIONS"
"""The environment variable with options of every ``java`` that is started."""

QUICK = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""For processes that end soon: compiling less, and collecting with one thread, takes half the CPU time."""


def archive_of(java: Path, jars: Path) -> Path:
    """Where the archive is of the classes in a folder with jars: `tests.kafka.template` makes that of a broker's."""
    program = java.resolve()
    return jars / f"classes-{program.parts[-3]}-{program.stat().st_mtime_ns:x}.jsa"


def java_command(java: Path, jars: Path, *more: Path) -> list[str]:
    """The command of a Java process whose class path has the jars of a folder, and then ``more``.

    Its options and its class to run follow.
    """
    archive = archive_of(java, jars)
    # Benchmarks run the same brokers with nothing that is for tests.
    shares = QUICK in os.environ.get(OPTIONS, "") and archive.exists()
    path = os.pathsep.join(map(str, (*sorted(jars.glob("*.jar")), *more)))
    return [str(java), *([f"-XX:SharedArchiveFile={archive}"] if shares else []), "-cp", path]
