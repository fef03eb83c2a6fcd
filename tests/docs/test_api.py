"""The page of the API has an entry for each public name."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.docs.snippets import ROOT

PAGE = (ROOT / "docs" / "api.md").read_text()
ENTRIES = set(re.findall(r"^\.\. auto(?:class|function|data|exception):: ([\w.]+)$", PAGE, re.MULTILINE))
MODULES = dict(re.findall(r"^\.\. automodule:: ([\w.]+)\n   :members:(.*)$", PAGE, re.MULTILINE))
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
