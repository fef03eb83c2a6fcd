"""The operators: how a node of the syntax tree is mutated.

Each takes a module's text and a node, and yields edits. An edit replaces the text at its own place and keeps the number
of lines: what a mutant's test prints fits the module as it is.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from tests.mutation.source_text import SourceText


class Edit(NamedTuple):
    """What takes the place of a part of the text.

    Attributes:
        start: Index of the part's first character.
        end: Index after its last.
        new: The text that takes its place.
    """

    start: int
    end: int
    new: str


Operator = Callable[[SourceText, ast.AST], Iterator[Edit]]

COMPARISONS: dict[type[ast.cmpop], tuple[str, str]] = {
    ast.Lt: ("<", "<="),
    ast.LtE: ("<=", "<"),
    ast.Gt: (">", ">="),
    ast.GtE: (">=", ">"),
    ast.Eq: ("==", "!="),
    ast.NotEq: ("!=", "=="),
    ast.Is: ("is", "is not"),
    ast.IsNot: ("is not", "is"),
    ast.In: ("in", "not in"),
    ast.NotIn: ("not in", "in"),
}
NEGATED_BY_COMPARISON = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
"""Comparisons whose replacement is their negation."""
ARITHMETIC: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: ("+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: ("*", "//"),
    ast.FloorDiv: ("//", "*"),
    ast.LShift: ("<<", ">>"),
    ast.RShift: (">>", "<<"),
}
INTEGER = re.compile(r"0[xX][0-9a-fA-F_]+|0[oO][0-7_]+|0[bB][01_]+|[0-9][0-9_]*")
FORMATS = {"x": "#x", "o": "#o", "b": "#b"}
"""How an integer is written, by the letter after its first digit."""


def comparison(source: SourceText, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Compare):
        operands = [node.left, *node.comparators]
        for left, operator, right in zip(operands, node.ops, node.comparators, strict=False):
            old, new = COMPARISONS[type(operator)]
            yield from _between(source, left, right, old, new)


def boolean(source: SourceText, node: ast.AST) -> Iterator[Edit]:
    """Swap ``and`` and ``or``; drop ``not``."""
    if isinstance(node, ast.BoolOp):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        for left, right in zip(node.values, node.values[1:], strict=False):
            yield from _between(source, left, right, old, new)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        start = source.start(node)
        yield Edit(start, start + len("not"), "")


def condition(source: SourceText, node: ast.AST) -> Iterator[Edit]:
    """Negate what a branch or loop depends on."""
    if isinstance(node, ast.If | ast.While | ast.IfExp):
        tests: list[ast.expr] = [node.test]
    elif isinstance(node, ast.comprehension):
        tests = node.ifs
    elif isinstance(node, ast.match_case) and node.guard is not None:
        tests = [node.guard]
    else:
        return
    for test in tests:
        if not _negated_elsewhere(test):
            start, end = source.start(test), source.end(test)
            yield Edit(start, end, f"not ({source.text[start:end]})")


def _negated_elsewhere(test: ast.expr) -> bool:
    """Whether another operator negates it, or it decides nothing: a constant condition has no line of its own."""
    if isinstance(test, ast.Compare):
        return len(test.ops) == 1 and isinstance(test.ops[0], NEGATED_BY_COMPARISON)
    return isinstance(test, ast.Constant) or (isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not))


def arithmetic(source: SourceText, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.BinOp) and type(node.op) in ARITHMETIC:
        # Every test would notice a text or list that can't be computed.
        if not _is_sequence(node.left) and not _is_sequence(node.right):
            yield from _between(source, node.left, node.right, *ARITHMETIC[type(node.op)])
    elif isinstance(node, ast.AugAssign) and type(node.op) in ARITHMETIC and not _is_sequence(node.value):
        old, new = ARITHMETIC[type(node.op)]
        yield from _between(source, node.target, node.value, f"{old}=", f"{new}=")


def _is_sequence(node: ast.expr) -> bool:
    text = isinstance(node, ast.Constant) and isinstance(node.value, str | bytes)
    return text or isinstance(node, ast.JoinedStr | ast.List | ast.Tuple | ast.ListComp)


def integer(source: SourceText, node: ast.AST) -> Iterator[Edit]:
    """Add one to a constant."""
    if isinstance(node, ast.Constant) and type(node.value) is int:
        start, end = source.start(node), source.end(node)
        old = source.text[start:end]
        if INTEGER.fullmatch(old):
            yield Edit(start, end, format(node.value + 1, FORMATS.get(old[1:2].lower(), "d")))


def loop(source: SourceText, node: ast.AST) -> Iterator[Edit]:
    if isinstance(node, ast.Break | ast.Continue):
        new = "continue" if isinstance(node, ast.Break) else "break"
        yield Edit(source.start(node), source.end(node), new)


def call(source: SourceText, node: ast.AST) -> Iterator[Edit]:
    """Drop a statement that is a call."""
    if isinstance(node, ast.Expr):
        called = node.value.value if isinstance(node.value, ast.Await) else node.value
        if isinstance(called, ast.Call):
            yield _in_place_of(source, node, "pass")


def assignment(source: SourceText, node: ast.AST) -> Iterator[Edit]:
    """Drop an assignment to attributes or items."""
    if isinstance(node, ast.Assign):
        targets = node.targets
    elif isinstance(node, ast.AugAssign) or (isinstance(node, ast.AnnAssign) and node.value is not None):
        targets = [node.target]
    else:
        return
    if all(isinstance(target, ast.Attribute | ast.Subscript) for target in targets):
        yield _in_place_of(source, node, "pass")


def returned(source: SourceText, node: ast.AST) -> Iterator[Edit]:
    """Return None."""
    if isinstance(node, ast.Return) and node.value is not None:
        yield _in_place_of(source, node.value, "None")


def branch(source: SourceText, node: ast.AST) -> Iterator[Edit]:
    """Empty an ``else`` or ``except`` whose body is one simple statement."""
    body: list[ast.stmt] = []
    if isinstance(node, ast.If):
        body = node.orelse
    elif isinstance(node, ast.ExceptHandler):
        body = node.body
    if len(body) == 1 and isinstance(body[0], ast.Raise | ast.Return | ast.Assign | ast.AugAssign):
        yield _in_place_of(source, body[0], "pass")


OPERATORS: dict[str, Operator] = {
    operator.__name__: operator
    for operator in (comparison, boolean, condition, arithmetic, integer, loop, call, assignment, returned, branch)
}


def _between(source: SourceText, left: ast.expr, right: ast.expr, old: str, new: str) -> Iterator[Edit]:
    """Replace the operator between two operands. It's skipped if anything but parentheses stands beside it."""
    start = source.end(left)
    gap = source.text[start : source.start(right)]
    words = old.replace(" ", r"\s+")
    found = re.fullmatch(rf"[\s)\\]*({words if old[-1].isalpha() else re.escape(old)})[\s(\\]*", gap)
    if found is not None:
        yield Edit(start + found.start(1), start + found.end(1), new)


def _in_place_of(source: SourceText, node: ast.expr | ast.stmt, new: str) -> Edit:
    start, end = source.start(node), source.end(node)
    return Edit(start, end, new + "\n" * source.text.count("\n", start, end))
