"""Which modules import which, inside the package."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path


def importers(package_folder: Path) -> dict[str, set[str]]:
    """Return the files that import each file, by paths below the package. Imports for annotations do not count."""
    paths = sorted(package_folder.rglob("*.py"))
    trees = {path.relative_to(package_folder).as_posix(): ast.parse(path.read_text()) for path in paths}
    found = {file: set[str]() for file in trees}
    for file, tree in trees.items():
        for imported in _imported(tree, package_folder.name, trees):
            found[imported].add(file)
    return found


def _imported(tree: ast.AST, package: str, files: Mapping[str, object]) -> Iterator[str]:
    for node in _running(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] == package:
            for alias in node.names:
                # A name is a module, or something in one.
                file = _file(f"{node.module}.{alias.name}", files) or _file(node.module, files)
                if file is not None:
                    yield file


def _running(parent: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(parent):
        if not (isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING")):
            yield child
            yield from _running(child)


def _file(module: str, files: Mapping[str, object]) -> str | None:
    path = "/".join(module.split(".")[1:])
    return next((file for file in (f"{path}.py", f"{path}/__init__.py".lstrip("/")) if file in files), None)
