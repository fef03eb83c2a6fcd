"""``python -m tools.pythons``: the source distribution, installed and tested on every Python that the machine has.

Each interpreter gets a folder in ``.cache/pythons`` with a virtual environment, into which pip compiles the package.
Tests run there as installed, and those that the command line names in pure Python and on uvloop.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tools.pythons.interpreters import PROMISED, Interpreter, candidates, find
from tools.setup.project import CACHE
from tools.setup.system import MissingError
from tools.wheels.proof import OUTSIDE, TESTS, Proof, build_source

ACCELERATED = (*TESTS, "net", "cluster", "group")
MARKS = "not java and not kafka and not spark and not kerberos and not slow and not extended and not thorough"
# All that is compiled, and every library that it uses: any of them can bring the global lock back.
LOCK = """
import sys
locked = getattr(sys, "_is_gil_enabled", lambda: True)
if locked():
    print("on")
    sys.exit()
import aiokproto
from aiokproto.records import Compression, compress
from aiokproto.records.crc import crc32c
def used(): assert aiokproto.accelerated
def checked(): crc32c(b"")
steps = {"aiokproto": used, "crc32c": checked}
steps |= {codec.name.lower(): lambda codec=codec: compress(codec, b"") for codec in Compression}
steps |= {name: lambda name=name: __import__(name) for name in ("numpy", "pyarrow")}
for name, step in steps.items():
    step()
    if locked():
        print("on, by", name)
        sys.exit()
print("off")
"""

Outcome = dict[str, str]
"""Column of the table → what was seen."""
COLUMNS = ("release", "global lock", "accelerated", "pure", "uvloop")


def main(arguments: list[str]) -> int:
    options = parse(arguments)
    programs = [Path(name).absolute() for name in options.python]
    found = find([*programs, *candidates(Path.home(), os.environ.get("PATH", ""))])
    wanted = {name: one for name, one in found.items() if not options.only or name in options.only}
    if options.bounds:
        wanted = bounds(wanted, sys.version_info[:2])
        if not wanted:
            print("there is no Python here but the one of this environment")
            return 0
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory(prefix="aiokproto-") as folder:
        source = build_source(Path(folder))
        for name, interpreter in wanted.items():
            print(f"{name}: {interpreter.python}", flush=True)
            outcomes[name] = prove(interpreter, source, options)
    print(table(outcomes, [*outcomes] if options.bounds else options.only or PROMISED))
    return int(not outcomes or any("failed" in outcome.values() for outcome in outcomes.values()))


def parse(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tools.pythons", description=__doc__)
    parser.add_argument(
        "--python", nargs="*", default=[], help="interpreters that are not on PATH, nor pyenv's or uv's"
    )
    parser.add_argument("--only", nargs="*", default=[], help="try these alone: 3.10 3.14t")
    parser.add_argument("--bounds", action="store_true", help="only the oldest and the newest beside this one")
    parser.add_argument(
        "--tests", nargs="*", default=ACCELERATED, help="what to run as installed, by its place in tests"
    )
    parser.add_argument("--pure", nargs="*", default=[], help="what to run in pure Python, by its place in tests")
    parser.add_argument("--uvloop", nargs="*", default=[], help="what to run on uvloop")
    return parser.parse_args(arguments)


def bounds(found: dict[str, Interpreter], this: tuple[int, int]) -> dict[str, Interpreter]:
    """Return the oldest and the newest of the interpreters, which are in order, not counting the release ``this``."""
    others = [(name, one) for name, one in found.items() if one.version[:2] != this]
    return dict([*others[:1], *others[-1:]])


def prove(interpreter: Interpreter, source: Path, options: argparse.Namespace) -> Outcome:
    """Install the package for an interpreter, and run the tests; what cannot be done says so in the outcome."""
    folder = CACHE / "pythons" / interpreter.name
    shutil.rmtree(folder, ignore_errors=True)
    proof = Proof(folder)
    outcome = {"release": interpreter.release}
    try:
        proof.prepare(interpreter.python, source)
        proof.expect(accelerated=True)
        ask: list[str | Path] = [proof.python, "-I", "-c", LOCK]
        outcome["global lock"] = subprocess.run(
            ask, env=OUTSIDE, capture_output=True, text=True, check=True
        ).stdout.strip()
    except (MissingError, subprocess.CalledProcessError) as error:
        print(error)
        return {**outcome, "accelerated": "failed"}
    outcome["accelerated"] = passed(proof.test(options.tests, marks=MARKS))
    if options.pure:
        outcome["pure"] = passed(proof.test(options.pure, "--pure", marks=MARKS))
    if options.uvloop:
        outcome["uvloop"] = on_uvloop(proof, options.uvloop)
    return outcome


def on_uvloop(proof: Proof, tests: list[str]) -> str:
    try:
        # Compiling it takes minutes, and tools that a machine may lack.
        proof.install("--only-binary=uvloop", "uvloop")
    except MissingError:
        return "no wheel"
    return passed(proof.test(tests, "--loop", "uvloop", marks=MARKS))


def passed(good: bool) -> str:
    return "passed" if good else "failed"


def table(outcomes: dict[str, Outcome], promised: tuple[str, ...] | list[str]) -> str:
    """The outcomes, one Python a line; those of ``promised`` that are missing are named."""
    lines: list[tuple[str, ...]] = [("Python", *COLUMNS)]
    lines += [(name, *(outcome.get(column, "-") for column in COLUMNS)) for name, outcome in outcomes.items()]
    lines += [(name, "not found", *("-" for _ in COLUMNS[1:])) for name in promised if name not in outcomes]
    widths = [max(len(line[place]) for line in lines) for place in range(len(lines[0]))]
    return "\n".join(
        "  ".join(word.ljust(width) for word, width in zip(line, widths, strict=True)).rstrip() for line in lines
    )


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
