"""Where the state topic has the newest snapshot of a prefix, as far as it is known.

It is the committed offset of a group that nobody joins: it needs no other topic, is there for the next driver wherever
that runs, and goes with the state topic. It is a hint. Any snapshot at or after it is the whole state at its time, so
with an old offset more is read, and without one all; neither is ever wrong. So it is committed after the transaction,
outside of it, and no failure here fails a batch.
"""

from __future__ import annotations

import asyncio
import logging

from aiokproto.cluster import ClusterClient
from aiokproto.errors import AuthorizationError, KafkaError
from aiokproto.group.offsets import GroupOffsets
from aiokproto.spark.sink.exactly_once.protocol import driver_id
from aiokproto.types import OffsetAndMetadata, TopicPartition

log = logging.getLogger("aiokproto.spark")


class SnapshotOffset:
    """The offset of a prefix's snapshot."""

    def __init__(self, cluster: ClusterClient, topic: str, prefix: str) -> None:
        self._cluster = cluster
        self._partition = TopicPartition(topic, 0)
        # As the driver's transactional id.
        self._group = GroupOffsets(cluster, driver_id(prefix))

    async def load(self) -> int | None:
        """Return the offset; None if there is none, or it cannot be read."""
        try:
            found = await self._group.lookup([self._partition], None, self._deadline())
        except KafkaError as error:
            self._log("is read as a whole", error)
            return None
        for failure in found.failures.values():
            self._log("is read as a whole", failure)
        committed = found.found.get(self._partition)
        return None if committed is None else committed.offset

    async def store(self, offset: int) -> None:
        """Remember the offset of a snapshot that is committed."""
        try:
            result = await self._group.commit({self._partition: OffsetAndMetadata(offset)}, None, self._deadline())
        except KafkaError as error:
            self._log("will be read from an older snapshot", error)
            return
        if code := result.codes[self._partition]:
            log.debug("group %s: the offset of a snapshot is not committed: %s", self._group.group_id, code.name)

    def _deadline(self) -> float:
        return asyncio.get_running_loop().time() + self._cluster.config.api_timeout

    def _log(self, consequence: str, error: KafkaError) -> None:
        # Permission for the group is optional.
        level = logging.DEBUG if isinstance(error, AuthorizationError) else logging.WARNING
        log.log(level, "stateTopic=%s %s: %s", self._partition.topic, consequence, error)
