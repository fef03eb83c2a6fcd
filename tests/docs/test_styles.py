"""How the documentation looks, as far as its style sheet says it."""

from __future__ import annotations

import re

from docs.extensions.protocol_pages import pages
from tests.docs.snippets import ROOT

SHEET = re.sub(r"/\*.*?\*/", "", (ROOT / "docs" / "_static" / "site.css").read_text(), flags=re.DOTALL)
PHONE = re.compile(r"@media \(max-width: \w+\) \{\n(.*?)^\}", re.MULTILINE | re.DOTALL)


def breaking(sheet: str) -> set[str]:
    """The selectors of what may break inside of a word."""
    rules = re.findall(r"([^{}]+)\{([^{}]*)\}", sheet)
    return {selector.strip() for selector, body in rules if re.search(r"anywhere|break-word|break-all", body)}


def test_names_in_tables_break_on_a_phone_only() -> None:
    """The names of fields and errors are there to be found, and copied."""
    assert breaking(PHONE.sub("", SHEET)) == {".highlight pre"}


def test_the_tables_of_fields_keep_names_whole_on_a_phone_too() -> None:
    (phone,) = PHONE.findall(SHEET)
    assert breaking(phone) == {"table.docutils:not(:has(th:nth-child(5))) code.literal"}
    heads = re.findall(r"^\| Field .*\|$", "\n".join(pages().values()), re.MULTILINE)
    assert heads
    assert all(head.count("|") - 1 >= 5 for head in heads)
