"""Jobs on a cluster with TLS and authentication, and what is left of their secrets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from aiokproto.broker import Broker, Security, ThreadedCluster
from tests.broker.secure import Certificates
from tests.patience import PATIENCE
from tests.spark.secured_job import ROWS

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(900)]

ROOT = Path(__file__).resolve().parents[2]
SECRET = "bread-and-butter"


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


@pytest.fixture
def cluster(certificates: Certificates) -> Iterator[ThreadedCluster]:
    security = Security("SASL_SSL", users={"etl": SECRET})
    with ThreadedCluster(Broker(security=security, config=certificates.options())) as running:
        yield running


def run_job(options: Mapping[str, str], topic: str, folder: Path, environment: Mapping[str, str]) -> str:
    """Run the job in its own processes; all that it printed and logged."""
    command = [sys.executable, "-m", "tests.spark.secured_job", json.dumps(dict(options)), topic, str(folder)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=6 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    return done.stdout


def found(output: str) -> dict[str, int]:
    (line,) = (line for line in output.splitlines() if line.startswith("FOUND "))
    rows: dict[str, int] = json.loads(line.removeprefix("FOUND "))
    return rows


def places(folder: Path, secret: str) -> list[str]:
    """The files with the secret."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return [str(path.relative_to(folder)) for path in files if secret.encode() in path.read_bytes()]


SEEN = {"batch": ROWS, "view": ROWS, "stream": 2 * ROWS, "load": 2 * ROWS}
LOGIN = 'org.apache.kafka.common.security.scram.ScramLoginModule required username="etl" password="{}";'


def test_a_password_in_the_options_is_in_no_file_and_no_output(
    cluster: ThreadedCluster, certificates: Certificates, topic: str, tmp_path: Path
) -> None:
    """Plans, SQL, events, logs, errors, checkpoints, manifests."""
    cluster.create_topic(topic, partitions=2)
    folder = tmp_path / "job"
    folder.mkdir()
    options = {
        "kafka.bootstrap.servers": cluster.bootstrap_servers,
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.location": certificates.authority,
        "kafka.ssl.truststore.type": "PEM",
        "kafka.sasl.mechanism": "SCRAM-SHA-512",
        "kafka.sasl.jaas.config": LOGIN.format(SECRET),
    }
    output = run_job(options, topic, folder, {})
    assert found(output) == SEEN
    assert SECRET not in output
    assert places(folder, SECRET) == []
    assert places(folder, topic) != []


def test_functions_and_the_environment_of_tasks(
    cluster: ThreadedCluster, certificates: Certificates, topic: str, tmp_path: Path
) -> None:
    cluster.create_topic(topic, partitions=2)
    folder = tmp_path / "job"
    folder.mkdir()
    options = {
        "kafka.bootstrap.servers": "${env:KAFKA_SERVERS}",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.certificates": f"${{file:{certificates.authority}}}",
        "kafka.sasl.mechanism": "OAUTHBEARER",
        "aiokproto.sasl.token": "tests.spark.secured_job:token",
    }
    assert found(run_job(options, topic, folder, {"KAFKA_SERVERS": cluster.bootstrap_servers})) == SEEN
