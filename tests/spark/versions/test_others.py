"""The scenario on every release of Spark that is supported, save the newest: all other tests run on that."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, cast
from xml.etree import ElementTree

import pytest

from tests.fetching import Commands, fetched
from tests.spark.versions import test_scenario
from tools.setup.project import ROOT

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

OLDEST = "4.0.0"
RELEASES = (OLDEST, "4.0.5", "4.1.4", "4.2.1")
"""The oldest, and the newest of each minor release."""

SCENARIO = [name for name in vars(test_scenario) if name.startswith("test_")]

FIRST = {
    "test_driver_jvm_and_tasks_are_of_the_expected_release",
    "test_an_empty_topic_has_no_rows",
    "test_loads",
    "test_a_stream_reads_each_record_once",
    "test_a_stream_is_written",
}
"""What says most about a release: of the newest of each minor release, it is part of every run."""

# The first test of a release fetches some 450 MB, and runs all that is selected of the scenario.
pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

Failures = dict[str, str]
"""What went wrong in each test of the scenario that failed or was not run."""


def pyspark(release: str) -> Commands:
    """Fetches a release, and the py4j that it wants; what else is imported stays as it is."""
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return lambda folder: [[*pip, "--target", str(folder), f"pyspark=={release}"]]


@pytest.fixture(scope="session")
def failures(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Failures]:
    """Runs what is selected of the scenario on a release, once."""
    selected: dict[str, list[str]] = {}
    for item in request.session.items:
        if isinstance(item, pytest.Function) and item.originalname == test_scenario_on_another_release.__name__:
            case = cast("dict[str, str]", item.callspec.params)
            selected.setdefault(case["release"], []).append(case["name"])
    return cache(lambda release: run(release, selected[release], tmp_path_factory.mktemp("scenario") / "report.xml"))


def run(release: str, names: list[str], report: Path) -> Failures:
    folder = fetched(f"pyspark-{release}", pyspark(release))
    # Before 4.2 PySpark leaves it to the collector to close its sockets.
    quiet = ("-p", "no:cacheprovider", "-W", "ignore::ResourceWarning")
    tests = [f"{test_scenario.__file__}::{name}" for name in names]
    command = [sys.executable, "-m", "pytest", *quiet, f"--junit-xml={report}", *tests]
    environment = {**os.environ, "PYTHONPATH": str(folder), test_scenario.EXPECTED: release}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    unknown = dict.fromkeys(names, f"not run:\n{done.stdout}{done.stderr}")
    return unknown | problems(report) if report.exists() else unknown


def problems(report: Path) -> Failures:
    """The problems of each test in a JUnit report; an empty text for those that passed."""
    found: Failures = {}
    for case in ElementTree.parse(report).iter("testcase"):
        name = case.attrib["name"]
        found[name] = found.get(name, "") + "\n".join(problem.text or "" for problem in case)
    return found


def case(release: str, name: str) -> ParameterSet:
    first = name in FIRST and release != OLDEST
    return pytest.param(release, name, marks=() if first else pytest.mark.thorough, id=f"{release}-{name}")


@pytest.mark.parametrize(("release", "name"), [case(*each) for each in product(RELEASES, SCENARIO)])
def test_scenario_on_another_release(release: str, name: str, failures: Callable[[str], Failures]) -> None:
    assert set(SCENARIO) >= FIRST
    if problem := failures(release)[name]:
        pytest.fail(problem, pytrace=False)
