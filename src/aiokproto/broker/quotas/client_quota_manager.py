"""Measures what each client uses of one node, and computes how long to throttle it.

Clients that share a quota share one meter: the key of a meter is the user and the client id that the applicable quota
names (Kafka's ``ClientQuotaManager`` builds its sensor names the same way). Each node has its own meters, as in Kafka:
a client of three brokers gets its byte rate from each of them.
"""

from __future__ import annotations

from collections import OrderedDict
from hashlib import blake2b
from typing import TypeVar

from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.quotas.client_quotas import ApplicableQuota, ClientQuotas, QuotaType
from aiokproto.broker.quotas.meters import Rate, TokenBucket
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

MAX_METERS = 10_000
"""Most meters per node. Beyond it the least recently used one is dropped, so that a new client id for each request
doesn't fill the memory."""

_INACTIVE_SECONDS = 3600.0
"""A meter that isn't used for this long is dropped. Kafka's ``INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS``."""

_LONGEST_KEY = 255
"""Longest part of a meter's key, in characters. Clients choose the keys, so a longer part is kept as its hash."""

Meter = TypeVar("Meter", Rate, TokenBucket)


class ClientQuotaManager:
    """The usage meters of one node. Times are seconds; a throttle time of 0 means no throttling.

    Attributes:
        client_quotas: The configured quotas, shared by all nodes.
    """

    def __init__(self, client_quotas: ClientQuotas, options: BrokerOptions) -> None:
        self.client_quotas = client_quotas
        self._windows = options.number("quota.window.num")
        self._seconds = float(options.number("quota.window.size.seconds"))
        self._mutation_windows = options.number("controller.quota.window.num")
        self._mutation_seconds = float(options.number("controller.quota.window.size.seconds"))
        # The meters, each with the time when it was last used, in that order.
        self._rates: OrderedDict[tuple[str, ...], tuple[Rate, float]] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, ...], tuple[TokenBucket, float]] = OrderedDict()

    def record(self, quota: QuotaType, user: str, client_id: str, amount: float, now: float) -> float:
        """Record usage, and return the throttle time in seconds."""
        applicable = self.client_quotas.quota_for(quota, user, client_id)
        if applicable is None:
            return 0.0
        rate = self._rate(quota, applicable, now)
        rate.record(amount, now)
        # throttle_time_ms is in whole milliseconds, and less than one is no throttling.
        throttle = round(rate.excess(applicable.limit, now), 3)
        # The request quota is a share of time, and a client can't use more than a whole window: Kafka, too, throttles a
        # request for at most one window.
        return min(throttle, self._seconds) if quota == "request_percentage" else throttle

    def unrecord(self, quota: QuotaType, user: str, client_id: str, amount: float, now: float) -> None:
        """Undo :meth:`record` for a response that wasn't sent."""
        applicable = self.client_quotas.quota_for(quota, user, client_id)
        if applicable is not None:
            self._rate(quota, applicable, now).record(-amount, now)

    def max_in_window(self, quota: QuotaType, user: str, client_id: str) -> float:
        """Return the most that all complete windows together allow; infinity without a quota.

        A Fetch response above it would throttle the client for longer than the windows last, so Fetch caps its size.
        """
        applicable = self.client_quotas.quota_for(quota, user, client_id) if self.client_quotas else None
        if applicable is None:
            return float("inf")
        return applicable.limit * (self._windows - 1) * self._seconds

    def mutation_quota(self, user: str, client_id: str, now: float) -> ControllerMutationQuota:
        """Return the meter of one request that creates or deletes partitions."""
        applicable = (
            self.client_quotas.quota_for("controller_mutation_rate", user, client_id) if self.client_quotas else None
        )
        if applicable is None:
            return ControllerMutationQuota(None, 0.0, now)
        key = (applicable.user, applicable.client_id)
        # All requests that share the quota share one bucket. Each request has its own ControllerMutationQuota, which
        # holds its time.
        bucket = _meter(self._buckets, key, TokenBucket(self._mutation_windows, self._mutation_seconds), now)
        return ControllerMutationQuota(bucket, applicable.limit, now)

    def record_connection(self, address: str, now: float) -> float:
        """Record a new connection from an IP address. Return how long to wait before closing it; 0 accepts it."""
        limit = self.client_quotas.for_address("connection_creation_rate", address)
        if limit is None:
            return 0.0
        rate = _meter(self._rates, ("connection_creation_rate", address), Rate(self._windows, self._seconds), now)
        rate.record(1, now)
        throttle = rate.excess(limit, now)
        if throttle:
            # A rejected connection doesn't count: otherwise a client that retries would never be accepted again.
            rate.record(-1, now)
        return min(throttle, self._seconds)

    def _rate(self, quota: QuotaType, applicable: ApplicableQuota, now: float) -> Rate:
        key = (quota, applicable.user, applicable.client_id)
        return _meter(self._rates, key, Rate(self._windows, self._seconds), now)


class ControllerMutationQuota:
    """One request's use of the quota ``controller_mutation_rate`` (KIP-599).

    Attributes:
        strict: Whether mutations beyond the quota fail with THROTTLING_QUOTA_EXCEEDED. It's False for request versions
            that don't know this code: their mutations are applied, and the client is throttled.
    """

    def __init__(self, bucket: TokenBucket | None, limit: float, now: float) -> None:
        self.strict = False
        self._bucket = bucket
        self._limit = limit
        self._now = now
        self._exceeded = False

    def record(self, count: int) -> None:
        """Record partitions that are about to be created or deleted.

        Raises:
            BrokerError: THROTTLING_QUOTA_EXCEEDED, only if ``strict``.
        """
        if self._bucket is None:
            return
        # Only an overdrawn bucket rejects, as with Kafka's StrictControllerMutationQuota, so a single large request is
        # served (KIP-599).
        if self.strict and self._bucket.excess(self._limit, self._now):
            self._exceeded = True
            raise BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, detail="The throttling quota has been exceeded.")
        self._bucket.record(count, self._limit, self._now)

    @property
    def throttle_seconds(self) -> float:
        """How long to throttle the client.

        A strict request that was served in full isn't throttled even if it overdrew the bucket: the next one fails.
        """
        if self._bucket is None or (self.strict and not self._exceeded):
            return 0.0
        return self._bucket.excess(self._limit, self._now)


def _meter(
    meters: OrderedDict[tuple[str, ...], tuple[Meter, float]], key: tuple[str, ...], new: Meter, now: float
) -> Meter:
    if any(len(part) > _LONGEST_KEY for part in key):
        key = tuple(part if len(part) <= _LONGEST_KEY else _hash(part) for part in key)
    meter = meters.get(key, (new, now))[0]
    meters[key] = meter, now
    meters.move_to_end(key)
    # The loop ends at this meter, if not before.
    while len(meters) > MAX_METERS or now - next(iter(meters.values()))[1] >= _INACTIVE_SECONDS:
        meters.popitem(last=False)
    return meter


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()
