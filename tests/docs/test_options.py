"""The configuration page cannot differ from the code: what it is made of is checked here."""

from __future__ import annotations

import inspect
import re
from typing import Any

import pytest

from aiokproto.client import Client
from aiokproto.config import ClusterConfig, ConnectionOptions
from aiokproto.consumer import Consumer
from aiokproto.producer import Producer
from aiokproto.share import ShareConsumer
from docs.extensions.options import PAGE, Option, connection_options, markdown, options_of, page

SERVERS = {"bootstrap_servers": "localhost:9092"}


def test_every_option_is_documented() -> None:
    """Those of a constructor are compared with its docstring by `options_of` itself."""
    assert {one.name for one in connection_options()} == set(ConnectionOptions.__annotations__)
    assert options_of(Client) == []
    for cls in (Producer, Consumer, ShareConsumer):
        parameters = inspect.signature(cls).parameters.values()
        assert [one.name for one in options_of(cls)] == [one.name for one in parameters if one.kind is one.KEYWORD_ONLY]


def test_names_are_unique() -> None:
    """The page links to an option by its name alone. Those of the share consumer cannot be linked to."""
    names = [one.name for one in [*options_of(Producer), *options_of(Consumer), *connection_options()]]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("option", connection_options(), ids=lambda option: option.name)
def test_documented_connection_defaults_are_the_real_ones(option: Option) -> None:
    """A type with its keys in text only can say anything."""
    if option.default is None:
        assert option.name == "bootstrap_servers"
        return
    default = eval(option.default)
    assert ClusterConfig.parse({**SERVERS, option.name: default}) == ClusterConfig.parse(SERVERS)


def test_the_page_has_the_options_of_the_code() -> None:
    assert PAGE.read_text() == page(PAGE.read_text()), "run python -m docs.extensions.options"


def test_a_section_of_the_page() -> None:
    text = "Calls :meth:`~a.B.post` of a :class:`~a.b.Producer`, or ``post``."
    assert markdown([Option("linger_ms", "float", "5", "milliseconds", text)]) == (
        "### linger_ms\n\n`float`, milliseconds; default `5`\n\nCalls `post()` of a `Producer`, or `post`.\n"
    )


def test_the_page_is_not_empty() -> None:
    """So that marks that are not found do not pass."""
    sections = re.findall(r"^### (\w+)$", PAGE.read_text(), re.MULTILINE)
    own = [option for cls in (Producer, Consumer, ShareConsumer) for option in options_of(cls)]
    assert sections == [option.name for option in [*own, *connection_options()]]


def test_an_undocumented_option_is_an_error() -> None:
    class Sample:
        """A sample.

        Args:
            documented: It is.
            gone: It was.
        """

        def __init__(self, *topics: str, documented: int = 1024, silent_ms: float = 5, **rest: Any) -> None: ...

    with pytest.raises(LookupError, match="gone, silent_ms"):
        options_of(Sample)


def test_an_option_as_the_page_shows_it() -> None:
    (linger,) = [one for one in options_of(Producer) if one.name == "linger_ms"]
    assert (linger.kind, linger.default, linger.unit) == ("float", "5", "milliseconds")
    (codec,) = [one for one in options_of(Producer) if one.name == "compression_type"]
    assert codec.kind == '"none" | "gzip" | "snappy" | "lz4" | "zstd"'
