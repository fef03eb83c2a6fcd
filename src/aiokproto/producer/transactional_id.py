"""A transactional id: its producer id and epoch, its batches' sequence numbers, and its requests to coordinators."""

from __future__ import annotations

import asyncio
import logging
from typing import TypeVar

from aiokproto.authorization import NOTHING, Asked
from aiokproto.cluster import ClusterClient, CoordinatorKind
from aiokproto.cluster.coordinator_requests import CoordinatorRequests, Exchange
from aiokproto.codec.messages.end_txn import EndTxnRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import FencedError, KafkaError, UnsupportedVersionError, error_for
from aiokproto.producer.batch import ProducerBatch
from aiokproto.producer.producer_id import ProducerId
from aiokproto.producer.queue import PartitionQueue
from aiokproto.producer.transaction_requests import END_TXN_V2, DescribeExchange, Identity, InitExchange

R = TypeVar("R", bound=Response)

log = logging.getLogger("aiokproto.producer")

FEATURE = "transaction.version"
FIRST_V2 = 2
"""The first level of the feature that adds a partition's records and a group's offsets implicitly (KIP-890)."""


class TransactionalId:
    """The identity of this producer for coordinators and partitions.

    Attributes:
        name: The transactional id.
        timeout_ms: The coordinator aborts a transaction that is open for longer.
        two_phase: Whether transactions have no timeout, and are kept at the next start (KIP-939).
        current: Producer id and epoch; None before :meth:`initialize`.
        request_lost: Whether a request has gone without a response since the epoch was bumped. It may be executed late,
            and only the next epoch keeps it out of a later transaction.
    """

    def __init__(self, name: str, timeout_ms: int, *, two_phase: bool) -> None:
        self.name = name
        self.two_phase = two_phase
        self.current: ProducerId | None = None
        self.request_lost = False
        self.timeout_ms = timeout_ms
        self._cluster: ClusterClient
        self._coordinator: CoordinatorRequests

    def connect(self, cluster: ClusterClient) -> None:
        """Start sending requests through ``cluster``."""
        self._cluster = cluster
        self._coordinator = self.requests_to(CoordinatorKind.TRANSACTION, self.name)

    # -- ProducerIds

    def assign(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Assign a sequence number to a batch that is about to be sent."""
        queue.assign_in_transaction(batch, self.identity.producer)

    def discard_for(self, queue: PartitionQueue, *, refused: bool = False) -> None:
        """Do nothing: a failed batch fails the transaction, and the next transaction has another epoch."""

    def may_forget(self, queue: PartitionQueue) -> bool:
        """Return whether the epoch of the sequence numbers has ended. In version 2 it ends with each transaction."""
        return queue.producer != self.current

    # -- requests

    @property
    def identity(self) -> Identity:
        """The identity that every request of a transaction contains."""
        assert self.current is not None, "initialize() has returned"
        return Identity(self.name, self.current)

    async def initialize(self, *, keep_prepared: bool = False, after_timeout: bool = False) -> InitProducerIdResponse:
        """Acquire the producer id, or bump its epoch (KIP-360).

        With ``after_timeout``, bump the epoch in which the coordinator has aborted a transaction.

        Raises:
            UnsupportedVersionError: The coordinator can't bump the epoch.
            KafkaError: No producer id could be acquired.
        """
        known = self.current
        if known is not None and after_timeout:
            known = ProducerId(known.id, known.epoch + 1)
        exchange = InitExchange(
            self.name, self.timeout_ms, known, two_phase=self.two_phase, keep_prepared=keep_prepared
        )
        response = await self.send(exchange, "InitProducerId")
        self.current = ProducerId(response.producer_id, response.producer_epoch)
        # Requests that were lost have an earlier epoch, and so do earlier attempts of this request.
        self.request_lost = False
        return response

    async def was_aborted(self) -> bool:
        """Return whether the coordinator aborted the last transaction in the next epoch, and no later epoch exists.

        Raises:
            KafkaError: The coordinator didn't return its state.
        """
        assert self.current is not None, "initialize() has returned"
        response = await self.send(DescribeExchange(self.name), "DescribeTransactions")
        (state,) = response.transaction_states
        next_epoch = self.current.id, self.current.epoch + 1
        return state.transaction_state == "CompleteAbort" and (state.producer_id, state.producer_epoch) == next_epoch

    async def has_v2(self, before: bool) -> bool:
        """Return whether transactions have version 2, or ``before`` if the coordinator can't be reached."""
        try:
            node = await self._cluster.coordinator(CoordinatorKind.TRANSACTION, self.name)
            level = (await self._cluster.broker_versions(node)).features.get(FEATURE, 0)
            # The feature belongs to the cluster, and the version to this coordinator. During an upgrade, either can be
            # ahead of the other.
            return level >= FIRST_V2 and await self._cluster.version(EndTxnRequest, node) >= END_TXN_V2
        except KafkaError as error:
            log.debug("%s is not known, keeping version %d: %s", FEATURE, 1 + before, error)
            return before

    def requests_to(self, kind: CoordinatorKind, key: str) -> CoordinatorRequests:
        """Return the requests to a coordinator. A request without a response sets :attr:`request_lost`."""
        return CoordinatorRequests(self._cluster, kind, key, self.lost)

    def lost(self) -> None:
        """Note that a request got no response."""
        # guard: a request without a response leads to a new epoch
        self.request_lost = True

    async def send(
        self, exchange: Exchange[R], what: str, to: CoordinatorRequests | None = None, asked: Asked = NOTHING
    ) -> R:
        """Send a request with retries, by default to the transaction coordinator. ``asked`` lists the names in it.

        Raises:
            KafkaError: The request was refused, or got no response within ``default_api_timeout_ms``.
        """
        # Each request gets the whole timeout: it isn't part of a caller's deadline, and ending a transaction continues
        # without a caller.
        at = asyncio.get_running_loop().time() + self._cluster.config.api_timeout
        response = await (to or self._coordinator).send(exchange, at)
        code = exchange.failure(response)
        if code:
            raise self._error(code, what, asked._replace(api=exchange.request_type.api_key))
        return response

    def _error(self, code: ErrorCode, what: str, asked: Asked) -> KafkaError:
        context = f"{what}, transactional id {self.name!r}"
        if code is ErrorCode.UNSUPPORTED_VERSION:
            return UnsupportedVersionError(
                f"{context}: the coordinator cannot keep a prepared transaction (KIP-939), as Kafka 4.4 cannot; "
                "start(keep_prepared=False) aborts it"
            )
        principal = self._cluster.config.principal
        error = error_for(code, context, None, asked._replace(transactional_id=self.name, principal=principal))
        if not isinstance(error, FencedError):
            return error
        why = "another producer with this id was started"
        if asked.api != InitProducerIdRequest.api_key:
            # It isn't known yet which of the two happened. TransactionManager finds out.
            why += f", or the transaction was open for longer than transaction_timeout_ms={self.timeout_ms}"
        return error_for(code, context, why)
