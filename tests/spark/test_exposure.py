"""Spark's log says what a connection lacks once for the driver, and not for each client of its tasks."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from aiokproto.broker import Broker, Security, ThreadedCluster
from aiokproto.spark import connection
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
    monkeypatch.setattr(connection, "_warned", set())


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


@pytest.fixture
def referring(cluster: ThreadedCluster, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Options that say nothing before their references are resolved."""
    monkeypatch.setattr("aiokproto.cluster.exposure.is_loopback", lambda host: False)
    monkeypatch.setenv("ETL_SERVERS", cluster.bootstrap_servers)
    monkeypatch.setenv("ETL_CLIENT", "zq-client-zq")
    return {**CONNECTION, "kafka.bootstrap.servers": "${env:ETL_SERVERS}", "kafka.client.id": "${env:ETL_CLIENT}"}


def test_the_driver_warns_of_references_when_it_has_resolved_them(
    referring: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    options = parse_read_options({**referring, "subscribe": "t"})
    assert warned(caplog) == []
    for _ in range(2):
        plan_now(options)
    worker = Worker()
    try:
        worker.cluster(options.connection, "t")
    finally:
        worker.close()
    (line,) = warned(caplog)
    assert line.endswith("set kafka.security.protocol='SASL_SSL'")
    assert "zq-client-zq" not in line


def test_tasks_that_write_warn_of_references_since_no_client_of_the_driver_does(
    referring: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    options = parse_write_options({**referring, "topic": "t"})
    assert warned(caplog) == []
    worker = Worker()
    try:
        for _ in range(2):
            worker.producer(options.producer)
    finally:
        worker.close()
    (line,) = warned(caplog)
    assert "the login is sent without TLS" in line


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
