"""The options for other runs of the same tests do what they say."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]

INNER = """
import asyncio
import os

import pytest

import aiokproto

@pytest.fixture
async def loop_of_fixture():
    return asyncio.get_running_loop()

async def test_loop(loop_of_fixture, name="{loop}"):
    assert type(asyncio.get_running_loop()).__module__.startswith(name)
    assert asyncio.get_running_loop() is loop_of_fixture

def test_form(pure={pure}):
    assert (os.environ.get("AIOKPROTO_PURE") == "1") == pure
    assert not (pure and aiokproto.accelerated)
"""


@pytest.mark.parametrize(
    ("options", "loop", "pure"),
    [
        ((), "asyncio", False),
        (("--loop", "uvloop"), "uvloop", False),
        (("--loop", "coarse"), "tests.loops", False),
        (("--loop", "stalling"), "tests.loops", False),
        (("--pure",), "asyncio", True),
    ],
)
def test_the_tests_run_as_the_options_say(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...], loop: str, pure: bool
) -> None:
    if loop != "asyncio":
        pytest.importorskip(loop)
    monkeypatch.delenv("AIOKPROTO_PURE", raising=False)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini("[pytest]\nasyncio_mode=auto\nfilterwarnings=error\nasyncio_default_fixture_loop_scope=function\n")
    pytester.makeconftest("pytest_plugins = ['tests.variants', 'tests.hygiene']")
    body = pytester.makepyfile(test_inner=INNER.format(loop=loop, pure=pure))
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", *options, body)
    result.assert_outcomes(passed=2)
