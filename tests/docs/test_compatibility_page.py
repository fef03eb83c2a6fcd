"""The page about compatibility: the rows that tests/compatibility proves, and tests of other implementations."""

from __future__ import annotations

import re

from tests.compatibility.page import PAGE, declared, page
from tests.docs.snippets import ROOT
from tests.docs.test_problems import names_in
from tests.kafka.releases import RELEASES
from tests.other_brokers import profiles

OTHERS = (ROOT / "docs" / "compatibility.md").read_text().partition("## Other implementations")[2]
ROWS = [row.split(" | ") for row in re.findall(r"^\| (.+) \|$", OTHERS, re.MULTILINE) if "|---" not in row][1:]
NAMED = re.compile(r"`(?:(tests/[\w/]+\.py)::)?(test_\w+)(?:\[([^]]+)\])?`")


def test_the_page_has_the_rows_of_the_tests() -> None:
    assert PAGE.read_text() == page(PAGE.read_text()), "run python -m tests.compatibility.page"


def test_each_row_works_on_the_newest_release_and_each_name_is_there_once() -> None:
    rows = declared()
    assert len(rows) > 30
    assert all(row.works(RELEASES[-1]) for row in rows)
    assert len({(row.area, row.name) for row in rows}) == len(rows)


def test_every_quirk_has_a_test_that_is_there_or_says_that_it_has_none() -> None:
    assert len(ROWS) >= 25
    for implementation, quirk, _, _, proof in ROWS:
        found = NAMED.findall(proof)
        assert found or "tests/behaviour" in proof or "test_servers.py" in proof or proof == "not tested", quirk
        for path, name, case in found:
            file = path or "tests/other_brokers/test_quirks.py"
            assert name in names_in(ROOT / file), f"{implementation}: {file} has no {name}"
            assert not case or case in {**profiles.QUIRKS, **profiles.VERSIONS}, f"{implementation}: no quirk {case!r}"
