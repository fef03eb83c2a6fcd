"""Partitions identified by topic id, as coordinators assign them, and their names (KIP-516)."""

from __future__ import annotations

from base64 import urlsafe_b64encode
from collections.abc import Collection, Iterable
from itertools import groupby
from typing import Any, NamedTuple, TypeVar

from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import UnknownTopicError, error_for
from aiokproto.types import TopicPartition

_LOOK_UP_TIMEOUT = 10.0
"""The timeout for looking up the names of topics, in seconds."""


class TopicIdPartition(NamedTuple):
    """A partition identified by topic id. A topic that is created again gets a new id."""

    topic_id: bytes
    partition: int


Struct = TypeVar("Struct")


def from_topics(topics: Iterable[Any]) -> frozenset[TopicIdPartition]:
    """Return the partitions in a list of structs with a topic id and partitions, as used in heartbeats."""
    return frozenset(TopicIdPartition(entry.topic_id, number) for entry in topics for number in entry.partitions)


def by_topic(partitions: Iterable[TopicIdPartition]) -> dict[bytes, list[int]]:
    """Return partition numbers by topic id, in order."""
    return {
        topic_id: [partition.partition for partition in group]
        for topic_id, group in groupby(sorted(partitions), key=lambda partition: partition.topic_id)
    }


class TopicNames:
    """The names of topic ids, according to the cluster's metadata.

    If an id isn't in the metadata, its topic is new, was created again, or only the coordinator knows that it matches
    the subscription.
    """

    def __init__(self, cluster: ClusterClient) -> None:
        self._cluster = cluster
        self._names: dict[bytes, str] = {}

    def known(self, partitions: Collection[TopicIdPartition]) -> frozenset[TopicIdPartition]:
        """Return the partitions whose topics are in the metadata."""
        snapshot = self._cluster.snapshot
        found = {item.topic_id: snapshot.topic_name(item.topic_id) for item in partitions}
        # Keep the names: when a deleted topic is revoked, its name is no longer in the metadata.
        self._names |= {topic_id: name for topic_id, name in found.items() if name is not None}
        return frozenset(item for item in partitions if found[item.topic_id] is not None)

    def named(self, partitions: Iterable[TopicIdPartition]) -> list[TopicPartition]:
        """Return the partitions, which have to be known, by name and sorted."""
        return sorted(TopicPartition(self._names[item.topic_id], item.partition) for item in partitions)

    def retain(self, partitions: Collection[TopicIdPartition]) -> None:
        """Forget the names of all other topics."""
        ids = {item.topic_id for item in partitions}
        self._names = {topic_id: name for topic_id, name in self._names.items() if topic_id in ids}

    async def look_up(self, partitions: Collection[TopicIdPartition]) -> None:
        """Request the metadata of topics by their ids.

        Raises:
            UnknownTopicError: A broker does not know a topic. It may be new, or may have been deleted in the meantime.
            KafkaError: The request failed.
        """
        ids = sorted({item.topic_id for item in partitions} - self._known_ids(partitions))
        topics = [MetadataRequestTopic(topic_id=topic_id, name=None) for topic_id in ids]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = await self._cluster.request(request, timeout=_LOOK_UP_TIMEOUT)
        found = {topic.topic_id: topic.name for topic in response.topics if topic.name and not topic.error_code}
        if found:
            # Request them by name from now on: they are being read, so every metadata refresh must include them. The
            # snapshot may contain an earlier topic of that name.
            self._cluster.metadata.invalidate("the group assigns topics that the metadata lacks", found.values())
            await self._cluster.topics(found.values(), timeout=_LOOK_UP_TIMEOUT)
        for topic in response.topics:
            if topic.topic_id not in found:
                code = topic.error_code or ErrorCode.UNKNOWN_TOPIC_ID
                raise error_for(code, _context(topic.topic_id))
        if missing := set(ids) - found.keys():
            raise UnknownTopicError(ErrorCode.UNKNOWN_TOPIC_ID, _context(min(missing)))

    def _known_ids(self, partitions: Collection[TopicIdPartition]) -> set[bytes]:
        return {item.topic_id for item in self.known(partitions)}


def _context(topic_id: bytes) -> str:
    return f"metadata of topic id {urlsafe_b64encode(topic_id)[:22].decode()}"
