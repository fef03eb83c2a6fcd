"""Which of Kafka's options can contain a secret, judging by their names. Pure.

As in Kafka's own request log, passwords and all unknown options count as secret: options of plugins or of individual
listeners, and misspelled names.
"""

from __future__ import annotations

from typing import Any

_SHOWN = frozenset(
    """
    background.threads cleanup.policy compression.gzip.level compression.lz4.level compression.type
    compression.zstd.level config.providers consumer.assignment.interval.ms consumer.assignor.offload.enable
    consumer.heartbeat.interval.ms consumer.session.timeout.ms cordoned.log.dirs delete.retention.ms
    errors.deadletterqueue.auto.create.topics.enable errors.deadletterqueue.copy.record.enable
    errors.deadletterqueue.group.enable errors.deadletterqueue.topic.name errors.deadletterqueue.topic.name.prefix
    file.delete.delay.ms flush.messages flush.ms follower.fetch.last.tiered.offset.enable
    follower.replication.throttled.rate follower.replication.throttled.replicas
    group.consumer.assignment.interval.ms group.consumer.assignor.offload.enable
    group.coordinator.cached.buffer.max.bytes group.share.assignment.interval.ms group.share.assignor.offload.enable
    group.streams.assignment.interval.ms group.streams.assignor.offload.enable index.interval.bytes
    internal.segment.bytes interval.ms leader.replication.throttled.rate leader.replication.throttled.replicas
    listener.security.protocol.map listeners local.retention.bytes local.retention.ms log.cleaner.backoff.ms
    log.cleaner.dedupe.buffer.size log.cleaner.delete.retention.ms log.cleaner.io.buffer.load.factor
    log.cleaner.io.buffer.size log.cleaner.io.max.bytes.per.second log.cleaner.max.compaction.lag.ms
    log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms log.cleaner.threads log.cleanup.policy
    log.flush.interval.messages log.flush.interval.ms log.index.interval.bytes log.index.size.max.bytes
    log.local.retention.bytes log.local.retention.ms log.message.timestamp.after.max.ms
    log.message.timestamp.before.max.ms log.message.timestamp.type log.preallocate log.remote.copy.lag.bytes
    log.remote.copy.lag.ms log.retention.bytes log.retention.ms log.roll.jitter.ms log.roll.ms log.segment.bytes
    log.segment.delete.delay.ms match max.compaction.lag.ms max.connection.creation.rate max.connections
    max.connections.per.ip max.connections.per.ip.overrides max.decompressed.message.bytes max.message.bytes
    message.max.bytes message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type
    metric.reporters metrics min.cleanable.dirty.ratio min.compaction.lag.ms min.insync.replicas num.io.threads
    num.network.threads num.recovery.threads.per.data.dir num.replica.fetchers preallocate principal.builder.class
    producer.id.expiration.ms remote.copy.lag.bytes remote.copy.lag.ms remote.fetch.max.wait.ms
    remote.list.offsets.request.timeout.ms remote.log.copy.disable remote.log.delete.on.disable
    remote.log.index.file.cache.total.size.bytes remote.log.manager.copier.thread.pool.size
    remote.log.manager.copy.max.bytes.per.second remote.log.manager.expiration.thread.pool.size
    remote.log.manager.fetch.max.bytes.per.second remote.log.manager.follower.thread.pool.size
    remote.log.reader.threads remote.storage.enable replica.alter.log.dirs.io.max.bytes.per.second retention.bytes
    retention.ms sasl.enabled.mechanisms sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin
    sasl.kerberos.principal.to.local.rules sasl.kerberos.service.name sasl.kerberos.ticket.renew.jitter
    sasl.kerberos.ticket.renew.window.factor sasl.login.refresh.buffer.seconds sasl.login.refresh.min.period.seconds
    sasl.login.refresh.window.factor sasl.login.refresh.window.jitter sasl.mechanism.inter.broker.protocol
    segment.bytes segment.index.bytes segment.jitter.ms segment.ms share.assignment.interval.ms
    share.assignor.offload.enable share.auto.offset.reset share.coordinator.cached.buffer.max.bytes
    share.delivery.count.limit share.heartbeat.interval.ms share.isolation.level share.partition.max.record.locks
    share.record.lock.duration.ms share.renew.acknowledge.enable share.session.timeout.ms ssl.cipher.suites
    ssl.client.auth ssl.enabled.protocols ssl.endpoint.identification.algorithm ssl.engine.factory.class
    ssl.keymanager.algorithm ssl.keystore.location ssl.keystore.type ssl.protocol ssl.provider
    ssl.secure.random.implementation ssl.trustmanager.algorithm ssl.truststore.location ssl.truststore.type
    streams.acceptable.recovery.lag streams.assignment.interval.ms streams.assignor.name
    streams.assignor.offload.enable streams.heartbeat.interval.ms streams.initial.rebalance.delay.ms
    streams.num.standby.replicas streams.num.warmup.replicas streams.rack.aware.assignment.tags
    streams.session.timeout.ms streams.task.offset.interval.ms transaction.partition.verification.enable
    unclean.leader.election.enable
    """.split()  # noqa: SIM905 - one name a line would be two pages
)
"""The options of topics, groups, client metrics and brokers that can be altered (Kafka 4.4), except passwords."""


def may_be_secret(name: str) -> bool:
    """Return whether an option with this name can contain a secret."""
    return name not in _SHOWN


def holds_secret(option: Any) -> bool:
    """Return whether the value of an option in a message can be a secret, according to its sender or else its name.

    Args:
        option: A struct with the option's ``name``, and perhaps ``is_sensitive``.
    """
    return bool(getattr(option, "is_sensitive", may_be_secret(option.name)))
