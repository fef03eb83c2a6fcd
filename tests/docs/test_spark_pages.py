"""The programs of the pages about Spark.

All pages share one session, which the guide starts. Each has a broker of its own with the records of docs/examples.md,
and its files are in a folder of the test in place of ``/data``.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker import Broker, ThreadedCluster
from tests.docs.snippets import DOCS, PAGES, ROOT, shows, snippets

GUIDE, EXAMPLES = DOCS / "spark" / "guide.md", DOCS / "examples.md"
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
        cluster.create_topic("flights", partitions=3)
        (session, *_), (records,) = snippets(GUIDE), snippets(EXAMPLES)
        for before in (session, records):
            await before.execute(namespace, cluster.bootstrap_servers)
        for snippet in snippets(page):
            if not snippet.fragment and (page != ROOT / "README.md" or "spark" in snippet.code):
                here = snippet._replace(code=snippet.code.replace("/data/", f"{tmp_path}/"))
                printed = await here.execute(namespace, cluster.bootstrap_servers)
                assert shows(snippet.output or "", printed), f"line {snippet.line} prints\n{printed}"


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.stem)
def test_a_page_says_where_its_session_comes_from(page: Path) -> None:
    own = any("SparkSession.builder" in snippet.code and not snippet.fragment for snippet in snippets(page))
    assert own or "guide.md#start-a-session" in page.read_text()
