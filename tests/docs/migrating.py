"""The tables of the migration pages, and what the names in their cells stand for."""

from __future__ import annotations

import ast
import builtins
import inspect
import re
from collections.abc import Container, Iterator, Mapping
from typing import Any

from aiokproto.codec.schema import Struct
from tests.docs.snippets import ROOT

PAGES = ["aiokafka", "kafka-python", "confluent-kafka"]

_CODE = re.compile(r"`([^`]+)`")
_ROW = re.compile(r"^\| (.+) \|$", re.MULTILINE)


def section(page: str, heading: str) -> str:
    """What stands between a heading and the next one of its level."""
    text = (ROOT / "docs" / "migrating" / f"{page}.md").read_text()
    return text.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def table(page: str, heading: str) -> list[list[str]]:
    """The cells of each row of a section's table, without its head."""
    rows = [re.split(r" \| ", row) for row in _ROW.findall(section(page, heading))]
    return [row for row in rows[1:] if not set("".join(row)) <= set("-|")]


def code(cell: str) -> list[str]:
    """The spans of code in a cell."""
    return _CODE.findall(cell)


def unknown(span: str, names: Mapping[str, object]) -> Iterator[str]:
    """Yield what a span of code names that is not there: a class, an attribute, or a keyword of a call.

    Args:
        span: Python, with ``…`` for what does not matter. Other text, such as an option in dots, names nothing.
        names: What the names stand for: a class, or for a variable, such as ``consumer``, the class of its value.
            Capitalized names have to be among them, or built in.
    """
    try:
        tree = ast.parse(span.replace("…", "...").replace("await ", ""), mode="eval")
    except SyntaxError:
        return
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and re.match(r"_?[A-Z]", node.id) and _resolve(node, names) is None:
            yield node.id
        if isinstance(node, ast.Attribute):
            owner = _resolve(node.value, names)
            if owner is not None and not has_attribute(owner, node.attr):
                yield f"{ast.unparse(node.value)}.{node.attr}"
        if isinstance(node, ast.Call):
            yield from _unknown_keywords(node, names)


def has_attribute(owner: Any, name: str) -> bool:
    """Whether a module, class or function, or the instances of a class, have an attribute."""
    if hasattr(owner, name) or not isinstance(owner, type):
        return hasattr(owner, name)
    return any(name in vars(base).get("__annotations__", ()) or _assigns(base, name) for base in owner.__mro__[:-1])


def _assigns(cls: type, name: str) -> bool:
    init = vars(cls).get("__init__")
    return inspect.isfunction(init) and f"self.{name} = " in inspect.getsource(init)


def _resolve(node: ast.expr, names: Mapping[str, object]) -> object:
    """The class or function that an expression is, or whose instance it is; None if that is unknown."""
    if isinstance(node, ast.Name):
        return names.get(node.id, getattr(builtins, node.id, None))
    if isinstance(node, ast.Attribute):
        found = getattr(_resolve(node.value, names), node.attr, None)
        return found if callable(found) else None
    return None


def _unknown_keywords(call: ast.Call, names: Mapping[str, object]) -> Iterator[str]:
    called = _resolve(call.func, names)
    if callable(called) and call.keywords:
        accepted = _keywords(called)
        given = [each.arg for each in call.keywords if each.arg is not None]
        yield from (f"{ast.unparse(call.func)}({name}=)" for name in given if name not in accepted)


def _keywords(called: Any) -> Container[str]:
    if isinstance(called, type) and issubclass(called, Struct):
        return {spec.name for spec in called.fields()}
    try:
        parameters = inspect.signature(called).parameters
    except ValueError:
        # Compiled, and without a signature.
        return _Everything()
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())
    return _Everything() if takes_any else parameters


class _Everything:
    def __contains__(self, name: object) -> bool:
        return True
