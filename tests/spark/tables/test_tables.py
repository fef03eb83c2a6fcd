"""The scenario of tables, on the newest release of Spark that both table formats support."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fetching import fetched, maven_copy_dependencies
from tests.spark.scenarios import Failures, all_tests, python_path, run_tests
from tests.spark.tables import scenario
from tests.spark.versions.test_others import pyspark

if TYPE_CHECKING:
    from types import FunctionType

RELEASE = "4.1.4"
TESTS = all_tests(scenario)

# The formats' own promises do most of the work, and their jars need a release of Spark of their own.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.thorough, pytest.mark.timeout(1800)]


@pytest.fixture(scope="session")
def failures(tmp_path_factory: pytest.TempPathFactory) -> Failures:
    """Runs the scenario, once."""
    return run(TESTS, tmp_path_factory.mktemp("tables") / "report.xml")


def run(tests: list[FunctionType], report: Path) -> Failures:
    jars = sorted(
        map(str, fetched("spark-tables-1", maven_copy_dependencies(Path(__file__).with_name("pom.xml"))).glob("*.jar"))
    )
    environment = {
        "PYTHONPATH": python_path(fetched(f"pyspark-{RELEASE}", pyspark(RELEASE))),
        scenario.JARS: ",".join(jars),
    }
    # PySpark before 4.2 leaves it to the garbage collector to close its sockets.
    return run_tests(tests, report, environment, "-W", "ignore::ResourceWarning")


@pytest.mark.parametrize("name", [test.__name__ for test in TESTS])
def test_scenario_of_tables(name: str, failures: Failures) -> None:
    if problem := failures[name]:
        pytest.fail(problem, pytrace=False)
