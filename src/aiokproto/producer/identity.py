"""Who an idempotent producer is to the brokers (InitProducerId, KIP-98)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from aiokproto.cluster import Cluster
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerConnectionError,
    BrokerError,
    DeadlineError,
    DecodeError,
    KafkaError,
    UnsupportedVersionError,
    error_for,
)
from aiokproto.producer.queue import PartitionQueue
from aiokproto.records.varint import INT32_MAX

log = logging.getLogger("aiokproto.producer")


class ProducerId(NamedTuple):
    """Producer id, and the epoch that its partitions begin with."""

    id: int
    epoch: int


class Identity:
    """The producer id: had from the brokers, and given up where no partition can go on with it.

    Attributes:
        current: The id; None while there is none.
    """

    def __init__(self, cluster: Cluster, request_timeout: float) -> None:
        self.current: ProducerId | None = None
        self._cluster = cluster
        self._request_timeout = request_timeout

    async def ask(self, failed: Callable[[KafkaError], None]) -> None:
        """Become known to the brokers: tried until it works or cannot. Cancelled, there is no id.

        Args:
            failed: Told why an attempt failed, before the next.

        Raises:
            KafkaError: Why it cannot work.
        """
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT32_MAX)
        attempt = 0
        while self.current is None:
            attempt += 1
            try:
                response = await self._cluster.request(request, timeout=self._request_timeout)
                if response.error_code:
                    raise error_for(response.error_code, "InitProducerId")
                self.current = ProducerId(response.producer_id, response.producer_epoch)
            except KafkaError as error:
                if not may_pass(error):
                    _advise(error)
                    raise
                failed(error)
                log.warning("no producer id yet, attempt %d: %s", attempt, error)
                await asyncio.sleep(self._cluster.backoff(attempt))

    def renew_for(self, queue: PartitionQueue, *, refused: bool = False) -> None:
        """Give the id up where the partition cannot go on with the next epoch of its own."""
        current = self.current
        if current is not None and queue.producer[0] == current.id and (refused or queue.epochs_used_up):
            self.current = None


def may_pass(error: KafkaError) -> bool:
    """Whether what failed so may succeed later."""
    if isinstance(error, AuthenticationError):
        return False
    if isinstance(error, BrokerError):
        return error.retriable
    return isinstance(error, BrokerConnectionError | DeadlineError | DecodeError)


def _advise(error: KafkaError) -> None:
    """Say it better, to who never asked for idempotence, where it is the default that fails."""
    advice = "enable_idempotence=False does without a producer id"
    if isinstance(error, AuthorizationError):
        detail = f"the right IdempotentWrite is missing; {advice}"
        raise AuthorizationError(error.code, error.context, detail) from error
    if isinstance(error, UnsupportedVersionError):
        raise UnsupportedVersionError(f"{error}; {advice}") from error
