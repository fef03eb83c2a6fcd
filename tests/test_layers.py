"""The layers of the design, where `lint-imports` does not reach: what is really loaded, and what no contract names."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "aiokproto"

# Each can be imported alone, without an event loop or anything heavy coming along.
IMPORTABLE_ALONE = ("", ".errors", ".types", ".codec", ".codec.frames", ".records", ".net.protocol", ".net.sasl")
UNWANTED = ("asyncio", "numpy", "pyarrow", "pyspark", "zstandard", "lz4", "snappy", "crc32c")


def exists(module: str) -> bool:
    path = PACKAGE.joinpath(*module.split("."))
    return path.with_suffix(".py").exists() or path.is_dir()


def top_level_modules() -> list[str]:
    names = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    return sorted(names - {"__init__", "__main__"})


@pytest.mark.parametrize("module", [module for module in IMPORTABLE_ALONE if exists(module)])
def test_importing_a_pure_module_loads_nothing_else(module: str) -> None:
    code = f"import sys, aiokproto{module}; print(*[name for name in {UNWANTED!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


@pytest.mark.parametrize("module", top_level_modules())
def test_every_module_has_its_place_in_the_layers(module: str) -> None:
    """A module that the contracts do not name could import anything."""
    contracts = (ROOT / "pyproject.toml").read_text().partition("[tool.importlinter]")[2]
    assert module in contracts.replace(".", " ").replace("(", " ").replace(")", " ").replace('"', " ").split()


def test_no_module_imports_the_package_root() -> None:
    """`spark` and `cli` stand outside and use the public names; everything else would import in a circle."""
    guilty = [
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*.py")
        if not {"spark", "cli"}.intersection(path.parts)
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Import) and any(alias.name == "aiokproto" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module == "aiokproto" or node.level))
    ]
    assert not guilty


def test_every_public_name_is_where_the_package_says() -> None:
    """Also that `__all__`, the table behind it and the block for type checkers agree."""
    import aiokproto

    tree = ast.parse((PACKAGE / "__init__.py").read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    declared = {
        alias.name: str(node.module) for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names
    }
    assert declared == aiokproto._HOME
    assert set(aiokproto.__all__) == {*declared, "__version__"}
    for name, home in declared.items():
        assert getattr(aiokproto, name) is getattr(sys.modules[home], name)
    with pytest.raises(AttributeError, match="Nonsense"):
        aiokproto.Nonsense  # noqa: B018
