"""``python -m tools.schema VERB``: compare the messages declared here with Kafka's, and draft what a release adds."""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from tools.schema.check import KNOWN, check, declared
from tools.schema.definitions import Definition, read
from tools.schema.draft import draft_fields, draft_module
from tools.setup.project import MESSAGES_RELEASES, messages_jars


def main(arguments: list[str] | None = None) -> int:
    """Run a verb; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tools.schema", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    compare = verbs.add_parser("check", help="exit with 1 if the messages declared here are not those of the jars")
    compare.add_argument("jars", nargs="*", type=Path, metavar="JAR", help="default: the jars that the tests use")
    drafting = verbs.add_parser("draft", help="print the declaration of a new message, or of the fields ours lacks")
    drafting.add_argument("jar", type=Path, metavar="JAR", help="such as kafka-clients-4.4.0.jar")
    drafting.add_argument("names", nargs="+", metavar="NAME", help="an API, such as Heartbeat, or a payload")
    given = parser.parse_args(arguments)
    if given.verb == "check":
        return compare_with(given.jars or our_jars())
    return draft(given.jar, given.names)


def compare_with(jars: list[Path]) -> int:
    """Print the differences to the definitions in the jars."""
    report = check(read(jars))
    print(*report.findings, sep="\n", end="\n" if report.findings else "")
    for where in report.known:
        print(f"known: {where}: {KNOWN[where]}")
    if report.uncovered:
        print(f"in no jar: {', '.join(sorted(report.uncovered))}")
    print(f"{len(report.compared)} message-versions compared, {len(report.findings)} differences")
    return 1 if report.findings else 0


def draft(jar: Path, names: list[str]) -> int:
    """Print one module for the messages that are new, and the missing fields of those that are declared."""
    defined = {definition.name: definition for (definition, *_) in read([jar])}
    wanted: list[Definition] = []
    for name in names:
        found = [defined[it] for it in (name, f"{name}Response", f"{name}Request") if it in defined]
        if not found:
            print(f"{jar.name} defines no {name}", file=sys.stderr)
            return 1
        wanted += found
    declarations = [(definition, declared(definition)) for definition in wanted]
    if new := [definition for definition, ours in declarations if ours is None]:
        print(formatted(draft_module(new)), end="")
    for definition, ours in declarations:
        if ours is not None:
            print(formatted(draft_fields(ours, definition)), end="")
    return 0


def formatted(source: str) -> str:
    """Return the source as `ruff format` leaves it."""
    ruff = [sys.executable, "-m", "ruff", "format", "-"]
    return subprocess.run(ruff, input=source, capture_output=True, text=True, check=True).stdout


def our_jars() -> list[Path]:
    """Return the jars that the tests use."""
    return [jar for release in MESSAGES_RELEASES for jar in messages_jars(release).glob("kafka-*.jar")]


if __name__ == "__main__":
    sys.exit(main())
