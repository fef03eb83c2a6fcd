"""The page of errors is the classes: each has a section with all parts, in their order, and names what exists."""

from __future__ import annotations

import importlib
import re
from typing import Any

import pytest

import aiokproto.errors
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, Consequence, KafkaError, error_for
from tests.docs.snippets import ROOT

PAGE = (ROOT / "docs" / "errors.md").read_text()
SECTIONS = dict(re.findall(r"^### (\w+)\n\n(.*?)(?=^##|\Z)", PAGE, re.MULTILINE | re.DOTALL))
PARTS = ["Meaning", "Cause", "Remedy", "Retry"]
CODES = re.findall(r"^\| `(\w+)` \| (-?\d+) \| (yes|no) \| `(\w+)` \| (.+) \|$", PAGE, re.MULTILINE)


def classes_of(module: str, names: list[str]) -> dict[str, type[KafkaError]]:
    values = {name: getattr(importlib.import_module(module), name) for name in names}
    return {name: each for name, each in values.items() if isinstance(each, type) and issubclass(each, KafkaError)}


def public_errors() -> dict[str, type[KafkaError]]:
    found = classes_of("aiokproto.errors", list(vars(aiokproto.errors)))
    pytest.importorskip("pyspark")
    spark = importlib.import_module("aiokproto.spark")
    return found | classes_of("aiokproto.spark", spark.__all__)


def own_bases(error: type[KafkaError]) -> list[str]:
    return [base.__name__ for base in error.__bases__]


def test_every_public_error_has_a_section_and_every_section_an_error() -> None:
    assert set(SECTIONS) == set(public_errors())


def test_the_sections_have_the_order_of_the_classes() -> None:
    errors = public_errors()
    core = [name for name in errors if errors[name].__module__ == "aiokproto.errors"]
    sections = list(SECTIONS)
    assert sections[: len(core)] == core
    for place, name in enumerate(sections[1:], 1):
        assert set(own_bases(errors[name])) & set(sections[:place]), f"{name} stands before its base class"


@pytest.mark.parametrize("name", SECTIONS)
def test_a_section_has_all_parts(name: str) -> None:
    parts = re.findall(r"^- \*\*(\w+):\*\* (\S.*)", SECTIONS[name], re.MULTILINE)
    assert [part for part, _ in parts if part != "Data"] == PARTS
    assert SECTIONS[name].lstrip().startswith("- **Meaning:**")


def test_the_tree_matches_the_classes() -> None:
    block = PAGE[PAGE.index("```text\nKafkaError\n") :].split("```")[1]
    tree: dict[str, str] = {}
    path: list[str] = []
    also: dict[str, str] = {}
    for line in block.splitlines()[1:]:
        matched = re.match(r"^([│├└─ ]*)(\w+)(?: +also (\w+))?", line)
        assert matched, line
        depth = len(matched[1]) // 4
        path[depth:] = [matched[2]]
        tree[matched[2]] = path[depth - 1] if depth else ""
        if matched[3]:
            also[matched[2]] = matched[3]
    errors = public_errors()
    assert set(tree) == set(errors)
    for name, base in tree.items():
        bases = own_bases(errors[name])
        assert bases == [base or "Exception", *([also[name]] if name in also else [])]


@pytest.mark.parametrize("name", SECTIONS)
def test_the_other_base_of_an_error_is_named(name: str) -> None:
    for base in own_bases(public_errors()[name])[1:]:
        assert re.search(rf"also\s+an?\s+`{base}`", SECTIONS[name])


@pytest.mark.parametrize("name", SECTIONS)
def test_the_data_of_an_error_is_named_and_exists(name: str) -> None:
    """What a class documents as an attribute is in its section."""
    error: Any = public_errors()[name]
    docstring = error.__doc__ or ""
    documented = re.findall(r"^ +(\w+): ", docstring.partition("Attributes:")[2], re.MULTILINE)
    data = SECTIONS[name].partition("- **Data:**")[2].partition("\n\n")[0]
    named = re.findall(r"`(\w+)` (?:is|names|has|maps)", data)
    public = [attribute for attribute, value in vars(error).items() if isinstance(value, property)]
    assert named == [*documented, *public]


@pytest.mark.parametrize(("name", "number", "retriable", "error", "remedy"), CODES)
def test_the_table_of_error_codes_matches_the_enum(
    name: str, number: str, retriable: str, error: str, remedy: str
) -> None:
    code = ErrorCode[name]
    assert code.value == int(number)
    assert code.retriable == (retriable == "yes")
    assert type(error_for(code)).__name__ == error
    assert remedy.endswith(".")


def test_the_table_has_every_code_with_a_class_of_its_own() -> None:
    listed = {name for name, *_ in CODES}
    assert [int(number) for _, number, *_ in CODES] == sorted(int(number) for _, number, *_ in CODES)
    classes = {type(error_for(code)) for code in ErrorCode if code}
    assert classes == {type(error_for(ErrorCode[name])) for name in listed}
    common = {"INVALID_REQUEST", "NOT_ENOUGH_REPLICAS", "COORDINATOR_NOT_AVAILABLE", "CORRUPT_MESSAGE"}
    assert common <= listed
    assert all(
        type(error_for(code)) in (BrokerError, aiokproto.errors.AuthorizationError)
        or code.name in listed
        or code.name in {"RECORD_LIST_TOO_LARGE", "MEMBER_ID_REQUIRED"}
        for code in ErrorCode
        if code
    )


def test_links_within_the_page_lead_to_sections() -> None:
    anchors = {name.lower() for name in SECTIONS}
    assert set(re.findall(r"\]\(#(\w+)\)", PAGE)) <= anchors


def test_the_page_says_what_follows_from_each_error() -> None:
    section = PAGE[PAGE.index("## What to do") :].split("\n## ")[0]
    rows = re.findall(r"^\| `([A-Z_]+)` \| .+ \| (.+) \|$", section, re.MULTILINE)
    listed = {name: kind for kind, names in rows for name in re.findall(r"`(\w+)`", names)}
    classes = {
        name: each
        for name, each in vars(aiokproto.errors).items()
        if isinstance(each, type) and issubclass(each, KafkaError) and each is not BrokerError
    }
    assert listed == {name: each.consequence.name for name, each in classes.items()}
    assert [kind for kind, _ in rows] == [each.name for each in Consequence]
    for name, each in classes.items():
        assert "consequence" in vars(each), f"{name} says what follows from it"


def test_what_follows_from_a_code_is_kafkas_classification() -> None:
    assert error_for(ErrorCode.NOT_ENOUGH_REPLICAS).consequence is Consequence.RETRY
    assert error_for(ErrorCode.UNKNOWN_SERVER_ERROR).consequence is Consequence.CORRECT
    assert error_for(ErrorCode.PRODUCER_FENCED).consequence is Consequence.TAKEN_OVER
