"""Mutants of a module: what is mutated, and where."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from tests.mutation.operators import OPERATORS
from tests.mutation.source_text import SourceText

LOGGERS = {"log", "logger"}
SHOWN = 40
"""Characters of a long line on each side of a change."""
TEXT_METHODS = {"__repr__", "__str__"}
TYPING_FIELDS = {"annotation", "returns"}
TYPING_CALLS = {"NewType", "ParamSpec", "TypeVar", "cast"}


class Mutant(NamedTuple):
    """A module with one change.

    Attributes:
        file: The module, below the package.
        line: Line of the change.
        operator: The name of the operator that made it, one of `OPERATORS`.
        start: Index of the replaced text in the module's text.
        old: The replaced text.
        new: The text that takes its place.
        change: The line before and after, for people.
        first: First line of the statement, or of the head of a compound one.
        last: Its last line.
        at_import: Whether the statement runs when the module is imported.
    """

    file: str
    line: int
    operator: str
    start: int
    old: str
    new: str
    change: str
    first: int
    last: int
    at_import: bool

    @property
    def name(self) -> str:
        """Tells it apart from all other mutants of the module's text."""
        return f"{self.file}:{self.start}:{self.operator}:{self.new.strip()}"

    @property
    def package(self) -> str:
        return self.file.partition("/")[0]

    def applied_to(self, text: str) -> str:
        """Return the mutated text of the module."""
        return text[: self.start] + self.new + text[self.start + len(self.old) :]


class Place(NamedTuple):
    """A node that can be mutated, and the statement that it is in."""

    node: ast.AST
    first: int
    last: int
    at_import: bool


def mutants_of(file: str, text: str) -> list[Mutant]:
    """Return a module's mutants, by place. `is_program` says which of them are programs."""
    source, found = SourceText(text), dict[tuple[int, int, str], Mutant]()
    for node, first, last, at_import in _places(ast.parse(text), at_import=True):
        for name, operator in OPERATORS.items():
            for start, end, new in operator(source, node):
                old, change = text[start:end], _change(source, start, end, new)
                place = (file, source.line(start), name, start, old, new, change)
                # Two operators may produce the same text.
                found.setdefault((start, end, new), Mutant(*place, first, last, at_import))
    return sorted(found.values(), key=lambda mutant: (mutant.start, mutant.operator, mutant.new))


def is_program(mutant: Mutant, text: str) -> bool:
    """Whether the mutant compiles, and to another program than the module."""
    mutated = mutant.applied_to(text)
    try:
        compile(mutated, mutant.file, "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return ast.dump(ast.parse(mutated)) != ast.dump(ast.parse(text))


def _places(parent: ast.AST, at_import: bool) -> Iterator[Place]:
    """Yield the nodes below one that has statements. Leave out nodes whose mutants no test can notice, or every
    test."""
    for child in ast.iter_child_nodes(parent):
        if isinstance(child, ast.stmt | ast.ExceptHandler | ast.match_case) and not _is_left_out(child):
            first, last = _head(child)
            yield from (Place(node, first, last, at_import) for node in _own_nodes(child))
            # The head of a function, with decorators and defaults, runs where it is defined; its body does not.
            is_function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)
            yield from _places(child, at_import and not is_function)


def _is_left_out(node: ast.AST) -> bool:
    """Whether a statement is typing alone, a text for people, or not there to fail: `assert` narrows types."""
    if isinstance(node, ast.Assert | ast.Raise):
        return True
    if isinstance(node, ast.If):
        return _name(node.test) == "TYPE_CHECKING"
    if isinstance(node, ast.ClassDef):
        return "Protocol" in map(_name, node.bases)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return node.name in TEXT_METHODS or "overload" in map(_name, node.decorator_list)
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = node.value.func
        return isinstance(function, ast.Attribute) and _name(function.value) in LOGGERS
    return False


def _own_nodes(statement: ast.AST) -> Iterator[ast.AST]:
    """Yield a statement and its expressions, without the expressions of nested statements."""
    pending = [statement]
    while pending:
        node = pending.pop()
        yield node
        for field, value in ast.iter_fields(node):
            children = value if isinstance(value, list) else [value]
            if field not in TYPING_FIELDS:
                pending += [child for child in children if isinstance(child, ast.AST) and _is_computed(child)]


def _is_computed(node: ast.AST) -> bool:
    """Whether a node is an expression, or a part of one, that decides more than a text."""
    if isinstance(node, ast.Call):
        return _name(node.func) not in TYPING_CALLS
    # Before Python 3.12, the nodes within an f-string have wrong positions.
    return not isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case | ast.JoinedStr)


def _head(statement: ast.stmt | ast.ExceptHandler | ast.match_case) -> tuple[int, int]:
    """Return the first and last line of a statement's head, which runs before the nested statements."""
    lines = [
        line
        for node in _own_nodes(statement)
        if isinstance(node, ast.expr | ast.pattern)
        for line in (node.lineno, node.end_lineno or node.lineno)
    ]
    if not isinstance(statement, ast.match_case):
        lines.append(statement.lineno)
    return min(lines), max(lines)


def _name(node: ast.expr) -> str:
    """Return the last part of a name; of `Protocol[T]` that is `Protocol`."""
    if isinstance(node, ast.Subscript):
        return _name(node.value)
    if isinstance(node, ast.Attribute):
        return node.attr.lstrip("_")
    return node.id.lstrip("_") if isinstance(node, ast.Name) else ""


def _change(source: SourceText, start: int, end: int, new: str) -> str:
    """Return a line before and after a change, without the parts that are far from it."""
    left, right = source.around(start, end)
    left = left if len(left) <= SHOWN else f"...{left[-SHOWN:]}"
    right = right if len(right) <= SHOWN else f"{right[:SHOWN]}..."
    return " -> ".join(f"{left}{_short(text)}{right}" for text in (source.text[start:end], new))


def _short(text: str) -> str:
    joined = " ".join(text.split())
    return joined if len(joined) <= 2 * SHOWN else f"{joined[:SHOWN]}...{joined[-SHOWN:]}"
