"""Options of Spark's connector and of the Java clients that have no effect, or are refused; with the reasons. Pure."""

from __future__ import annotations

_GROUP = "no consumer group is joined, and no offset committed"
_POLL = "belongs to the poll loop of the Java client"
_BUFFER = "the operating system chooses the sizes of socket buffers"
_METRICS = "belongs to the metrics of the Java client"
_REBOOTSTRAP = "the client connects to the bootstrap servers again whenever no broker responds"
WRITING = "is for writing"

WITHOUT_EFFECT = {
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
    "kafka.metadata.recovery.rebootstrap.trigger.ms": _REBOOTSTRAP,
    "kafka.metadata.recovery.strategy": _REBOOTSTRAP,
    "kafka.retries": "a request that can be retried is retried until its deadline",
    "kafka.socket.connection.setup.timeout.max.ms": "kafka.socket.connection.setup.timeout.ms is the maximum",
}
"""Options that are accepted without effect, so that jobs which set them keep working: no value of them would change
the rows, or make reading less secure."""

_JAVA_CLASS = "Java classes cannot be used"
_BROKER_VALIDATES = "leave it out: brokers validate the token"
_TICKETS = "leave it out: with kafka.sasl.kerberos.keytab the client gets tickets, and new ones before they expire"
_PROVIDERS = "leave it out: OpenSSL does what Java has providers for"
_RETRIEVER = "is for another login module; use the options kafka.sasl.oauthbearer.… or aiokproto.sasl.token"

REFUSED = {
    # Spark adds this one to CREATE TABLE.
    "provider": "Spark does not pass the options of a catalog table to a Python data source; "
    "use CREATE TEMPORARY VIEW … USING aiokproto OPTIONS (…)",
    "kafka.auto.offset.reset": "startingOffsets defines where to start",
    "kafka.bootstrap.controllers": "controllers have no records; name brokers in kafka.bootstrap.servers",
    "kafka.enable.auto.commit": "Spark, or the output, stores the offsets; they are never committed to a group",
    "kafka.interceptor.classes": _JAVA_CLASS,
    "kafka.key.deserializer": "keys are read as bytes; cast or decode the column",
    "kafka.value.deserializer": "values are read as bytes; cast or decode the column",
    "kafka.security.providers": _PROVIDERS,
    "kafka.sasl.client.callback.handler.class": _JAVA_CLASS,
    "kafka.sasl.login.callback.handler.class": f"{_JAVA_CLASS}: {_RETRIEVER}",
    "kafka.sasl.login.class": _JAVA_CLASS,
    "kafka.sasl.kerberos.kinit.cmd": _TICKETS,
    "kafka.sasl.kerberos.min.time.before.relogin": _TICKETS,
    "kafka.sasl.kerberos.ticket.renew.jitter": _TICKETS,
    "kafka.sasl.kerberos.ticket.renew.window.factor": _TICKETS,
    "kafka.sasl.oauthbearer.allow.unverified.audience": _BROKER_VALIDATES,
    "kafka.sasl.oauthbearer.allow.unverified.issuer": _BROKER_VALIDATES,
    "kafka.sasl.oauthbearer.clock.skew.seconds": _BROKER_VALIDATES,
    "kafka.sasl.oauthbearer.expected.audience": _BROKER_VALIDATES,
    "kafka.sasl.oauthbearer.expected.issuer": _BROKER_VALIDATES,
    "kafka.sasl.oauthbearer.jwks.endpoint.": _BROKER_VALIDATES,
    "kafka.sasl.oauthbearer.jwt.validator.class": _BROKER_VALIDATES,
    "kafka.sasl.oauthbearer.scope.claim.name": _BROKER_VALIDATES,
    "kafka.sasl.oauthbearer.sub.claim.name": _BROKER_VALIDATES,
    "kafka.ssl.engine.factory.class": _JAVA_CLASS,
    "kafka.ssl.keymanager.algorithm": _PROVIDERS,
    "kafka.ssl.protocol": "use kafka.ssl.enabled.protocols",
    "kafka.ssl.provider": _PROVIDERS,
    "kafka.ssl.secure.random.implementation": _PROVIDERS,
    "kafka.ssl.trustmanager.algorithm": _PROVIDERS,
}
"""Options that are refused: without effect, the job would read other rows than its author expects, or read them less
securely. A name that ends in a dot stands for all names with this prefix. Options of TLS and SASL that a client does
not have are refused even if the security protocol uses neither: the official connector ignores them then, and its user
expects a protection that does not exist."""
