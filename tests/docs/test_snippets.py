"""Every example in the documentation is Python, names what exists, and runs where it says that it can."""

from __future__ import annotations

import asyncio
import importlib.util
import inspect
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker import Broker, Cluster, Security, ThreadedCluster
from aiokproto.producer import Producer
from tests.docs.snippets import PAGES, Snippet, snippets
from tests.security.certificates import make
from tests.timeouts import LONG_TIMEOUT

ALL = [snippet for page in PAGES for snippet in snippets(page)]
RUN = [page for page in PAGES if any(snippet.run for snippet in snippets(page))]

# As many records in each partition as the examples seek and count in.
FLIGHTS = [(number % 3, b"flight %d" % number) for number in range(60)]


def where(snippet: Snippet) -> str:
    return f"{snippet.page.name}:{snippet.line}"


@pytest.fixture
async def bootstrap(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[str]:
    """A broker with some flights; for the page about TLS one that requires client certificates.

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
        await broker.create_topic("jobs")
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            for partition, flight in FLIGHTS:
                await producer.post("flights", flight, partition=partition)
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


@pytest.mark.parametrize("snippet", ALL, ids=where)
def test_what_snippets_import_exists(snippet: Snippet) -> None:
    for statement in snippet.imports():
        if "spark" in statement and importlib.util.find_spec("pyspark") is None:
            pytest.skip("PySpark is not installed")
        exec(statement, {})


@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
async def test_a_pages_snippets_run_in_their_order(page: Path, bootstrap: str) -> None:
    """They share their names, as on the page; a failure's traceback names the page's line."""
    namespace: dict[str, Any] = {"bootstrap": bootstrap, "__name__": page.stem}
    for snippet in snippets(page):
        if snippet.run:
            await asyncio.wait_for(snippet.execute(namespace), LONG_TIMEOUT)
    # What pytest would find on the page is a test, and not run by being defined.
    for name, test in namespace.items():
        if name.startswith("test_"):
            await run_with_its_fixture(test)


def test_pages_with_runnable_snippets_are_run() -> None:
    """So that an extraction that finds nothing does not pass."""
    expected = {"index.md", "producing.md", "consuming.md", "errors.md", "codec.md", "records.md", "testing.md"}
    assert expected <= {page.name for page in RUN}


def test_every_short_answer_has_a_snippet_that_runs() -> None:
    """The index apart, which links to them."""
    answers = {page for page in PAGES if page.parent.name == "howto" and page.name != "index.md"}
    assert len(answers) >= 30
    assert answers <= set(RUN)


def test_a_misspelt_mark_is_an_error(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python runs\n1\n```\n")
    with pytest.raises(ValueError, match="runs"):
        snippets(page)


async def test_a_broken_snippet_names_its_line(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("# Title\n\n```python run\nfine = 1\nraise RuntimeError\n```\n")
    (snippet,) = snippets(page)
    with pytest.raises(RuntimeError) as raised:
        await snippet.execute({})
    assert raised.traceback[-1].lineno + 1 == 5
