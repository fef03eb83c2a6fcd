"""A run reports the time of its tests."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
import pytest

def test_quick(): pass
def test_slow(): pass
@pytest.mark.kafka
def test_real(): pass
"""
# These durations don't make the test wait.
CLOCK = """
import pytest

pytest_plugins = ["tests.costs"]

@pytest.hookimpl(tryfirst=True)
def pytest_runtest_logreport(report):
    report.duration = 20.0 if "slow" in report.nodeid else 2.0
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_costs_are_listed_by_area_and_long_tests_by_name(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeini("[pytest]\nmarkers = kafka: real Kafka\n")
    pytester.makeconftest(CLOCK)
    (pytester.mkdir("tests") / "test_inner.py").write_text(TESTS)
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly", "-n", workers, "tests")
    result.assert_outcomes(passed=3)
    # Each test has three parts, because the time of its fixtures before and after counts as well.
    result.stdout.re_match_lines(
        [
            r"=+ minutes of all workers, by area =+",
            r"   1\.10  test_inner \(2 tests\)",
            r"   0\.10  test_inner, real Kafka \(1 tests\)",
            r"   1\.20  in all \(3 tests\)",
            r"=+ tests above 5 seconds =+",
            r"   60\.0  tests/test_inner\.py::test_slow",
            r"    6\.0  tests/test_inner\.py::test_real",
            r"    6\.0  tests/test_inner\.py::test_quick",
        ],
        consecutive=True,
    )
