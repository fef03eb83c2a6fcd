"""The layers of the design that `lint-imports` doesn't check: modules that are really loaded, and modules that no
contract names."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "src" / "aiokproto"

# Each module can be imported alone, without an event loop or anything heavy.
IMPORTABLE_ALONE = ("", ".errors", ".types", ".codec", ".codec.frames", ".records", ".net.protocol")
UNWANTED = ("asyncio", "numpy", "pyarrow", "pyspark", "zstandard", "lz4", "snappy", "crc32c")


class Layer(NamedTuple):
    """Modules on the same level. `independent` ones, separated by `|` and not by `:`, may not import each other."""

    modules: list[str]
    independent: bool


CONTRACTS = (ROOT / "pyproject.toml").read_text().partition("[tool.importlinter]")[2]


@cache
def layers() -> list[list[Layer]]:
    """Return the contracts of type `layers`, the highest layer first."""
    blocks = re.findall(r"^layers = \[\n(.*?)^\]", CONTRACTS, re.MULTILINE | re.DOTALL)
    lines = [re.findall(r'^    "(.+)",', block, re.MULTILINE) for block in blocks]
    return [[Layer(re.findall(r"[\w.]+", layer), ":" not in layer) for layer in block] for block in lines]


def compiled_modules() -> dict[str, str]:
    """Return the text of every Cython source by the module it is compiled to. A `.pxd` alone is a module, too."""
    texts: dict[str, str] = {}
    for path in sorted(PACKAGE.rglob("*.p[xy][dx]")):
        name = ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)
        texts[name] = texts.get(name, "") + path.read_text()
    return texts


def cython_imports(text: str) -> set[str]:
    """Return the modules that `import` and `cimport` name, anywhere in the text."""
    return set(re.findall(r"^ *(?:from|c?import) +([\w.]+)", text, re.MULTILINE))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


def python_imports(path: Path) -> set[str]:
    """Return the modules that a module imports from, wherever the statement stands."""
    nodes = ast.walk(ast.parse(path.read_text()))
    return {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}


def pure_name(module: str) -> str:
    """Return the pure module that a compiled one belongs to, within the package."""
    return ".".join(part.removeprefix("_") for part in module.split(".")[1:])


def wrong_imports(module: str, imported: Iterable[str]) -> list[str]:
    """Return the imports of a module that break the layers, as `importer -> imported`."""
    ours = [name for name in imported if name.startswith("aiokproto.") and pure_name(name) != pure_name(module)]
    rules = layers()
    return sorted({f"{module} -> {name}" for name in ours for rule in rules if not allowed(rule, module, name)})


def allowed(contract: list[Layer], module: str, imported: str) -> bool:
    """Return whether a contract lets a module import another: one of the same name, of a lower layer, or a `:`
    sibling."""
    importer, target = layer_of(contract, module), layer_of(contract, imported)
    if importer is None or target is None or importer == target:
        return True
    if importer[0] == target[0]:
        return not contract[importer[0]].independent
    return importer[0] < target[0]


def layer_of(contract: list[Layer], module: str) -> tuple[int, str] | None:
    """Return the number of a module's layer and its name there, or None if the contract doesn't concern it."""
    name = f"{pure_name(module)}."
    places = [
        (number, part) for number, layer in enumerate(contract) for part in layer.modules if name.startswith(f"{part}.")
    ]
    return max(places, key=lambda place: len(place[1]), default=None)


def top_level_modules() -> list[str]:
    names = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    return sorted(names - {"__init__", "__main__"})


@pytest.mark.parametrize("module", IMPORTABLE_ALONE)
def test_importing_a_pure_module_loads_nothing_else(module: str) -> None:
    code = f"import sys, aiokproto{module}; print(*[name for name in {UNWANTED!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.split() == []


@pytest.mark.parametrize("module", top_level_modules())
def test_every_module_has_its_place_in_the_layers(module: str) -> None:
    """A module that the contracts don't name could import anything."""
    assert module in {name.partition(".")[0] for layer in layers()[0] for name in layer.modules}


def test_the_layers_name_only_modules_that_exist() -> None:
    """import-linter reports a module that no longer exists, unless parentheses say that it may be absent."""
    assert not [line for line in CONTRACTS.splitlines() if re.match(r' +"[^"]*\(', line)]


def test_compiled_modules_keep_to_the_layers() -> None:
    """import-linter reads Python only."""
    texts = compiled_modules()
    assert {"aiokproto._types", "aiokproto.accelerator.layout", "aiokproto.records._record"} <= set(texts)
    assert not [wrong for module, text in texts.items() for wrong in wrong_imports(module, cython_imports(text))]


@pytest.mark.parametrize(
    ("module", "text", "wrong"),
    [
        ("records._record", "from aiokproto.producer._queue cimport TopicQueues", "producer._queue"),
        ("records._record", "def f():\n    from aiokproto.producer.queue import TopicQueues", "producer.queue"),
        ("codec._frames", "cimport aiokproto.records._crc", "records._crc"),
        ("accelerator.layout", "from aiokproto.records.record import read_records", "records.record"),
        ("accelerator.views", "import aiokproto.types", "types"),
        ("_types", "from aiokproto.records._record cimport BatchRecord", "records._record"),
        ("producer._delivery", "from aiokproto.consumer.delivery import DeliveryState", "consumer.delivery"),
        ("consumer._delivery", "from aiokproto.broker import Broker", "broker"),
    ],
)
def test_a_compiled_module_that_breaks_the_layers_is_found(module: str, text: str, wrong: str) -> None:
    found = wrong_imports(f"aiokproto.{module}", cython_imports(f"# cython: language_level=3\n{text}\n"))
    assert found == [f"aiokproto.{module} -> aiokproto.{wrong}"]


@pytest.mark.parametrize(
    ("module", "text"),
    [
        ("records._record", "from aiokproto._types cimport Record"),
        ("producer._appender", "from aiokproto.records._writer cimport RecordWriter"),
        ("_types", "def f():\n    from aiokproto.types import TimestampType"),
        ("records._rows", "from aiokproto.records._columns cimport Column\nfrom numpy import empty"),
    ],
)
def test_a_compiled_module_imports_what_is_below(module: str, text: str) -> None:
    assert cython_imports(text)
    assert not wrong_imports(f"aiokproto.{module}", cython_imports(text))


def test_no_module_imports_the_package_root() -> None:
    """`spark` and `cli` are outside and use the public names. Every other module would import in a circle."""
    guilty = [
        str(path.relative_to(ROOT))
        for path in PACKAGE.rglob("*.py")
        if not {"spark", "cli"}.intersection(path.parts)
        for node in ast.walk(ast.parse(path.read_text()))
        if (isinstance(node, ast.Import) and any(alias.name == "aiokproto" for alias in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module == "aiokproto" or node.level))
    ]
    assert not guilty


def test_imports_for_annotations_keep_to_the_layers() -> None:
    """import-linter leaves them out, because a part refers to its owner in annotations; layers aren't parts."""
    guilty = {
        wrong
        for path in PACKAGE.rglob("*.py")
        if path.name != "__main__.py"
        for wrong in wrong_imports(module_of(path), python_imports(path))
    }
    assert not guilty


def test_every_module_is_compiled_with_the_check_for_none() -> None:
    """`tests/accelerator/test_none.py` shows what the check does."""
    assert '"nonecheck": True' in (ROOT / "setup.py").read_text()
    assert not [name for name, text in compiled_modules().items() if "nonecheck" in text]


def test_every_public_name_is_where_the_package_says() -> None:
    """`__all__`, the table behind it and the block for type checkers must agree, too."""
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
