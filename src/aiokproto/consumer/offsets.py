"""Lookups of offsets in the log (ListOffsets): the first, the last, or the first at a timestamp."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from aiokproto.cluster import ClusterClient, TopicInfo
from aiokproto.codec.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import KafkaError, error_for
from aiokproto.failures import Action, Situation, classify
from aiokproto.net.features import TIMES, TRANSACTIONS
from aiokproto.runtime.timeouts import deadline_at
from aiokproto.texts import counted
from aiokproto.types import TopicPartition

MISSING_FOR = 5.0
"""Seconds that brokers may report a topic as nonexistent before it counts as missing: the metadata of new topics takes
time to reach all brokers."""

_LIST_OFFSETS = Situation(ListOffsetsRequest.api_key)


class FoundOffset(NamedTuple):
    """An offset that was looked up; -1 if no record has the timestamp or a later one. The timestamp and epoch are -1 if
    unknown."""

    offset: int
    timestamp: int
    leader_epoch: int


class OffsetLookup:
    """Looks up offsets at the leaders of partitions."""

    def __init__(self, cluster: ClusterClient, read_committed: bool) -> None:
        self._cluster = cluster
        self._read_committed = read_committed

    async def all(self, wanted: Mapping[TopicPartition, int], timeout: float) -> dict[TopicPartition, FoundOffset]:
        """Look up offsets, retrying until all are known.

        Args:
            wanted: Partition → timestamp in ms; -1 for the end of the log, -2 for its start.
            timeout: Seconds.

        Raises:
            UnknownTopicError, AuthorizationError, BrokerError: A lookup was rejected; the message names the partition.
            UnsupportedVersionError: A broker cannot look up times, or has no version in common with this client.
            DeadlineError: Some offsets weren't known in time; the message includes the last failure.
        """
        loop = asyncio.get_running_loop()
        at = loop.time() + timeout
        found: dict[TopicPartition, FoundOffset] = {}
        left = dict(wanted)
        attempt = 0
        failures: dict[TopicPartition, KafkaError] = {}

        def late() -> str:
            partition = next(iter(left))
            why = failures.get(partition, "no response yet")
            return f"ListOffsets of {partition}: no offset in {timeout:g} s: {why}"

        # This deadline covers everything. Each step has its own deadline, which ends an attempt.
        async with deadline_at(at, late):
            while left:
                # Check in each round: if a topic was deleted in the meantime, this raises UnknownTopicError.
                await self._check_known(left, max(at - loop.time(), 0))
                offsets, failures = await self.once(left, max(at - loop.time(), 0))
                found |= offsets
                for failure in failures.values():
                    if not may_pass(failure, _LIST_OFFSETS):
                        raise failure
                left = {partition: left[partition] for partition in failures}
                if left:
                    attempt += 1
                    await asyncio.sleep(self._cluster.backoff.delay(attempt))
        return found

    async def offsets(self, wanted: Mapping[TopicPartition, int], timeout: float) -> dict[TopicPartition, int]:
        """Look up offsets like :meth:`all`, and return them without their timestamps."""
        return {partition: found.offset for partition, found in (await self.all(wanted, timeout)).items()}

    async def _check_known(self, partitions: Collection[TopicPartition], timeout: float) -> None:
        # A partition that doesn't exist has no leader, so its lookup would be retried until the deadline.
        topics = await self._cluster.topics({each.topic for each in partitions}, timeout=timeout)
        for partition in partitions:
            if missing := why_missing(topics, partition):
                raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"ListOffsets of {partition}", missing)

    async def once(
        self, wanted: Mapping[TopicPartition, int], timeout: float
    ) -> tuple[dict[TopicPartition, FoundOffset], dict[TopicPartition, KafkaError]]:
        """Make one attempt. Return offsets and failures; each partition is in one of them."""
        by_node: dict[int, dict[TopicPartition, int]] = {}
        failures: dict[TopicPartition, KafkaError] = {}
        for partition, time in wanted.items():
            node = self._cluster.snapshot.leader(*partition)
            if node is None:
                self._cluster.metadata.invalidate(f"{partition} has no leader")
                missing = why_missing(self._cluster.snapshot.topics, partition)
                code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if missing else ErrorCode.LEADER_NOT_AVAILABLE
                failures[partition] = error_for(code, f"ListOffsets of {partition}", missing)
            else:
                by_node.setdefault(node, {})[partition] = time
        found: dict[TopicPartition, FoundOffset] = {}
        # _query() returns failures as values, unless they end the call.
        for offsets, failed in await asyncio.gather(
            *(self._query(node, part, timeout) for node, part in by_node.items())
        ):
            found |= offsets
            failures |= failed
        return found, failures

    async def _query(
        self, node: int, wanted: Mapping[TopicPartition, int], timeout: float
    ) -> tuple[dict[TopicPartition, FoundOffset], dict[TopicPartition, KafkaError]]:
        try:
            versions = await self._cluster.broker_versions(node, timeout=timeout)
            # Version 0 means something else: it returns the segments that are older than the time.
            if any(time >= 0 for time in wanted.values()):
                versions.require(TIMES)
            request = ListOffsetsRequest(
                replica_id=-1,
                # A broker without transactions has no field for this: all of its records are committed.
                isolation_level=int(self._read_committed and versions.supports(TRANSACTIONS)),
                topics=self._topics(wanted),
                timeout_ms=int(timeout * 1000),
            )
            response = await self._cluster.send(
                request, node, timeout=min(timeout, self._cluster.config.request_timeout)
            )
        except KafkaError as error:
            action = classify(error, _LIST_OFFSETS)
            if action is Action.STOP:
                raise
            if action is not Action.FAIL:
                self._cluster.metadata.invalidate(f"ListOffsets: {error}")
            # All partitions of the broker share one error object.
            return {}, dict.fromkeys(wanted, error)
        found: dict[TopicPartition, FoundOffset] = {}
        failures: dict[TopicPartition, KafkaError] = {}
        for topic in response.topics:
            for entry in topic.partitions:
                partition = TopicPartition(topic.name, entry.partition_index)
                code = ErrorCode(entry.error_code)
                action = classify(code, _LIST_OFFSETS)
                if action is Action.ACCEPT:
                    found[partition] = _found(entry)
                    continue
                failures[partition] = error_for(
                    code,
                    f"ListOffsets of {partition} from broker {node}",
                    None,
                    self._cluster.asked(ListOffsetsRequest, partition.topic),
                )
                if action is Action.REFRESH_METADATA:
                    self._cluster.metadata.invalidate(str(failures[partition]))
        return found, failures

    def _topics(self, wanted: Mapping[TopicPartition, int]) -> list[ListOffsetsTopic]:
        topics: dict[str, ListOffsetsTopic] = {}
        for (name, number), time in wanted.items():
            topic = topics.setdefault(name, ListOffsetsTopic(name=name, partitions=[]))
            # Given the epoch, a leader that has been replaced rejects the request instead of responding from an old log
            # (KIP-320).
            epoch = self._cluster.snapshot.leader_epoch(name, number)
            topic.partitions.append(
                ListOffsetsPartition(partition_index=number, current_leader_epoch=epoch, timestamp=time)
            )
        return list(topics.values())


def may_pass(failure: KafkaError, situation: Situation) -> bool:
    """Return whether a retry can succeed."""
    return classify(failure, situation) not in (Action.FAIL, Action.STOP)


def _found(entry: ListOffsetsPartitionResponse) -> FoundOffset:
    # Version 0 lists the offsets of segments, latest first. With max_num_offsets=1 it lists only one.
    offset = entry.old_style_offsets[0] if entry.old_style_offsets else entry.offset
    return FoundOffset(offset, entry.timestamp, entry.leader_epoch)


def why_missing(topics: Mapping[str, TopicInfo], partition: TopicPartition) -> str | None:
    """Return a message with the number of the topic's partitions, if that's why this one is missing."""
    info = topics.get(partition.topic)
    if info is None or not info.partitions or partition.partition < len(info.partitions):
        return None
    return f"the topic has {counted(len(info.partitions), 'partition')}"


def names(partitions: Iterable[TopicPartition]) -> str:
    """Return the partitions as text."""
    return ", ".join(str(partition) for partition in sorted(partitions))
