"""The programs of the pages about Spark: they share one session, and each page has a broker of its own."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker import Broker, ThreadedCluster
from tests.docs.snippets import PAGES, ROOT, shows, snippets

RUN = [
    page
    for page in PAGES
    if page.parent.name != "tutorial"
    and any("spark" in snippet.code and not snippet.fragment for snippet in snippets(page))
]
SPARK = (pytest.mark.spark, pytest.mark.extended)


@pytest.fixture(scope="module")
def workers() -> Iterator[None]:
    """Make Spark's workers run this interpreter. They're otherwise the first python3 of the path."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)
        yield


def test_there_are_pages() -> None:
    assert ROOT / "README.md" in RUN


@pytest.mark.parametrize("page", [pytest.param(page, marks=SPARK, id=page.stem) for page in RUN])
async def test_a_pages_programs_show_what_it_shows(
    page: Path, workers: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": page.stem}
    with ThreadedCluster(Broker()) as cluster:
        for snippet in snippets(page):
            if "spark" in snippet.code and not snippet.fragment:
                printed = await snippet.execute(namespace, cluster.bootstrap_servers)
                assert shows(snippet.output or "", printed), f"line {snippet.line} prints\n{printed}"
