"""Committing and fetching a group's offsets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from aiokproto.cluster import ClusterClient, CoordinatorKind
from aiokproto.cluster.coordinator_requests import CoordinatorRequests
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError, error_for
from aiokproto.failures import Action, classify
from aiokproto.group.offset_requests import CommitExchange, FetchExchange
from aiokproto.types import GroupMetadata, OffsetAndMetadata, TopicPartition


class CommitResult(NamedTuple):
    """The result of a commit.

    Attributes:
        codes: The error code of each partition; NONE if it was committed.
        generation: The generation or member epoch it was sent in; -1 if sent from outside the group.
    """

    codes: dict[TopicPartition, ErrorCode]
    generation: int


class FoundOffsets(NamedTuple):
    """The result of a lookup. Each requested partition is in one of the two.

    Attributes:
        found: The committed offsets; None for a partition without one.
        failures: The errors of individual partitions.
    """

    found: dict[TopicPartition, OffsetAndMetadata | None]
    failures: dict[TopicPartition, BrokerError]


class GroupOffsets:
    """Commits offsets and fetches committed offsets.

    Topics are identified by id if the metadata contains all ids and the coordinator supports it, else by name.

    Invariant: results cover exactly the requested partitions, in any version, and an offset of a deleted topic is never
    committed for a new topic of the same name.
    """

    def __init__(self, cluster: ClusterClient, group_id: str) -> None:
        self.group_id = group_id
        self._cluster = cluster
        self._requests = CoordinatorRequests(cluster, CoordinatorKind.GROUP, group_id)

    async def commit(
        self, offsets: Mapping[TopicPartition, OffsetAndMetadata], member: GroupMetadata | None, at: float
    ) -> CommitResult:
        """Commit as ``member``. If it's None, commit from outside the group, which works while the group has no
        members.

        Args:
            offsets: The offsets.
            member: The member that commits, or None.
            at: The deadline (loop time).

        Raises:
            DeadlineError: There was no response in time.
            KafkaError: The request failed permanently.
        """
        # `member` is the identity that the caller has checked in this turn of the event loop.
        exchange = CommitExchange(self._cluster, self.group_id, offsets, member)
        response = await self._requests.send(exchange, at)
        return CommitResult(exchange.codes(response), exchange.request.generation_id_or_member_epoch)

    async def lookup(
        self, partitions: Iterable[TopicPartition], member: GroupMetadata | None, at: float, *, partly: bool = False
    ) -> FoundOffsets:
        """Return committed offsets, or None for partitions without one.

        Waits for open transactions that commit offsets of these partitions (KIP-447), at any isolation level: if a
        consumer started before they end, it would process the records again that they are about to commit.

        Args:
            partitions: The partitions.
            member: The member of a consumer group (KIP-848) that makes the request, or None for a non-member. The
                coordinator rejects a member that it has removed, or that has an old epoch.
            at: The deadline (loop time).
            partly: Whether to return as soon as some offsets are found. If so, partitions whose offset the coordinator
                does not know yet are returned as failures, instead of waiting for them.

        Raises:
            BrokerError: The coordinator rejected the request.
            DeadlineError: There was no response in time.
        """
        exchange = FetchExchange(self._cluster, self.group_id, partitions, member, partly=partly)
        response = await self._requests.send(exchange, at)
        context = f"OffsetFetch of group {self.group_id!r}"
        asked = self._cluster.asked(exchange.request_type, group=self.group_id)
        top, entries = exchange.entries(response)
        if top and classify(ErrorCode(top), exchange.situation) is Action.ACCEPT:
            return FoundOffsets(dict.fromkeys(exchange.partitions), {})
        if top:
            raise error_for(top, context, None, asked)
        found: dict[TopicPartition, OffsetAndMetadata | None] = {}
        failures: dict[TopicPartition, BrokerError] = {}
        for partition in exchange.partitions:
            entry = entries.get(partition)
            if entry is None:
                # Several consecutive responses have left it out (FetchExchange.failure).
                found[partition] = None
                continue
            if entry.error_code:
                failures[partition] = error_for(
                    entry.error_code, f"{context} for {partition}", None, asked._replace(topic=partition.topic)
                )
                continue
            position = OffsetAndMetadata(entry.committed_offset, entry.metadata or "", entry.committed_leader_epoch)
            # -1 means that no offset is committed.
            found[partition] = position if entry.committed_offset >= 0 else None
        return FoundOffsets(found, failures)
