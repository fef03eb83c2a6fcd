"""The defaults of the broker's options are Kafka's, except for a documented few."""

from __future__ import annotations

from pathlib import Path

import pytest

from aiokproto import Client, Consumer, Producer
from aiokproto.broker import Broker
from aiokproto.broker.config.options import BROKER, as_text
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.errors import UnknownTopicError
from tests.broker.wire import connect

BROKER_PAGE = Path(__file__).parents[2] / "docs" / "broker.md"

KAFKA = {
    "allow.everyone.if.no.acl.found": "false",
    "authorizer.class.name": "",
    "auto.create.topics.enable": "true",
    "compression.type": "producer",
    "connections.max.idle.ms": "600000",
    "connections.max.reauth.ms": "0",
    "controller.quota.window.num": "11",
    "controller.quota.window.size.seconds": "1",
    "default.replication.factor": "1",
    "delegation.token.expiry.check.interval.ms": "3600000",
    "delegation.token.expiry.time.ms": "86400000",
    "delegation.token.max.lifetime.ms": "604800000",
    "delegation.token.secret.key": "null",
    "delete.topic.enable": "true",
    "errors.deadletterqueue.auto.create.topics.enable": "false",
    "errors.deadletterqueue.topic.name.prefix": "dlq.",
    "fetch.max.bytes": "57671680",
    "group.consumer.heartbeat.interval.ms": "5000",
    "group.consumer.max.heartbeat.interval.ms": "15000",
    "group.consumer.max.session.timeout.ms": "60000",
    "group.consumer.max.size": "2147483647",
    "group.consumer.migration.policy": "bidirectional",
    "group.consumer.min.heartbeat.interval.ms": "5000",
    "group.consumer.min.session.timeout.ms": "45000",
    "group.consumer.session.timeout.ms": "45000",
    "group.initial.rebalance.delay.ms": "3000",
    "group.max.session.timeout.ms": "1800000",
    "group.max.size": "2147483647",
    "group.min.session.timeout.ms": "6000",
    "group.share.delivery.count.limit": "5",
    "group.share.heartbeat.interval.ms": "5000",
    "group.share.max.delivery.count.limit": "10",
    "group.share.max.heartbeat.interval.ms": "15000",
    "group.share.max.partition.max.record.locks": "4000",
    "group.share.max.record.lock.duration.ms": "60000",
    "group.share.max.session.timeout.ms": "60000",
    "group.share.max.share.sessions": "2000",
    "group.share.max.size": "200",
    "group.share.min.delivery.count.limit": "2",
    "group.share.min.heartbeat.interval.ms": "5000",
    "group.share.min.partition.max.record.locks": "100",
    "group.share.min.record.lock.duration.ms": "15000",
    "group.share.min.session.timeout.ms": "45000",
    "group.share.partition.max.record.locks": "2000",
    "group.share.record.lock.duration.ms": "30000",
    "group.share.session.timeout.ms": "45000",
    "group.streams.heartbeat.interval.ms": "5000",
    "group.streams.max.size": "2147483647",
    "group.streams.num.standby.replicas": "0",
    "group.streams.session.timeout.ms": "45000",
    "log.cleaner.backoff.ms": "15000",
    "log.cleaner.dedupe.buffer.size": "134217728",
    "log.cleaner.delete.retention.ms": "86400000",
    "log.cleaner.max.compaction.lag.ms": "9223372036854775807",
    "log.cleaner.min.cleanable.ratio": "0.5",
    "log.cleaner.min.compaction.lag.ms": "0",
    "log.cleanup.policy": "delete",
    "log.flush.interval.messages": "9223372036854775807",
    "log.flush.interval.ms": "null",
    "log.flush.offset.checkpoint.interval.ms": "60000",
    "log.index.interval.bytes": "4096",
    "log.index.size.max.bytes": "10485760",
    "log.message.timestamp.after.max.ms": "3600000",
    "log.message.timestamp.before.max.ms": "9223372036854775807",
    "log.message.timestamp.type": "CreateTime",
    "log.retention.bytes": "-1",
    "log.retention.check.interval.ms": "300000",
    "log.retention.ms": "null",
    "log.roll.jitter.ms": "null",
    "log.roll.ms": "null",
    "log.segment.bytes": "1073741824",
    "log.segment.delete.delay.ms": "60000",
    "max.connections": "2147483647",
    "max.connections.per.ip": "2147483647",
    "max.incremental.fetch.session.cache.slots": "1000",
    "message.max.bytes": "1048588",
    "min.insync.replicas": "1",
    "num.partitions": "1",
    "offset.metadata.max.bytes": "4096",
    "offsets.retention.check.interval.ms": "600000",
    "offsets.retention.minutes": "10080",
    "offsets.topic.num.partitions": "50",
    "offsets.topic.replication.factor": "3",
    "producer.id.expiration.ms": "86400000",
    "queued.max.request.bytes": "-1",
    "quota.window.num": "11",
    "quota.window.size.seconds": "1",
    "sasl.enabled.mechanisms": "GSSAPI",
    "sasl.oauthbearer.allow.unverified.audience": "false",
    "sasl.oauthbearer.allow.unverified.issuer": "false",
    "sasl.oauthbearer.clock.skew.seconds": "30",
    "sasl.oauthbearer.expected.audience": "",
    "sasl.oauthbearer.expected.issuer": "null",
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": "3600000",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": "10000",
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": "100",
    "sasl.oauthbearer.jwks.endpoint.url": "null",
    "sasl.oauthbearer.scope.claim.name": "scope",
    "sasl.oauthbearer.sub.claim.name": "sub",
    "sasl.server.max.receive.size": "524288",
    "share.coordinator.cold.partition.snapshot.interval.ms": "300000",
    "share.coordinator.snapshot.update.records.per.snapshot": "500",
    "share.coordinator.state.topic.min.isr": "2",
    "share.coordinator.state.topic.num.partitions": "50",
    "share.coordinator.state.topic.prune.interval.ms": "300000",
    "share.coordinator.state.topic.replication.factor": "3",
    "socket.request.max.bytes": "104857600",
    "ssl.cipher.suites": "",
    "ssl.client.auth": "none",
    "ssl.enabled.protocols": "TLSv1.2,TLSv1.3",
    "ssl.key.password": "null",
    "ssl.keystore.certificate.chain": "null",
    "ssl.keystore.key": "null",
    "ssl.keystore.location": "null",
    "ssl.keystore.password": "null",
    "ssl.keystore.type": "JKS",
    "ssl.truststore.certificates": "null",
    "ssl.truststore.location": "null",
    "ssl.truststore.password": "null",
    "ssl.truststore.type": "JKS",
    "super.users": "null",
    "transaction.max.timeout.ms": "900000",
    "transaction.partition.verification.enable": "true",
    "transaction.remove.expired.transaction.cleanup.interval.ms": "3600000",
    "transaction.state.log.min.isr": "2",
    "transaction.state.log.num.partitions": "50",
    "transaction.state.log.replication.factor": "3",
    "transaction.two.phase.commit.enable": "false",
    "transactional.id.expiration.ms": "604800000",
    "unstable.api.versions.enable": "false",
}
"""What ``KafkaConfig.configDef()`` of Kafka 4.4 has for each option that the embedded broker knows.

``allow.everyone.if.no.acl.found`` and ``super.users`` aren't in it, because StandardAuthorizer reads these two itself.
"""

DERIVED = {
    "delegation.token.secret.key": "",
    "log.flush.interval.ms": "9223372036854775807",  # log.flush.scheduler.interval.ms
    "log.retention.ms": "604800000",  # log.retention.hours=168
    "log.roll.jitter.ms": "0",  # log.roll.jitter.hours=0
    "log.roll.ms": "604800000",  # log.roll.hours=168
    "sasl.oauthbearer.expected.issuer": "",
    "sasl.oauthbearer.jwks.endpoint.url": "",
    "ssl.key.password": "",
    "ssl.keystore.certificate.chain": "",
    "ssl.keystore.key": "",
    "ssl.keystore.location": "",
    "ssl.keystore.password": "",
    "ssl.truststore.certificates": "",
    "ssl.truststore.location": "",
    "ssl.truststore.password": "",
    "super.users": "",
}
"""What Kafka uses if its own default is null: an option in another unit, or nothing."""

DIFFERENT = {
    "group.initial.rebalance.delay.ms": "0",
    "sasl.enabled.mechanisms": "",
    "ssl.keystore.type": "",
    "ssl.truststore.type": "",
}
"""Options for which the embedded broker differs. docs/broker.md has the reasons."""


@pytest.mark.parametrize("name", BROKER)
def test_an_option_has_the_default_of_kafka(name: str) -> None:
    derived = DERIVED[name] if KAFKA[name] == "null" else KAFKA[name]
    expected = DIFFERENT.get(name, derived)
    assert as_text(BROKER[name].default) == expected


@pytest.mark.parametrize("name", DIFFERENT)
def test_a_default_that_differs_from_kafka_is_documented(name: str) -> None:
    assert as_text(BROKER[name].default) != KAFKA[name]
    assert f"| `{name}` |" in BROKER_PAGE.read_text()


async def test_a_broker_creates_a_topic_when_its_metadata_is_requested() -> None:
    async with Broker() as broker, connect(broker) as wire:
        request = MetadataRequest(topics=[MetadataRequestTopic(name="new")])
        (created,) = (await wire.ask(request)).topics
        assert (created.error_code, len(created.partitions)) == (0, 1)
        assert await broker.topics() == ["new"]


async def test_only_producers_create_topics() -> None:
    """Consumers and `Client.metadata` can name a topic that doesn't exist, on this broker too."""
    async with Broker() as broker:
        servers = broker.bootstrap_servers
        async with Consumer(bootstrap_servers=servers) as consumer, Client(bootstrap_servers=servers) as client:
            with pytest.raises(UnknownTopicError, match="new"):
                await consumer.partitions_for_topic("new")
            with pytest.raises(UnknownTopicError, match="new"):
                await client.metadata(["new"])
        with pytest.raises(UnknownTopicError, match="new"):
            await Consumer("new", bootstrap_servers=servers).start()
        assert await broker.topics() == []
        async with Producer(bootstrap_servers=servers) as producer:
            await producer.send("new", b"")
        assert await broker.topics() == ["new"]


@pytest.mark.parametrize("off", [{"auto_create_topics": False}, {"config": {"auto.create.topics.enable": False}}])
async def test_topic_creation_on_request_can_be_switched_off(off: dict[str, bool]) -> None:
    async with Broker(**off) as broker, connect(broker) as wire:  # type: ignore[arg-type]
        await wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name="new")]))
        assert await broker.topics() == []


@pytest.mark.parametrize(
    ("topic", "partitions", "cleanup"),
    [
        ("__consumer_offsets", 50, "compact"),
        ("__transaction_state", 50, "compact"),
        ("__share_group_state", 50, "delete"),
    ],
)
async def test_a_metadata_request_creates_an_internal_topic_as_its_coordinator_does(
    topic: str, partitions: int, cleanup: str
) -> None:
    async with Broker() as broker, connect(broker) as wire:
        (created,) = (await wire.ask(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]))).topics
        assert len(created.partitions) == partitions
        options = broker._running.state.topics[topic].options
        assert options.value("cleanup.policy") == cleanup
