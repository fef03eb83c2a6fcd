"""A pytest plugin: the tests without the accelerator (``--pure``), or on another event loop (``--loop uvloop``)."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from importlib import import_module

import pytest

LoopFactory = Callable[[], asyncio.AbstractEventLoop]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("aiokproto")
    group.addoption("--pure", action="store_true", help="run in pure Python, without the accelerator")
    group.addoption("--loop", choices=("asyncio", "uvloop"), default="asyncio", help="the event loop of async tests")
    # The package decides when it is imported, as a folder's conftest.py does before any option is parsed.
    if "--pure" in sys.argv:
        os.environ["AIOKPROTO_PURE"] = "1"


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("pure") and accelerated():
        raise pytest.UsageError("--pure comes too late: the accelerator is loaded already")
    if config.getoption("loop") == "uvloop":
        config.pluginmanager.register(OnUvloop(), "on-uvloop")


def pytest_report_header(config: pytest.Config) -> str:
    return f"aiokproto: {'accelerated' if accelerated() else 'pure Python'}, on {config.getoption('loop')}"


def accelerated() -> bool:
    return bool(import_module("aiokproto").accelerated)


class OnUvloop:
    """Gives every async test and fixture a loop of uvloop's."""

    def __init__(self) -> None:
        self._factories: Mapping[str, LoopFactory] = {"uvloop": import_module("uvloop").new_event_loop}

    def pytest_asyncio_loop_factories(self) -> Mapping[str, LoopFactory]:
        return self._factories
