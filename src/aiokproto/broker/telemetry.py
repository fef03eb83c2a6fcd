"""Client metrics (KIP-714): which clients should push which metrics, and what they have pushed.

A *subscription* is a resource with options, like a topic. Clients whose attributes match ``match`` push the metrics
whose names start with one of ``metrics``. A client instance gets the union of all subscriptions that match, with the
shortest interval. The subscription's id is a checksum of the result. When subscriptions change, so does the id. The
broker then refuses the client's next push with UNKNOWN_SUBSCRIPTION_ID, which makes the client request its subscription
again.

Subscriptions and pushes are kept in memory, and are lost with the cluster object.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Mapping
from typing import ClassVar, NamedTuple
from zlib import crc32

from aiokproto.broker.clock import Clock
from aiokproto.broker.config.options import INT, LIST, BrokerOptions, ConfigOverrides, Option
from aiokproto.broker.patterns import compile_pattern
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, KafkaError
from aiokproto.records import Compression, decompress

MAX_BYTES = 1 << 20
"""Maximum size of a push's ``metrics`` field, compressed or not (``telemetry.max.bytes``)."""

DEFAULT_INTERVAL_MS = 300_000
SHORTEST_INTERVAL_MS, LONGEST_INTERVAL_MS = 100, 3_600_000

ACCEPTED = (Compression.ZSTD, Compression.LZ4, Compression.GZIP, Compression.SNAPPY)
"""The codecs in order of preference. Uncompressed metrics are accepted too, though Kafka doesn't list them either."""

MAX_INSTANCES = 16_384
"""Maximum number of client instances to remember, as in Kafka. Above this, the instance that has been silent the
longest is forgotten."""

_EXPIRY_SECONDS, _EXPIRY_INTERVALS = 60.0, 3
"""As in Kafka, a client instance is forgotten once it has been silent for this long, and for this many of its
intervals."""

MAX_PUSHES = 1000
"""Maximum number of pushes to keep."""
MAX_PUSHED_BYTES = 32 << 20
"""Maximum total size of the pushes to keep. The last push is always kept. A push of a kilobyte can decompress to a
megabyte."""

_LONGEST = 1000
"""Maximum length of a client attribute that can match, in characters. Clients choose these strings, and matching them
takes the event loop's time."""

_MATCHED = (
    "client_instance_id",
    "client_id",
    "client_software_name",
    "client_software_version",
    "client_source_address",
    "client_source_port",
)


class ClientMetricsOptions(ConfigOverrides):
    """The options of a subscription."""

    KIND = "client metrics"
    TABLE: ClassVar[Mapping[str, Option]] = {
        "interval.ms": Option(DEFAULT_INTERVAL_MS, INT),
        "match": Option("", LIST, many=True),
        "metrics": Option("", LIST, many=True),
    }

    def __init__(self, own: Mapping[str, str | None], broker: BrokerOptions) -> None:
        """Check the options.

        Raises:
            BrokerError: As in Kafka: INVALID_REQUEST for an unknown option or an interval out of range, otherwise
                INVALID_CONFIG.
        """
        unknown = own.keys() - self.TABLE.keys()
        if unknown:
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"unknown client metrics option: {min(unknown)}")
        super().__init__(own, broker)
        if not SHORTEST_INTERVAL_MS <= self.number("interval.ms") <= LONGEST_INTERVAL_MS:
            text = f"interval.ms must be from {SHORTEST_INTERVAL_MS} to {LONGEST_INTERVAL_MS}"
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail=text)
        self.metrics = _items(self.value("metrics"))
        self._patterns = {}
        for item in _items(self.value("match")):
            key, equals, pattern = item.partition("=")
            if not equals or key not in _MATCHED:
                raise BrokerError(ErrorCode.INVALID_CONFIG, detail=f"match: {item!r} is not one of {_MATCHED} with a =")
            try:
                self._patterns[key] = compile_pattern(pattern)
            except BrokerError as error:
                raise BrokerError(ErrorCode.INVALID_CONFIG, detail=f"match: {error.detail}") from None

    def matches(self, client: Mapping[str, str]) -> bool:
        """Return whether a client should push these metrics. An attribute that the client doesn't have is empty, and
        one with more than 1000 characters never matches."""
        texts = [(pattern, client.get(key, "")) for key, pattern in self._patterns.items()]
        return all(len(text) <= _LONGEST and pattern.fullmatch(text) for pattern, text in texts)


class Subscription(NamedTuple):
    """What a client instance should push.

    Attributes:
        id: A checksum of the other fields.
        metrics: Prefixes of metric names. An empty string matches all metrics; without prefixes, nothing matches.
        interval_ms: The time between two pushes.
    """

    id: int
    metrics: tuple[str, ...]
    interval_ms: int


class PushedMetrics(NamedTuple):
    """An accepted push.

    Attributes:
        client_id: The request's client id.
        client_instance_id: The id of the client instance, 16 bytes.
        terminating: Whether the client announced that it is closing.
        metrics: An OpenTelemetry ``MetricsData`` (protobuf), decompressed.
    """

    client_id: str
    client_instance_id: bytes
    terminating: bool
    metrics: bytes


class _Instance:
    """What the broker remembers of a client instance. Times are in seconds."""

    __slots__ = ("got_at", "interval", "may_get", "pushed_at", "terminated")

    def __init__(self) -> None:
        self.got_at = self.pushed_at = float("-inf")
        self.interval = 0.0
        # Set after an error that makes the client request its subscription again.
        self.may_get = False
        self.terminated = False

    @property
    def expires(self) -> float:
        """When the instance will be forgotten, unless it requests its subscription or pushes before that."""
        return max(self.got_at, self.pushed_at) + max(_EXPIRY_SECONDS, _EXPIRY_INTERVALS * self.interval)


class ClientTelemetry:
    """The subscriptions of a cluster, and the pushes to all its nodes.

    Attributes:
        subscriptions: The subscriptions by name.
        pushes: The last pushes, in order of arrival.
    """

    def __init__(self, clock: Clock) -> None:
        self.subscriptions: dict[str, ClientMetricsOptions] = {}
        self.pushes: deque[PushedMetrics] = deque()
        self._pushed_bytes = 0
        self._clock = clock
        self._instances: OrderedDict[bytes, _Instance] = OrderedDict()

    def configure(self, name: str, options: ClientMetricsOptions) -> None:
        """Replace a subscription, or delete it if no options are set."""
        if options.overrides:
            self.subscriptions[name] = options
        else:
            self.subscriptions.pop(name, None)

    def subscription(self, client: Mapping[str, str]) -> Subscription:
        """Return what a client should push."""
        matching = [known for known in self.subscriptions.values() if known.metrics and known.matches(client)]
        if not matching:
            return Subscription(0, (), DEFAULT_INTERVAL_MS)
        metrics = tuple(sorted({name for options in matching for name in options.metrics}))
        if "*" in metrics:
            metrics = ("",)
        interval = min(options.number("interval.ms") for options in matching)
        checksum = crc32(repr((metrics, interval)).encode())
        # The id is an int32, and never 0, which stands for an empty subscription.
        return Subscription(checksum - (1 << 32) if checksum >> 31 else checksum or 1, metrics, interval)

    def get(self, instance_id: bytes, client: Mapping[str, str]) -> Subscription:
        """Return the subscription that a client requests.

        Raises:
            BrokerError: THROTTLING_QUOTA_EXCEEDED: the interval since the client's last request isn't over.
        """
        instance, now = self._instance(instance_id), self._clock.time()
        if now - max(instance.got_at, instance.pushed_at) < instance.interval and not instance.may_get:
            raise BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        found = self.subscription(client)
        instance.got_at, instance.interval, instance.may_get = now, found.interval_ms / 1000, False
        return found

    def push(self, push: PushedMetrics, subscription_id: int, codec: int, client: Mapping[str, str]) -> None:
        """Store metrics pushed by a client, which are still compressed.

        Raises:
            BrokerError: The push is refused, with the same error code as in Kafka.
        """
        instance, now = self._instance(push.client_instance_id), self._clock.time()
        if instance.terminated:
            raise BrokerError(ErrorCode.INVALID_REQUEST, detail="the client instance has terminated")
        # Clients send the first push after a random fraction of the interval, so its timing isn't checked.
        early = instance.got_at <= instance.pushed_at and now - instance.pushed_at < instance.interval
        if early and not push.terminating:
            raise BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED)
        found = self.subscription(client)
        instance.pushed_at, instance.interval, instance.terminated = now, found.interval_ms / 1000, push.terminating
        if subscription_id != found.id:
            instance.may_get = True
            raise BrokerError(ErrorCode.UNKNOWN_SUBSCRIPTION_ID)
        if codec not in (Compression.NONE, *ACCEPTED):
            instance.may_get = True
            raise BrokerError(ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
        if len(push.metrics) > MAX_BYTES:
            raise BrokerError(ErrorCode.TELEMETRY_TOO_LARGE)
        try:
            metrics = bytes(decompress(Compression(codec), push.metrics, MAX_BYTES))
        except KafkaError as error:
            raise BrokerError(ErrorCode.INVALID_RECORD, detail=str(error)) from None
        self._keep(push._replace(metrics=metrics))

    def _keep(self, push: PushedMetrics) -> None:
        self.pushes.append(push)
        self._pushed_bytes += _size(push)
        while len(self.pushes) > MAX_PUSHES or (self._pushed_bytes > MAX_PUSHED_BYTES and len(self.pushes) > 1):
            self._pushed_bytes -= _size(self.pushes.popleft())

    def _instance(self, instance_id: bytes) -> _Instance:
        # Instances that have been silent the longest come first.
        while self._instances and next(iter(self._instances.values())).expires <= self._clock.time():
            self._instances.popitem(last=False)
        instance = self._instances.get(instance_id)
        if instance is None:
            instance = self._instances[instance_id] = _Instance()
            if len(self._instances) > MAX_INSTANCES:
                self._instances.popitem(last=False)
        self._instances.move_to_end(instance_id)
        return instance


def _size(push: PushedMetrics) -> int:
    return len(push.client_id) + len(push.metrics)


def _items(value: object) -> list[str]:
    return [item.strip() for item in str(value).split(",") if item.strip()]
