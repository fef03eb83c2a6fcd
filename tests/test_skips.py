"""A run says which tests it has skipped, and why."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
TESTS = """
import pytest

@pytest.mark.skip(reason="there is no cat")
@pytest.mark.parametrize("number", range(3))
def test_marked(number): pass

def test_called(): pytest.skip("there is no dog")

@pytest.mark.xfail(reason="a known defect")
def test_expected(): assert False
"""


@pytest.mark.parametrize("workers", ["0", "2"])
def test_skipped_tests_are_counted_by_reason(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, workers: str
) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    pytester.makeconftest("pytest_plugins = ['tests.skips']")
    pytester.makepyfile(
        test_inner=TESTS, test_module="import pytest\npytest.skip('there is no bird', allow_module_level=True)"
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly", "-n", workers)
    result.stdout.re_match_lines(
        [
            r"=+ skipped tests, by reason =+",
            r"      3  there is no cat",
            r"      1  there is no (bird|dog)",
            r"      1  there is no (bird|dog)",
        ],
        consecutive=True,
    )
