"""Commits of a stream's offsets to a consumer group, so that lag monitors see the query.

The checkpoint decides where a query continues. The group's offsets are for monitors, and the query never reads them.
The source itself doesn't commit because Spark reports the end of a batch to it only when it plans the next one, and
never reports the end of the last batch. A listener is called for every batch as soon as it's done.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.listener import StreamingQueryListener

from aiokproto.cluster import ClusterClient
from aiokproto.cluster.exposure import REPORTED_ELSEWHERE
from aiokproto.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokproto.errors import ConfigurationError, KafkaError, error_for
from aiokproto.spark.connection import client_config
from aiokproto.spark.options import parse_connection
from aiokproto.spark.stream.offsets import CheckpointError, StreamOffset, parse_offset
from aiokproto.spark.worker import worker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
    )

logger = logging.getLogger("aiokproto.spark")


class GroupOffsets(StreamingQueryListener):
    """A listener that commits the end of every batch; :func:`commit_group_offsets` creates it."""

    def __init__(self, group_id: str, connection: Mapping[str, Any], query: str | None) -> None:
        self._group_id = group_id
        self._connection = connection
        self._query = query

    def onQueryStarted(self, event: QueryStartedEvent) -> None:
        """Do nothing: a query that starts has read nothing."""

    def onQueryProgress(self, event: QueryProgressEvent) -> None:
        """Commit the end of a batch. A failure is a warning in the log, and the next batch commits again."""
        progress = event.progress
        if self._query is not None and progress.name != self._query:
            return
        for source in progress.sources:
            try:
                if offset := _end(source.endOffset):
                    worker().start(self._commit(offset)).result()
            except KafkaError as error:
                logger.warning("the offsets of a stream are not committed to group %s: %s", self._group_id, error)

    def onQueryIdle(self, event: QueryIdleEvent) -> None:
        """Do nothing: there was no batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:
        """Do nothing: the last batch was committed when it was done."""

    async def _commit(self, offset: StreamOffset) -> None:
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for partition, end in sorted(offset.offsets.items()):
            topics.setdefault(partition.topic, []).append(
                OffsetCommitRequestPartition(
                    partition_index=partition.partition,
                    committed_offset=end,
                    committed_leader_epoch=offset.position(partition).epoch,
                    committed_metadata="",
                )
            )
        request = OffsetCommitRequest(
            group_id=self._group_id,
            topics=[OffsetCommitRequestTopic(name=name, partitions=partitions) for name, partitions in topics.items()],
        )
        REPORTED_ELSEWHERE.set(True)
        # Batches may be hours apart, and Spark never says when it needs no more commits, so use a new client for each.
        async with ClusterClient(client_config(self._connection)) as cluster:
            response = await cluster.request(request)
        for result in response.topics:
            for partition_result in result.partitions:
                if partition_result.error_code:
                    raise error_for(
                        partition_result.error_code, f"OffsetCommit of {result.name}-{partition_result.partition_index}"
                    )


def commit_group_offsets(
    spark: SparkSession,
    group_id: str,
    *,
    bootstrap_servers: str | Sequence[str],
    query: str | None = None,
    options: Mapping[str, object] | None = None,
) -> GroupOffsets:
    """Commit the offsets of the session's streams to a consumer group, after every batch, for lag monitors.

    Queries continue where their checkpoint says, not where the group does. The group must have no members. Only streams
    of this source are committed. A failure to commit is logged as a warning, and doesn't disturb the query.

    Args:
        spark: The session.
        group_id: The group.
        bootstrap_servers: Bootstrap servers, ``"host:port,host:port"`` or a list.
        query: The name of the query (``queryName``); by default all queries of the session, which then must read
            different topics.
        options: More options of the data source; they must start with ``kafka.``.

    Returns:
        The listener. ``spark.streams.removeListener`` ends the commits.

    Raises:
        ConfigurationError: An option or argument is invalid.
    """
    if not group_id:
        raise ConfigurationError("group_id is empty: name the group that lag monitors should show")
    servers = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
    connection = parse_connection({**(options or {}), "kafka.bootstrap.servers": servers})
    listener = GroupOffsets(group_id, connection, query)
    spark.streams.addListener(listener)
    return listener


def _end(text: str | None) -> StreamOffset | None:
    """Return the offset of a source; None if it isn't one of this package."""
    try:
        found = json.loads(text or "null")
        return parse_offset(found) if isinstance(found, dict) and "aiokproto" in found else None
    except (ValueError, CheckpointError):
        return None
