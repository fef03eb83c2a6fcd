"""The page of Spark's options can't differ from the code."""

from __future__ import annotations

import re

from aiokproto.spark.options import READING
from aiokproto.spark.sink.options import WRITING
from docs.extensions.spark_options import PAGE, page


def test_the_page_has_the_options_of_the_code() -> None:
    assert PAGE.read_text() == page(), "run python -m docs.extensions.spark_options"


def test_every_option_is_on_the_page() -> None:
    """The generator divides them into sections, and could leave some out."""
    named = {name.rstrip("…") for name in re.findall(r"`([\w.…]+)`", PAGE.read_text())}
    for table in (READING, WRITING):
        names = {*table.honoured, *table.without_effect, *table.refused}
        assert {name for name in names if not name.startswith("key.")} <= named
