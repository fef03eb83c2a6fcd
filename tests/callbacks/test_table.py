"""The table has all code of the application that the library can be given, and the page is the table."""

from __future__ import annotations

import importlib.util
import re

import pytest

from tests.callbacks.options import NOT_OF_THE_APPLICATION, callable_options
from tests.callbacks.page import PAGE, page
from tests.callbacks.table import TABLE, Callback
from tests.docs.snippets import ROOT

ROWS = [row for group in TABLE for row in group.rows]
SPARK = {"load(transform)", "rerun(transform)"}


def in_table() -> set[str]:
    return {option for row in ROWS for option in row.options}


def test_every_public_option_that_is_called_has_a_row() -> None:
    """A new one needs a row in the table, with its cells, or is none of the application's, with the reason."""
    missing = callable_options() - in_table() - NOT_OF_THE_APPLICATION.keys()
    assert not missing, sorted(missing)


def test_the_table_has_no_option_that_is_not_there() -> None:
    found = callable_options() | (set() if importlib.util.find_spec("pyspark") else SPARK)
    assert not in_table() - found
    assert not NOT_OF_THE_APPLICATION.keys() - found
    assert not in_table() & NOT_OF_THE_APPLICATION.keys()


def test_options_of_every_kind_are_found() -> None:
    """So that an annotation which is no longer understood does not pass for one without callables."""
    assert {
        "Consumer.run(handler)",
        "Consumer(partition_assignment_strategy)",
        "ConnectionOptions[hooks]",
        "SaslOptions[sasl_aws_credentials]",
        "StreamsMember(listener)",
        "RequestFilter[when]",
    } <= callable_options()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_each_row_is_proven(row: Callback) -> None:
    assert (row.walk is None) == bool(row.proof)
    if row.proof:
        file, _, name = row.proof.partition("::")
        assert re.search(rf"^(async )?def {name}\(", (ROOT / file).read_text(), re.MULTILINE)


def test_the_page_is_the_table() -> None:
    assert PAGE.read_text() == page(PAGE.read_text()), "run python -m tests.callbacks.page"
