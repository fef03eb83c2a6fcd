"""The topics in which coordinators keep their state, with Kafka's partitions, replicas and configs."""

from __future__ import annotations

from typing import NamedTuple

from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.metadata.topics import OFFSETS_TOPIC, SHARE_STATE_TOPIC, TRANSACTIONS_TOPIC


class TopicSettings(NamedTuple):
    """How a topic is created."""

    partitions: int
    replicas: int
    configs: dict[str, str]


def internal_topic_settings(name: str, options: BrokerOptions, nodes: int) -> TopicSettings:
    """Return how an internal topic is created in a cluster of ``nodes`` brokers.

    Kafka refuses to create one with more replicas than brokers. Here it gets as many as there are brokers: the default
    of three would make groups and transactions fail on a single broker.
    """
    number = options.number
    if name == OFFSETS_TOPIC:
        replicas = min(number("offsets.topic.replication.factor"), nodes)
        configs = {"cleanup.policy": "compact", "compression.type": "producer", "segment.bytes": "104857600"}
        return TopicSettings(number("offsets.topic.num.partitions"), replicas, configs)
    if name == TRANSACTIONS_TOPIC:
        replicas = min(number("transaction.state.log.replication.factor"), nodes)
        configs = {
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(min(number("transaction.state.log.min.isr"), replicas)),
            "segment.bytes": "104857600",
        }
        return TopicSettings(number("transaction.state.log.num.partitions"), replicas, configs)
    assert name == SHARE_STATE_TOPIC, name
    replicas = min(number("share.coordinator.state.topic.replication.factor"), nodes)
    configs = {
        "cleanup.policy": "delete",
        "compression.type": "producer",
        "min.insync.replicas": str(number("share.coordinator.state.topic.min.isr")),
        "retention.ms": "-1",
        "segment.bytes": "104857600",
    }
    return TopicSettings(number("share.coordinator.state.topic.num.partitions"), replicas, configs)
