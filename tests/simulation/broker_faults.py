"""Faults of brokers: they die, hand over leadership, lose records, and know no leaders."""

from __future__ import annotations

import asyncio
from typing import Any

from aiokproto import Client
from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.broker.metadata.topics import TRANSACTIONS_TOPIC
from aiokproto.codec.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from aiokproto.codec.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from aiokproto.codec.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from aiokproto.codec.messages.end_txn import EndTxnRequest
from aiokproto.codec.messages.fetch import FetchRequest
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest
from aiokproto.codec.messages.list_offsets import ListOffsetsRequest
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.codec.messages.sync_group import SyncGroupRequest
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from tests.simulation.environment import Environment, stored_batches

LED = (ProduceRequest, FetchRequest, ListOffsetsRequest)
TRANSACTIONAL = (InitProducerIdRequest, AddPartitionsToTxnRequest, AddOffsetsToTxnRequest, EndTxnRequest)
COORDINATED = (HeartbeatRequest, JoinGroupRequest, SyncGroupRequest, OffsetCommitRequest, OffsetFetchRequest)


async def kill(environment: Environment, seconds: float, broker: int, noticed_after: float) -> None:
    if broker in environment.running():
        await environment.cluster.kill_broker(broker, noticed_after)
        await asyncio.sleep(seconds)
        await environment.cluster.start_broker(broker)


async def stop(environment: Environment, seconds: float, broker: int) -> None:
    if broker in environment.running():
        await environment.cluster.stop_broker(broker)
        await asyncio.sleep(seconds)
        await environment.cluster.start_broker(broker)


async def move_leader(environment: Environment, seconds: float, partition: int) -> None:
    if len(environment.running()) > 1:
        await environment.cluster.move_leader(environment.topic, partition)


async def move_coordinator(environment: Environment, seconds: float, loads: bool) -> None:
    """Move the coordinator to another broker, which may still be loading at first."""
    if len(environment.running()) > 1 and environment.cluster.coordinator("g") >= 0:
        to = await environment.cluster.move_coordinator("g")
        if loads:
            with environment.cluster.faults.fail(COORDINATED, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, node=to):
                await asyncio.sleep(seconds)


async def move_transactions(environment: Environment, seconds: float, loads: bool) -> None:
    """Move the coordinator of all transactional ids to another broker, which may still be loading at first."""
    topic = environment.cluster._running.state.topics.get(TRANSACTIONS_TOPIC)
    if len(environment.running()) < 2 or topic is None:
        return
    to = [await environment.cluster.move_leader(TRANSACTIONS_TOPIC, each.index) for each in topic.partitions]
    if loads:
        with environment.cluster.faults.fail(TRANSACTIONAL, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, node=to[0]):
            await asyncio.sleep(seconds)


async def grow(environment: Environment, seconds: float, partitions: int) -> None:
    async with Client(bootstrap_servers=environment.cluster.bootstrap_servers) as client:
        topic = CreatePartitionsTopic(name=environment.topic, count=partitions, assignments=None)
        await client.request(CreatePartitionsRequest(topics=[topic], timeout_ms=1000, validate_only=False))


async def forget_brokers(environment: Environment, seconds: float) -> None:
    """Return metadata of a broker that has just started and doesn't know the others yet."""

    async def empty(call: RequestInfo, serve: Serve) -> Response | None:
        answer: Any = await serve(call.request)
        if answer is None:
            # Another fault of this kind already withholds the response.
            return None
        answer.brokers = []
        for topic in answer.topics:
            for partition in topic.partitions:
                partition.leader_id, partition.error_code = -1, ErrorCode.LEADER_NOT_AVAILABLE
        return answer  # type: ignore[no-any-return]

    with (
        environment.cluster.faults.intercept(MetadataRequest, empty),
        environment.cluster.faults.fail(FindCoordinatorRequest, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ):
        # A client that starts gives up after ten seconds.
        await asyncio.sleep(min(seconds, 5))


async def lose_tail(environment: Environment, seconds: float, partition: int, before: int) -> None:
    """Cut a leader off from its followers. After a while another broker takes over, which lacks the records written
    meanwhile.

    Until then the leader appends records and acknowledges none (``acks=all``), because records that aren't replicated
    cannot be read either. With ``acks=1`` it acknowledges them, and they are lost all the same. If the election is
    unclean, earlier batches are lost as well.
    """
    cluster = environment.cluster
    leader, epoch, *_, begins, _ = cluster.partition(environment.topic, partition)
    if leader < 0:
        return
    if environment.acks == 1:
        await asyncio.sleep(seconds)
        _take_over(environment, partition, min(begins, cluster.partition(environment.topic, partition).end_offset))
        return
    withheld: set[int] = set()

    async def unacknowledged(call: RequestInfo, serve: Serve) -> Response | None:
        if isinstance(call.request, ProduceRequest):
            answer: Any = await serve(call.request)
            # The answer is None if another fault of this kind already withholds it.
            for topic in answer.responses if answer is not None else ():
                withheld.update(each.base_offset for each in topic.partition_responses if each.index == partition)
        return None

    with cluster.faults.intercept(LED, unacknowledged, node=leader):
        await asyncio.sleep(seconds)
    now = cluster.partition(environment.topic, partition)
    if now.leader_epoch != epoch:
        # Another replica took over in the normal way, and has all records.
        return
    tail = now.end_offset
    # Batches that were in flight are acknowledged, so nothing before them may be lost.
    for base_offset, _ in reversed(stored_batches(cluster, environment.topic, partition)):
        if base_offset not in withheld:
            break
        tail = base_offset
    if environment.unclean:
        kept = [base for base, _ in stored_batches(cluster, environment.topic, partition) if base < tail]
        tail = ([tail, *reversed(kept)])[min(before, len(kept))]
    _take_over(environment, partition, tail)
    for link in environment.links(leader):
        link.reset()


def _take_over(environment: Environment, partition: int, to_offset: int) -> None:
    batches = stored_batches(environment.cluster, environment.topic, partition)
    tail = [record for base_offset, records in batches if base_offset >= to_offset for record in records]
    environment.lost[partition].update(value for _, value in tail)
    environment.simulation.trace.note("lose", f"{environment.topic}-{partition}: {len(tail)} records")
    environment.cluster.diverge_log(environment.topic, partition, to_offset)
    others = sorted(environment.running() - {environment.cluster.leader(environment.topic, partition)})
    if others:
        environment.cluster._running.state.move_leader(environment.topic, partition, others[0])
