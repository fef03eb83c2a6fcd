"""Guards of the client, removed one by one: the simulation must notice each removal. Run it by hand, it takes hours::

    python -m tests.simulation.mutants [NAME ...]

A guard is marked in the source by a comment above the statement or operand that starts on the next line:

* ``# guard: NAME`` removes the statement. An ``if`` or ``while`` stays, with ``False`` as its condition. The body of a
  ``with`` stays, too.
* ``# guard: NAME -> CODE`` puts other code there. An expression takes the place of the condition, or of the value that
  is assigned or returned; any other code takes the place of the statement. A comment line of its own may have the code.

One statement can have several marks. Each is a mutant of its own.

Only a test that fails has noticed the removal. One that doesn't end within its limit proves nothing, because the
machine or the test may be slow.
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from tests.mutation.source_text import SourceText
from tests.mutation.trial import Ending, Trial, copy_tree, replaced, run_all, run_trial
from tests.simulation.guards import GUARDS, SIMULATION
from tools.setup.project import ROOT

PACKAGE = ROOT / "src" / "aiokproto"
OWN_TESTS = ROOT / "tests" / "simulation" / "test_mutants.py"

_MARK = re.compile(r" *# guard: (?P<name>.+?)(?: -> (?P<code>.+))?")
_CODE = re.compile(r" *# +-> (?P<code>.+)")


class Mutant(NamedTuple):
    """A guard that is removed.

    Attributes:
        name: What the guard is for.
        path: The module.
        line: The number of the line that the guard starts on.
        code: The code that replaces it; None if it is only removed.
    """

    name: str
    path: Path
    line: int
    code: str | None

    def applied_to(self, text: str) -> str:
        """Return the text of the module without the guard."""
        source = SourceText(text)
        line = text.split("\n")[self.line - 1]
        start = self.line, len(line) - len(line.lstrip())
        # The nodes are visited from the outside in: the first one that starts here is the whole statement, or the whole
        # operand.
        nodes = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.stmt | ast.expr))
        guard = next((node for node in nodes if (node.lineno, node.col_offset) == start), None)
        if guard is None:
            raise ValueError(f"{self.path}:{self.line}: no statement or operand begins below the mark of {self.name!r}")
        if self.code is None:
            first, last, new = _removal(source, guard)
        else:
            part = _value(guard) if _is_expression(self.code) else guard
            first, last, new = source.start(part), source.end(part), self.code
        return text[:first] + new + text[last:]


@cache
def all_mutants() -> list[Mutant]:
    """Return the marked guards of the package."""
    return [mutant for path in sorted(PACKAGE.rglob("*.py")) for mutant in mutants_of(path, path.read_text())]


def mutants_of(path: Path, text: str) -> Iterator[Mutant]:
    """Yield the guards that are marked in a module."""
    marks: list[tuple[str, str | None]] = []
    for number, line in enumerate(text.split("\n"), 1):
        if mark := _MARK.fullmatch(line):
            marks.append((mark["name"], mark["code"]))
        elif marks and (code := _CODE.fullmatch(line)):
            marks[-1] = marks[-1][0], code["code"]
        elif not line.lstrip().startswith("#"):
            yield from (Mutant(name, path, number, code) for name, code in marks)
            marks.clear()


def _removal(source: SourceText, guard: ast.stmt | ast.expr) -> tuple[int, int, str]:
    if isinstance(guard, ast.If | ast.While):
        return source.start(guard.test), source.end(guard.test), "False"
    if isinstance(guard, ast.With | ast.AsyncWith):
        last = guard.items[-1]
        return source.start(guard), source.end(last.optional_vars or last.context_expr), "if True"
    return source.start(guard), source.end(guard), "pass"


def _value(guard: ast.stmt | ast.expr) -> ast.stmt | ast.expr:
    """Return the condition of a statement, or the value that it assigns or returns; otherwise the guard itself."""
    if isinstance(guard, ast.If | ast.While):
        return guard.test
    if isinstance(guard, ast.Assign | ast.AnnAssign | ast.Return):
        return guard.value or guard
    return guard


def _is_expression(code: str) -> bool:
    try:
        ast.parse(code, mode="eval")
    except SyntaxError:
        return False
    return True


def tests_by_speed() -> list[str]:
    """Return the modules of the simulation's tests. The modules with the faults of many seeds are last, because they
    take minutes."""
    # The test that compares marks and rows would notice every removal.
    modules = sorted(set((ROOT / "tests" / "simulation").glob("test_*.py")) - {OWN_TESTS})
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
    with tempfile.TemporaryDirectory(prefix="aiokproto-mutant-") as folder:
        copy = Path(folder)
        copy_tree(copy)
        path = copy / mutant.path.relative_to(ROOT)
        with replaced(path, mutant.applied_to(path.read_text())):
            own = [GUARDS[mutant.name]] if GUARDS[mutant.name] != SIMULATION else []
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
    options = parser.parse_args()
    console, survived = Console(), 0
    for mutant in all_mutants():
        if not options.names or any(name in mutant.name for name in options.names):
            noticed, what = judge(mutant, options.seeds, options.tests, options.limit)
            survived += not noticed
            console.print(f"{mutant.name}: {what}", style=None if noticed else "bold red", soft_wrap=True)
    sys.exit(survived > 0)


if __name__ == "__main__":
    main()
