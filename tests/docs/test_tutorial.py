"""The tutorial: every file is saved, every command is typed, and shows what the page shows."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.sessions import Session, steps
from tests.docs.snippets import DOCS

TUTORIAL = DOCS / "tutorial"
PAGES = [TUTORIAL / f"{name}.md" for name in ("index", "produce", "consume", "testing")]


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    session = Session(tmp_path, port)
    yield session
    session.close()


@pytest.mark.slow
def test_the_steps_show_what_the_pages_show(session: Session) -> None:
    for page in PAGES:
        session.do(page)
    # The page says that each flight which is written again appears in one of the two members of the group.
    broker, first, second = session.background
    printed = []
    for member in (second, first):
        assert member.end(interrupt=True) == 0, member.errors
        session.background.remove(member)
        printed += re.findall(r"^partition \d offset [23] (.+)$", member.printed, re.MULTILINE)
    assert sorted(printed) == ["AA 100", "AA 7", "DL 14", "DL 302", "UA 1549", "UA 42"]
    assert broker.process.poll() is None


@pytest.mark.spark
def test_spark_counts_the_flights(session: Session) -> None:
    session.do(PAGES[0])
    session.do(PAGES[1])
    assert session.folder.joinpath("produce.py").exists()
    session.type("python produce.py", "…\n")
    session.do(TUTORIAL / "spark.md")


def test_a_page_tells_the_reader_to_save_each_file(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("Save this as `a.py`:\n\n```python b.py\n1\n```\n")
    with pytest.raises(ValueError, match=r"b\.py"):
        steps(page)


def test_the_toctree_has_the_steps_in_order() -> None:
    listed = re.findall(r"^(\w+)$", (TUTORIAL / "index.md").read_text().partition(":hidden:")[2], re.MULTILINE)
    assert listed == ["produce", "consume", "testing", "spark"]
    assert {page.stem for page in TUTORIAL.glob("*.md")} == {"index", *listed}
