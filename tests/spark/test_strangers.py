"""A stranger's SQL reaches only what the administrator allowed when the application started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from aiokproto.spark.permissions import EVERYTHING, VARIABLES
from tests.spark.kafka import Kafka
from tests.timeouts import LONG_TIMEOUT

pytestmark = [pytest.mark.spark, pytest.mark.extended, pytest.mark.timeout(600)]


def test_sql_cannot_change_what_an_administrator_allows(kafka: Kafka, tmp_path: Path) -> None:
    kafka.create_topic("strangers", 1)
    environment = {name: value for name, value in os.environ.items() if name not in EVERYTHING}
    environment |= {"ETL_CLIENT": "etl", "STRANGERS_AIM": "s3cret"}
    command = [sys.executable, "-m", "tests.spark.strangers_job", kafka.bootstrap_servers, "strangers", str(tmp_path)]
    done = subprocess.run(
        command,
        env=environment,
        cwd=Path(__file__).resolve().parents[2],
        capture_output=True,
        text=True,
        timeout=8 * LONG_TIMEOUT,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    results = json.loads(done.stdout.splitlines()[-1])
    assert results["ETL_CLIENT"] == "0"
    assert "the environment variable STRANGERS_AIM is not allowed" in results["STRANGERS_AIM"]
    assert VARIABLES in results["STRANGERS_AIM"]
    assert "s3cret" not in done.stdout + done.stderr
