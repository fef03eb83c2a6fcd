"""The documentation of declarations at run time: class docstrings, and the string literals that follow fields.

Python drops string literals that are statements, so the documentation of fields exists only in the source. It's read
from there when a tool first needs it: every client imports the declarations, but doesn't need their documentation. If
the source isn't available (in a zipped or frozen program), there is no documentation, which isn't an error.
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
    """Return a field's meaning, unit and sentinel values on one line, or ``""`` if it isn't documented.

    If a field isn't documented itself, the docstring of its struct is used.
    """
    own = _texts(spec.owner.__module__).get((spec.owner.__name__, spec.name), "") if spec.owner is not None else ""
    text = own or (describe(spec.struct) if spec.struct is not None else "")
    return " ".join(text.split())


@cache
def _texts(module: str) -> dict[tuple[str, str], str]:
    """Return the documentation by class and field. For the class itself, the field is empty."""
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
