"""Guards of the client, removed one by one: the simulation must detect each removal. Run by hand, as it takes hours::

python -m tests.simulation.mutants [NAME ...]

Only a test that fails has noticed the removal. One that does not end within its limit proves nothing: the machine, or
the test, may be slow.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pytest
from rich.console import Console

from tests.simulation.guards import MUTANTS, Mutant
from tools.setup.project import ROOT

OPTIONS = ("-x", "-v", "--timeout-method=thread")
"""The thread ends the process. What a signal raises can be caught: an event loop reports it, and goes on."""
TEXTS = ROOT / "tests" / "simulation" / "test_mutants.py"


def tests_by_speed() -> list[str]:
    """The modules of the simulation's tests. Those that run the faults of many seeds are last: they take minutes."""
    # That which looks for the guards' texts would notice every removal.
    modules = sorted(set((ROOT / "tests" / "simulation").glob("test_*.py")) - {TEXTS})
    modules.sort(key=lambda module: "from tests.simulation.seeds import" in module.read_text())
    return [str(module.relative_to(ROOT)) for module in modules]


class Verdict(NamedTuple):
    """What a run without a guard shows.

    Attributes:
        noticed: Whether a test failed.
        what: Which one; or what happened instead.
    """

    noticed: bool
    what: str


def judge(mutant: Mutant, seeds: int, tests: Sequence[str], limit: float) -> Verdict:
    """Run tests without the guard, until one fails. None may take longer than ``limit`` seconds."""
    with tempfile.TemporaryDirectory(prefix="aiokproto-mutant-") as made:
        copy = Path(made)
        for part in ("src", "tests", "tools", "docs", "examples"):
            shutil.copytree(ROOT / part, copy / part, symlinks=True)
        shutil.copy(ROOT / "pyproject.toml", copy)
        path = copy / "src" / "aiokproto" / mutant.file
        text = path.read_text()
        if text.count(mutant.guard) != 1:
            raise SystemExit(f"{mutant.name}: {mutant.file} has the guard {text.count(mutant.guard)} times")
        path.write_text(text.replace(mutant.guard, mutant.without))
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join((str(copy / "src"), str(copy))),
            "SIMULATION_SEEDS": str(seeds),
        }
        command = [sys.executable, "-m", "pytest", *OPTIONS, "-p", "no:cacheprovider", "-p", "no:randomly"]
        done = subprocess.run(
            [*command, f"--timeout={limit}", *tests], cwd=copy, env=environment, capture_output=True, text=True
        )
        return verdict(done.returncode, done.stdout)


def verdict(status: int, output: str) -> Verdict:
    """Return what pytest's exit status and output say of a run with `OPTIONS`."""
    if status == pytest.ExitCode.OK:
        return Verdict(False, "nothing")
    lines = output.splitlines()
    failed = [line for line in lines if line.startswith(("FAILED tests", "ERROR tests"))]
    if status == pytest.ExitCode.TESTS_FAILED and failed:
        return Verdict(True, _test(failed[0].partition(" ")[2].partition(" - ")[0]))
    begun = [line for line in lines if line.startswith("tests") and "::" in line]
    if "+ Timeout +" in output and begun:
        return Verdict(False, f"nothing: {_test(begun[-1].partition(' +++')[0].rstrip())} does not end")
    return Verdict(False, "nothing: the tests do not run")


def _test(node: str) -> str:
    module, _, function = node.partition("::")
    return f"{Path(module).name}::{function}"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the guards' names; by default all")
    parser.add_argument("--seeds", type=int, default=1000, help="of each workload (default %(default)s)")
    parser.add_argument("--tests", nargs="*", default=tests_by_speed(), help="by default those of the simulation")
    parser.add_argument("--limit", type=float, default=600, help="seconds a test may take (default %(default)s)")
    given = parser.parse_args()
    console, survived = Console(), 0
    for mutant in MUTANTS:
        if not given.names or any(name in mutant.name for name in given.names):
            noticed, what = judge(mutant, given.seeds, given.tests, given.limit)
            survived += not noticed
            console.print(f"{mutant.name}: {what}", style=None if noticed else "bold red", soft_wrap=True)
    sys.exit(survived > 0)


if __name__ == "__main__":
    main()
