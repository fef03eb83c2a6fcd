"""ElectLeaders: elect the preferred replicas (KIP-183) or, since v1, any replica that is alive (KIP-460)."""

from __future__ import annotations

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.acls import Operation, ResourceType
from aiokproto.broker.security.authorization import Required
from aiokproto.codec.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

PREFERRED, UNCLEAN = range(2)

REQUIRES = (Required(Operation.ALTER, ResourceType.CLUSTER),)


async def handle(request: ElectLeadersRequest, context: RequestContext) -> ElectLeadersResponse:
    if request.election_type not in (PREFERRED, UNCLEAN):
        raise BrokerError(ErrorCode.INVALID_REQUEST, detail=f"election type {request.election_type} is unknown")
    unclean = request.election_type == UNCLEAN
    # A null list means all partitions.
    if request.topic_partitions is None:
        requested = {topic.name: list(range(len(topic.partitions))) for topic in context.state.topics.values()}
    else:
        requested = {topic.topic: topic.partitions for topic in request.topic_partitions}
    results: list[ReplicaElectionResult] = []
    async for name, partitions in context.each(requested.items()):
        elected = [_elect(name, index, unclean, context) async for index in context.each(partitions)]
        results.append(ReplicaElectionResult(topic=name, partition_result=elected))
    if request.topic_partitions is None:
        # If all partitions were requested, return only the partitions that needed an election.
        for result in results:
            result.partition_result = [
                partition
                for partition in result.partition_result
                if partition.error_code != ErrorCode.ELECTION_NOT_NEEDED
            ]
    return ElectLeadersResponse(replica_election_results=results)


def _elect(topic: str, index: int, unclean: bool, context: RequestContext) -> PartitionResult:
    result = PartitionResult(partition_id=index, error_code=ErrorCode.NONE, error_message=None)
    try:
        context.state.elect(topic, index, unclean=unclean)
    except BrokerError as error:
        result.error_code, result.error_message = error.code, error.detail
    return result
