"""Guards are marked in the source as the table says, and only a test that fails has noticed a removal."""

from __future__ import annotations

import ast
import builtins
from collections import Counter
from pathlib import Path

import pytest

from tests.mutation.trial import run_trial
from tests.simulation.guards import GUARDS
from tests.simulation.mutants import Mutant, Verdict, all_mutants, mutants_of, verdict
from tests.timeouts import LONG_TIMEOUT
from tools.setup.project import ROOT


def test_each_row_of_the_table_is_marked_in_the_source_once() -> None:
    marked = Counter(mutant.name for mutant in all_mutants())
    assert marked == Counter(GUARDS.keys())


def test_the_tests_of_the_table_exist() -> None:
    files = {tests.partition("::")[0] for tests in GUARDS.values()}
    assert not [file for file in files if not (ROOT / file).exists()]


@pytest.mark.parametrize("mutant", all_mutants(), ids=[mutant.name for mutant in all_mutants()])
def test_a_module_without_its_guard_is_another_program(mutant: Mutant) -> None:
    """Every test would notice a name that doesn't exist, which would prove nothing."""
    text = mutant.path.read_text()
    mutated = mutant.applied_to(text)
    compile(mutated, mutant.path, "exec", dont_inherit=True)
    before, after = ast.parse(text), ast.parse(mutated)
    assert ast.dump(before) != ast.dump(after)
    # These are names that the module had before, or that its imports and parameters have. Attributes aren't checked.
    known = {node.id for node in ast.walk(before) if isinstance(node, ast.Name)}
    used = {node.id for node in ast.walk(after) if isinstance(node, ast.Name)}
    assert used <= known | set(dir(builtins))


MUTATED = {
    # A statement is removed.
    "def f():\n    # guard: g\n    a()\n": "def f():\n    # guard: g\n    pass\n",
    # The condition is never true.
    "# guard: g\nif a and (\n    b\n):\n    c()\n": "# guard: g\nif False:\n    c()\n",
    "if a:\n    b()\n# guard: g\nelif c:\n    d()\n": "if a:\n    b()\n# guard: g\nelif False:\n    d()\n",
    "# guard: g\nwhile a:\n    b()\n": "# guard: g\nwhile False:\n    b()\n",
    # The body stays.
    "# guard: g\nwith a as b, c:\n    d()\n": "# guard: g\nif True:\n    d()\n",
    # An expression replaces the condition or the value. Other code replaces the statement.
    "# guard: g -> True\nif a:\n    b()\n": "# guard: g -> True\nif True:\n    b()\n",
    "# guard: g -> 0\na = b = c\n": "# guard: g -> 0\na = b = 0\n",
    "def f():\n    # guard: g -> 0\n    return a\n": "def f():\n    # guard: g -> 0\n    return 0\n",
    "# guard: g -> h(0)\nh(a)\n": "# guard: g -> h(0)\nh(0)\n",
    "# guard: g -> a = 0\na, b = b, a\n": "# guard: g -> a = 0\na = 0\n",
    # The operand has its own line.
    "f(\n    a,\n    # guard: g -> 0\n    b.c,\n)\n": "f(\n    a,\n    # guard: g -> 0\n    0,\n)\n",
    # The mark has two lines, and there are other comments.
    "# guard: g\n#     -> 0\n# why\na = 1\n": "# guard: g\n#     -> 0\n# why\na = 0\n",
}


@pytest.mark.parametrize("text", MUTATED)
def test_a_mark_says_what_is_removed(text: str) -> None:
    (mutant,) = mutants_of(Path("a.py"), text)
    assert mutant.name == "g"
    assert mutant.applied_to(text) == MUTATED[text]


def test_each_mark_of_a_statement_is_a_mutant() -> None:
    text = "# guard: g -> 1\n# guard: h -> 2\na = 0\n"
    assert [mutant.applied_to(text).split("\n")[2] for mutant in mutants_of(Path("a.py"), text)] == ["a = 1", "a = 2"]


def test_a_mark_above_no_statement_is_an_error() -> None:
    text = "f(\n    a,\n    # guard: g\n)\n"
    (mutant,) = mutants_of(Path("a.py"), text)
    with pytest.raises(ValueError, match=r"a\.py:4: no statement or operand begins below the mark of 'g'"):
        mutant.applied_to(text)


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
    limit = 0.1 if program is ENDLESS else LONG_TIMEOUT
    assert verdict(await run_trial(tmp_path, [f"--timeout={limit}", "test_run.py"], path)) == RUNS[program]
