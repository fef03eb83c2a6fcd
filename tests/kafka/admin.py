"""Changes to a real cluster that tests make: creating topics, moving partitions and leaders."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar, cast

from aiokproto.codec import frames
from aiokproto.codec.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from aiokproto.codec.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from aiokproto.codec.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic, MetadataResponsePartition
from aiokproto.codec.schema import Request, Response
from aiokproto.error_codes import ErrorCode
from tests.kafka.cluster import KafkaError
from tests.kafka.pool import RunningKafka

R = TypeVar("R", bound=Response)

WAIT_SECONDS = 60.0
PREFERRED = 0
UNCLEAN = 1


def create_topic(
    cluster: RunningKafka, name: str, partitions: int, replication: int, config: Mapping[str, str] | None
) -> None:
    """Create a topic, and return once every running broker knows a leader for each of its partitions."""
    configs = [CreatableTopicConfig(name=key, value=value) for key, value in (config or {}).items()]
    topic = CreatableTopic(
        name=name, num_partitions=partitions, replication_factor=replication, assignments=[], configs=configs
    )
    (result,) = _ask(cluster, CreateTopicsRequest(topics=[topic]), 7).topics
    _check(f"creating topic {name}", result.error_code, result.error_message)
    for node_id in cluster.running:
        _await(f"broker {node_id} to know topic {name}", partial(_all_led, cluster, name, partitions, node_id))


def move_leader(cluster: RunningKafka, topic: str, partition: int) -> int:
    """Make another broker the leader of a partition, move its data there if necessary, and return the new leader."""
    before = _partition(cluster, topic, partition)
    others = cluster.running - {before.leader_id}
    if not others:
        raise KafkaError(f"{topic}-{partition} cannot be led by another broker: none is running")
    kept = [node_id for node_id in before.replica_nodes if node_id in others]
    target = kept[0] if kept else min(others)
    # The first replica is the preferred leader. The old leader stays a replica, unless that would make one too many.
    replicas = [target, *(id_ for id_ in before.replica_nodes if id_ != target)][: len(before.replica_nodes)]
    move = ReassignablePartition(partition_index=partition, replicas=replicas)
    request = AlterPartitionReassignmentsRequest(topics=[ReassignableTopic(name=topic, partitions=[move])])
    answer = _ask(cluster, request, 0)
    _check(f"moving {topic}-{partition}", answer.error_code, answer.error_message)
    result = answer.responses[0].partitions[0]
    _check(f"moving {topic}-{partition}", result.error_code, result.error_message)
    _await(f"{topic}-{partition} to be on {replicas}", partial(_is_on, cluster, topic, partition, replicas))
    _elect(cluster, PREFERRED, topic, partition)
    for node_id in cluster.running:
        what = f"broker {node_id} to see {target} lead {topic}-{partition}"
        _await(what, partial(_is_led_by, target, cluster, topic, partition, node_id))
    return target


def elect_unclean(cluster: RunningKafka, topic: str, partition: int) -> int:
    """Let a replica lead that isn't in sync, once the controller knows that no other is there. Return the replica."""
    _await(f"{topic}-{partition} to lose its leader", partial(_is_led_by, -1, cluster, topic, partition))
    _elect(cluster, UNCLEAN, topic, partition)
    for node_id in cluster.running:
        known = partial(_all_led, cluster, topic, partition + 1, node_id)
        _await(f"broker {node_id} to see a leader of {topic}-{partition}", known)
    return _partition(cluster, topic, partition).leader_id


def replicas(cluster: RunningKafka, topic: str, partition: int) -> tuple[int, list[int]]:
    """Return the leader of a partition, and its followers."""
    found = _partition(cluster, topic, partition)
    return found.leader_id, [node_id for node_id in found.replica_nodes if node_id != found.leader_id]


def _elect(cluster: RunningKafka, how: int, topic: str, partition: int) -> None:
    where = [TopicPartitions(topic=topic, partitions=[partition])]
    answer = _ask(cluster, ElectLeadersRequest(election_type=how, topic_partitions=where), 2)
    _check("electing leaders", answer.error_code, None)
    for result in answer.replica_election_results:
        for outcome in result.partition_result:
            # No election is needed if the old leader is no longer a replica, because the new one already leads.
            if outcome.error_code != ErrorCode.ELECTION_NOT_NEEDED:
                _check(f"electing the leader of {topic}-{partition}", outcome.error_code, outcome.error_message)


def _all_led(cluster: RunningKafka, topic: str, partitions: int, node_id: int) -> bool:
    known = _partitions(cluster, topic, node_id)
    return len(known) == partitions and all(partition.leader_id >= 0 for partition in known)


def _is_led_by(leader: int, cluster: RunningKafka, topic: str, partition: int, node_id: int | None = None) -> bool:
    return _partition(cluster, topic, partition, node_id).leader_id == leader


def _is_on(cluster: RunningKafka, topic: str, partition: int, replicas: list[int]) -> bool:
    now = _partition(cluster, topic, partition)
    return now.replica_nodes == replicas and replicas[0] in now.isr_nodes


def _partition(
    cluster: RunningKafka, topic: str, partition: int, node_id: int | None = None
) -> MetadataResponsePartition:
    for known in _partitions(cluster, topic, node_id):
        if known.partition_index == partition:
            return known
    raise KafkaError(f"{topic}-{partition} does not exist")


def _partitions(cluster: RunningKafka, topic: str, node_id: int | None = None) -> list[MetadataResponsePartition]:
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    return _ask(cluster, request, 12, node_id).topics[0].partitions


def _ask(cluster: RunningKafka, request: Request[R], version: int, node_id: int | None = None) -> R:
    """Send one request to one broker, or to any if it doesn't matter: in KRaft a broker forwards requests to the
    controller itself."""
    address = cluster.address(min(cluster.running) if node_id is None else node_id)
    with socket.create_connection(address, timeout=WAIT_SECONDS) as connection, connection.makefile("rb") as replies:
        connection.sendall(frames.encode_request(request, version, 1, "tests"))
        (length,) = struct.unpack(">i", replies.read(4))
        return frames.decode_response(replies.read(length), cast("type[R]", request.response), version)


def _check(doing: str, code: int, message: str | None) -> None:
    if code != ErrorCode.NONE:
        raise KafkaError(f"{doing}: {ErrorCode(code).name} ({message})")


def _await(what: str, done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WAIT_SECONDS
    while not done():
        if time.monotonic() > deadline:
            raise KafkaError(f"{what} did not happen within {WAIT_SECONDS:g} s")
        time.sleep(0.02)
