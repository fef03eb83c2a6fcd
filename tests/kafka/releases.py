"""One broker of an earlier release of Kafka, with its ZooKeeper, for tests of clients on brokers of any age."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.kafka import probe
from tests.kafka.cluster import STOP_SECONDS, KafkaCluster, KafkaError
from tests.kafka.config import HOST, render
from tools.setup.project import SCALA, kafka_version, release_jars, release_ready, wanted_releases
from tools.setup.system import find_java

NEWEST = kafka_version()
RELEASES = (*SCALA, NEWEST)
"""The releases that tests can run, oldest first."""
FIRST_WITH_API_VERSIONS = (0, 10)
FIRST_WITHOUT_ZOOKEEPER = (3, 9)
"""KRaft was for production from 3.3 on. The older releases here use ZooKeeper, as most clusters did then."""
CREATES_TOPICS = {"auto.create.topics.enable": "true", "num.partitions": "2"}
"""The first releases have no request to create topics."""
# The packages that old releases access, and that Java 17 has closed.
OPENED = ("--add-opens=java.base/java.lang=ALL-UNNAMED", "--add-opens=java.base/sun.nio.ch=ALL-UNNAMED")


def number(release: str) -> tuple[int, ...]:
    """Return a release's number for comparisons. Numbers before 1.0 have four parts."""
    return tuple(map(int, release.split(".")))


def missing(release: str) -> str | None:
    """Return what this machine lacks to run a broker of the release, and how to get it; None if it lacks nothing."""
    if find_java() is None:
        return "real Kafka needs Java 17 or later"
    if release != NEWEST and not release_ready(release):
        return f"the jars of Kafka {release} are not there: `make kafka RELEASES={release}` fetches them"
    return None


def old_properties(port: int, zookeeper: int, folder: Path) -> dict[str, str]:
    """Return the configuration of a broker that has a ZooKeeper. Each release ignores options that it doesn't know."""
    return {
        "broker.id": "1",
        # The first two are the options of 0.8, which has no listeners.
        "host.name": HOST,
        "port": str(port),
        "listeners": f"PLAINTEXT://{HOST}:{port}",
        "zookeeper.connect": f"{HOST}:{zookeeper}",
        "zookeeper.connection.timeout.ms": "30000",
        "log.dirs": str(folder / "data"),
        **CREATES_TOPICS,
        "delete.topic.enable": "true",
        "controlled.shutdown.enable": "false",
        "offsets.topic.replication.factor": "1",
        "offsets.topic.num.partitions": "3",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.num.partitions": "3",
        "transaction.state.log.min.isr": "1",
        "group.initial.rebalance.delay.ms": "0",
        "group.min.session.timeout.ms": "500",
        "log.cleaner.dedupe.buffer.size": str(4 << 20),
    }


class ReleasedKafka(KafkaCluster):
    """Broker 1 of an earlier release on free ports of 127.0.0.1. It creates topics that requests name."""

    def __init__(self, release: str, *, heap: str = "320m") -> None:
        super().__init__(1, config=CREATES_TOPICS, heap=heap)
        self.release = release
        self._number = number(release)
        self._zookeeper: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        if reason := missing(self.release):
            raise KafkaError(reason)
        super().start()

    def stop(self) -> None:
        # The broker stops first: without its ZooKeeper it would fill its log.
        for node_id in list(self._processes):
            self.stop_broker(node_id, hard=True)
        if self._zookeeper is not None:
            self._zookeeper.send_signal(signal.SIGKILL)
            self._zookeeper.wait(STOP_SECONDS)
            self._tell_watchdog("-", self._zookeeper.pid)
            self._zookeeper = None
        super().stop()

    def _jars(self, node_id: int) -> Path:
        return release_jars(self.release)

    @property
    def _has_zookeeper(self) -> bool:
        return self._number < FIRST_WITHOUT_ZOOKEEPER

    def _write_config(self, node_id: int) -> None:
        super()._write_config(node_id)
        folder, ports = self._node_folder(node_id), self._ports[node_id]
        if self._has_zookeeper:
            # ZooKeeper gets the port that would be the controller's.
            properties = old_properties(ports.broker, ports.controller, folder)
            (folder / "server.properties").write_text(render(properties))
            (folder / "zookeeper.properties").write_text(render(_zookeeper_properties(ports.controller, folder)))

    def _java(self, node_id: int, *arguments: str) -> subprocess.Popen[bytes]:
        return super()._java(node_id, *old_logging(self._node_folder(node_id)), *OPENED, *arguments)

    def _prepare(self) -> None:
        if not self._has_zookeeper:
            super()._prepare()
            return
        main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._zookeeper = self._processes[1] = self._java(1, "-Xmx128m", *self._jvm, main, "zookeeper.properties")
        self._await(1, "open its ZooKeeper", partial(probe.connects, (HOST, self._ports[1].controller)))
        del self._processes[1]

    def _answers(self, address: tuple[str, int]) -> bool:
        old = self._number < FIRST_WITH_API_VERSIONS
        return probe.answers_metadata(address) if old else super()._answers(address)

    def _knows(self, node_id: int, nodes: set[int]) -> bool:
        # A 0.8 broker lists itself only once there is a topic.
        return self._number < FIRST_WITH_API_VERSIONS or super()._knows(node_id, nodes)


def old_logging(folder: Path) -> Sequence[str]:
    """Return the options of Java for a release before 4.0, which logs with Log4j 1, and write the configuration to the
    folder."""
    configuration = folder / "log4j.properties"
    configuration.write_text(_LOG4J)
    return (
        f"-Dlog4j.configuration={configuration.as_uri()}",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn",
        # ZooKeeper would register the loggers of a Log4j that isn't there.
        "-Dzookeeper.jmx.log4j.disable=true",
    )


def _zookeeper_properties(port: int, folder: Path) -> Mapping[str, str]:
    return {
        "dataDir": str(folder / "zookeeper"),
        "clientPort": str(port),
        "clientPortAddress": HOST,
        "tickTime": "2000",
        "maxClientCnxns": "0",
        "admin.enableServer": "false",
    }


def cluster_of(release: str) -> KafkaCluster:
    """Return a cluster of one broker of a release, which isn't started yet."""
    if release == NEWEST:
        return KafkaCluster(1, config=CREATES_TOPICS)
    return ReleasedKafka(release)


def wanted(text: str) -> Sequence[str]:
    """Return the releases that ``--releases`` names, oldest first. The default is the oldest, one in between and the
    newest."""
    names = set(wanted_releases(text))
    if text in ("", "all") or NEWEST in text.split(","):
        names.add(NEWEST)
    return [release for release in RELEASES if release in names]


_LOG4J = """\
log4j.rootLogger=WARN, console
log4j.appender.console=org.apache.log4j.ConsoleAppender
log4j.appender.console.layout=org.apache.log4j.PatternLayout
log4j.appender.console.layout.ConversionPattern=%d{HH:mm:ss.SSS} %p %c{1}: %m%n
"""
