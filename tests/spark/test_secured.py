"""Jobs on a cluster with TLS and authentication, and what is left of their secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from aiokproto.broker import Broker, Security, ThreadedCluster
from tests.broker.secure import Certificates
from tests.spark.secured_job import IN_SQL, REDACTION, ROWS
from tests.timeouts import LONG_TIMEOUT

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.extended, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
SECRET, IN_STATEMENTS = "bread-and-butter", "jam-and-honey"
WITH_PASSWORD, WITH_TOKENS = "with-password", "with-tokens"
"""The topics, one for each job."""
SEEN = {"batch": ROWS, "view": ROWS, "stream": 2 * ROWS, "load": 2 * ROWS}
LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="etl" password="{}";'


def password_options(cluster: ThreadedCluster, certificates: Certificates) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.location": certificates.authority,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": LOGIN.format(SECRET),
    }


def token_options(certificates: Certificates) -> dict[str, str]:
    return {
        "kafka.bootstrap.servers": "${env:KAFKA_SERVERS}",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.certificates": f"${{file:{certificates.authority}}}",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "aiokproto.sasl.token": "tests.spark.secured_job:token",
    }


@dataclass
class Done:
    """What the jobs have printed and logged, and the folder with all they have written."""

    output: str
    folder: Path

    @property
    def found(self) -> list[dict[str, int]]:
        """The rows that each job has seen."""
        lines = self.output.splitlines()
        return [json.loads(line.removeprefix("FOUND ")) for line in lines if line.startswith("FOUND ")]

    def places(self, text: str) -> list[str]:
        """The files with the text."""
        files = (path for path in self.folder.rglob("*") if path.is_file())
        return [str(path.relative_to(self.folder)) for path in files if text.encode() in path.read_bytes()]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Done:
    """Runs both jobs, in a process of their own with one session."""
    certificates, folder = Certificates(tmp_path_factory.mktemp("certificates")), tmp_path_factory.mktemp("jobs")
    security = Security("SASL_SSL", users={"etl": SECRET}, unsecured_tokens=True)
    config = {**certificates.options(), "sasl.enabled.mechanisms": "SCRAM-SHA-512,OAUTHBEARER"}
    with ThreadedCluster(Broker(security=security, config=config)) as cluster:
        jobs = [(password_options(cluster, certificates), WITH_PASSWORD), (token_options(certificates), WITH_TOKENS)]
        for _, topic in jobs:
            cluster.create_topic(topic, partitions=2)
        done = subprocess.run(
            [sys.executable, "-m", "tests.spark.secured_job", json.dumps(jobs), str(folder), IN_STATEMENTS],
            cwd=ROOT,
            env={**os.environ, "KAFKA_SERVERS": cluster.bootstrap_servers},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=6 * LONG_TIMEOUT,
            check=False,
        )
    assert done.returncode == 0, done.stdout[-5000:]
    return Done(done.stdout, folder)


def test_a_password_in_the_options_is_in_no_file_and_no_output(done: Done) -> None:
    """Plans, SQL, events, logs, errors, checkpoints, manifests."""
    assert done.found[0] == SEEN
    assert SECRET not in done.output
    assert done.places(SECRET) == []
    assert done.places(WITH_PASSWORD) != []


def test_a_secret_in_a_statement_is_redacted_as_the_documentation_says(done: Done) -> None:
    """Spark shows the options of ``CREATE … OPTIONS (…)`` that its setting doesn't match."""
    assert f"spark.redaction.regex  {REDACTION}\n" in (ROOT / "docs" / "spark" / "security.md").read_text(
        encoding="utf-8"
    )
    assert IN_STATEMENTS not in done.output
    assert done.places(IN_STATEMENTS) == []
    assert all(option in done.output for option in IN_SQL)


def test_functions_and_the_environment_of_tasks(done: Done) -> None:
    assert done.found[1] == SEEN
