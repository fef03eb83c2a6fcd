"""The transactions in the logs: the records of each, its end, and what is still open."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field

from aiokproto.broker import Cluster
from aiokproto.records import decode
from aiokproto.records.control import parse_end_transaction


@dataclass
class LoggedTransaction:
    """One transaction in one partition.

    Attributes:
        partition: The partition.
        values: Its records, in order.
        committed: Whether it was committed; None while it has no end.
    """

    partition: int
    values: list[bytes] = field(default_factory=list)
    committed: bool | None = None


def logged_transactions(cluster: Cluster, topic: str, partitions: int) -> list[LoggedTransaction]:
    """Return the transactions in a topic, by partition and in the order in which they started."""
    found: list[LoggedTransaction] = []
    for number in range(partitions):
        log = cluster._running.state.partition(topic, number).log
        is_open: dict[int, LoggedTransaction] = {}
        for batch in decode(log.find(log.start_offset, 1 << 30, at_least_one=True).read()):
            if batch.is_control:
                (marker,) = batch
                end = parse_end_transaction(marker.key, marker.value)
                if batch.producer_id in is_open and end is not None:
                    is_open.pop(batch.producer_id).committed = end.committed
                continue
            if batch.producer_id not in is_open:
                is_open[batch.producer_id] = LoggedTransaction(number)
                found.append(is_open[batch.producer_id])
            is_open[batch.producer_id].values += [record.value or b"" for record in batch]
    return found


def committed_values(cluster: Cluster, topic: str, partitions: int) -> dict[int, list[bytes]]:
    """Return what a reader of committed records finds in each partition, in the order of the transactions' starts."""
    values: dict[int, list[bytes]] = defaultdict(list)
    for transaction in logged_transactions(cluster, topic, partitions):
        if transaction.committed:
            values[transaction.partition] += transaction.values
    return values


def hanging(cluster: Cluster, topic: str, partitions: int) -> list[str]:
    """Return the partitions in which a transaction is open, with the offsets that a reader cannot pass."""
    found = []
    for number in range(partitions):
        log = cluster._running.state.partition(topic, number).log
        if log.last_stable_offset < log.end_offset:
            found.append(f"{topic}-{number}: open from {log.last_stable_offset} of {log.end_offset}")
    return found
