"""The page of the embedded broker has every argument, and every way to make it fail."""

from __future__ import annotations

import inspect
import re

from aiokproto.broker import Cluster, Faults
from aiokproto.broker.control.faults import RequestFilter
from tests.docs.snippets import ROOT

PAGE = (ROOT / "docs" / "broker.md").read_text()
OPTIONS = PAGE[PAGE.index("## Options") : PAGE.index("## Features")]
FAULTS = PAGE[PAGE.index("## Fault injection") : PAGE.index("## Served APIs")]


def public(cls: type) -> set[str]:
    return {name for name, value in vars(cls).items() if inspect.isfunction(value) and not name.startswith("_")}


def named(text: str) -> set[str]:
    return set(re.findall(r"`(?:await )?(?:cluster\.|faults\.|rule\.)?(\w+)(?:\(.*?\))?`", text))


def test_every_argument_has_a_row_with_its_default() -> None:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\S+)", OPTIONS, re.MULTILINE))
    parameters = {name: each.default for name, each in inspect.signature(Cluster).parameters.items()}
    assert list(rows) == list(parameters)
    for name, default in parameters.items():
        shown = f'`"{default}"`' if isinstance(default, str) else str(default)
        assert rows[name] == shown


def test_every_fault_is_named() -> None:
    # The dispatcher calls `serve`, and a rule `forget`.
    assert public(Faults) - {"serve", "forget"} <= named(FAULTS) | {"clear"}
    assert "faults.clear()" in FAULTS


def test_every_condition_is_named() -> None:
    assert set(RequestFilter.__annotations__) <= named(FAULTS)


def test_every_method_of_a_cluster_is_named() -> None:
    whole = set(re.findall(r"\b(\w+)\(", PAGE))
    assert public(Cluster) - {"start", "close", "topics", "leader", "coordinator"} <= whole
