"""The scenario of a cluster, in a process of its own: only one session of Spark fits into one."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.spark.cluster import scenario
from tests.spark.scenarios import Failures, all_tests, python_path, run_tests
from tools.setup.project import ROOT

TESTS = all_tests(scenario)

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(1200)]


@pytest.fixture(scope="session")
def failures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Failures:
    """Runs the scenario, once."""
    # Executors import the steps that kill from the tests.
    environment = {"PYTHONPATH": python_path(Path(ROOT))}
    selection = ("-m", "not thorough") if "not thorough" in str(request.config.getoption("markexpr")) else ()
    return run_tests(TESTS, tmp_path_factory.mktemp("cluster") / "report.xml", environment, *selection)


@pytest.mark.parametrize("name", [test.__name__ for test in TESTS])
def test_scenario_on_a_cluster(name: str, failures: Failures) -> None:
    if problem := failures[name]:
        pytest.fail(problem, pytrace=False)
