"""The texts of declarations at run time: class docstrings, and the string literals that follow fields.

Python drops a string literal that is a statement, so the texts of fields exist only in the source. A tool that asks for
the first text of a module reads them from there, because every client imports the declarations and none imports the
texts. Without the source (in a zipped or frozen program) there are no texts, and that isn't an error.
"""

from __future__ import annotations

import ast
import inspect
import sys
from functools import cache

from aiokproto.codec.schema import FieldSpec, Struct


def describe(struct: type[Struct]) -> str:
    """Return the docstring of a message or nested struct, or ``""`` if it has none."""
    return inspect.cleandoc(_texts(struct.__module__).get((struct.__name__, ""), ""))


def describe_field(spec: FieldSpec) -> str:
    """Return a field's meaning, unit and sentinel values on one line, or ``""`` if it has no text.

    The text of a struct stands for a field that is such a struct and has no text of its own.
    """
    own = _texts(spec.owner.__module__).get((spec.owner.__name__, spec.name), "") if spec.owner is not None else ""
    text = own or (describe(spec.struct) if spec.struct is not None else "")
    return " ".join(text.split())


@cache
def _texts(module: str) -> dict[tuple[str, str], str]:
    """Return the texts by class and field; the text of the class itself has an empty field."""
    try:
        tree = ast.parse(inspect.getsource(sys.modules[module]))
    except (OSError, TypeError, KeyError, SyntaxError):
        return {}
    texts: dict[tuple[str, str], str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ClassDef):
            texts[node.name, ""] = ast.get_docstring(node) or ""
            for before, after in zip(node.body, node.body[1:], strict=False):
                if isinstance(before, ast.AnnAssign) and isinstance(before.target, ast.Name):
                    texts[node.name, before.target.id] = _literal(after)
    return texts


def _literal(statement: ast.stmt) -> str:
    value = statement.value if isinstance(statement, ast.Expr) else None
    return value.value if isinstance(value, ast.Constant) and isinstance(value.value, str) else ""
