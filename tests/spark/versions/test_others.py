"""The scenario on every release of Spark that is supported, save the newest: all other tests run on that."""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.fetching import Commands, fetched
from tests.spark.scenarios import Failures, all_tests, python_path, run_tests, selected_cases
from tests.spark.versions import test_scenario

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

OFTEN = "4.0.5"
"""The release that every `make test-all` takes: of the oldest minor release, which differs most from the usual one."""
RELEASES = ("4.0.0", OFTEN, "4.1.4", "4.2.1")
"""The oldest, and the newest of each minor release."""

SCENARIO = [test.__name__ for test in all_tests(test_scenario)]

EVERY_RUN = {
    "test_driver_jvm_and_tasks_are_of_the_expected_release",
    "test_an_empty_topic_has_no_rows",
    "test_loads",
    "test_a_stream_is_written_exactly_once",
}
"""What says most about a release."""

# The first test of a release fetches some 450 MB, and runs all that is selected of the scenario.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(1800)]


def pyspark(release: str) -> Commands:
    """Fetches a release, and the py4j that it wants; what else is imported stays as it is."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return lambda folder: [[*pip, "--target", str(folder), f"pyspark=={release}"]]


@pytest.fixture(scope="session")
def failures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Failures]:
    """Runs what is selected of the scenario on a release, once."""
    selected = selected_cases(request, test_scenario_on_another_release, "release")
    return cache(lambda release: run(release, selected[release], tmp_path_factory.mktemp("scenario") / "report.xml"))


def run(release: str, names: list[str], report: Path) -> Failures:
    folder = fetched(f"pyspark-{release}", pyspark(release))
    environment = {"PYTHONPATH": python_path(folder), test_scenario.EXPECTED: release}
    tests = [vars(test_scenario)[name] for name in names]
    # PySpark before 4.2 leaves it to the garbage collector to close its sockets.
    return run_tests(tests, report, environment, "-W", "ignore::ResourceWarning")


def case(release: str, name: str) -> ParameterSet:
    often = name in EVERY_RUN and release == OFTEN
    return pytest.param(release, name, marks=() if often else pytest.mark.thorough, id=f"{release}-{name}")


@pytest.mark.parametrize(("release", "name"), [case(*each) for each in product(RELEASES, SCENARIO)])
def test_scenario_on_another_release(release: str, name: str, failures: Callable[[str], Failures]) -> None:
    assert set(SCENARIO) >= EVERY_RUN
    if problem := failures(release)[name]:
        pytest.fail(problem, pytrace=False)
