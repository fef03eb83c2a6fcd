"""The options of Spark's connector and of Kafka's Java clients that are not honoured, each with the reason. Pure."""

from __future__ import annotations

_GROUP = "no consumer group is joined, and no offset committed"
_POLL = "belongs to the poll loop of the Java client"
_BUFFER = "the operating system chooses the sizes of socket buffers"
_METRICS = "belongs to the metrics of the Java client"
_STREAM = "is for streams: the official connector ignores it in a batch, too"
WRITING = "is for writing"

WITHOUT_EFFECT = {
    **dict.fromkeys(("maxOffsetsPerTrigger", "minOffsetsPerTrigger", "maxTriggerDelay"), _STREAM),
    **dict.fromkeys(
        (
            "topic",
            "kafka.acks",
            "kafka.batch.size",
            "kafka.buffer.memory",
            "kafka.buffer.memory.allocation.strategy",
            "kafka.compression.gzip.level",
            "kafka.compression.lz4.level",
            "kafka.compression.type",
            "kafka.compression.zstd.level",
            "kafka.delivery.timeout.ms",
            "kafka.enable.idempotence",
            "kafka.key.serializer",
            "kafka.linger.ms",
            "kafka.max.block.ms",
            "kafka.max.in.flight.requests.per.connection",
            "kafka.max.request.size",
            "kafka.partitioner.adaptive.partitioning.enable",
            "kafka.partitioner.availability.timeout.ms",
            "kafka.partitioner.class",
            "kafka.partitioner.ignore.keys",
            "kafka.partitioner.rack.aware",
            "kafka.transaction.timeout.ms",
            "kafka.transaction.two.phase.commit.enable",
            "kafka.transactional.id",
            "kafka.value.serializer",
        ),
        WRITING,
    ),
    "path": "is the argument of load(); Kafka has topics",
    "groupIdPrefix": _GROUP,
    "kafka.auto.commit.interval.ms": _GROUP,
    "kafka.group.id": _GROUP,
    "kafka.group.instance.id": _GROUP,
    "kafka.group.protocol": _GROUP,
    "kafka.group.remote.assignor": _GROUP,
    "kafka.heartbeat.interval.ms": _GROUP,
    "kafka.internal.leave.group.on.close": _GROUP,
    "kafka.internal.throw.on.fetch.stable.offset.unsupported": _GROUP,
    "kafka.max.poll.interval.ms": _GROUP,
    "kafka.partition.assignment.strategy": _GROUP,
    "kafka.session.timeout.ms": _GROUP,
    "kafka.share.acknowledgement.mode": _GROUP,
    "kafka.share.acquire.mode": _GROUP,
    "kafka.max.poll.records": _POLL,
    "kafka.receive.buffer.bytes": _BUFFER,
    "kafka.send.buffer.bytes": _BUFFER,
    "kafka.auto.include.jmx.reporter": _METRICS,
    "kafka.enable.metrics.push": _METRICS,
    "kafka.metric.reporters": _METRICS,
    "kafka.metrics.num.samples": _METRICS,
    "kafka.metrics.recording.level": _METRICS,
    "kafka.metrics.sample.window.ms": _METRICS,
    "kafka.allow.auto.create.topics": "reading never creates a topic",
    "kafka.client.dns.lookup": "every address of a host is tried",
    "kafka.client.rack": "records are fetched from leaders",
    "kafka.exclude.internal.topics": "a pattern never matches Kafka's own topics",
    "kafka.metadata.recovery.rebootstrap.trigger.ms": "the bootstrap servers are asked whenever no broker answers",
    "kafka.metadata.recovery.strategy": "the bootstrap servers are asked whenever no broker answers",
    "kafka.retries": "what can be tried again is, until its deadline",
    "kafka.socket.connection.setup.timeout.max.ms": "kafka.socket.connection.setup.timeout.ms is the longest time",
}
"""Accepted without effect, so that jobs which set them keep working: whatever they say, the rows are the same and
come as safely."""

_JAVA_CLASS = "Java classes cannot be used"
_TLS = "TLS is as Python's ssl module has it by default"

REFUSED = {
    # Spark adds this one to CREATE TABLE.
    "provider": "of a table of the catalog Spark does not give the options back when it is read; "
    "CREATE TEMPORARY VIEW … USING aiokproto OPTIONS (…) works",
    "kafka.auto.offset.reset": "startingOffsets says where to start",
    "kafka.bootstrap.controllers": "controllers have no records; name brokers in kafka.bootstrap.servers",
    "kafka.config.providers": "values are taken as they are; look them up before they are set",
    "kafka.enable.auto.commit": "offsets are kept by Spark, or with the output, never committed to a group",
    "kafka.interceptor.classes": _JAVA_CLASS,
    "kafka.key.deserializer": "keys are read as bytes; cast or decode the column",
    "kafka.value.deserializer": "values are read as bytes; cast or decode the column",
    "kafka.metadata.cluster.check.enable": "whether a broker belongs to another cluster is not checked yet",
    "kafka.security.providers": _JAVA_CLASS,
    "kafka.sasl.": "SASL is not supported yet",
    "kafka.ssl.cipher.suites": _TLS,
    "kafka.ssl.enabled.protocols": _TLS,
    "kafka.ssl.engine.factory.class": _JAVA_CLASS,
    "kafka.ssl.key.password": "client certificates are not supported yet",
    "kafka.ssl.keymanager.algorithm": "client certificates are not supported yet",
    "kafka.ssl.keystore.": "client certificates are not supported yet",
    "kafka.ssl.protocol": _TLS,
    "kafka.ssl.provider": _JAVA_CLASS,
    "kafka.ssl.secure.random.implementation": _TLS,
    "kafka.ssl.trustmanager.algorithm": _TLS,
    "kafka.ssl.truststore.": "export it as PEM, and name that file in the environment variable SSL_CERT_FILE, for "
    "executors by spark.executorEnv.SSL_CERT_FILE; without it, what the system trusts is trusted",
}
"""Refused: if they had no effect, the job would read other rows, or read them less securely, than its author
expects. A name that ends in a dot stands for all that begin so. Options of TLS and SASL are refused without
either, too: the official connector ignores them then, so that its user expects a protection that is not there."""


def refusal(name: str) -> str | None:
    """Why this option, in lower case, is refused; None if it is not."""
    reasons = (reason for one, reason in REFUSED.items() if name == one or (one[-1] == "." and name.startswith(one)))
    return next(reasons, None)
