"""Who an idempotent producer is to the brokers (InitProducerId, KIP-98)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import NamedTuple

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.errors import AuthorizationError, KafkaError, UnsupportedVersionError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.producer.queue import PartitionQueue
from aiokproto.records.varint import INT32_MAX

log = logging.getLogger("aiokproto.producer")


class ProducerId(NamedTuple):
    """Producer id, and the epoch that its partitions begin with."""

    id: int
    epoch: int


class ProducerIdManager:
    """The producer id: had from the brokers, and given up where no partition can go on with it.

    Attributes:
        current: The id; None while there is none.
    """

    def __init__(self, cluster: ClusterClient, request_timeout: float) -> None:
        self.current: ProducerId | None = None
        self._cluster = cluster
        self._request_timeout = request_timeout

    async def ask(self, retrying: Callable[[KafkaError], None], refused: Callable[[KafkaError], None]) -> None:
        """Ask for an id until there is one, or it is refused. Cancelled, there is none.

        Args:
            retrying: Called with the reason before another attempt.
            refused: Called with the reason when there will be no id for now.

        Raises:
            KafkaError: The producer cannot go on.
        """
        request = InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=INT32_MAX)
        attempt = 0
        while self.current is None:
            attempt += 1
            try:
                response = await self._cluster.request(request, timeout=self._request_timeout, hedged=True)
                if response.error_code:
                    raise error_for(response.error_code, "InitProducerId")
                self.current = ProducerId(response.producer_id, response.producer_epoch)
            except KafkaError as error:
                action = classify(error, Situation(request.api_key))
                if action is Action.STOP:
                    raise _advised(error) from error
                if action is Action.FAIL:
                    refused(_advised(error))
                    return
                retrying(error)
                log.warning("no producer id yet, attempt %d: %s", attempt, error)
                await asyncio.sleep(self._cluster.backoff(attempt))

    def renew_for(self, queue: PartitionQueue, *, refused: bool = False) -> None:
        """Give the id up where the partition cannot go on with the next epoch of its own."""
        current = self.current
        if current is not None and queue.producer[0] == current.id and (refused or queue.epochs_exhausted):
            self.current = None


def _advised(error: KafkaError) -> KafkaError:
    """A clearer error for users who never asked for idempotence, where it is the default that fails."""
    advice = "enable_idempotence=False does without a producer id"
    if isinstance(error, AuthorizationError):
        clearer: KafkaError = AuthorizationError(
            error.code, error.context, f"the right IdempotentWrite is missing; {advice}"
        )
    elif isinstance(error, UnsupportedVersionError):
        clearer = UnsupportedVersionError(f"{error}; {advice}")
    else:
        return error
    clearer.__cause__ = error
    return clearer
