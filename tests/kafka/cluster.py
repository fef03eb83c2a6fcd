"""A cluster of real Kafka brokers (KRaft), each in a Java process that ends with this one."""

from __future__ import annotations

import itertools
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

from tests.java.starting import java_command
from tests.kafka import probe, watchdog
from tests.kafka.config import HOST, Ports, log4j_yaml, render, server_properties
from tests.kafka.storage import format_storage, new_id, template_of
from tools.setup.project import kafka_jars, kafka_ready
from tools.setup.system import find_java

START_SECONDS = 180.0
STOP_SECONDS = 60.0
# These are below the ports that Linux (from 32768) and other systems (from 49152) assign by themselves.
BROKER_PORTS = range(20_000, 32_000)


class KafkaError(Exception):
    """A broker failed to start or stop; the message ends with the last lines of its log."""


def missing() -> str | None:
    """Return what this machine lacks to run a cluster, and how to get it; None if it lacks nothing."""
    if find_java() is None:
        return "real Kafka needs Java 17 or later"
    if not kafka_ready():
        return "the jars of real Kafka are not there: `make kafka` fetches them"
    return None


class KafkaCluster:
    """Brokers 1 to ``brokers``, which are also controllers, on free ports of 127.0.0.1.

    It is synchronous, so that tests of any kind and benchmarks can use it: every method returns when it is done, or
    raises `KafkaError`. ``config`` overrides the configuration of each broker, ``heap`` is each one's ``-Xmx``, and
    ``jvm`` has further options of Java. ``classpath`` has folders with plug-ins.
    """

    def __init__(
        self,
        brokers: int = 1,
        *,
        config: Mapping[str, str] | None = None,
        heap: str = "512m",
        jvm: Sequence[str] = (),
        classpath: Sequence[Path] = (),
    ) -> None:
        self.broker_ids = tuple(range(1, brokers + 1))
        self._config = dict(config or {})
        self._heap = heap
        self._jvm = jvm
        self._classpath = classpath
        self._ports: dict[int, Ports] = {}
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._folder: Path | None = None
        self._watchdog: subprocess.Popen[str] | None = None

    def __enter__(self) -> KafkaCluster:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    @property
    def bootstrap_servers(self) -> str:
        return ",".join(f"{HOST}:{ports.broker}" for ports in self._ports.values())

    @property
    def running(self) -> set[int]:
        return {node_id for node_id, process in self._processes.items() if process.poll() is None}

    def address(self, node_id: int) -> tuple[str, int]:
        return HOST, self._ports[node_id].broker

    def start(self) -> None:
        if reason := missing():
            raise KafkaError(reason)
        self._folder = Path(tempfile.mkdtemp(prefix="aiokproto-kafka-"))
        self._watchdog = _start_watchdog(self._folder)
        try:
            self._ports = free_ports(self.broker_ids)
            for node_id in self.broker_ids:
                self._write_config(node_id)
            self._prepare()
            for node_id in self.broker_ids:
                self._spawn(node_id)
            self._await_known(set(self.broker_ids))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Kill all brokers and remove the data. No broker needs to close its logs, because they aren't read again."""
        for node_id in list(self._processes):
            self.stop_broker(node_id, hard=True)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        if self._watchdog is not None:
            self._watchdog.communicate(timeout=STOP_SECONDS)
            self._watchdog = None

    def stop_broker(self, node_id: int, *, hard: bool = False) -> None:
        """Stop one broker cleanly, so that it hands over its partitions, or with ``hard``, as a power cut would."""
        process = self._processes.pop(node_id)
        process.send_signal(signal.SIGKILL if hard else signal.SIGTERM)
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise KafkaError(f"broker {node_id} did not stop in {STOP_SECONDS:g} s{self._log_tail(node_id)}") from None
        finally:
            self._tell_watchdog("-", process.pid)

    def start_broker(self, node_id: int) -> None:
        """Start a stopped broker again, on its old port and with its old data."""
        if node_id in self.running:
            raise KafkaError(f"broker {node_id} is running")
        self._spawn(node_id)
        self._await_known(self.running)

    def data_folder(self, node_id: int) -> Path:
        """Return the folder of a broker's logs."""
        return Path(self._config.get("log.dirs", self._node_folder(node_id) / "data"))

    def _node_folder(self, node_id: int) -> Path:
        assert self._folder is not None, "the cluster was not started"
        return self._folder / f"node-{node_id}"

    def _jars(self, node_id: int) -> Path:
        """Return the jars of a node's release."""
        return kafka_jars()

    def _write_config(self, node_id: int) -> None:
        folder = self._node_folder(node_id)
        folder.mkdir(exist_ok=True)
        properties = server_properties(node_id, self._ports, folder, self._config)
        (folder / "server.properties").write_text(render(properties))
        (folder / "log4j2.yaml").write_text(log4j_yaml(folder / "server.log"))

    def _java(self, node_id: int, *arguments: str) -> subprocess.Popen[bytes]:
        java, folder = find_java(), self._node_folder(node_id)
        assert java is not None, "checked by missing()"
        command = [
            *java_command(java, self._jars(node_id), *self._classpath),
            f"-Dlog4j2.configurationFile={folder / 'log4j2.yaml'}",
            *arguments,
        ]
        with (folder / "console.log").open("ab") as console:
            # The broker has its own session, so it doesn't get the terminal's Ctrl-C: its owner decides when it stops.
            process = subprocess.Popen(
                command, cwd=folder, stdin=subprocess.DEVNULL, stdout=console, stderr=console, start_new_session=True
            )
        self._tell_watchdog("+", process.pid)
        return process

    def _prepare(self) -> None:
        """Write the cluster id and first metadata into every node's data folder."""
        cluster_id, unformatted = new_id(), []
        for node_id in self.broker_ids:
            template = template_of(self._jars(node_id))
            if template.exists():
                format_storage(template, self.data_folder(node_id), cluster_id, node_id)
            else:
                unformatted.append(node_id)
        # All nodes are formatted at the same time: each takes a slow Java process.
        arguments = ("kafka.tools.StorageTool", "format", "-t", cluster_id, "-c", "server.properties")
        formatting = {node_id: self._java(node_id, *arguments) for node_id in unformatted}
        for node_id, process in formatting.items():
            code = process.wait(START_SECONDS)
            self._tell_watchdog("-", process.pid)
            if code != 0:
                raise KafkaError(f"formatting the storage of broker {node_id} failed{self._log_tail(node_id)}")

    def _spawn(self, node_id: int) -> None:
        options = (f"-Xmx{self._heap}", *self._jvm)
        self._processes[node_id] = self._java(node_id, *options, "kafka.Kafka", "server.properties")

    def _await_known(self, nodes: set[int]) -> None:
        """Wait until every one of ``nodes`` serves requests and has all of them in its metadata."""
        for node_id in nodes:
            self._await(node_id, "come up", partial(self._answers, self.address(node_id)))
        for node_id in nodes:
            self._await(node_id, "join", partial(self._knows, node_id, nodes))

    def _answers(self, address: tuple[str, int]) -> bool:
        return probe.answers(address)

    def _knows(self, node_id: int, nodes: set[int]) -> bool:
        return probe.known_brokers(self.address(node_id)) >= nodes

    def _await(self, node_id: int, what: str, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + START_SECONDS
        while not done():
            code = self._processes[node_id].poll()
            if code is not None:
                raise KafkaError(f"broker {node_id} died with exit code {code}{self._log_tail(node_id)}")
            if time.monotonic() > deadline:
                raise KafkaError(f"broker {node_id} did not {what} in {START_SECONDS:g} s{self._log_tail(node_id)}")
            time.sleep(0.05)

    def _tell_watchdog(self, sign: str, pid: int) -> None:
        assert self._watchdog is not None, "started first, stopped last"
        assert self._watchdog.stdin is not None, "started with a pipe"
        self._watchdog.stdin.write(f"{sign}{pid}\n")
        self._watchdog.stdin.flush()

    def _log_tail(self, node_id: int, lines: int = 30) -> str:
        text = ""
        for name in ("console.log", "server.log"):
            log = self._node_folder(node_id) / name
            if log.exists():
                tail = log.read_text(errors="replace").splitlines()[-lines:]
                text += "".join(f"\n  {name}: {line}" for line in tail)
        return text


def _start_watchdog(folder: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-I", os.fspath(watchdog.__file__), os.fspath(folder)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, text=True, start_new_session=True)


def free_ports(node_ids: tuple[int, ...]) -> dict[int, Ports]:
    """Return two free ports for every node.

    They aren't ports that the system assigns for port 0: between this check and the broker's start, or while a broker
    is down, any outgoing connection on this machine could be given one of them.
    """
    candidates = random.SystemRandom().sample(BROKER_PORTS, len(BROKER_PORTS))
    free = itertools.islice(filter(_is_free, candidates), 2 * len(node_ids))
    return {node_id: Ports(next(free), next(free)) for node_id in node_ids}


def _is_free(port: int) -> bool:
    try:
        socket.create_server((HOST, port)).close()
    except OSError:
        return False
    return True
