"""The Python of every page: it compiles, what it names exists, and what isn't marked as a fragment runs.

A run has one embedded broker for each page, with the records of docs/examples.md.
"""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker import Broker, Cluster, Security, ThreadedCluster
from tests.docs.calls import problems
from tests.docs.snippets import ADDRESS, DOCS, PAGES, Snippet, shows, snippets
from tests.security.certificates import make
from tests.timeouts import LONG_TIMEOUT

EXAMPLES = DOCS / "examples.md"
ALL = [snippet for page in PAGES for snippet in snippets(page)]
# A file of the tutorial can import another one of it, which only a session has.
IMPORTING = [snippet for snippet in ALL if snippet.file is None]
OTHER_RUNS = {"spark", "tutorial"}
"""Folders whose pages other tests run."""


def runs(snippet: Snippet) -> bool:
    """Return whether a test here runs it: those that need Spark are run by :mod:`tests.docs.test_spark_pages`."""
    return not (snippet.fragment or snippet.page.parent.name in OTHER_RUNS or "spark" in snippet.code)


RUN = [page for page in PAGES if any(map(runs, snippets(page)))]


def where(snippet: Snippet) -> str:
    return f"{snippet.page.name}:{snippet.line}"


@pytest.fixture
async def address(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """A broker with the records of the examples; for the page about TLS one that requires client certificates.

    Files that the snippets write are in a folder of the test.
    """
    request.getfixturevalue("monkeypatch").chdir(tmp_path)
    if request.getfixturevalue("page").name == "tls.md":
        files = make(tmp_path)
        required = {
            "ssl.keystore.location": str(files["broker.both.pem"]),
            "ssl.truststore.location": str(files["ca.pem"]),
            "ssl.client.auth": "required",
        }
        async with Broker(security=Security("SSL"), config=required) as broker:
            yield broker.bootstrap_servers
        return
    async with Broker() as broker:
        await broker.create_topic("flights", partitions=3)
        for snippet in snippets(EXAMPLES):
            await snippet.execute({}, broker.bootstrap_servers)
        yield broker.bootstrap_servers


async def run_with_its_fixture(test: Any) -> None:
    (fixture,) = inspect.signature(test).parameters
    if fixture == "kafka_cluster":
        with ThreadedCluster(Cluster(brokers=3)) as cluster:
            await test(cluster)
    else:
        assert fixture == "broker"
        async with Broker() as broker:
            await test(broker)


@pytest.mark.parametrize("snippet", ALL, ids=where)
def test_snippets_are_python(snippet: Snippet) -> None:
    snippet.compiled()


@pytest.mark.parametrize("snippet", IMPORTING, ids=where)
def test_what_snippets_import_exists(snippet: Snippet) -> None:
    for statement in snippet.imports():
        if "spark" in statement and importlib.util.find_spec("pyspark") is None:
            pytest.skip("PySpark is not installed")
        exec(statement, {})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_what_snippets_call_exists(page: Path) -> None:
    """Fragments are never run, so this is what keeps them true. Programs are read for the names that they define."""
    names: dict[str, object] = {}
    for snippet in snippets(page):
        found = problems(snippet.code, names)
        assert runs(snippet) or not found, where(snippet)


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
async def test_a_pages_snippets_run_in_their_order(page: Path, address: str) -> None:
    """They share their names, as on the page, and print what it shows; a failure's traceback names the page's line."""
    namespace: dict[str, Any] = {"__name__": page.stem}
    for snippet in filter(runs, snippets(page)):
        scope = {"__name__": "__main__"} if "asyncio.run(" in snippet.code else namespace
        printed = await asyncio.wait_for(snippet.execute(scope, address), LONG_TIMEOUT)
        assert shows(snippet.output or "", printed), f"{where(snippet)} prints\n{printed}"
    # What pytest would find on the page is a test, and not run by being defined.
    for name, test in namespace.items():
        if name.startswith("test_"):
            await run_with_its_fixture(test)


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_a_page_says_what_its_programs_need(page: Path) -> None:
    """The broker and the records that a program uses without making them are those of one page, which has a link."""
    needed = any(runs(snippet) and ADDRESS in snippet.code for snippet in snippets(page))
    assert not needed or page == EXAMPLES or "examples.md)" in page.read_text()


def test_most_snippets_are_programs() -> None:
    """A fragment needs a cloud, a cluster or a jar that no test has."""
    fragments = [where(snippet) for snippet in ALL if snippet.fragment]
    assert len(fragments) <= 9, fragments


def test_every_short_answer_has_a_snippet_that_runs() -> None:
    """The index apart, which links to them."""
    answers = {page for page in PAGES if page.parent.name == "howto" and page.name != "index.md"}
    assert len(answers) >= 30
    assert answers <= set(RUN)


def test_a_misspelt_mark_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python fragmant\n1\n```\n")
    with pytest.raises(ValueError, match="fragmant"):
        snippets(page)


async def test_a_broken_snippet_names_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python\nfine = 1\nraise RuntimeError\n```\n")
    (snippet,) = snippets(page)
    with pytest.raises(RuntimeError) as raised:
        await snippet.execute({})
    assert raised.traceback[-1].lineno + 1 == 5


async def test_what_a_snippet_prints_is_compared(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text('```python\nprint("offset", 7)\n```\n\n```text\noffset …\n```\n')
    (snippet,) = snippets(page)
    printed = await snippet.execute({})
    assert shows(snippet.output or "", printed)
    assert not shows("offset 8\n", printed)
    assert not shows("", printed)


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        ("a\n", "a\n", True),
        ("a\n", "a\nb\n", False),
        ("a\n…\nd\n", "a\nb\nc\nd\n", True),
        ("a … c\n", "a b c\n", True),
        ("a … c\n", "a b\nc\n", False),
        ("127.0.0.1:9092\n", "127.0.0.1:40127\n", True),
        ("a\n", "a   \n\n", True),
    ],
)
def test_what_varies_is_left_out(shown: str, printed: str, same: bool) -> None:
    assert shows(shown, printed) == same


@pytest.mark.parametrize(
    ("code", "text"),
    [
        ("from aiokproto import Consume", "has no Consume"),
        ("from aiokproto import Producer\nProducer(linger=5)", "no option linger"),
        ("from aiokproto import Consumer\nconsumer = Consumer('a')\nconsumer.pull()", "no pull"),
        ("async with broker as b:\n    await broker.create_topic('a', partition=3)", "partition"),
        ("await producer.send('a')", "missing a required argument"),
        ("await producer.send('a', b'')\nconsumer.seek(partition, 5)", ""),
    ],
)
def test_a_fragment_that_names_what_does_not_exist_is_found(code: str, text: str) -> None:
    found = problems(code)
    assert re.search(text, found[0]) if text else not found
