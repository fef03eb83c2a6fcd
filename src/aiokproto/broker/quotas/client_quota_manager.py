"""Measures each client's usage of one node, and computes how long to throttle the client.

Clients that share a quota share one meter: a meter's key is the user and client id of the applicable quota (Kafka's
``ClientQuotaManager`` builds its sensor names the same way). As in Kafka, each node has its own meters: a client that
uses three brokers gets its byte rate from each of them.
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
"""Maximum number of meters per node. Above this, the least recently used meter is dropped, so a client that sends a new
client id with each request doesn't fill up the memory."""

_INACTIVE_SECONDS = 3600.0
"""A meter that isn't used for this long is dropped (Kafka's ``INACTIVE_SENSOR_EXPIRATION_TIME_SECONDS``)."""

_LONGEST_KEY = 255
"""Maximum length of each part of a meter's key, in characters. Clients choose the keys, so longer parts are hashed."""

Meter = TypeVar("Meter", Rate, TokenBucket)


class ClientQuotaManager:
    """The usage meters of one node. Times are in seconds; a throttle time of 0 means no throttling.

    Attributes:
        client_quotas: The configured quotas, shared by all nodes.
    """

    def __init__(self, client_quotas: ClientQuotas, options: BrokerOptions) -> None:
        self.client_quotas = client_quotas
        self._windows = options.number("quota.window.num")
        self._seconds = float(options.number("quota.window.size.seconds"))
        self._mutation_windows = options.number("controller.quota.window.num")
        self._mutation_seconds = float(options.number("controller.quota.window.size.seconds"))
        # The meters and when they were last used, least recently used first.
        self._rates: OrderedDict[tuple[str, ...], tuple[Rate, float]] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, ...], tuple[TokenBucket, float]] = OrderedDict()

    def record(self, quota: QuotaType, user: str, client_id: str, amount: float, now: float) -> float:
        """Record usage, and return the throttle time in seconds."""
        applicable = self.client_quotas.quota_for(quota, user, client_id)
        if applicable is None:
            return 0.0
        rate = self._rate(quota, applicable, now)
        rate.record(amount, now)
        # throttle_time_ms is in whole milliseconds, so less than one millisecond means no throttling.
        throttle = round(rate.excess(applicable.limit, now), 3)
        # The request quota is a percentage of time, and a client can't use more than a whole window. So, as in Kafka, a
        # request is throttled for at most one window.
        return min(throttle, self._seconds) if quota == "request_percentage" else throttle

    def unrecord(self, quota: QuotaType, user: str, client_id: str, amount: float, now: float) -> None:
        """Undo :meth:`record` for a response that wasn't sent."""
        applicable = self.client_quotas.quota_for(quota, user, client_id)
        if applicable is not None:
            self._rate(quota, applicable, now).record(-amount, now)

    def max_in_window(self, quota: QuotaType, user: str, client_id: str) -> float:
        """Return the maximum usage that the quota allows in all complete windows together, or infinity if no quota
        applies.

        A larger Fetch response would throttle the client for longer than the windows last, so Fetch caps its size.
        """
        applicable = self.client_quotas.quota_for(quota, user, client_id) if self.client_quotas else None
        if applicable is None:
            return float("inf")
        return applicable.limit * (self._windows - 1) * self._seconds

    def mutation_quota(self, user: str, client_id: str, now: float) -> ControllerMutationQuota:
        """Return the meter for a request that creates or deletes partitions."""
        applicable = (
            self.client_quotas.quota_for("controller_mutation_rate", user, client_id) if self.client_quotas else None
        )
        if applicable is None:
            return ControllerMutationQuota(None, 0.0, now)
        key = (applicable.user, applicable.client_id)
        # All requests that share the quota share one bucket. Each request has its own ControllerMutationQuota, with the
        # request's time.
        bucket = _meter(self._buckets, key, TokenBucket(self._mutation_windows, self._mutation_seconds), now)
        return ControllerMutationQuota(bucket, applicable.limit, now)

    def record_connection(self, address: str, now: float) -> float:
        """Record a new connection from an IP address. Return how long to wait before closing it, or 0 to accept it."""
        limit = self.client_quotas.for_address("connection_creation_rate", address)
        if limit is None:
            return 0.0
        rate = _meter(self._rates, ("connection_creation_rate", address), Rate(self._windows, self._seconds), now)
        rate.record(1, now)
        throttle = rate.excess(limit, now)
        if throttle:
            # Don't count rejected connections, because a client that keeps retrying would never be accepted again.
            rate.record(-1, now)
        return min(throttle, self._seconds)

    def _rate(self, quota: QuotaType, applicable: ApplicableQuota, now: float) -> Rate:
        key = (quota, applicable.user, applicable.client_id)
        return _meter(self._rates, key, Rate(self._windows, self._seconds), now)


class ControllerMutationQuota:
    """One request's use of the quota ``controller_mutation_rate`` (KIP-599).

    Attributes:
        strict: Whether mutations beyond the quota fail with THROTTLING_QUOTA_EXCEEDED. False for request versions that
            don't have this error code: their mutations are applied, and the client is throttled.
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
        # As in Kafka's StrictControllerMutationQuota, only an overdrawn bucket rejects requests, so an individual large
        # request is served (KIP-599).
        if self.strict and self._bucket.excess(self._limit, self._now):
            self._exceeded = True
            raise BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, detail="The throttling quota has been exceeded.")
        self._bucket.record(count, self._limit, self._now)

    @property
    def throttle_seconds(self) -> float:
        """How long to throttle the client.

        A strict request that was served in full isn't throttled even if it overdrew the bucket: instead, the next
        request fails.
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
    # The loop ends at the latest when it reaches this meter.
    while len(meters) > MAX_METERS or now - next(iter(meters.values()))[1] >= _INACTIVE_SECONDS:
        meters.popitem(last=False)
    return meter


def _hash(text: str) -> str:
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=32).hexdigest()
