"""Asking the leaders of partitions, again where one has moved."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Protocol, TypeVar

from aiokproto.cluster import ClusterClient
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerConnectionError, BrokerError, DeadlineError, KafkaError, error_for
from aiokproto.spark.options import ReadOptions
from aiokproto.types import TopicPartition


class Answer(Protocol):
    """What a leader says of a partition."""

    error_code: int


A = TypeVar("A", bound=Answer)
Ask = Callable[[int, list[TopicPartition]], Awaitable[Iterable[tuple[TopicPartition, A]]]]


async def ask_leaders(
    cluster: ClusterClient, api: str, partitions: Collection[TopicPartition], ask: Ask[A], options: ReadOptions
) -> dict[TopicPartition, A]:
    """What the leaders say of partitions; those that fail are asked again.

    Args:
        cluster: The cluster, which knows the topics.
        api: The name of the request, for messages.
        partitions: What to ask about.
        ask: One request to a leader, about some of the partitions.
        options: How often to try again, and when.

    Raises:
        BrokerError, BrokerConnectionError, DeadlineError: The last failure, after ``fetchOffset.numRetries``.
    """
    found: dict[TopicPartition, A] = {}
    retries = options.offset_retries
    while True:
        failure: KafkaError | None = None
        for leader, asked in _by_leader(cluster, set(partitions) - found.keys()).items():
            try:
                if leader is None:
                    raise error_for(ErrorCode.LEADER_NOT_AVAILABLE, f"{api} of {asked[0]}")
                for partition, answer in await ask(leader, asked):
                    if answer.error_code:
                        failure = error_for(answer.error_code, f"{api} of {partition} at broker {leader}")
                    else:
                        found[partition] = answer
            except (BrokerConnectionError, DeadlineError, BrokerError) as error:
                failure = error
        if failure is None:
            return found
        if not retries or (isinstance(failure, BrokerError) and not failure.retriable):
            raise failure
        cluster.invalidate(str(failure))
        retries -= 1
        await asyncio.sleep(options.offset_retry_interval)


def _by_leader(cluster: ClusterClient, partitions: Iterable[TopicPartition]) -> dict[int | None, list[TopicPartition]]:
    groups: dict[int | None, list[TopicPartition]] = {}
    for partition in sorted(partitions):
        groups.setdefault(cluster.snapshot.leader(*partition), []).append(partition)
    return groups
