"""Guards of the client, removed one by one: the simulation must detect each removal. Run by hand, as it takes minutes::

python -m tests.simulation.mutants [NAME ...]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.simulation.guards import MUTANTS, Mutant
from tools.setup.project import ROOT


def killed_by(mutant: Mutant, seeds: int, tests: list[str]) -> str | None:
    """The first test that fails without the guard."""
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
        command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "-p", "no:randomly"]
        try:
            done = subprocess.run(
                [*command, *tests], cwd=copy, env=environment, capture_output=True, text=True, timeout=300
            )
        except subprocess.TimeoutExpired:
            return "a run that does not end"
        if done.returncode == 0:
            return None
        failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED tests", "ERROR tests"))]
        return failed[0].split(" - ")[0].rpartition("/")[2] if failed else "the tests do not run"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.mutants", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of the guards' names; by default all")
    parser.add_argument("--seeds", type=int, default=1000, help="of each workload (default %(default)s)")
    parser.add_argument("--tests", nargs="*", default=["tests/simulation"], help="(default %(default)s)")
    given = parser.parse_args()
    table = Table("guard", "noticed by")
    survived = 0
    for mutant in MUTANTS:
        if not given.names or any(name in mutant.name for name in given.names):
            by = killed_by(mutant, given.seeds, given.tests)
            survived += by is None
            table.add_row(mutant.name, by or "[bold red]nothing")
    Console().print(table)
    sys.exit(survived > 0)


if __name__ == "__main__":
    main()
