"""What stands in for what: twins, the switch that turns them off, and compiled modules that cannot be loaded."""

from __future__ import annotations

import ast
import inspect
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from aiokproto import accelerator
from aiokproto.accelerator import forms, twin
from tests.accelerator.twins import not_compiled

SRC = Path(accelerator.__file__).parents[2]
FOREIGN = ("absent", "sound", "broken", "needy", "outdated")

Module = Callable[[str, str], None]


def marked_as_twins() -> list[tuple[str, str]]:
    """Module and name of all that says it has a twin."""
    found: list[tuple[str, str]] = []
    for path in sorted((SRC / "aiokproto").rglob("*.py")):
        source = path.read_text()
        if "@twin(" in source:
            module = ".".join(path.relative_to(SRC).with_suffix("").parts).removesuffix(".__init__")
            for node in ast.walk(ast.parse(source)):
                for decorator in getattr(node, "decorator_list", ()):
                    if ast.unparse(decorator).startswith("twin("):
                        found.append((module, getattr(node, "name", "")))
    return found


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Module]:
    """Puts a module of one's own among the compiled ones, in an accelerator that is on and has loaded nothing else."""
    monkeypatch.setattr(accelerator, "_on", True)
    monkeypatch.setattr(accelerator, "__path__", [str(tmp_path)])
    monkeypatch.setattr(accelerator, "_forms", {})

    def write(name: str, source: str) -> None:
        (tmp_path / f"{name}.py").write_text(source)

    yield write
    for name in FOREIGN:
        sys.modules.pop(f"{accelerator.__name__}.{name}", None)


def answer() -> str:
    return "pure"


@pytest.mark.parametrize(("where", "name"), marked_as_twins())
def test_what_says_that_it_has_a_twin_has_one(where: str, name: str) -> None:
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


@pytest.mark.parametrize(("where", "name"), marked_as_twins())
def test_help_says_the_same_of_both_forms(where: str, name: str) -> None:
    found = forms(where, name)
    said = documented(found["pure"])
    assert said[""]
    if "compiled" not in found:
        pytest.skip(not_compiled.kwargs["reason"])
    compiled = found["compiled"]
    assert said == {"": compiled.__doc__} | {method: getattr(compiled, method).__doc__ for method in said if method}


@pytest.mark.parametrize(("where", "name"), marked_as_twins())
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


@pytest.mark.parametrize("first", ["producer", "accelerator.posting", "accelerator.objects"])
def test_whichever_is_imported_first(first: str) -> None:
    """The two sides import each other; what is asked for its twin too early would not have all of it."""
    if not accelerator.accelerated:
        pytest.skip(not_compiled.kwargs["reason"])
    code = (
        f"import aiokproto.{first}\n"
        "from aiokproto import accelerated\n"
        "from aiokproto.producer import Delivery, Producer\n"
        "print(accelerated, None not in (Delivery.result.__doc__, Producer.post.__doc__))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (done.stdout.split(), done.stderr) == (["True", "True"], "")


def test_the_compiled_form_takes_the_place_of_the_pure_one(module: Module) -> None:
    module("sound", "def answer(): return 'compiled'")
    chosen = twin("sound")(answer)
    assert chosen() == "compiled"
    assert forms(__name__, "answer") == {"pure": answer, "compiled": chosen}
    assert accelerator.accelerated


def test_without_a_compiled_module_the_pure_form_stays(module: Module, caplog: pytest.LogCaptureFixture) -> None:
    assert twin("absent")(answer) is answer
    assert forms(__name__, "answer") == {"pure": answer}
    assert not accelerator.accelerated
    assert not caplog.records


def test_a_compiled_module_that_lacks_the_name_leaves_the_pure_form(module: Module) -> None:
    module("outdated", "")
    assert twin("outdated")(answer) is answer


@pytest.mark.parametrize(
    ("name", "source", "complaint"),
    [
        ("broken", "raise ImportError('undefined symbol')", "undefined symbol"),
        ("broken", "raise ValueError('size changed')", "size changed"),
        ("needy", "import no_such_module_anywhere", "no_such_module_anywhere"),
    ],
)
def test_a_compiled_module_that_cannot_be_loaded_turns_all_off_and_says_so_once(
    module: Module, caplog: pytest.LogCaptureFixture, name: str, source: str, complaint: str
) -> None:
    module(name, source)
    module("sound", "def answer(): return 'compiled'")
    with caplog.at_level(logging.WARNING, "aiokproto"):
        assert twin(name)(answer) is answer
        assert twin(name)(answer) is answer
        assert twin("sound")(answer) is answer
    assert not accelerator.accelerated
    (record,) = caplog.records
    assert record.name == "aiokproto"
    assert f"aiokproto.accelerator.{name}" in record.getMessage()
    assert complaint in record.getMessage()


def test_forms_of_what_has_no_twin() -> None:
    with pytest.raises(LookupError, match=r"aiokproto\.types has no twin called 'Nonsense'"):
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
