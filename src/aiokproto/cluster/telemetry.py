"""Pushing metrics to the brokers (KIP-714): one task per client, which never affects the rest of the client.

::

    ask for the subscription ──→ none wanted: ask again after the push interval
        ↑          │ wanted
        │          ↓
        │      wait for the push interval ──→ push ──→ accepted: the next interval
        │                                      │
        └──────────────────────────────────────┘ refused, or no response; how soon, the error decides

The first push comes after 0.5 to 1.5 times the interval, so clients that started together don't push together. Closing
pushes once more (``terminating``), which brokers accept at any time.

An error here never reaches a call of the application, or delays it. Only closing waits, for at most :data:`TERMINATING`
seconds, and only if the brokers have subscribed to metrics.
"""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from typing import TYPE_CHECKING

from aiokproto._version import __version__
from aiokproto.codec.messages.get_telemetry_subscriptions import (
    GetTelemetrySubscriptionsRequest,
    GetTelemetrySubscriptionsResponse,
)
from aiokproto.codec.messages.push_telemetry import PushTelemetryRequest
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import KafkaError, UnsupportedCompressionError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.observe.metrics import MetricSource
from aiokproto.observe.otlp import encode_metrics
from aiokproto.records import Compression, compress
from aiokproto.runtime import create_task, current, uniform

if TYPE_CHECKING:
    from aiokproto.cluster.cluster_client import ClusterClient

FIRST_AFTER = 10.0
"""Seconds from the start to the request for the subscription, times a random factor from 0.5 to 1.5. A program that
sends one record and ends never gets that far."""

TERMINATING = 1.0
"""Maximum time for the last push (s)."""

DEFAULT_INTERVAL = 300.0
"""Seconds until the next attempt if the broker hasn't sent an interval: Kafka's default."""

_SHORTEST_INTERVAL = 0.1
"""Kafka's minimum for ``interval.ms`` (s). A broker that sends less must not make the client spin."""

_SCOPE = "aiokproto"
_GET = Situation(GetTelemetrySubscriptionsRequest.api_key)
_PUSH = Situation(PushTelemetryRequest.api_key)

logger = logging.getLogger("aiokproto.telemetry")


class TelemetryReporter:
    """Pushes a client's metrics from :meth:`start` to :meth:`close`.

    Attributes:
        client_instance_id: The id that brokers know this client's metrics by; empty until they have assigned it.
    """

    def __init__(self, cluster: ClusterClient, source: MetricSource, *, first_after: float = FIRST_AFTER) -> None:
        """Create a reporter in the running loop.

        Args:
            cluster: Sends the requests.
            source: Computes the metrics.
            first_after: Seconds before the first request.
        """
        self._cluster = cluster
        self._source = source
        self._first_after = first_after
        self._loop = asyncio.get_running_loop()
        self._instance_id = ZERO_UUID
        # None while the subscription is unknown, or the brokers haven't subscribed to any metrics.
        self._subscription: GetTelemetrySubscriptionsResponse | None = None
        self._node: int | None = None
        # Codecs that a broker listed but then refused, or whose library is missing.
        self._refused: set[int] = set()
        self._since = 0
        self._task: asyncio.Task[None] | None = None

    @property
    def client_instance_id(self) -> str:
        return "" if self._instance_id == ZERO_UUID else self._instance_id.hex()

    def start(self) -> None:
        """Start the task."""
        self._since = current().milliseconds()
        self._task = create_task(self._run(), name="aiokproto telemetry")

    async def close(self, timeout: float) -> None:
        """End the task. If the brokers have subscribed, push one last time, taking at most ``timeout`` seconds."""
        if self._task is not None:
            self._task.cancel()
            # The task has logged its errors; awaiting the task itself would raise its cancellation here.
            await asyncio.wait((self._task,))
        subscription, self._subscription = self._subscription, None
        timeout = min(timeout, TERMINATING)
        if subscription is not None and timeout > 0:
            try:
                await self._push(subscription, timeout, terminating=True)
            except KafkaError as error:
                logger.debug("the last metrics were not pushed: %s", error)

    async def _run(self) -> None:
        pause = uniform(0.5, 1.5) * self._first_after
        try:
            while True:
                await self._sleep(pause)
                pause = await self._round()
        except KafkaError as error:
            logger.debug("metrics are not pushed any more: %s", error)
        except Exception:
            # The end of any other task ends the client, but a bug in metrics must not.
            logger.exception("metrics are not pushed any more")

    async def _round(self) -> float:
        """Request the subscription, and push until it's no longer valid. Return the seconds until the next round.

        Raises:
            KafkaError: Nothing can be pushed to these brokers.
        """
        situation, interval = _GET, DEFAULT_INTERVAL
        try:
            subscription = await self._subscribe()
            interval = _interval(subscription)
            if not subscription.requested_metrics:
                return interval
            self._subscription, situation = subscription, _PUSH
            pause = uniform(0.5, 1.5) * interval
            while True:
                await self._sleep(pause)
                await self._push(subscription, self._cluster.config.request_timeout)
                pause = interval
        except KafkaError as error:
            self._subscription = None
            action = classify(error, situation)
            if action in (Action.FAIL, Action.STOP):
                raise
            logger.debug("metrics were not pushed: %s", error)
            # After a lost connection, try another broker next time. A refusal is no reason to: it says nothing about
            # the broker.
            if action is Action.REFRESH_METADATA:
                self._node = None
            return self._cluster.backoff.delay(1) if action is Action.RETRY else interval

    async def _sleep(self, seconds: float) -> None:
        until, left = self._loop.time() + seconds, seconds
        # Sleep again if necessary: with a coarse clock timers fire early, and brokers refuse a push that is early.
        while left > 0:
            await asyncio.sleep(left)
            left = until - self._loop.time()

    async def _subscribe(self) -> GetTelemetrySubscriptionsResponse:
        # Send all requests to the same broker: it knows the subscription, and when the last push came.
        if self._node is None or self._node not in self._cluster.snapshot.brokers:
            self._node = self._cluster.pool.by_preference()[0]
        request = GetTelemetrySubscriptionsRequest(client_instance_id=self._instance_id)
        response = await self._cluster.send(request, self._node)
        if response.error_code:
            raise error_for(ErrorCode(response.error_code), f"GetTelemetrySubscriptions to broker {self._node}")
        self._instance_id = response.client_instance_id
        return response

    async def _push(
        self, subscription: GetTelemetrySubscriptionsResponse, timeout: float, *, terminating: bool = False
    ) -> None:
        assert self._node is not None, "the broker that gave the subscription"
        now = current().milliseconds()
        data = self._encoded(subscription, now)
        codec = self._codec(subscription)
        metrics = bytes(compress(codec, data))
        if len(metrics) > subscription.telemetry_max_bytes:
            # The broker would refuse it with the same error. The next push may be smaller: metrics without a value are
            # left out.
            raise error_for(
                ErrorCode.TELEMETRY_TOO_LARGE,
                "PushTelemetry",
                f"{len(metrics)} bytes, the broker accepts {subscription.telemetry_max_bytes}",
            )
        request = PushTelemetryRequest(
            client_instance_id=self._instance_id,
            subscription_id=subscription.subscription_id,
            terminating=terminating,
            compression_type=int(codec),
            metrics=metrics,
        )
        response = await self._cluster.send(request, self._node, timeout=timeout)
        code = ErrorCode(response.error_code)
        if code is ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
            self._refused.add(int(codec))
        if code:
            raise error_for(code, f"PushTelemetry to broker {self._node}")
        self._since = now
        self._source.pushed()

    def _encoded(self, subscription: GetTelemetrySubscriptionsResponse, now: int) -> bytes:
        wanted = tuple(subscription.requested_metrics)
        config = self._cluster.config
        metrics = self._source.collect(
            self._loop.time(), delta=subscription.delta_temporality, application=config.application_metrics()
        )
        return encode_metrics(
            # A single empty string requests all metrics: it's a prefix of every name.
            [metric for metric in metrics if metric.name.startswith(wanted)],
            resource={**({"client_rack": config.client_rack} if config.client_rack else {}), **self._source.labels()},
            scope=_SCOPE,
            version=__version__,
            since=self._since * 1_000_000,
            now=now * 1_000_000,
            delta=subscription.delta_temporality,
        )

    def _codec(self, subscription: GetTelemetrySubscriptionsResponse) -> Compression:
        """Return the broker's first codec that works here. If there's none, return no compression, which brokers always
        accept."""
        for number in subscription.accepted_compression_types:
            with suppress(ValueError, UnsupportedCompressionError):
                codec = Compression(number)
                if number not in self._refused and compress(codec, b""):
                    return codec
        return Compression.NONE


def _interval(subscription: GetTelemetrySubscriptionsResponse) -> float:
    interval = subscription.push_interval_ms / 1000
    return max(interval, _SHORTEST_INTERVAL) if interval > 0 else DEFAULT_INTERVAL
