"""The transactions of tasks, as their coordinators see them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TypeVar

from aiokproto.cluster import ClusterClient
from aiokproto.cluster.coordinator_requests import RETRIED
from aiokproto.codec.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from aiokproto.codec.messages.list_transactions import ListTransactionsRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AuthorizationError, BrokerError, KafkaError, PartialResponseError, check, error_for
from aiokproto.failures import Situation, classify
from aiokproto.producer.handed_over import HandedOver, abort_open, end_handed_over
from aiokproto.producer.producer_id import ProducerId
from aiokproto.runtime.timeouts import deadline_at
from aiokproto.spark.sink.exactly_once.protocol import Ended, Outcome, is_task_id

T = TypeVar("T")
A = TypeVar("A")

log = logging.getLogger("aiokproto.spark")

MAX_CONCURRENT = 64
"""Maximum number of transactions that are ended at the same time."""

_COMMITTED = ("PrepareCommit", "CompleteCommit")
_ABORTED = ("PrepareAbort", "CompleteAbort", "PrepareEpochFence")


class Transactions:
    """Ends, finds and aborts the transactions of tasks."""

    def __init__(self, cluster: ClusterClient, timeout_ms: int) -> None:
        """``timeout_ms`` is the transaction timeout of the tasks."""
        self._cluster = cluster
        self._timeout_ms = timeout_ms

    async def still_open(self, transactions: Sequence[HandedOver]) -> list[HandedOver]:
        """Return the transactions that can still be committed.

        Raises:
            KafkaError: A coordinator doesn't respond, or doesn't let the client see a transaction.
        """
        states = await self._describe([transaction.transactional_id for transaction in transactions])
        return [
            transaction
            for transaction, state in zip(transactions, states, strict=True)
            if state.transaction_state == "Ongoing"
            and (state.producer_id, state.producer_epoch) == (transaction.producer_id, transaction.epoch)
        ]

    async def commit(self, transactions: Sequence[HandedOver]) -> list[Ended]:
        """Commit transactions, and return what became of each. It can be repeated for the same transactions.

        Raises:
            KafkaError: A coordinator doesn't respond, or doesn't let the client end a transaction. Call it again.
        """
        return await _each(self._commit, transactions)

    async def _commit(self, transaction: HandedOver) -> Ended:
        try:
            producer = await end_handed_over(self._cluster, transaction, commit=True)
        except AuthorizationError:
            raise
        # The coordinator refused. Find out which state made it refuse.
        except BrokerError as error:
            (state,) = await self._describe([transaction.transactional_id])
            outcome = Outcome.UNKNOWN
            if state.producer_id == transaction.producer_id:
                # No attempt uses the id of a decided transaction again, so the id's last transaction is this one.
                outcome = Outcome.COMMITTED if state.transaction_state in _COMMITTED else outcome
                outcome = Outcome.ABORTED if state.transaction_state in _ABORTED else outcome
            log.warning("%s; its state is %r: %s", error, state.transaction_state, outcome.name.lower())
            return Ended(outcome)
        return Ended(Outcome.COMMITTED, producer)

    async def is_current(self, name: str, producer: ProducerId) -> bool:
        """Return whether an id still has this producer id and epoch, so no other producer has acquired it.

        Raises:
            KafkaError: The coordinator doesn't respond, or doesn't let the client see the id.
        """
        (state,) = await self._describe([name])
        return (state.producer_id, state.producer_epoch) == producer

    async def _describe(self, names: Sequence[str]) -> list[TransactionState]:
        """Return the state of each id. The state of an id that the coordinator doesn't know has only defaults."""
        situation = Situation(DescribeTransactionsRequest.api_key)
        deadline = asyncio.get_running_loop().time() + self._cluster.config.api_timeout
        failure = "no response"
        found: dict[str, TransactionState] = {}
        attempt = 0
        async with deadline_at(deadline, lambda: f"DescribeTransactions of {names[0]!r} and others: {failure}"):
            while left := [name for name in names if name not in found]:
                if attempt:
                    await asyncio.sleep(self._cluster.backoff.delay(attempt))
                attempt += 1
                response = await self._cluster.request(DescribeTransactionsRequest(transactional_ids=left))
                for state in response.transaction_states:
                    code = ErrorCode(state.error_code)
                    if code and classify(code, situation) in RETRIED:
                        failure = code.name
                        continue
                    asked = self._cluster.asked(DescribeTransactionsRequest, transactional_id=state.transactional_id)
                    error = error_for(code, "DescribeTransactions", None, asked)
                    if isinstance(error, AuthorizationError):
                        raise error
                    found[state.transactional_id] = state
        return [found[name] for name in names]

    async def list_open(self, prefix: str) -> list[str]:
        """Return the ids of all tasks with a prefix that have an open transaction.

        Raises:
            KafkaError: The coordinators don't list them.
        """
        request = ListTransactionsRequest(state_filters=["Ongoing"])
        try:
            response = await self._cluster.request(request)
        except PartialResponseError as error:
            log.warning("orphaned transactions of some brokers stay open until the next batch: %s", error)
            response = error.response
        check(response.error_code, "ListTransactions")
        names = [state.transactional_id for state in response.transaction_states]
        return [name for name in names if is_task_id(prefix, name)]

    async def abort(self, names: Sequence[str]) -> None:
        """Abort the open transactions of these ids. Log the ones that can't be aborted now."""
        await _each(self._abort, names)

    async def _abort(self, name: str) -> None:
        try:
            await abort_open(self._cluster, name, self._timeout_ms)
        except KafkaError as error:
            log.warning("the open transaction of %s is not aborted: %s", name, error)
        else:
            log.info("aborted the open transaction of %s, which no batch has", name)


async def _each(call: Callable[[A], Awaitable[T]], arguments: Iterable[A]) -> list[T]:
    """Call a function with each argument, :data:`MAX_CONCURRENT` at a time. Once all calls have ended, raise the first
    failure."""
    limit = asyncio.Semaphore(MAX_CONCURRENT)

    async def limited(argument: A) -> T:
        async with limit:
            return await call(argument)

    results = await asyncio.gather(*map(limited, arguments), return_exceptions=True)
    done: list[T] = []
    for result in results:
        if isinstance(result, BaseException):
            raise result
        done.append(result)
    return done
