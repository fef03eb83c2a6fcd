"""The page about brokers of every age has the rows that tests/compatibility proves."""

from __future__ import annotations

from tests.compatibility.page import PAGE, declared, page
from tests.kafka.releases import RELEASES


def test_the_page_has_the_rows_of_the_tests() -> None:
    assert PAGE.read_text() == page(PAGE.read_text()), "run python -m tests.compatibility.page"


def test_each_row_works_on_the_newest_release_and_each_name_is_there_once() -> None:
    rows = declared()
    assert len(rows) > 30
    assert all(row.works(RELEASES[-1]) for row in rows)
    assert len({(row.area, row.name) for row in rows}) == len(rows)
