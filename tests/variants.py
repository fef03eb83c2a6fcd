"""A pytest plugin: the tests without the accelerator (``--pure``), or on another event loop (``--loop uvloop``)."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import cast

import pytest
from hypothesis import settings

from tests.loops import CoarseLoop, StallingLoop

LoopFactory = Callable[[], asyncio.AbstractEventLoop]

LOOPS = ("asyncio", "uvloop", "coarse", "stalling")
EXAMPLES = 20
"""The number of examples of each property, on other loops than asyncio's."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("aiokproto")
    group.addoption("--pure", action="store_true", help="run in pure Python, without the accelerator")
    group.addoption(
        "--loop", choices=LOOPS, default="asyncio", help="the event loop of async tests (see tests/loops.py)"
    )
    # The package decides when it is imported, which a folder's conftest.py does before any option is parsed.
    if "--pure" in sys.argv:
        os.environ["AIOKPROTO_PURE"] = "1"


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("pure") and accelerated():
        raise pytest.UsageError("--pure comes too late: the accelerator is loaded already")
    loop = str(config.getoption("loop"))
    if loop != "asyncio":
        # Few properties depend on the loop, and all examples are tried on asyncio's.
        settings.register_profile("loop", settings.default, max_examples=EXAMPLES)
        settings.load_profile("loop")
        config.pluginmanager.register(OnLoop(loop, factory(config, loop)), "on-loop")


def factory(config: pytest.Config, loop: str) -> LoopFactory:
    if loop == "uvloop":
        return cast("LoopFactory", import_module("uvloop").new_event_loop)
    if loop == "coarse":
        return CoarseLoop
    # The seed of the order of tests is used here too, so one number repeats both.
    return partial(StallingLoop, int(config.getoption("randomly_seed", 0) or 0))


def pytest_report_header(config: pytest.Config) -> str:
    return f"aiokproto: {'accelerated' if accelerated() else 'pure Python'}, on {config.getoption('loop')}"


def accelerated() -> bool:
    return bool(import_module("aiokproto").accelerated)


class OnLoop:
    """Gives every async test and fixture a loop of this kind."""

    def __init__(self, name: str, factory: LoopFactory) -> None:
        self._factories: Mapping[str, LoopFactory] = {name: factory}

    def pytest_asyncio_loop_factories(self) -> Mapping[str, LoopFactory]:
        return self._factories
