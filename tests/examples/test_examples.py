"""Every example runs as a reader would run it, and says what it should."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
SAYS = {
    "quickstart.py": "acknowledged at greetings-",
    "protocol_only.py": "EndTxnMarker has versions 0",
    "records_only.py": "3 records",
    "raw_request.py": "Produce: 0 to 13",
    "batches_to_arrow.py": "1000 acknowledged",
    "broker_in_tests.py": "both pass",
    "simulated_outage.py": "100 flights, each once",
}


def run(*arguments: str) -> str:
    """Run Python with warnings as errors; returns what it printed."""
    done = subprocess.run([sys.executable, "-W", "error", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    return done.stdout


def test_every_example_is_run() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == set(SAYS)


@pytest.mark.parametrize("name", SAYS)
def test_example(name: str) -> None:
    assert SAYS[name] in run(str(EXAMPLES / name))


@pytest.mark.spark
@pytest.mark.extended
@pytest.mark.timeout(600)
def test_the_flights_pass_through_kafka_and_spark() -> None:
    """The demo, with fewer flights; it compares everything itself."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / "flights/main.py"), "--flights", "20000"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verified: 20,000 flights, each once" in done.stdout
