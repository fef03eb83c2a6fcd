"""Planning of a stream's batches: where each starts and ends, and how many offsets it covers.

The planner has one client for the life of a query, which runs in one process. Tasks get fixed ranges, as in a batch
read.

The limits (``maxOffsetsPerTrigger``, ``minOffsetsPerTrigger``) count offsets, as in Spark's own connector, so
transaction markers, aborted and compacted records count, too.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from math import ceil

from aiokproto.cluster import ClusterClient
from aiokproto.cluster.exposure import REPORTED_ELSEWHERE
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponseTopic
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import error_for
from aiokproto.runtime.timeouts import deadline_at
from aiokproto.spark.connection import client_config
from aiokproto.spark.offsets import EARLIEST, LATEST, DataLossError, OffsetRange, resolve, split
from aiokproto.spark.options import StreamOptions
from aiokproto.spark.planning import TopicChangedError, find_partitions, list_offsets, request_logs
from aiokproto.spark.positions import Epochs
from aiokproto.spark.stream.offsets import StreamOffset
from aiokproto.spark.truncation import TruncationError, describe, find_divergences, request_epochs
from aiokproto.types import TopicPartition

logger = logging.getLogger("aiokproto.spark")

_MAX_NAMED = 10
"""Maximum number of partitions that a message names."""

_CONTINUES = "Set failOnDataLoss=false to continue with the records that are there"


@dataclass(frozen=True)
class Ends:
    """The partitions of a stream, and where they end.

    Attributes:
        offsets: For each partition, the offset after its last record.
        leader_epochs: The leader epochs of these ends; -1 if unknown.
        topic_ids: The topics' ids; all zero with brokers before 2.8.
    """

    offsets: Mapping[TopicPartition, int]
    leader_epochs: Mapping[TopicPartition, int]
    topic_ids: Mapping[str, bytes]


class StreamPlanner:
    """Plans the batches of one query.

    Attributes:
        latest: The ends of the partitions when the planner last requested them, for progress reports.
    """

    def __init__(self, options: StreamOptions) -> None:
        self._options = options
        self._read = options.read
        self._cluster = ClusterClient(client_config(options.read.connection))
        self._initial: StreamOffset | None = None
        self._target: Ends | None = None
        self._patience = Patience(options.min_offsets or 0, options.max_delay)
        # The start of each partition that this process has seen, for releases of Spark that don't say where a batch
        # starts.
        self._starts: dict[TopicPartition, int] = {}
        self.latest: Mapping[TopicPartition, int] = {}

    async def start(self) -> None:
        """Connect."""
        REPORTED_ELSEWHERE.set(True)
        await self._cluster.start()

    async def close(self) -> None:
        """Disconnect."""
        await self._cluster.close()

    async def initial(self) -> StreamOffset:
        """Return where the query starts if it has no checkpoint. It stays the same for the life of this process.

        Raises:
            KafkaError: See :func:`aiokproto.spark.planning.plan`.
        """
        if self._initial is None:
            partitions = await self._partitions()
            options, ids = self._read, self._topic_ids(partitions)
            options.starting.check_covers(partitions)
            logs = await request_logs(self._cluster, options, partitions, ids)
            starts = {}
            for partition in partitions:
                found, warning = resolve(
                    partition,
                    logs[partition],
                    options.starting,
                    options.ending,
                    unmatched_is_latest=options.unmatched_is_latest,
                    fail=options.fail_on_data_loss,
                )
                if warning:
                    logger.warning("%s", warning)
                starts[partition] = found.start
            self._starts |= starts
            self._initial = StreamOffset(starts, topic_ids=_known(ids), initial=True)
        return self._initial

    async def fix_end(self) -> None:
        """Let the stream end where the partitions end now. The next run reads later records and partitions."""
        self._target = await self._ends(await self._partitions())

    async def end(self, start: StreamOffset | None, *, most: int | None, waits: bool) -> StreamOffset | None:
        """Return the end of the next batch; None if there is nothing for one.

        Args:
            start: The end of the previous batch, or the initial offset. None if Spark doesn't say it; if so, there are
                no limits, and nothing is compared with earlier batches.
            most: The maximum number of offsets in the batch; None for no limit.
            waits: Whether the batch may wait for more offsets.

        Raises:
            DataLossError, TruncationError: Records between ``start`` and the ends are lost, and ``failOnDataLoss`` is
                set.
            TopicChangedError: A topic was deleted and created again since the previous batch.
            KafkaError: The cluster doesn't respond, or responds with an error.
        """
        partitions = await self._partitions()
        ends = await self._ends(partitions)
        if start is None:
            return await self._unlimited(ends)
        self._check_topics(start, ends.topic_ids)
        kept = self._without_absent(start, partitions)
        firsts = await list_offsets(self._cluster, dict.fromkeys(ends.offsets, EARLIEST), self._read)
        moved = await self._moved(kept, ends, {one: first.offset for one, first in firsts.items()})
        before = {**kept.offsets, **moved}
        starts = {one: before.get(one, firsts[one].offset) for one in ends.offsets}
        # Right after an election a leader may report an earlier end than the former leader, because it has to hear from
        # the other replicas first.
        until = {one: max(end, starts[one]) for one, end in ends.offsets.items()}
        if waits and self._waits(sum(until.values()) - sum(starts.values()), start):
            return None
        if most is not None:
            until = divide(starts, until, most)
        new = {one: first for one, first in starts.items() if start.initial or one not in start.offsets}
        if until == start.offsets and not new and not moved:
            return None
        ranges = [
            OffsetRange(
                partition.topic, b"", partition.partition, starts[partition], end, ends.leader_epochs[partition]
            )
            for partition, end in until.items()
        ]
        epochs = await request_epochs(self._cluster, ranges, self._read)
        last = {one: epochs.get(one) or _epochs_before(start, one, end) for one, end in until.items()}
        return StreamOffset(until, new, moved, last, _known(ends.topic_ids))

    async def ranges(self, start: StreamOffset, end: StreamOffset) -> list[OffsetRange]:
        """Return the ranges of a batch, one for each task.

        Raises:
            KafkaError: The start of a partition had to be requested, and that failed.
        """
        starts = {one: end.start_of(one, start) for one in end.offsets}
        # The checkpoint lacks them if another source, or another release of Spark, wrote it.
        if unknown := [one for one, first in starts.items() if first is None]:
            await self._partitions()
            found = await list_offsets(self._cluster, dict.fromkeys(unknown, EARLIEST), self._read)
            starts |= {one: found[one].offset for one in unknown}
        ranges = [
            OffsetRange(
                partition.topic,
                bytes.fromhex(end.topic_ids[partition.topic]) if partition.topic in end.topic_ids else ZERO_UUID,
                partition.partition,
                first,
                end.offsets[partition],
            )
            for partition, first in starts.items()
            if first is not None and first < end.offsets[partition]
        ]
        return split(ranges, self._read.min_partitions, self._read.max_records_per_partition)

    async def _partitions(self) -> list[TopicPartition]:
        """Return the partitions of the stream as they are now."""
        await self._refresh()
        return await find_partitions(self._cluster, self._read)

    async def _refresh(self) -> None:
        """Update the metadata if topics have changed, which the client itself does only every few minutes."""
        selection = self._read.selection
        names = selection.topics or tuple(selection.assignment or ())
        wanted = None if selection.pattern is not None else [MetadataRequestTopic(name=name) for name in names]
        generation = self._cluster.snapshot.generation
        response = await self._cluster.request(MetadataRequest(topics=wanted, allow_auto_topic_creation=False))
        changed = [
            topic.name
            for topic in response.topics
            if topic.name is not None
            and not topic.error_code
            and (selection.pattern is None or re.search(selection.pattern, topic.name))
            and self._differs(topic.name, topic)
        ]
        if changed:
            self._cluster.metadata.invalidate(f"topics of a stream have changed: {', '.join(changed)}", changed)
            timeout = self._cluster.config.api_timeout
            async with deadline_at(
                _now() + timeout, lambda: f"metadata of {', '.join(changed)}: none in {timeout:g} s"
            ):
                await self._cluster.metadata.wait_for_update(generation)

    def _differs(self, name: str, topic: MetadataResponseTopic) -> bool:
        known = self._cluster.snapshot.topics.get(name)
        # The client requests an unknown topic when it needs it.
        return known is not None and (topic.topic_id, len(topic.partitions)) != (known.topic_id, len(known.partitions))

    def _topic_ids(self, partitions: Collection[TopicPartition]) -> dict[str, bytes]:
        topics = self._cluster.snapshot.topics
        names = sorted({one.topic for one in partitions})
        # A deleted topic can leave the metadata at any time, even while its offsets are requested.
        if absent := [name for name in names if name not in topics]:
            raise error_for(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"metadata of {absent[0]}")
        return {name: topics[name].topic_id for name in names}

    async def _ends(self, partitions: Collection[TopicPartition]) -> Ends:
        found = await list_offsets(self._cluster, dict.fromkeys(partitions, LATEST), self._read)
        self.latest = {one: found[one].offset for one in partitions}
        ends = Ends(self.latest, {one: found[one].leader_epoch for one in partitions}, self._topic_ids(partitions))
        if self._target is None:
            return ends
        target = self._target.offsets
        fixed = {one: min(target[one], end) for one, end in ends.offsets.items() if one in target}
        return replace(ends, offsets=fixed, topic_ids={one.topic: ends.topic_ids[one.topic] for one in fixed})

    async def _unlimited(self, ends: Ends) -> StreamOffset:
        new = [one for one in ends.offsets if one not in self._starts]
        if new and self._starts:
            found = await list_offsets(self._cluster, dict.fromkeys(new, EARLIEST), self._read)
            self._starts |= {one: found[one].offset for one in new}
        starts = {one: self._starts[one] for one in ends.offsets if one in self._starts}
        until = {one: max(end, starts.get(one, 0)) for one, end in ends.offsets.items()}
        return StreamOffset(until, starts, topic_ids=_known(ends.topic_ids))

    def _check_topics(self, start: StreamOffset, topic_ids: Mapping[str, bytes]) -> None:
        for name, topic_id in topic_ids.items():
            expected = start.topic_ids.get(name, "")
            if expected and topic_id != ZERO_UUID and topic_id.hex() != expected:
                raise TopicChangedError(
                    f"topic {name} was deleted and created again: its id is {topic_id.hex()}, the checkpoint has "
                    f"{expected}; its offsets belong to other records, so start the query with a new checkpoint"
                )

    def _without_absent(self, start: StreamOffset, partitions: Collection[TopicPartition]) -> StreamOffset:
        """Return the offset without partitions that don't exist any more, or that the options no longer select."""
        absent = sorted(start.offsets.keys() - set(partitions))
        if absent:
            named = f"{', '.join(map(str, absent[:_MAX_NAMED]))}{' …' if len(absent) > _MAX_NAMED else ''}"
            problem = f"the checkpoint has partitions that the topics to read do not have: {named}"
            if self._read.fail_on_data_loss:
                raise DataLossError(f"{problem}. Set failOnDataLoss=false to continue without them")
            logger.warning("%s", problem)
        kept = {one: offset for one, offset in start.offsets.items() if one not in set(absent)}
        return replace(start, offsets=kept)

    async def _moved(
        self, start: StreamOffset, ends: Ends, firsts: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Return where the batch starts in partitions whose logs lost records at or before their offsets."""
        positions = {one: start.position(one) for one in start.offsets if one in ends.offsets}
        divergences = await find_divergences(self._cluster, positions, self._read)
        if divergences and self._read.fail_on_data_loss:
            raise TruncationError(divergences, _CONTINUES)
        moved: dict[TopicPartition, int] = {}
        for partition, position in sorted(positions.items()):
            offset, end = position.offset, self.latest[partition]
            if partition in divergences:
                logger.warning(
                    "%s %s; continuing with the current records", partition, describe(divergences[partition])
                )
                moved[partition] = divergences[partition].offset
            elif offset < firsts[partition]:
                problem = (
                    f"{partition} begins at offset {firsts[partition]}: {firsts[partition] - offset} offsets from "
                    f"{offset} on were deleted before they were read"
                )
                self._lost(problem)
                moved[partition] = firsts[partition]
            # If there are epochs, the log has all records that were read: find_divergences() has compared them.
            elif end < offset and not position.epochs:
                self._lost(f"{partition} ends at offset {end}, but was read up to {offset}: the log was truncated")
                moved[partition] = end
        return moved

    def _lost(self, problem: str) -> None:
        if self._read.fail_on_data_loss:
            raise DataLossError(f"{problem}. {_CONTINUES}")
        logger.warning("%s", problem)

    def _waits(self, count: int, start: StreamOffset) -> bool:
        # The first batch stores where the query has started, so it never waits.
        return not start.initial and self._target is None and self._patience.waits(count, _now())


def _epochs_before(start: StreamOffset, partition: TopicPartition, end: int) -> Epochs:
    return start.position(partition).cut(end).epochs if partition in start.offsets else ()


def _known(topic_ids: Mapping[str, bytes]) -> dict[str, str]:
    return {name: topic_id.hex() for name, topic_id in topic_ids.items() if topic_id != ZERO_UUID}


def _now() -> float:
    return asyncio.get_running_loop().time()


def divide(
    starts: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int], limit: int
) -> dict[TopicPartition, int]:
    """Return the ends of a batch with about ``limit`` offsets, divided in proportion to what each partition has.

    A partition with new offsets gets at least one, so no partition starves. The sum may therefore exceed the limit, by
    at most one for each partition.

    Args:
        starts: Where the batch starts in each partition of ``ends``.
        ends: Where the partitions end now.
        limit: The number of offsets, at least 1.
    """
    sizes = {one: max(end - starts[one], 0) for one, end in ends.items()}
    total = sum(sizes.values())
    if total <= limit:
        return dict(ends)
    shares = {one: limit * size / total for one, size in sizes.items()}
    return {
        one: starts[one] + min(sizes[one], ceil(share) if share < 1 else int(share)) for one, share in shares.items()
    }


class Patience:
    """Decides whether a stream waits for ``minOffsetsPerTrigger`` records, for at most ``maxTriggerDelay``.

    Args:
        least: The minimum number of offsets in a batch.
        delay: How long the stream may wait for them (s).
    """

    def __init__(self, least: int, delay: float) -> None:
        self._least = least
        self._delay = delay
        self._last: float | None = None

    def waits(self, count: int, now: float) -> bool:
        """Return whether ``count`` offsets are still too few. The first batch never waits, as in Spark's connector."""
        if self._last is not None and count < self._least and now - self._last < self._delay:
            return True
        self._last = now
        return False
