"""What each client has used, and how long it has to pause for it."""

from __future__ import annotations

from collections import OrderedDict
from typing import TypeVar

from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.quotas.limits import ClientQuotas, Quota, Share
from aiokproto.broker.quotas.meters import Rate, TokenBucket
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

MAX_METERS = 10_000
"""Most clients that are kept apart; beyond it, who was quiet for longest begins anew."""

Meter = TypeVar("Meter", Rate, TokenBucket)


class Quotas:
    """The quotas of one node. All times are seconds; a pause of 0 is none.

    Attributes:
        limits: What was set, for all nodes.
    """

    def __init__(self, limits: ClientQuotas, options: BrokerOptions) -> None:
        self.limits = limits
        self._windows = options.number("quota.window.num")
        self._seconds = float(options.number("quota.window.size.seconds"))
        self._mutation_windows = options.number("controller.quota.window.num")
        self._mutation_seconds = float(options.number("controller.quota.window.size.seconds"))
        self._rates: OrderedDict[tuple[str, ...], Rate] = OrderedDict()
        self._buckets: OrderedDict[tuple[str, ...], TokenBucket] = OrderedDict()

    def use(self, quota: Quota, user: str, client_id: str, amount: float, now: float) -> float:
        """Count what a client has used. Returns for how long it has to pause."""
        share = self.limits.share(quota, user, client_id)
        if share is None:
            return 0.0
        rate = self._rate(quota, share)
        rate.record(amount, now)
        # In whole milliseconds, as it is told: less than one is none.
        pause = round(rate.excess(share.limit, now), 3)
        # Of time there is only so much to be used: a longer pause would not bring the rate down any faster.
        return min(pause, self._seconds) if quota == "request_percentage" else pause

    def give_back(self, quota: Quota, user: str, client_id: str, amount: float, now: float) -> None:
        """Take back what was counted: the client did not get it after all."""
        share = self.limits.share(quota, user, client_id)
        if share is not None:
            self._rate(quota, share).record(-amount, now)

    def most(self, quota: Quota, user: str, client_id: str) -> float:
        """The most that a client can ever be given at once."""
        share = self.limits.share(quota, user, client_id) if self.limits else None
        if share is None:
            return float("inf")
        return share.limit * (self._windows - 1) * self._seconds

    def mutations(self, user: str, client_id: str, now: float) -> Mutations:
        """A count of the topics and partitions that a request makes or removes."""
        share = self.limits.share("controller_mutation_rate", user, client_id) if self.limits else None
        if share is None:
            return Mutations(None, 0.0, now)
        key = (share.user, share.client_id)
        bucket = _recent(self._buckets, key, TokenBucket(self._mutation_windows, self._mutation_seconds))
        return Mutations(bucket, share.limit, now)

    def connect(self, address: str, now: float) -> float:
        """Count a connection from an address. Returns for how long it has to pause, and is then to be closed."""
        limit = self.limits.of_address("connection_creation_rate", address)
        if limit is None:
            return 0.0
        rate = _recent(self._rates, ("connection_creation_rate", address), Rate(self._windows, self._seconds))
        rate.record(1, now)
        pause = rate.excess(limit, now)
        if pause:
            rate.record(-1, now)
        return min(pause, self._seconds)

    def _rate(self, quota: Quota, share: Share) -> Rate:
        return _recent(self._rates, (quota, share.user, share.client_id), Rate(self._windows, self._seconds))


class Mutations:
    """One request's use of the quota ``controller_mutation_rate`` (KIP-599).

    Attributes:
        strict: Whether what is beyond the quota is refused; older versions of a request are done, and paused for.
    """

    def __init__(self, bucket: TokenBucket | None, limit: float, now: float) -> None:
        self.strict = False
        self._bucket = bucket
        self._limit = limit
        self._now = now
        self._refused = False

    def take(self, count: int) -> None:
        """Count partitions that shall be made or removed.

        Raises:
            BrokerError: THROTTLING_QUOTA_EXCEEDED; only if ``strict``.
        """
        if self._bucket is None:
            return
        if self.strict and self._bucket.excess(self._limit, self._now):
            self._refused = True
            raise BrokerError(ErrorCode.THROTTLING_QUOTA_EXCEEDED, detail="The throttling quota has been exceeded.")
        self._bucket.record(count, self._limit, self._now)

    @property
    def pause(self) -> float:
        """For how long the client has to pause. Who was refused nothing may overdraw the quota once."""
        if self._bucket is None or (self.strict and not self._refused):
            return 0.0
        return self._bucket.excess(self._limit, self._now)


def _recent(meters: OrderedDict[tuple[str, ...], Meter], key: tuple[str, ...], new: Meter) -> Meter:
    meter = meters.setdefault(key, new)
    meters.move_to_end(key)
    if len(meters) > MAX_METERS:
        meters.popitem(last=False)
    return meter
