"""The embedded broker with the quirks of other implementations: their versions, and what they respond.

Each quirk is a function that adds faults to a cluster. docs/compatibility.md has their sources.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from aiokproto.broker import Cluster
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.broker.request_context import CloseConnection
from aiokproto.codec.messages.api_versions import ApiVersion, ApiVersionsRequest, ApiVersionsResponse
from aiokproto.codec.messages.fetch import FetchRequest, FetchResponse
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
from aiokproto.codec.messages.list_offsets import ListOffsetsRequest, ListOffsetsResponse
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataResponse
from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
from aiokproto.codec.messages.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.schema import Response, Struct
from aiokproto.codec.wire import ZERO_UUID
from aiokproto.error_codes import ErrorCode
from aiokproto.records import Compression, decode

EVENT_HUBS: Mapping[int, str] = {
    0: "3-7",
    1: "4-6",
    2: "0-7",
    3: "0-5",
    8: "0-8",
    9: "0-8",
    10: "0-4",
    11: "0-7",
    12: "0-4",
    13: "0-4",
    14: "0-5",
    15: "0-5",
    16: "0-4",
    17: "0-1",
    18: "0-3",
    19: "0-6",
    20: "0-2",
    22: "0-1",
    23: "0",
    32: "0-2",
    36: "0-1",
    37: "0-1",
    42: "0-2",
}
"""It has no transactions."""

EVENT_HUBS_OF_2019: Mapping[int, str] = {
    0: "3-5",
    1: "4-6",
    2: "0-2",
    3: "0-5",
    8: "0-3",
    9: "0-3",
    10: "0-1",
    11: "0-2",
    12: "0-1",
    13: "0-1",
    14: "0-1",
    15: "0-1",
    16: "0-1",
    17: "0",
    18: "0-1",
    19: "0-2",
    20: "0-2",
    23: "0",
}
"""It has no producer ids either."""

REDPANDA: Mapping[int, str] = {
    0: "0-7",
    1: "4-11",
    2: "0-4",
    3: "0-8",
    8: "0-7",
    9: "1-7",
    10: "0-4",
    11: "0-5",
    12: "0-3",
    13: "0-2",
    14: "0-3",
    15: "0-4",
    16: "0-3",
    17: "0-1",
    18: "0-3",
    19: "0-5",
    20: "0-4",
    21: "0-1",
    22: "0-3",
    23: "0-3",
    24: "0-1",
    25: "0-3",
    26: "0-3",
    28: "0-3",
    32: "0-4",
    33: "0-1",
    36: "0-1",
    37: "0-1",
    42: "0-1",
    44: "0",
}
"""No flexible Produce, Fetch or Metadata, no topic ids, and no groups of the consumer protocol. The versions of
Produce, Fetch, Metadata and OffsetFetch are in its sources; the others are assumed."""

WARPSTREAM: Mapping[int, str] = {
    0: "0-9",
    1: "0-11",
    2: "0-7",
    3: "0-9",
    8: "0-8",
    9: "0-8",
    10: "0-4",
    11: "0-9",
    12: "0-4",
    13: "0-5",
    14: "0-5",
    15: "0-5",
    16: "0-4",
    17: "0-1",
    18: "0-3",
    19: "0-7",
    20: "0-6",
    22: "0-4",
    32: "0-4",
    36: "0-2",
    24: "0-3",
    25: "0-3",
    26: "0-3",
    28: "0-3",
}
"""The APIs that its documentation lists; the versions are assumed. No OffsetForLeaderEpoch: there are no leaders."""

MSK_SERVERLESS: Mapping[int, str] = {
    0: "7-9",
    1: "10-12",
    2: "5-6",
    3: "7-11",
    8: "6-8",
    9: "5-7",
    10: "2-3",
    11: "4-7",
    12: "2-4",
    13: "2-4",
    14: "2-5",
    15: "2-5",
    16: "2-4",
    17: "1",
    18: "2-3",
    19: "3-7",
    20: "3-6",
    22: "1-4",
    23: "2-4",
    24: "1-3",
    25: "1-3",
    26: "1-3",
    28: "2-3",
}
"""It has no version from before Kafka 2.1, not even of ApiVersions. The last two are assumed."""

VERSIONS = {
    "Event Hubs": EVENT_HUBS,
    "Event Hubs of 2019": EVENT_HUBS_OF_2019,
    "Redpanda": REDPANDA,
    "WarpStream": WARPSTREAM,
    "MSK Serverless": MSK_SERVERLESS,
}

Quirk = Callable[[Cluster], object]


def change(api: Any, how: Callable[[Any, RequestInfo], None]) -> Quirk:
    """Return the quirk that changes the responses of an API."""

    async def act(info: RequestInfo, serve: Serve) -> Response | None:
        response = await serve(info.request)
        if response is not None:
            how(response, info)
        return response

    return lambda cluster: cluster.faults.intercept(api, act)


def close_on_new_api_versions(cluster: Cluster) -> None:
    """ApiVersions from version 4 on closes the connection (Event Hubs)."""

    async def act(info: RequestInfo, serve: Serve) -> Response | None:
        if info.version > 3:
            raise CloseConnection("ApiVersions from version 4 on is unknown")
        return await serve(info.request)

    cluster.faults.intercept(ApiVersionsRequest, act)


def current_epochs(cluster: Cluster) -> None:
    """The first offset, and the offset for a time, come with the leader's current epoch and not the record's
    (Redpanda)."""

    def today(response: ListOffsetsResponse, info: RequestInfo) -> None:
        for topic in response.topics:
            for partition in topic.partitions:
                if partition.leader_epoch >= 0:
                    partition.leader_epoch = cluster.partition(topic.name, partition.partition_index).leader_epoch

    change(ListOffsetsRequest, today)(cluster)


def _foreign_apis(response: ApiVersionsResponse, info: RequestInfo) -> None:
    own = [(1000, 0, 3), (10_000, 2, 2), (0x7FFF, 0, 0), (90, -1, -1), (91, 5, 2)]
    response.api_keys += [ApiVersion(api_key=key, min_version=low, max_version=high) for key, low, high in own]


def _anonymous(response: MetadataResponse, info: RequestInfo) -> None:
    response.controller_id = -1
    if info.version >= 2:
        response.cluster_id = None


def _without_topic_ids(response: MetadataResponse, info: RequestInfo) -> None:
    for topic in response.topics:
        topic.topic_id = ZERO_UUID


def _without_epochs(response: MetadataResponse, info: RequestInfo) -> None:
    for topic in response.topics:
        for partition in topic.partitions:
            partition.leader_epoch = -1


def _without_replicas(response: MetadataResponse, info: RequestInfo) -> None:
    for topic in response.topics:
        for partition in topic.partitions:
            partition.replica_nodes, partition.isr_nodes, partition.offline_replicas = [], [], []


def _without_log_start(response: FetchResponse, info: RequestInfo) -> None:
    for topic in response.responses:
        for partition in topic.partitions:
            partition.log_start_offset = partition.last_stable_offset = -1


def _without_session(response: FetchResponse, info: RequestInfo) -> None:
    response.session_id = 0


def _without_timestamps(response: ListOffsetsResponse, info: RequestInfo) -> None:
    for topic in response.topics:
        for partition in topic.partitions:
            partition.timestamp = partition.leader_epoch = -1


def _tagged(response: Response, info: RequestInfo) -> None:
    if info.version in response.flexible:
        _tag(response)


def _tag(value: object) -> None:
    if isinstance(value, Struct):
        value.unknown_tags = {9_999: b"of another implementation", 2**31 - 1: b""}
        for field in value.fields():
            _tag(getattr(value, field.name))
    elif isinstance(value, list):
        for each in value:
            _tag(each)


def _without_uncommitted(response: OffsetFetchResponse, info: RequestInfo) -> None:
    groups: list[Any] = [response, *response.groups]
    for group in groups:
        for topic in group.topics:
            topic.partitions = [partition for partition in topic.partitions if partition.committed_offset >= 0]
        group.topics = [topic for topic in group.topics if topic.partitions]


def no_offsets_without_commits(cluster: Cluster) -> None:
    """OffsetFetch leaves out partitions without a commit, and has no version that in Kafka never does (Event Hubs)."""

    def earlier(response: ApiVersionsResponse, info: RequestInfo) -> None:
        for api in response.api_keys:
            if api.api_key == OffsetFetchRequest.api_key:
                api.max_version = 8

    change(ApiVersionsRequest, earlier)(cluster)
    change(OffsetFetchRequest, _without_uncommitted)(cluster)


class Renumbered:
    """Node ids are large, and every Metadata response has new ones; so do responses about coordinators (WarpStream).

    All are the one broker. Its port stands for what an agent's address does.
    """

    def __init__(self) -> None:
        self.number = 1_000_000_000

    def __call__(self, cluster: Cluster) -> None:
        change(MetadataRequest, self._metadata)(cluster)
        change(FindCoordinatorRequest, self._coordinator)(cluster)

    def _metadata(self, response: MetadataResponse, info: RequestInfo) -> None:
        self.number += 7919
        for broker in response.brokers:
            broker.node_id = self.number
        response.controller_id = self.number
        for topic in response.topics:
            for partition in topic.partitions:
                partition.leader_id, partition.leader_epoch = self.number, -1
                partition.replica_nodes = partition.isr_nodes = [self.number]

    def _coordinator(self, response: FindCoordinatorResponse, info: RequestInfo) -> None:
        self.number += 7919
        if info.version < 4:
            response.node_id = self.number
        for coordinator in response.coordinators:
            coordinator.node_id = self.number


def epoch_unknown_until_written(cluster: Cluster) -> None:
    """OffsetForLeaderEpoch knows no epoch while nothing is written in the leader's own (kfake).

    Kafka's leaders know that the epochs before have ended.
    """

    async def act(info: RequestInfo, serve: Serve) -> Response | None:
        response = await serve(info.request)
        assert isinstance(info.request, OffsetForLeaderEpochRequest)
        if isinstance(response, OffsetForLeaderEpochResponse):
            asked = {
                (topic.topic, part.partition): part.leader_epoch < part.current_leader_epoch
                for topic in info.request.topics
                for part in topic.partitions
            }
            for topic in response.topics:
                for part in topic.partitions:
                    at_end = part.end_offset == cluster.partition(topic.topic, part.partition).end_offset
                    if asked[topic.topic, part.partition] and at_end:
                        part.leader_epoch = part.end_offset = -1
        return response

    cluster.faults.intercept(OffsetForLeaderEpochRequest, act)


def only_gzip(cluster: Cluster) -> None:
    """Batches of another compression are UNSUPPORTED_FOR_MESSAGE_FORMAT (Event Hubs)."""

    def other(info: RequestInfo) -> bool:
        assert isinstance(info.request, ProduceRequest)
        parts = [part for topic in info.request.topic_data for part in topic.partition_data]
        batches = [batch for part in parts if part.records is not None for batch in decode(part.records)]
        return any(batch.compression not in (Compression.NONE, Compression.GZIP) for batch in batches)

    cluster.faults.fail(ProduceRequest, ErrorCode.UNSUPPORTED_FOR_MESSAGE_FORMAT, when=other)


QUIRKS: Mapping[str, Quirk] = {
    "ApiVersions from 4 on closes the connection": close_on_new_api_versions,
    "APIs of its own": change(ApiVersionsRequest, _foreign_apis),
    "no cluster id, no controller": change(MetadataRequest, _anonymous),
    "no topic ids": change(MetadataRequest, _without_topic_ids),
    "no leader epochs": change(MetadataRequest, _without_epochs),
    "no replicas": change(MetadataRequest, _without_replicas),
    "no log start offset": change(FetchRequest, _without_log_start),
    "no fetch sessions": change(FetchRequest, _without_session),
    "no timestamps in ListOffsets": change(ListOffsetsRequest, _without_timestamps),
    "no offsets of partitions without a commit": no_offsets_without_commits,
    "the current leader epoch with every offset": current_epochs,
    "unknown tags everywhere": change(None, _tagged),
}
"""The changes that need no object of their own, by what a broker does."""
