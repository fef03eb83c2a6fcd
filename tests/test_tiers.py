"""The tests that `make test` leaves to `make test-all`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tiers import EVERY_RUN

ROOT = Path(__file__).parents[1]
CONFTEST = """
import pytest

pytest_plugins = ["tests.tiers"]
REAL = pytest.param("kafka", marks=pytest.mark.kafka)

@pytest.fixture(params=["embedded", REAL])
def cluster(request): pass
@pytest.fixture(params=["embedded", REAL])
def cluster3(request): pass
"""
TESTS = """
import pytest

def test_one_broker(cluster): pass
def test_three_brokers(cluster3): pass
@pytest.mark.java
def test_java(): pass
@pytest.mark.exclusive
def test_alone(cluster): pass
@pytest.mark.extended
def test_slow(): pass
@pytest.mark.spark
def test_spark(): pass
"""
LOOP = "asyncio_default_fixture_loop_scope = function\n"
ALWAYS = {"test_alone[embedded]", "test_one_broker[embedded]", "test_three_brokers[embedded]", "test_spark"}


@pytest.mark.parametrize(("file", "expected"), [("run", {*ALWAYS, "test_one_broker[kafka]"}), ("misrouting", ALWAYS)])
def test_what_every_run_has(pytester: pytest.Pytester, file: str, expected: set[str]) -> None:
    markers = "".join(f"\n  {name}" for name in ("exclusive", "extended", "java", "kafka", "spark"))
    pytester.makeini(f"[pytest]\nmarkers ={markers}\npythonpath = {ROOT}\n" + LOOP)
    pytester.makeconftest(CONFTEST)
    module = pytester.mkdir("tests") / "behaviour" / f"test_{file}.py"
    module.parent.mkdir()
    module.write_text(TESTS)
    passed, skipped, failed = pytester.inline_run("-m", "not extended").listoutcomes()
    assert {report.nodeid.partition("::")[2] for report in passed} == expected
    assert not [*skipped, *failed]


@pytest.mark.parametrize("file", sorted(EVERY_RUN))
def test_a_file_that_is_named_exists(file: str) -> None:
    assert (ROOT / file).exists()
