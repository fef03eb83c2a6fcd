"""The scenario of a client of Spark Connect, in processes that have the packages which such a client needs."""

from __future__ import annotations

import secrets
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.fetching import Commands, fetched
from tests.spark.connect import scenario
from tests.spark.connect.server import connect_server
from tests.spark.payloads import test_payloads
from tests.spark.scenarios import Failures, all_tests, python_path, run_tests, selected_cases
from tests.spark.session import CONNECT
from tests.spark.sink.exactly_once import test_writes
from tests.spark.versions import test_scenario

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(900)]

PACKAGES = ("grpcio>=1.76,<2", "grpcio-status>=1.76,<2", "googleapis-common-protos>=1.71,<2", "pandas>=2.2,<3")
"""What the extra ``connect`` of PySpark adds to the packages of this environment."""

THIN_CLIENT = "4.2.0"
"""A release of ``pyspark-client``, which has neither Spark's jars nor py4j."""

TESTS: dict[str, list[Any]] = {
    "pyspark": [
        *all_tests(scenario),
        test_scenario.test_every_row_is_what_was_produced,
        test_scenario.test_a_stream_reads_each_record_once,
        test_scenario.test_a_stream_is_written_exactly_once,
        test_scenario.test_a_load_whose_transform_leaves_no_row,
        test_writes.test_a_stream_and_its_next_run,
        test_payloads.test_json,
    ],
    "pyspark-client": [
        scenario.test_it_is_found_and_can_be_registered,
        scenario.test_loads_with_a_client_that_plans_and_commits,
        test_scenario.test_a_load_whose_transform_leaves_no_row,
    ],
}
"""The tests of each client."""

THOROUGH = {
    test_scenario.test_a_stream_reads_each_record_once.__name__,
    test_payloads.test_json.__name__,
    test_scenario.test_a_load_whose_transform_leaves_no_row.__name__,
    test_writes.test_a_stream_and_its_next_run.__name__,
}
"""Tests that take long, and prove what another one proves, too."""


def pip(*packages: str) -> Commands:
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    return lambda folder: [[*install, "--target", str(folder), *packages]]


def path_of(client: str, folder: Path) -> str:
    """The ``PYTHONPATH`` of a client; ``folder`` is for what hides packages."""
    packages = fetched("spark-connect-1", pip(*PACKAGES))
    if client == "pyspark":
        return python_path(packages)
    thin = fetched(f"pyspark-client-{THIN_CLIENT}", pip("--no-deps", f"pyspark-client=={THIN_CLIENT}"))
    (folder / "py4j.py").write_text('raise ModuleNotFoundError("a client without a JVM needs no py4j")')
    return python_path(folder, thin, packages)


@dataclass
class Done:
    """The output of the server and its clients."""

    failures: dict[str, Failures]
    folder: Path
    password: str


@pytest.fixture(scope="session")
def done(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Runs what is selected of the scenario with every client, on one server."""
    # There is no result if the other test runs alone.
    selected = selected_cases(request, test_scenario_over_spark_connect, "client") or {
        client: [test.__name__ for test in tests] for client, tests in TESTS.items()
    }
    folder = tmp_path_factory.mktemp("connect")
    failures: dict[str, Failures] = {}
    password = secrets.token_hex()
    with connect_server(folder, {scenario.SERVER_PASSWORD: password}) as address:
        for client, names in selected.items():
            tests = [test for test in TESTS[client] if test.__name__ in names]
            hiding = folder / client
            hiding.mkdir()
            environment = {"PYTHONPATH": path_of(client, hiding), CONNECT: address, scenario.PASSWORD: password}
            failures[client] = run_tests(tests, folder / f"{client}.xml", environment)
    return Done(failures, folder, password)


def case(client: str, name: str) -> ParameterSet:
    return pytest.param(client, name, marks=pytest.mark.thorough if name in THOROUGH else (), id=f"{client}-{name}")


@pytest.mark.parametrize(
    ("client", "name"), [case(client, test.__name__) for client, tests in TESTS.items() for test in tests]
)
def test_scenario_over_spark_connect(client: str, name: str, done: Done) -> None:
    if problem := done.failures[client][name]:
        pytest.fail(problem, pytrace=False)


def test_a_password_that_options_refer_to_is_in_nothing_that_the_server_writes(done: Done) -> None:
    """No secret is in its log or in its events, which have the plans that clients sent."""
    texts = [path.read_text() for path in (done.folder / "log", *done.folder.glob("events/*/events*"))]
    assert any(scenario.SERVER_PASSWORD in text for text in texts)
    assert not any(done.password in text for text in texts)
