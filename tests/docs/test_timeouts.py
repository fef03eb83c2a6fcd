"""The page of timeouts has each timeout of the clients, with its default."""

from __future__ import annotations

import inspect
import re

from aiokproto import Consumer, Producer, ShareConsumer
from docs.extensions.options import connection_options, options_of
from tests.docs.snippets import DOCS

PAGE = (DOCS / "timeouts.md").read_text()
ROWS = re.findall(r"^\| (`.+?`) \| ([^|]*) \|", PAGE, re.MULTILINE)


def shown() -> dict[str, str]:
    """Return the default that the page has for each name."""
    found: dict[str, str] = {}
    for names, defaults in ROWS:
        found |= dict(zip(re.findall(r"`(.+?)`", names), defaults.split(", "), strict=True))
    return found


def number(default: str | None) -> str:
    return str(default).replace("_", ",")


def test_every_timeout_is_there_with_its_default() -> None:
    page = shown()
    options = [*options_of(Producer), *options_of(Consumer), *options_of(ShareConsumer), *connection_options()]
    for option in options:
        if re.fullmatch(r"(?!sasl_login_|partitioner_).*timeout_ms", option.name):
            assert page[option.name] == number(option.default), option.name
    known = {option.name: number(option.default) for option in options}
    for name, default in page.items():
        assert "(" in name or known[name] == default, name


def test_the_arguments_of_calls_have_these_defaults() -> None:
    for name, shown_default in shown().items():
        if call := re.fullmatch(r"(\w+)\((\w+)\)", name):
            default = inspect.signature(getattr(Consumer, call[1])).parameters[call[2]].default
            readable = f"{default:,}" if isinstance(default, int) else str(default)
            assert shown_default == ("" if default is inspect.Parameter.empty else readable), name
