"""What is mutated, how, and what is left as it is."""

from __future__ import annotations

import ast

import pytest

from tests.mutation.mutants import is_program, mutants_of

MUTATED = {
    "a < b": ["a <= b"],
    "a <= b < c": ["a < b < c", "a <= b <= c"],
    "a > b": ["a >= b"],
    "a >= b": ["a > b"],
    "(a) == (b)": ["(a) != (b)"],
    "a != b": ["a == b"],
    "a is b": ["a is not b"],
    "a is  not b": ["a is b"],
    "a in b": ["a not in b"],
    "a not in b": ["a in b"],
    "a and b and c": ["a or b and c", "a and b or c"],
    "a or b": ["a and b"],
    "x = not a": ["x =  a"],
    "é = 'é' and a": ["é = 'é' or a"],
    "if a: pass": ["if not (a): pass"],
    "if not a: pass": ["if  a: pass"],
    "if a == b: pass": ["if a != b: pass"],
    "if a < b: pass": ["if not (a < b): pass", "if a <= b: pass"],
    "if (b := a): pass": ["if (not (b := a)): pass"],
    "while True: pass": [],
    "x = a if b else c": ["x = a if not (b) else c"],
    "[a for a in b if c]": ["[a for a in b if not (c)]"],
    "a + b": ["a - b"],
    "a - b": ["a + b"],
    "a * b": ["a // b"],
    "a // b": ["a * b"],
    "a << b": ["a >> b"],
    "a >> b": ["a << b"],
    "a += b": ["a -= b"],
    "a + 'text'": [],
    "x = 9": ["x = 10"],
    "x = 1_000": ["x = 1001"],
    "x = 0x0F": ["x = 0x10"],
    "x = 0b1": ["x = 0b10"],
    "x = 1.5, True, 'a'": [],
    "for a in b: break": ["for a in b: continue"],
    "for a in b: continue": ["for a in b: break"],
    "f(a)": ["pass"],
    "f(\n  a\n)  # why": ["pass\n\n  # why"],
    "async def f():\n  await g()": ["async def f():\n  pass"],
    "a.b = c": ["pass"],
    "a[b] = a.c = d": ["pass"],
    "a.b: int = c": ["pass"],
    "a.b: int": [],
    "a = b": [],
    "def f():\n  return a": ["def f():\n  return None"],
    "def f():\n  return (\n    a\n  )": ["def f():\n  return (\n    None\n  )"],
    "def f():\n  return None": [],
    "def f():\n  return": [],
    "if a: pass\nelse: b = c": ["if not (a): pass\nelse: b = c", "if a: pass\nelse: pass"],
    "try: pass\nexcept A:\n  raise B": ["try: pass\nexcept A:\n  pass"],
    "try: pass\nexcept A:\n  a = b\n  c = d": [],
    "match a:\n  case b if c: pass": ["match a:\n  case b if not (c): pass"],
}


@pytest.mark.parametrize("text", MUTATED)
def test_a_mutant_differs_in_one_place(text: str) -> None:
    mutants = [mutant for mutant in mutants_of("codec/a.py", text) if is_program(mutant, text)]
    assert [mutant.applied_to(text) for mutant in mutants] == MUTATED[text]


LEFT_OUT = [
    '"""Text 1 < 2."""',
    "x: Literal[1] | Literal[2]",
    "def f(a: Annotated[int, 1 + 2]) -> Annotated[int, 3]: pass",
    "if TYPE_CHECKING:\n  x = 1",
    "if typing.TYPE_CHECKING:\n  x = 1",
    "class A(Protocol):\n  x = 1",
    "class A(Protocol[T]):\n  x = 1",
    "@overload\ndef f(a=1): pass",
    "x = cast(Literal[1], y)",
    "def __repr__(self):\n  return self.a + 1",
    "log.warning(a + b, 1)",
    "self._log.info(a, 1)",
    "raise Error(a + b, 1)",
    "assert a is not None",
    "x = f'{a + 1}'",
    "import a",
]


@pytest.mark.parametrize("text", LEFT_OUT)
def test_what_no_test_is_about_is_not_mutated(text: str) -> None:
    ast.parse(text)
    assert mutants_of("codec/a.py", text) == []


def test_a_mutant_that_does_not_compile_or_changes_nothing_is_not_a_program() -> None:
    text = "f(\n  a\n); g()"
    broken, dropped = mutants_of("codec/a.py", text)
    assert not is_program(broken, text)
    assert dropped.applied_to(text) == "f(\n  a\n); pass"
    assert is_program(dropped, text)
    assert not is_program(dropped._replace(new="g( )"), text)


MODULE = """LIMIT = 1

@decorated(2)
def f(a=3):
    if (
        4 + a
    ):
        return [
            5,
        ]

class A:
    size = 6
    def f(self):
        return 7
"""
STATEMENTS = {
    "1": (1, 1, True),
    "2": (3, 4, True),
    "3": (3, 4, True),
    "4": (5, 6, False),
    "5": (8, 10, False),
    "6": (13, 13, True),
    "7": (15, 15, False),
}


def test_a_mutant_names_the_lines_of_its_statement_and_whether_an_import_runs_them() -> None:
    found = {
        mutant.old: (mutant.first, mutant.last, mutant.at_import)
        for mutant in mutants_of("codec/a.py", MODULE)
        if mutant.operator == "integer"
    }
    assert found == STATEMENTS


def test_a_mutant_shows_its_line_before_and_after() -> None:
    _, comparison = mutants_of("codec/a.py", "def f(a):\n    return a < b\n")
    assert (comparison.line, comparison.change) == (2, "return a < b -> return a <= b")
    (dropped,) = mutants_of("codec/a.py", "def f(a):\n    g(\n        a\n    )  # why\n")
    assert (dropped.line, dropped.change) == (2, "g( a )  # why -> pass  # why")
    (of_long_line,) = mutants_of("codec/a.py", f"{'a' * 50}[b] = c and {'d' * 50}\n")[1:]
    assert of_long_line.change == f"...{'a' * 32}[b] = c and {'d' * 39}... -> ...{'a' * 32}[b] = c or {'d' * 39}..."
