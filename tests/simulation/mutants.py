"""Removes guards of the client one by one: the simulation must detect each removal. This is run by hand because it
takes hours::

python -m tests.simulation.mutants [NAME ...]

Only a test that fails has noticed the removal. A test that doesn't end within its limit proves nothing: the machine, or
the test, may be slow.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from tests.mutation.trial import Ending, Trial, copy_tree, replaced, run_all, run_trial
from tests.simulation.guards import MUTANTS, Mutant
from tools.setup.project import ROOT

TEXTS = ROOT / "tests" / "simulation" / "test_mutants.py"


def tests_by_speed() -> list[str]:
    """The modules of the simulation's tests. The modules that run the faults of many seeds are last, because they take
    minutes."""
    # The module that looks for the guards' texts would notice every removal.
    modules = sorted(set((ROOT / "tests" / "simulation").glob("test_*.py")) - {TEXTS})
    modules.sort(key=lambda module: "from tests.simulation.seeds import" in module.read_text())
    return [str(module.relative_to(ROOT)) for module in modules]


class Verdict(NamedTuple):
    """What a run without a guard shows.

    Attributes:
        noticed: Whether a test failed.
        what: The test that failed, or what happened instead.
    """

    noticed: bool
    what: str


def judge(mutant: Mutant, seeds: int, tests: Sequence[str], limit: float) -> Verdict:
    """Run tests without the guard, until one fails. None may take longer than ``limit`` seconds."""
    with tempfile.TemporaryDirectory(prefix="aiokproto-mutant-") as made:
        copy = Path(made)
        copy_tree(copy)
        path = copy / "src" / "aiokproto" / mutant.file
        text = path.read_text()
        if text.count(mutant.guard) != 1:
            raise SystemExit(f"{mutant.name}: {mutant.file} has the guard {text.count(mutant.guard)} times")
        with replaced(path, text.replace(mutant.guard, mutant.without)):
            own = [mutant.tests] if mutant.tests else []
            arguments, environment = [f"--timeout={limit}", *own, *tests], {"SIMULATION_SEEDS": str(seeds)}
            return verdict(run_all(run_trial(copy, arguments, environment)))


def verdict(trial: Trial) -> Verdict:
    """Return what a trial without the guard says."""
    test = _short(trial.test) if trial.test else ""
    if trial.ending is Ending.FAILED:
        return Verdict(True, test)
    if trial.ending is Ending.HUNG:
        return Verdict(False, f"nothing: {test} does not end")
    return Verdict(False, "nothing" if trial.ending is Ending.PASSED else "nothing: the tests do not run")


def _short(node: str) -> str:
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
