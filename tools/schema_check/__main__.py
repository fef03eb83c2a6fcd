"""``python -m tools.schema_check [JAR ...]``: exits with 1 if the messages declared here are not those of the jars.

Without jars, those which the tests use; with those of a new release, the findings are what it changes.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from tools.schema_check.check import KNOWN, check
from tools.schema_check.definitions import read
from tools.setup.project import MESSAGES_RELEASES, messages_jars


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Compare the messages declared here with those in jars of Kafka.")
    parser.add_argument("jars", nargs="*", type=Path, metavar="JAR", help="such as kafka-clients-4.4.0.jar")
    jars: list[Path] = parser.parse_args(arguments).jars or our_jars()
    report = check(read(jars))
    print(*report.findings, sep="\n", end="\n" if report.findings else "")
    for where in report.known:
        print(f"known: {where}: {KNOWN[where]}")
    if report.unjudged:
        print(f"in no jar: {', '.join(sorted(report.unjudged))}")
    print(f"{len(report.compared)} message-versions compared, {len(report.findings)} differences")
    return 1 if report.findings else 0


def our_jars() -> list[Path]:
    return [jar for release in MESSAGES_RELEASES for jar in messages_jars(release).glob("kafka-*.jar")]


if __name__ == "__main__":
    sys.exit(main())
