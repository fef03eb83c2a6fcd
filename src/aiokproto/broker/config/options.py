"""Broker, topic and group options: Kafka's names, types and defaults, for the options that this broker implements."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import ClassVar, NamedTuple

from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, ConfigurationError

Value = str | int | float | bool

_LONG = (1 << 63) - 1
_INT = (1 << 31) - 1


class Option(NamedTuple):
    """The definition of an option (Kafka's ConfigDef.ConfigKey).

    Attributes:
        default: The default value, which also determines the Python type.
        code: The type's number in DescribeConfigs.
        lowest: The smallest valid number.
        choices: The valid words (for each element, if ``many``).
        many: Whether the value is a comma-separated list.
        broker: For a topic or group option: the broker option that it inherits from.
        pattern: A regular expression that the text must match.
    """

    default: Value
    code: int
    lowest: int = -1
    choices: tuple[str, ...] = ()
    many: bool = False
    broker: str | None = None
    pattern: str = ""

    def parse(self, name: str, text: Value) -> Value:
        """Validate a value and convert it to the option's type.

        Raises:
            ConfigurationError: The value is invalid.
        """
        if self.choices:
            words = [word.strip() for word in str(text).split(",")] if self.many else [str(text)]
            if self.many and not str(text).strip():
                # An empty list is valid: no cleanup at all, or no SASL mechanisms.
                words = []
            if not set(words) <= set(self.choices):
                raise ConfigurationError(f"{name}: {text!r} is none of {', '.join(self.choices)}")
            return ",".join(words)
        if self.pattern and not re.fullmatch(self.pattern, str(text)):
            raise ConfigurationError(f"{name}: {text!r} does not match {self.pattern}")
        if isinstance(self.default, bool):
            if str(text).lower() not in ("true", "false"):
                raise ConfigurationError(f"{name}: {text!r} is neither true nor false")
            return str(text).lower() == "true"
        try:
            number = type(self.default)(text)
        except ValueError:
            raise ConfigurationError(f"{name}: {text!r} is not a number") from None
        if isinstance(number, (int, float)) and number < self.lowest:
            raise ConfigurationError(f"{name}: {text} is less than {self.lowest}")
        return number


BOOLEAN, STRING, INT, LONG, DOUBLE, LIST, PASSWORD = 1, 2, 3, 5, 6, 7, 9


def _integer(default: int, lowest: int = -1, broker: str | None = None) -> Option:
    return Option(default, LONG if default > _INT else INT, lowest, broker=broker)


def _long(default: int, lowest: int = -1, broker: str | None = None) -> Option:
    return Option(default, LONG, lowest, broker=broker)


_COMPRESSION = ("producer", "uncompressed", "gzip", "snappy", "lz4", "zstd")
_TIMESTAMP = ("CreateTime", "LogAppendTime")
_CLEANUP = ("delete", "compact")
_MIGRATION = ("disabled", "upgrade", "downgrade", "bidirectional")
_ISOLATION = ("read_committed", "read_uncommitted")
_RESET = r"earliest|latest|by_duration:P(?!$)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?"
"""Where a share group starts. Durations are ISO 8601 with days as the largest unit, like Java's Duration."""
_REPLICAS = r"\*|none|(\d+:\d+(,\d+:\d+)*)?"
"""``partition:broker`` pairs, all (``*``), or none."""

_STANDARD_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM")

BROKER: dict[str, Option] = {
    "allow.everyone.if.no.acl.found": Option(False, BOOLEAN),
    "authorizer.class.name": Option("", STRING, choices=("", _STANDARD_AUTHORIZER)),
    "auto.create.topics.enable": Option(True, BOOLEAN),
    "compression.type": Option("producer", STRING, choices=_COMPRESSION),
    "connections.max.idle.ms": _long(600_000, 1),
    "connections.max.reauth.ms": _long(0, 0),
    "controller.quota.window.num": _integer(11, 1),
    "controller.quota.window.size.seconds": _integer(1, 1),
    "default.replication.factor": _integer(1, 1),
    "delegation.token.expiry.check.interval.ms": _long(3_600_000, 1),
    "delegation.token.expiry.time.ms": _long(86_400_000, 1),
    "delegation.token.max.lifetime.ms": _long(604_800_000, 1),
    "delegation.token.secret.key": Option("", PASSWORD),
    "delete.topic.enable": Option(True, BOOLEAN),
    "errors.deadletterqueue.auto.create.topics.enable": Option(False, BOOLEAN),
    "errors.deadletterqueue.topic.name.prefix": Option("dlq.", STRING),
    "fetch.max.bytes": _integer(57_671_680, 1024),
    "group.consumer.heartbeat.interval.ms": _integer(5_000, 1),
    "group.consumer.max.heartbeat.interval.ms": _integer(15_000, 1),
    "group.consumer.max.session.timeout.ms": _integer(60_000, 1),
    "group.consumer.max.size": _integer(_INT, 1),
    "group.consumer.migration.policy": Option("bidirectional", STRING, choices=_MIGRATION),
    "group.consumer.min.heartbeat.interval.ms": _integer(5_000, 1),
    "group.consumer.min.session.timeout.ms": _integer(45_000, 1),
    "group.consumer.session.timeout.ms": _integer(45_000, 1),
    # Kafka's default is 3000 (its sample server.properties has 0). With that, tests would wait 3 s for every new group.
    "group.initial.rebalance.delay.ms": _integer(0, 0),
    "group.max.session.timeout.ms": _integer(1_800_000, 1),
    "group.max.size": _integer(_INT, 1),
    "group.min.session.timeout.ms": _integer(6_000, 1),
    "group.share.delivery.count.limit": _integer(5, 2),
    "group.share.heartbeat.interval.ms": _integer(5_000, 1),
    "group.share.max.delivery.count.limit": _integer(10, 5),
    "group.share.max.heartbeat.interval.ms": _integer(15_000, 1),
    "group.share.max.partition.max.record.locks": _integer(4_000, 100),
    "group.share.max.record.lock.duration.ms": _integer(60_000, 1_000),
    "group.share.max.session.timeout.ms": _integer(60_000, 1),
    "group.share.max.share.sessions": _integer(2_000, 1),
    "group.share.max.size": _integer(200, 1),
    "group.share.min.delivery.count.limit": _integer(2, 2),
    "group.share.min.heartbeat.interval.ms": _integer(5_000, 1),
    "group.share.min.partition.max.record.locks": _integer(100, 100),
    "group.share.min.record.lock.duration.ms": _integer(15_000, 1_000),
    "group.share.min.session.timeout.ms": _integer(45_000, 1),
    "group.share.partition.max.record.locks": _integer(2_000, 100),
    "group.share.record.lock.duration.ms": _integer(30_000, 1_000),
    "group.share.session.timeout.ms": _integer(45_000, 1),
    "group.streams.heartbeat.interval.ms": _integer(5_000, 1),
    "group.streams.max.size": _integer(_INT, 1),
    "group.streams.num.standby.replicas": _integer(0, 0),
    "group.streams.session.timeout.ms": _integer(45_000, 1),
    "log.cleaner.backoff.ms": _long(15_000, 0),
    "log.cleaner.dedupe.buffer.size": _long(134_217_728, 1),
    "log.cleaner.delete.retention.ms": _long(86_400_000, 0),
    "log.cleaner.max.compaction.lag.ms": _long(_LONG, 1),
    "log.cleaner.min.cleanable.ratio": Option(0.5, DOUBLE, 0),
    "log.cleaner.min.compaction.lag.ms": _long(0, 0),
    "log.cleanup.policy": Option("delete", LIST, choices=_CLEANUP, many=True),
    "log.flush.interval.messages": _long(_LONG, 1),
    "log.flush.interval.ms": _long(_LONG, 0),
    "log.flush.offset.checkpoint.interval.ms": _integer(60_000, 1),
    "log.index.interval.bytes": _integer(4096, 0),
    "log.index.size.max.bytes": _integer(10_485_760, 4),
    "log.message.timestamp.after.max.ms": _long(3_600_000, 0),
    "log.message.timestamp.before.max.ms": _long(_LONG, 0),
    "log.message.timestamp.type": Option("CreateTime", STRING, choices=_TIMESTAMP),
    "log.retention.bytes": _long(-1),
    "log.retention.check.interval.ms": _long(300_000, 1),
    "log.retention.ms": _long(604_800_000),
    "log.roll.jitter.ms": _long(0, 0),
    "log.roll.ms": _long(604_800_000, 1),
    "log.segment.bytes": _integer(1_073_741_824, 14),
    "log.segment.delete.delay.ms": _long(60_000, 0),
    "max.connections": _integer(_INT, 1),
    "max.connections.per.ip": _integer(_INT, 0),
    "max.incremental.fetch.session.cache.slots": _integer(1_000, 0),
    "message.max.bytes": _integer(1_048_588, 0),
    "min.insync.replicas": _integer(1, 1),
    "num.partitions": _integer(1, 1),
    "offset.metadata.max.bytes": _integer(4_096, 0),
    "offsets.retention.check.interval.ms": _long(600_000, 1),
    "offsets.retention.minutes": _integer(10_080, 1),
    "offsets.topic.num.partitions": _integer(50, 1),
    "offsets.topic.replication.factor": _integer(3, 1),
    "producer.id.expiration.ms": _integer(86_400_000, 1),
    "queued.max.request.bytes": _long(-1, -1),
    "quota.window.num": _integer(11, 2),
    "quota.window.size.seconds": _integer(1, 1),
    # Kafka's default is GSSAPI, which this broker doesn't implement. Here the default is every mechanism that has
    # secrets configured.
    "sasl.enabled.mechanisms": Option("", LIST, choices=_MECHANISMS, many=True),
    "sasl.oauthbearer.allow.unverified.audience": Option(False, BOOLEAN),
    "sasl.oauthbearer.allow.unverified.issuer": Option(False, BOOLEAN),
    "sasl.oauthbearer.clock.skew.seconds": _integer(30, 0),
    "sasl.oauthbearer.expected.audience": Option("", LIST),
    "sasl.oauthbearer.expected.issuer": Option("", STRING),
    "sasl.oauthbearer.jwks.endpoint.refresh.ms": _long(3_600_000, 1),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms": _long(10_000, 1),
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms": _long(100, 1),
    "sasl.oauthbearer.jwks.endpoint.url": Option("", STRING),
    "sasl.oauthbearer.scope.claim.name": Option("scope", STRING),
    "sasl.oauthbearer.sub.claim.name": Option("sub", STRING),
    "sasl.server.max.receive.size": _integer(524_288, 1),
    "share.coordinator.cold.partition.snapshot.interval.ms": _integer(300_000, 1),
    "share.coordinator.snapshot.update.records.per.snapshot": _integer(500, 0),
    "share.coordinator.state.topic.min.isr": _integer(2, 1),
    "share.coordinator.state.topic.num.partitions": _integer(50, 1),
    "share.coordinator.state.topic.prune.interval.ms": _integer(300_000, 1),
    "share.coordinator.state.topic.replication.factor": _integer(3, 1),
    "socket.request.max.bytes": _integer(104_857_600, 1),
    "ssl.cipher.suites": Option("", LIST),
    "ssl.client.auth": Option("none", STRING, choices=("none", "requested", "required")),
    "ssl.enabled.protocols": Option("TLSv1.2,TLSv1.3", LIST),
    "ssl.key.password": Option("", PASSWORD),
    "ssl.keystore.certificate.chain": Option("", PASSWORD),
    "ssl.keystore.key": Option("", PASSWORD),
    "ssl.keystore.location": Option("", STRING),
    "ssl.keystore.password": Option("", PASSWORD),
    # Kafka's default is JKS, which can also read PKCS#12.
    "ssl.keystore.type": Option("", STRING),
    "ssl.truststore.certificates": Option("", PASSWORD),
    "ssl.truststore.location": Option("", STRING),
    "ssl.truststore.password": Option("", PASSWORD),
    "ssl.truststore.type": Option("", STRING),
    "super.users": Option("", STRING),
    "transaction.max.timeout.ms": _integer(900_000, 1),
    "transaction.partition.verification.enable": Option(True, BOOLEAN),
    "transaction.remove.expired.transaction.cleanup.interval.ms": _integer(3_600_000, 1),
    "transaction.state.log.min.isr": _integer(2, 1),
    "transaction.state.log.num.partitions": _integer(50, 1),
    "transaction.state.log.replication.factor": _integer(3, 1),
    "transaction.two.phase.commit.enable": Option(False, BOOLEAN),
    "transactional.id.expiration.ms": _integer(604_800_000, 1),
    "unstable.api.versions.enable": Option(False, BOOLEAN),
}

TOPIC: dict[str, Option] = {
    "cleanup.policy": Option("delete", LIST, choices=_CLEANUP, many=True, broker="log.cleanup.policy"),
    "compression.type": Option("producer", STRING, choices=_COMPRESSION, broker="compression.type"),
    "delete.retention.ms": _long(86_400_000, 0, broker="log.cleaner.delete.retention.ms"),
    "errors.deadletterqueue.group.enable": Option(False, BOOLEAN),
    "file.delete.delay.ms": _long(60_000, 0, broker="log.segment.delete.delay.ms"),
    "flush.messages": _long(_LONG, 1, broker="log.flush.interval.messages"),
    "flush.ms": _long(_LONG, 0, broker="log.flush.interval.ms"),
    "follower.replication.throttled.replicas": Option("", LIST, many=True, pattern=_REPLICAS),
    "index.interval.bytes": _integer(4096, 0, broker="log.index.interval.bytes"),
    "leader.replication.throttled.replicas": Option("", LIST, many=True, pattern=_REPLICAS),
    "max.compaction.lag.ms": _long(_LONG, 1, broker="log.cleaner.max.compaction.lag.ms"),
    "max.message.bytes": _integer(1_048_588, 0, broker="message.max.bytes"),
    "message.timestamp.after.max.ms": _long(3_600_000, 0, broker="log.message.timestamp.after.max.ms"),
    "message.timestamp.before.max.ms": _long(_LONG, 0, broker="log.message.timestamp.before.max.ms"),
    "message.timestamp.type": Option("CreateTime", STRING, choices=_TIMESTAMP, broker="log.message.timestamp.type"),
    "min.cleanable.dirty.ratio": Option(0.5, DOUBLE, 0, broker="log.cleaner.min.cleanable.ratio"),
    "min.compaction.lag.ms": _long(0, 0, broker="log.cleaner.min.compaction.lag.ms"),
    "min.insync.replicas": _integer(1, 1, broker="min.insync.replicas"),
    "preallocate": Option(False, BOOLEAN),
    "retention.bytes": _long(-1, broker="log.retention.bytes"),
    "retention.ms": _long(604_800_000, broker="log.retention.ms"),
    "segment.bytes": _integer(1_073_741_824, 14, broker="log.segment.bytes"),
    "segment.index.bytes": _integer(10_485_760, 4, broker="log.index.size.max.bytes"),
    "segment.jitter.ms": _long(0, 0, broker="log.roll.jitter.ms"),
    "segment.ms": _long(604_800_000, 1, broker="log.roll.ms"),
    "unclean.leader.election.enable": Option(False, BOOLEAN),
}

GROUP: dict[str, Option] = {
    "consumer.heartbeat.interval.ms": _integer(5_000, 1, broker="group.consumer.heartbeat.interval.ms"),
    "consumer.session.timeout.ms": _integer(45_000, 1, broker="group.consumer.session.timeout.ms"),
    "errors.deadletterqueue.copy.record.enable": Option(False, BOOLEAN),
    # The names of internal topics start with two underscores.
    "errors.deadletterqueue.topic.name": Option("", STRING, pattern=r"(?!__).*"),
    "share.auto.offset.reset": Option("latest", STRING, pattern=_RESET),
    "share.delivery.count.limit": _integer(5, 2, broker="group.share.delivery.count.limit"),
    "share.heartbeat.interval.ms": _integer(5_000, 1, broker="group.share.heartbeat.interval.ms"),
    "share.isolation.level": Option("read_uncommitted", STRING, choices=_ISOLATION),
    "share.partition.max.record.locks": _integer(2_000, 100, broker="group.share.partition.max.record.locks"),
    "share.record.lock.duration.ms": _integer(30_000, 1_000, broker="group.share.record.lock.duration.ms"),
    "share.renew.acknowledge.enable": Option(True, BOOLEAN),
    "share.session.timeout.ms": _integer(45_000, 1, broker="group.share.session.timeout.ms"),
    "streams.heartbeat.interval.ms": _integer(5_000, 1, broker="group.streams.heartbeat.interval.ms"),
    "streams.num.standby.replicas": _integer(0, 0, broker="group.streams.num.standby.replicas"),
    "streams.session.timeout.ms": _integer(45_000, 1, broker="group.streams.session.timeout.ms"),
}


DYNAMIC_DEFAULT_BROKER_CONFIG, STATIC_BROKER_CONFIG, DEFAULT_CONFIG = 3, 4, 5
"""Sources of a broker option's value, as DescribeConfigs numbers them: changed at run time, set at startup, default."""


class BrokerOptions:
    """The brokers' options: dynamic values (KIP-226) override static ones, which override the defaults.

    Attributes:
        static: The options given at startup.
        dynamic: The options changed at run time, validated before they're set.
    """

    def __init__(self, given: Mapping[str, Value]) -> None:
        """Validate the options.

        Raises:
            ConfigurationError: An option is unknown or its value is invalid.
        """
        self.static: dict[str, Value] = {}
        self.dynamic: dict[str, Value] = {}
        for name, value in given.items():
            if name not in BROKER:
                close = get_close_matches(name, BROKER, 1)
                hint = f"; did you mean {close[0]!r}?" if close else ""
                raise ConfigurationError(f"the embedded broker has no option {name!r}{hint}")
            self.static[name] = BROKER[name].parse(name, value)

    def value(self, name: str) -> Value:
        """Return the effective value of an option."""
        return self.dynamic[name] if name in self.dynamic else self.static.get(name, BROKER[name].default)

    def sources(self, name: str) -> list[tuple[int, Value]]:
        """Return all values of an option with their sources. The first value is in effect."""
        layers = [
            (DYNAMIC_DEFAULT_BROKER_CONFIG, self.dynamic),
            (STATIC_BROKER_CONFIG, self.static),
            (DEFAULT_CONFIG, {name: BROKER[name].default}),
        ]
        return [(source, values[name]) for source, values in layers if name in values]

    def number(self, name: str) -> int:
        """Return the effective value of an integer option."""
        value = self.value(name)
        assert isinstance(value, int)
        return value

    def seconds(self, name: str) -> float:
        """Return the effective value of a millisecond option, in seconds."""
        return self.number(name) / 1000


class ConfigOverrides:
    """The options of a topic or group: its own values, then the broker's values, then the defaults.

    Attributes:
        overrides: The topic's or group's own values, as text.
    """

    KIND: ClassVar[str]
    TABLE: ClassVar[Mapping[str, Option]]

    def __init__(self, own: Mapping[str, str | None], broker: BrokerOptions) -> None:
        """Validate the options.

        Raises:
            BrokerError: INVALID_CONFIG, with the option and the reason.
        """
        self.overrides: dict[str, str] = {}
        self._parsed: dict[str, Value] = {}
        self._broker = broker
        for name, text in own.items():
            if name not in self.TABLE:
                raise BrokerError(ErrorCode.INVALID_CONFIG, detail=f"unknown {self.KIND} config name: {name}")
            if text is None:
                raise BrokerError(
                    ErrorCode.INVALID_CONFIG, detail=f"null value not supported for {self.KIND} config: {name}"
                )
            try:
                self._parsed[name] = self.TABLE[name].parse(name, text)
            except ConfigurationError as error:
                raise BrokerError(ErrorCode.INVALID_CONFIG, detail=str(error)) from None
            self.overrides[name] = text

    def value(self, name: str) -> Value:
        """Return the effective value."""
        return self._parsed[name] if name in self._parsed else self.inherited(name)

    def inherited(self, name: str) -> Value:
        """Return the value without the override."""
        option = self.TABLE[name]
        return self._broker.value(option.broker) if option.broker else option.default

    def sources(self, name: str) -> list[tuple[int, Value]]:
        """Return the inherited values with their sources; see :meth:`BrokerOptions.sources`."""
        option = self.TABLE[name]
        return self._broker.sources(option.broker) if option.broker else [(DEFAULT_CONFIG, option.default)]

    def number(self, name: str) -> int:
        """Return the effective value of an integer option."""
        value = self.value(name)
        assert isinstance(value, int)
        return value


class TopicOptions(ConfigOverrides):
    """The options of a topic."""

    KIND = "topic"
    TABLE = TOPIC


class GroupOptions(ConfigOverrides):
    """The options of a group, within the limits of the broker's ``group.*.min.*`` and ``group.*.max.*``."""

    KIND = "group"
    TABLE = GROUP

    def __init__(self, own: Mapping[str, str | None], broker: BrokerOptions) -> None:
        """Validate the options.

        Raises:
            BrokerError: INVALID_CONFIG, with the option and the reason.
        """
        super().__init__(own, broker)
        for name in self.overrides:
            kind, option = name.split(".", 1)
            if f"group.{kind}.min.{option}" not in BROKER:
                continue
            low, high = (broker.number(f"group.{kind}.{bound}.{option}") for bound in ("min", "max"))
            if not low <= self.number(name) <= high:
                raise BrokerError(
                    ErrorCode.INVALID_CONFIG, detail=f"{name}: {self.overrides[name]} is not in {low}..{high}"
                )
        for kind in ("consumer", "share"):
            if self.number(f"{kind}.session.timeout.ms") <= self.number(f"{kind}.heartbeat.interval.ms"):
                raise BrokerError(
                    ErrorCode.INVALID_CONFIG,
                    detail=f"{kind}.session.timeout.ms must be greater than {kind}.heartbeat.interval.ms",
                )


def as_text(value: Value) -> str:
    """Return a value as Kafka prints it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


_RATE = Option((1 << 63) - 1, LONG, 0)


class NodeOptions(ConfigOverrides):
    """Dynamic options of an individual broker: only replication throttles, which have no effect here."""

    KIND = "broker"
    TABLE: ClassVar[Mapping[str, Option]] = {
        "follower.replication.throttled.rate": _RATE,
        "leader.replication.throttled.rate": _RATE,
        "replica.alter.log.dirs.io.max.bytes.per.second": _RATE,
    }

    def __init__(self, own: Mapping[str, str | None], broker: BrokerOptions) -> None:
        """Check the options.

        Raises:
            BrokerError: INVALID_REQUEST if an option can only be set at startup or for all brokers; otherwise
                INVALID_CONFIG.
        """
        fixed = [name for name in own if name in BROKER and name not in self.TABLE]
        if fixed:
            for_all = type(self) is NodeOptions and fixed[0] in ClusterOptions.TABLE
            text = "can be changed for all brokers only, not for one" if for_all else "cannot be changed at run time"
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"{', '.join(fixed)} {text}")
        super().__init__(own, broker)


class ClusterOptions(NodeOptions):
    """Dynamic options of all brokers. These options are read on each use, so a new value takes effect at once."""

    TABLE: ClassVar[Mapping[str, Option]] = {
        **NodeOptions.TABLE,
        **{option.broker: BROKER[option.broker] for option in TOPIC.values() if option.broker},
        **{name: BROKER[name] for name in ("log.cleaner.backoff.ms", "log.cleaner.dedupe.buffer.size")},
        **{name: BROKER[name] for name in ("producer.id.expiration.ms", "transaction.partition.verification.enable")},
    }

    def inherited(self, name: str) -> Value:
        """Return the static value, or the default."""
        return self._broker.value(name) if name in BROKER else super().inherited(name)

    def changes(self) -> dict[str, Value]:
        """Return the values for :attr:`BrokerOptions.dynamic`."""
        return {name: self.value(name) for name in self.overrides if name in BROKER}
