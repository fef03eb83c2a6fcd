"""Spark's log says what a connection lacks once for the driver, and not for each client of its tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from aiokproto.broker import Broker, Security, ThreadedCluster
from aiokproto.spark import options as parsing
from aiokproto.spark.options import parse_read_options
from aiokproto.spark.planning import plan_now
from aiokproto.spark.sink.options import parse_write_options
from aiokproto.spark.worker import Worker
from tests.broker.secure import USERS

CONNECTION = {
    "kafka.bootstrap.servers": "kafka.example.org:9092",
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.sasl.username": "alice",
    "kafka.sasl.password": USERS["alice"],
}


@pytest.fixture(autouse=True)
def _a_new_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "_warned", set())


@pytest.fixture
def cluster() -> Iterator[ThreadedCluster]:
    with ThreadedCluster(Broker(security=Security("SASL_PLAINTEXT", users=USERS))) as running:
        running.create_topic("t")
        yield running


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


def test_the_driver_warns_once_by_the_names_of_its_options(caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(2):
        parse_read_options({**CONNECTION, "subscribe": "t"})
        parse_write_options({**CONNECTION, "topic": "t"})
    (line,) = warned(caplog)
    assert line.startswith("client 'aiokproto': the login is sent without TLS: ")
    assert line.endswith("set kafka.security.protocol='SASL_SSL'")
    assert USERS["alice"] not in line


def test_clients_of_the_driver_and_of_tasks_do_not_warn(
    cluster: ThreadedCluster, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("aiokproto.cluster.exposure.is_loopback", lambda host: False)
    given = {**CONNECTION, "kafka.bootstrap.servers": cluster.bootstrap_servers}
    reading = parse_read_options({**given, "subscribe": "t"})
    writing = parse_write_options({**given, "topic": "t"})
    assert len(warned(caplog)) == 1
    plan_now(reading)
    worker = Worker()
    try:
        worker.cluster(reading.connection, "t")
        worker.producer(writing.producer)
    finally:
        worker.close()
    assert len(warned(caplog)) == 1
