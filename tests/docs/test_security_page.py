"""The page of what is protected: each claim names a test that exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
CLAIMS = re.findall(r"^\| (?!protected|-)(.+?) \| `(.+?)` \|$", PAGE, re.MULTILINE)


def test_every_claim_names_what_shows_it() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| ") and "| shown by |" not in line]
    assert len(rows) == len(CLAIMS) > 20


@pytest.mark.parametrize("shown_by", sorted({shown_by for _, shown_by in CLAIMS}))
def test_what_shows_a_claim_exists(shown_by: str) -> None:
    if shown_by.startswith("make "):
        assert re.search(rf"^{shown_by.removeprefix('make ')}:", (ROOT / "Makefile").read_text(), re.MULTILINE)
        return
    path, _, name = shown_by.partition("::")
    text = (ROOT / path).read_text(encoding="utf-8")
    assert name, "a claim has a test, not a file of many"
    assert re.search(rf"^(async )?def {name}\(", text, re.MULTILINE)
