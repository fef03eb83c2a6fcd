"""Which compiled forms exist, the switch that turns them off, and compiled modules that cannot be loaded."""

from __future__ import annotations

import ast
import inspect
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import EXTENSION_SUFFIXES
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from aiokproto import accelerator
from aiokproto.accelerator import forms, has_compiled_form
from tests.accelerator.forms import not_compiled

SRC = Path(accelerator.__file__).parents[2]
PLANTED = "planted_forms"

Module = Callable[[str, str], None]


def marked_names() -> list[tuple[str, str]]:
    """Return module and name of everything with the decorator, as found in the sources."""
    found: list[tuple[str, str]] = []
    for path in sorted((SRC / "aiokproto").rglob("*.py")):
        source = path.read_text()
        if "@has_compiled_form\n" in source:
            module = ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")
            for node in ast.walk(ast.parse(source)):
                for decorator in getattr(node, "decorator_list", ()):
                    if ast.unparse(decorator) == "has_compiled_form":
                        found.append((module, getattr(node, "name", "")))
    return sorted(found)


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Module]:
    """Return a function that writes a module in place of a compiled one, with compiled forms on and nothing loaded."""
    monkeypatch.setattr(accelerator, "_on", True)
    monkeypatch.setattr(accelerator, "_forms", {})
    monkeypatch.setattr(accelerator, "COMPILED", ())
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / PLANTED).mkdir()
    (tmp_path / PLANTED / "__init__.py").touch()

    def write(name: str, source: str) -> None:
        (tmp_path / PLANTED / f"_{name}.py").write_text(source)
        monkeypatch.setattr(accelerator, "COMPILED", (*accelerator.COMPILED, f"{PLANTED}._{name}"))

    yield write
    for name in [name for name in sys.modules if name.partition(".")[0] == PLANTED]:
        del sys.modules[name]


def answer_of(module: str) -> Callable[[], str]:
    """Return a pure function that says it is defined in a module of the planted package."""

    def answer() -> str:
        """Return which form this is."""
        return "pure"

    answer.__module__ = f"{PLANTED}.{module}"
    return answer


def test_every_compiled_form_is_listed() -> None:
    assert accelerator.compiled_names() == marked_names()


def to_compile() -> list[str]:
    """The modules to compile, as found: by their sources, or where the package is installed, by what was made of them.

    Where it is installed, SRC has modules of other packages too.
    """
    package = SRC / "aiokproto"
    made = [path for kind in EXTENSION_SUFFIXES for path in package.rglob(f"*{kind}")]
    found = list(package.rglob("*.pyx")) or made
    return sorted({".".join((*path.relative_to(SRC).parts[:-1], path.name.partition(".")[0])) for path in found})


def test_every_compiled_module_is_listed() -> None:
    found = to_compile()
    if not found:
        pytest.skip("an installed package that was not compiled has neither sources nor what is made of them")
    assert sorted(accelerator.COMPILED) == found


def test_every_compiled_module_stands_beside_its_pure_one() -> None:
    beside = [name for name in sorted(accelerator.COMPILED) if not name.startswith(accelerator.__name__)]
    assert beside == sorted({"._".join(module.rsplit(".", 1)) for module, _ in marked_names()})


@pytest.mark.parametrize(("where", "name"), marked_names())
def test_a_module_that_names_a_compiled_form_has_one(where: str, name: str) -> None:
    found = forms(where, name)
    assert found["pure"].__module__ == where
    if not accelerator.accelerated:
        pytest.skip(not_compiled.kwargs["reason"])
    assert set(found) == {"pure", "compiled"}
    assert found["compiled"] is not found["pure"]


def documented(form: Any) -> dict[str, str | None]:
    """What ``help()`` says of a function, or of a class and its public methods."""
    names = [] if isinstance(form, FunctionType) else [name for name in vars(form) if not name.startswith("_")]
    methods = {name: getattr(form, name) for name in names if callable(getattr(form, name))}
    return {"": form.__doc__} | {name: method.__doc__ for name, method in methods.items()}


@pytest.mark.parametrize(("where", "name"), marked_names())
def test_help_says_the_same_of_both_forms(where: str, name: str) -> None:
    found = forms(where, name)
    said = documented(found["pure"])
    assert said[""]
    if "compiled" not in found:
        pytest.skip(not_compiled.kwargs["reason"])
    compiled = found["compiled"]
    assert said == {"": compiled.__doc__} | {method: getattr(compiled, method).__doc__ for method in said if method}


@pytest.mark.parametrize(("where", "name"), marked_names())
def test_both_forms_have_the_same_signature(where: str, name: str) -> None:
    both = forms(where, name)
    compiled, pure = both.get("compiled"), both["pure"]
    if compiled is None:
        pytest.skip("the accelerator is not in use")
    if isinstance(pure, type):
        assert inspect.signature(compiled) == inspect.signature(pure)
        for method, written in vars(pure).items():
            if isinstance(written, FunctionType) and not method.startswith("_"):
                assert getattr(compiled, method).__annotations__ == written.__annotations__


@pytest.mark.parametrize("first", accelerator.COMPILED)
def test_any_compiled_module_can_be_imported_first(first: str) -> None:
    """A compiled module and its pure one import each other; neither may see the other before it is complete."""
    if not accelerator.accelerated:
        pytest.skip(not_compiled.kwargs["reason"])
    code = (
        f"import {first}\n"
        "from aiokproto import accelerated\n"
        "from aiokproto.producer import Delivery, Producer\n"
        "print(accelerated, None not in (Delivery.result.__doc__, Producer.post.__doc__))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (["True", "True"], "")


def test_the_compiled_form_replaces_the_pure_one(module: Module, tmp_path: Path) -> None:
    module("sound", "def answer(): return 'compiled'")
    (tmp_path / PLANTED / "sound.py").touch()
    answer = answer_of("sound")
    chosen = has_compiled_form(answer)
    assert chosen() == "compiled"
    assert forms(answer.__module__, "answer") == {"pure": answer, "compiled": chosen}
    assert (chosen.__module__, chosen.__doc__) == (answer.__module__, answer.__doc__)
    assert accelerator.accelerated


def test_without_a_compiled_module_the_pure_form_stays(
    module: Module, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    module("absent", "")
    (tmp_path / PLANTED / "_absent.py").unlink()
    answer = answer_of("absent")
    assert has_compiled_form(answer) is answer
    assert not accelerator.accelerated
    assert not caplog.records


def test_a_compiled_module_that_lacks_the_name_leaves_the_pure_form(module: Module) -> None:
    module("outdated", "")
    answer = answer_of("outdated")
    assert has_compiled_form(answer) is answer


@pytest.mark.parametrize(
    ("name", "source", "complaint"),
    [
        ("broken", "raise ImportError('undefined symbol')", "undefined symbol"),
        ("broken", "raise ValueError('size changed')", "size changed"),
        ("needy", "import no_such_module_anywhere", "no_such_module_anywhere"),
    ],
)
def test_a_compiled_module_that_cannot_be_loaded_disables_all_and_is_logged_once(
    module: Module, caplog: pytest.LogCaptureFixture, name: str, source: str, complaint: str
) -> None:
    module(name, source)
    module("sound", "def answer(): return 'compiled'")
    with caplog.at_level(logging.WARNING, "aiokproto"):
        for planted in (name, name, "sound"):
            answer = answer_of(planted)
            assert has_compiled_form(answer) is answer
    assert not accelerator.accelerated
    (record,) = caplog.records
    assert record.name == "aiokproto"
    assert f"{PLANTED}._{name}" in record.getMessage()
    assert complaint in record.getMessage()


def test_modules_without_a_compiled_form() -> None:
    with pytest.raises(LookupError, match=r"aiokproto\.types has no compiled form of 'Nonsense'"):
        forms("aiokproto.types", "Nonsense")


@pytest.mark.parametrize(("value", "turned_off"), [(None, False), ("", False), ("0", False), ("1", True), ("no", True)])
def test_the_switch_in_the_environment(value: str | None, turned_off: bool) -> None:
    environment = {name: text for name, text in os.environ.items() if name != "AIOKPROTO_PURE"}
    if value is not None:
        environment["AIOKPROTO_PURE"] = value
    code = "import aiokproto.accelerator as accelerator; print(accelerator._on, accelerator.accelerated)"
    command = [sys.executable, "-c", code]
    on, in_use = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.split()
    assert on == str(not turned_off)
    assert not (turned_off and in_use == "True")
