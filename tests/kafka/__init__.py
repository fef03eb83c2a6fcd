"""Real Apache Kafka for tests, benchmarks and developers: ``python -m tests.kafka --brokers 3`` runs a cluster."""

from __future__ import annotations

from tests.kafka.cluster import KafkaCluster, KafkaError

__all__ = ["KafkaCluster", "KafkaError"]
