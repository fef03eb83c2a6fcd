"""The configuration of the test cluster's brokers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

HOST = "127.0.0.1"

HEARTBEAT_MS = 200
"""The heartbeat interval of consumer, share and streams groups: members learn about a new assignment from
heartbeats."""


@dataclass(frozen=True)
class Ports:
    broker: int
    controller: int


def server_properties(
    node_id: int, nodes: Mapping[int, Ports], folder: Path, overrides: Mapping[str, str]
) -> dict[str, str]:
    """Return the configuration of one node, which is both broker and controller, of a cluster of ``nodes``."""
    copies = str(len(nodes))
    safe = str(min(2, len(nodes)))
    return {
        "process.roles": "broker,controller",
        "node.id": str(node_id),
        "controller.quorum.voters": ",".join(f"{id_}@{HOST}:{ports.controller}" for id_, ports in nodes.items()),
        "controller.listener.names": "CONTROLLER",
        "listeners": f"PLAINTEXT://{HOST}:{nodes[node_id].broker},CONTROLLER://{HOST}:{nodes[node_id].controller}",
        "log.dirs": str(folder / "data"),
        "broker.rack": f"rack-{node_id}",
        "replica.selector.class": "org.apache.kafka.common.replica.RackAwareReplicaSelector",
        "auto.create.topics.enable": "false",
        "min.insync.replicas": "1",
        "offsets.topic.replication.factor": copies,
        "offsets.topic.num.partitions": "5",
        "transaction.state.log.replication.factor": copies,
        "transaction.state.log.num.partitions": "5",
        "transaction.state.log.min.isr": safe,
        "share.coordinator.state.topic.replication.factor": copies,
        "share.coordinator.state.topic.num.partitions": "3",
        "share.coordinator.state.topic.min.isr": safe,
        # A test shouldn't wait as production does.
        "group.initial.rebalance.delay.ms": "0",
        "group.streams.initial.rebalance.delay.ms": "0",
        "group.consumer.assignment.interval.ms": "100",
        "group.share.assignment.interval.ms": "100",
        "group.streams.assignment.interval.ms": "100",
        "group.min.session.timeout.ms": "500",
        "group.consumer.min.session.timeout.ms": "500",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.share.min.heartbeat.interval.ms": "100",
        "group.share.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.streams.min.heartbeat.interval.ms": "100",
        "group.streams.heartbeat.interval.ms": str(HEARTBEAT_MS),
        "group.share.min.record.lock.duration.ms": "1000",
        "broker.session.timeout.ms": "3000",
        "broker.heartbeat.interval.ms": "500",
        "controller.quorum.election.timeout.ms": "500",
        "controller.quorum.fetch.timeout.ms": "1000",
        "replica.lag.time.max.ms": "3000",
        "leader.imbalance.check.interval.seconds": "3600",
        "log.cleaner.dedupe.buffer.size": str(4 << 20),
        "log.cleaner.backoff.ms": "500",
        "log.initial.task.delay.ms": "5000",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "200",
        **overrides,
    }


def render(properties: Mapping[str, str]) -> str:
    return "".join(f"{name}={value}\n" for name, value in properties.items())


def log4j_yaml(log: Path) -> str:
    """Return a logging configuration with one file, which is quoted if a broker doesn't start."""
    return f"""\
Configuration:
  status: error
  Appenders:
    File:
      name: file
      fileName: "{log}"
      PatternLayout:
        pattern: "%d{{HH:mm:ss.SSS}} %p %c{{1}}: %m%n"
  Loggers:
    Root:
      level: WARN
      AppenderRef:
        ref: file
    Logger:
      - name: kafka.server
        level: INFO
      - name: org.apache.kafka.controller
        level: WARN
"""
