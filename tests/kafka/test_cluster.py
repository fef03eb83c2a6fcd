"""The harness of real Kafka: the brokers that it starts answer, and are gone when they should be."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.kafka import KafkaCluster, KafkaError, cluster, probe
from tests.kafka.pool import RunningKafka
from tests.kafka.storage import IDENTITY

pytestmark = [pytest.mark.kafka, pytest.mark.slow]
ROOT = Path(__file__).resolve().parents[2]


def test_a_broker_answers_until_it_is_stopped() -> None:
    with KafkaCluster(1) as kafka:
        address = kafka.address(1)
        assert kafka.bootstrap_servers == f"{address[0]}:{address[1]}"
        assert probe.answers(address)
    assert not probe.answers(address)


@pytest.mark.exclusive
def test_a_stopped_broker_of_three_comes_back(kafka3: RunningKafka) -> None:
    kafka3.stop_broker(2)
    try:
        assert kafka3.running == {1, 3}
        assert probe.answers(kafka3.address(3))
        assert not probe.answers(kafka3.address(2))
    finally:
        kafka3.start_broker(2)
    assert all(probe.known_brokers(kafka3.address(node_id)) == {1, 2, 3} for node_id in kafka3.broker_ids)


def test_the_error_for_a_broker_that_dies_has_the_end_of_its_log() -> None:
    with pytest.raises(KafkaError, match=r"broker 1 died with exit code 1(.|\n)*heap"):
        KafkaCluster(1, heap="1k").start()


def test_the_error_for_a_wrong_config_names_it() -> None:
    with pytest.raises(KafkaError, match=r"broker 1 (.|\n)*num.network.threads"):
        KafkaCluster(1, config={"num.network.threads": "none"}).start()


def test_storage_is_formatted_also_without_a_template(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cluster, "template_of", lambda jars: tmp_path / "missing")
    with KafkaCluster(1) as kafka:
        identity = (kafka.data_folder(1) / IDENTITY).read_text()
        assert probe.known_brokers(kafka.address(1)) == {1}
    # Java wrote this file: its properties files start with the time.
    assert identity.startswith("#")


def test_brokers_and_files_are_removed_when_the_owner_is_killed(tmp_path: Path) -> None:
    """A killed test run cannot clean up, but the watchdog does."""
    command = [sys.executable, "-m", "tests.kafka"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True) as owner:
        assert owner.stdout is not None
        host, port = owner.stdout.readline().strip().split(":")
        assert probe.answers((host, int(port)))
        owner.send_signal(signal.SIGKILL)
        # The watchdog holds the other end of this pipe too, so end of file means that its work is done.
        assert owner.stdout.read() == ""
    assert not any(tmp_path.iterdir())
    assert not probe.answers((host, int(port)))
