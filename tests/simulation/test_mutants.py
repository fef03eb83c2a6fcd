"""The guards that are removed one by one are still in the files that the table names, and only a test that fails has
noticed a removal."""

from __future__ import annotations

import ast
import builtins
from pathlib import Path

import pytest

from tests.mutation.trial import run_trial
from tests.patience import PATIENCE
from tests.simulation.guards import MUTANTS, Mutant
from tests.simulation.mutants import Verdict, verdict
from tools.setup.project import ROOT


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_guard_is_in_its_file_once(mutant: Mutant) -> None:
    text = (ROOT / "src" / "aiokproto" / mutant.file).read_text()
    assert text.count(mutant.guard) == 1
    assert mutant.guard != mutant.without


@pytest.mark.parametrize("mutant", MUTANTS, ids=[mutant.name for mutant in MUTANTS])
def test_a_module_without_its_guard_is_a_program(mutant: Mutant) -> None:
    """Every test would notice a name that doesn't exist, which would prove nothing."""
    text = (ROOT / "src" / "aiokproto" / mutant.file).read_text()
    tree = ast.parse(text.replace(mutant.guard, mutant.without))
    # These are names that the module had before, or that its imports and parameters have. Attributes aren't checked.
    known = {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    assert used <= known | set(dir(builtins))


ENDLESS = "def test():\n    while True: pass"
RUNS = {
    "def test(): pass": Verdict(False, "nothing"),
    "def test(): assert False": Verdict(True, "test_run.py::test"),
    "import pytest\n@pytest.fixture\ndef broken():\n    yield\n    assert False\ndef test(broken): pass": Verdict(
        True, "test_run.py::test"
    ),
    ENDLESS: Verdict(False, "nothing: test_run.py::test does not end"),
    "import nowhere": Verdict(False, "nothing: the tests do not run"),
}


@pytest.mark.extended
@pytest.mark.parametrize("program", RUNS)
async def test_only_a_test_that_fails_has_noticed_a_removal(program: str, tmp_path: Path) -> None:
    (tmp_path / "test_run.py").write_text(program)
    # The reporting plugin is imported from this tree.
    path = {"PYTHONPATH": str(ROOT)}
    limit = 0.1 if program is ENDLESS else PATIENCE
    assert verdict(await run_trial(tmp_path, [f"--timeout={limit}", "test_run.py"], path)) == RUNS[program]
