"""The files that each worker runs, and how a run is repeated."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CRASH = """
import os
import pathlib

def test_before(): pass

def test_crash():
    with pathlib.Path("runs").open("a") as runs:
        runs.write("once ")
    os._exit(1)

def test_after(): pass
"""
CONFTEST = """
pytest_plugins = ["tests.ordering"]

def pytest_addoption(parser):
    parser.addoption("--pure", action="store_true")
    parser.addoption("--brokers", type=int, default=1)
    parser.addoption("--loop", default="asyncio")
"""


@pytest.fixture
def suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest(CONFTEST)
    return pytester


def test_a_test_that_crashes_its_worker_runs_once_and_those_after_it_run(suite: pytest.Pytester) -> None:
    suite.makepyfile(CRASH)
    result = suite.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly", "-n", "1", "--dist", "loadfile")
    result.assert_outcomes(passed=2, failed=1)
    assert (suite.path / "runs").read_text() == "once "


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (("-p", "no:randomly"), r"all: pytest test_inner\.py"),
        (
            ("-p", "randomly", "-p", "no:xdist", "--brokers", "3", "-k", "here or there", "-m", "not slow", "--pure"),
            r"all: pytest --brokers=3 --randomly-seed=\d+ --pure -m 'not slow' -k 'here or there' test_inner\.py",
        ),
    ],
)
def test_a_failed_run_says_how_to_repeat_it(suite: pytest.Pytester, options: tuple[str, ...], expected: str) -> None:
    suite.makepyfile(test_inner="def test_here(): assert False")
    suite.makeini("[pytest]\nmarkers = slow\n")
    result = suite.runpytest_subprocess("-p", "no:cacheprovider", *options)
    result.stdout.re_match_lines([expected])
