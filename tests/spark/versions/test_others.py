"""The scenario on every release of Spark that is supported, save the newest: all other tests run on that."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.fetching import Commands, fetched
from tests.spark.versions import test_scenario
from tools.setup.project import ROOT

RELEASES = ("4.0.0", "4.0.5", "4.1.4", "4.2.1")
"""The oldest, and the newest of each minor release."""

SCENARIO = [name for name in vars(test_scenario) if name.startswith("test_")]

# The first test of a release fetches some 450 MB, and runs all of the scenario.
pytestmark = [pytest.mark.spark, pytest.mark.thorough, pytest.mark.slow, pytest.mark.timeout(1800)]

Failures = dict[str, str]
"""What went wrong in each test of the scenario that failed or was not run."""


def pyspark(release: str) -> Commands:
    """Fetches a release, and the py4j that it wants; what else is imported stays as it is."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return lambda folder: [[*pip, "--target", str(folder), f"pyspark=={release}"]]


@pytest.fixture(scope="session", params=RELEASES)
def failures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Failures:
    folder = fetched(f"pyspark-{request.param}", pyspark(request.param))
    report = tmp_path_factory.mktemp("scenario") / "report.xml"
    # Before 4.2 PySpark leaves it to the collector to close its sockets.
    quiet = ("-p", "no:cacheprovider", "-W", "ignore::ResourceWarning")
    command = [sys.executable, "-m", "pytest", *quiet, f"--junit-xml={report}", str(test_scenario.__file__)]
    environment = {**os.environ, "PYTHONPATH": str(folder), test_scenario.EXPECTED: request.param}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    unknown = dict.fromkeys(SCENARIO, f"not run:\n{done.stdout}{done.stderr}")
    return unknown | problems(report) if report.exists() else unknown


def problems(report: Path) -> Failures:
    """The problems of each test in a JUnit report; an empty text for those that passed."""
    found: Failures = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.attrib["name"]
        found[name] = found.get(name, "") + "\n".join(problem.text or "" for problem in case)
    return found


@pytest.mark.parametrize("name", SCENARIO)
def test_scenario_on_another_release(name: str, failures: Failures) -> None:
    if failures[name]:
        pytest.fail(failures[name], pytrace=False)
