"""The pages of the API have an entry for each public name."""

from __future__ import annotations

import importlib
import importlib.metadata
import re
import subprocess
import sys

import pytest

from aiokproto import Consumer, Producer
from tests.docs.snippets import ROOT

PAGES = {page.stem: page.read_text() for page in (ROOT / "docs" / "api").glob("*.md")}
TEXT = "\n".join(PAGES.values())
ENTRIES = set(re.findall(r"^\.\. auto(?:class|function|data|exception):: ([\w.]+)$", TEXT, re.MULTILINE))
MODULES = dict(re.findall(r"^\.\. automodule:: ([\w.]+)\n   :members:(.*)$", TEXT, re.MULTILINE))
PACKAGES = ["producer", "consumer", "share", "cluster", "security", "broker", "records", "codec", "simulation"]
ELSEWHERE = {"aiokproto.group.assignors.make_assignors"}
"""Public for the packages above it, and not for users."""


def has_entry(package: str, name: str) -> bool:
    found = getattr(importlib.import_module(package), name)
    home = getattr(found, "__module__", "")
    listed = [each.strip() for each in MODULES.get(home, "-").split(",")]
    return f"{package}.{name}" in ENTRIES or f"{home}.{name}" in ENTRIES or listed == [""] or name in listed


@pytest.mark.parametrize("package", [f"aiokproto.{name}" for name in (*PACKAGES, "group.assignors")])
def test_every_public_name_has_an_entry(package: str) -> None:
    names = importlib.import_module(package).__all__
    missing = [name for name in names if not has_entry(package, name) and f"{package}.{name}" not in ELSEWHERE]
    assert not missing


def test_every_entry_is_there() -> None:
    for entry in ENTRIES:
        module, _, name = entry.rpartition(".")
        assert hasattr(importlib.import_module(module), name), entry


@pytest.mark.parametrize(("page", "cls"), [("producer", Producer), ("consumer", Consumer)])
def test_a_page_that_orders_the_members_itself_has_all_of_them(page: str, cls: type) -> None:
    """These classes have base classes, whose members Sphinx would put last, by the class that has them."""
    listed = re.findall(r"^   \.\. auto(?:method|attribute):: (\w+)$", PAGES[page], re.MULTILINE)
    public = {name for name in dir(cls) if not name.startswith("_")}
    assert sorted(listed) == sorted(public)


WITHOUT = """
import importlib, sys

class Without:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Without())
for entry in ENTRIES:
    module, _, name = entry.rpartition(".")
    if not hasattr(importlib.import_module(module), name):
        importlib.import_module(entry)
"""


def packages_of(extras: dict[str, list[str]], extra: str) -> set[str]:
    """The packages that an extra installs, also by the extras that it names."""
    found = set()
    for requirement in extras[extra]:
        named = re.match(r"aiokproto\[(.+)\]", requirement)
        if named:
            found |= set().union(*(packages_of(extras, each) for each in named[1].split(",")))
        else:
            found |= set(re.findall(r"^[\w.-]+", requirement))
    return found


def test_the_extra_docs_has_what_the_entries_import() -> None:
    """So that `make docs` works in a fresh clone: here without what only the other extras install."""
    tomllib = pytest.importorskip("tomllib", reason="Python 3.10 cannot read pyproject.toml")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    others = set().union(*(packages_of(extras, extra) for extra in extras)) - packages_of(extras, "docs")
    absent = {
        module
        for module, packages in importlib.metadata.packages_distributions().items()
        if packages and others.issuperset(packages)
    }
    assert "pytest" in absent
    program = f"ABSENT, ENTRIES = {absent!r}, {sorted(ENTRIES | MODULES.keys())!r}\n{WITHOUT}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
