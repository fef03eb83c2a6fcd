"""Transactions that one process writes and another ends: identifiers that outlive the process, and how to end them.

The coordinator identifies a transaction by its transactional id, producer id and epoch, not by a connection. So a
process can write everything (:meth:`Transaction.hand_over <aiokproto.producer.Transaction.hand_over>`) and exit, and
any other process that knows these three can commit or abort. Without two-phase commit (KIP-939) the coordinator still
aborts a transaction after its timeout.

**A repeated end is executed once.** A transaction of version 2 has its own epoch, and EndTxn returns the next epoch: a
repeated EndTxn carries the earlier epoch, and gets the same response. In version 1 a repeated EndTxn refers to a
transaction that is complete, and is confirmed again. Both hold until a producer starts with the transactional id.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from aiokproto.cluster import ClusterClient
from aiokproto.errors import ConfigurationError
from aiokproto.producer.producer_id import ProducerId
from aiokproto.producer.transaction_requests import EndTxnExchange
from aiokproto.producer.transactional_id import TransactionalId

_TEXT = re.compile(r"(\d{1,19}):(\d{1,5})")
_MAX_STATE = (0x7FFFFFFFFFFFFFFF, 0x7FFF)


class PreparedTransaction(NamedTuple):
    """A transaction that waits for a decision. Store ``str(state)`` together with the decision.

    The string is the same as Java's ``PreparedTxnState``: ``"producer_id:epoch"``.

    Attributes:
        producer_id: The producer id that wrote its records.
        epoch: The epoch of these records.
    """

    producer_id: int
    epoch: int

    def __str__(self) -> str:
        return f"{self.producer_id}:{self.epoch}"

    @classmethod
    def parse(cls, text: str) -> PreparedTransaction:
        """Return the transaction whose ``str()`` is ``text``.

        Raises:
            ConfigurationError: ``text`` isn't in this form.
        """
        found = _TEXT.fullmatch(text) if isinstance(text, str) else None
        if found is None or (state := cls(int(found[1]), int(found[2]))) > _MAX_STATE or state.epoch > _MAX_STATE[1]:
            raise ConfigurationError(f'{text!r} names no prepared transaction: expected "producer_id:epoch"')
        return state


class HandedOver(NamedTuple):
    """Identifies a transaction that has been written but not ended.

    Attributes:
        transactional_id: The transactional id.
        producer_id: The producer id that wrote its records.
        epoch: The epoch of these records.
        v2: Whether it has version 2 (KIP-890), and must be ended that way.
    """

    transactional_id: str
    producer_id: int
    epoch: int
    v2: bool


async def end_handed_over(cluster: ClusterClient, transaction: HandedOver, *, commit: bool) -> ProducerId:
    """Commit or abort. A repeat with the same decision is confirmed again. If cancelled, it may have taken effect.

    Returns:
        The producer id and epoch that the transactional id has now.

    Raises:
        DeadlineError: No response within ``default_api_timeout_ms``: it may have taken effect.
        BrokerError: The coordinator refuses: it has aborted the transaction, or doesn't know it.
    """
    name = TransactionalId(transaction.transactional_id, 0, two_phase=False)
    name.connect(cluster)
    name.current = ProducerId(transaction.producer_id, transaction.epoch)
    response = await name.send(EndTxnExchange(name.identity, commit=commit, v2=transaction.v2), "EndTxn")
    if response.producer_id < 0:
        return name.current
    return ProducerId(response.producer_id, response.producer_epoch)


async def abort_open(cluster: ClusterClient, transactional_id: str, timeout_ms: int) -> None:
    """Fence the producer that has a transactional id, and abort its open transaction.

    Args:
        cluster: Sends the requests.
        transactional_id: The id.
        timeout_ms: A transaction timeout that the brokers allow. It never applies, since no transaction is started.

    Raises:
        KafkaError: The request was refused, or got no response.
    """
    name = TransactionalId(transactional_id, timeout_ms, two_phase=False)
    name.connect(cluster)
    await name.initialize()
