"""Requests to several brokers: every item is in the response, even if one broker fails."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from aiokproto import Client
from aiokproto.broker import Cluster
from aiokproto.cluster import CoordinatorKind
from aiokproto.codec.messages.delete_groups import DeleteGroupsRequest
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.describe_groups import DescribeGroupsRequest
from aiokproto.codec.messages.list_groups import ListGroupsRequest, ListGroupsResponse
from aiokproto.codec.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from aiokproto.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokproto.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
)
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DeadlineError, PartialResponseError
from aiokproto.simulation import Simulation

PARTITIONS = 7
GROUPS = [f"group {number}" for number in range(9)]
TIMEOUT = 4000
"""The timeout of a call (ms). One attempt has a second of it."""
SILENT = 2


def simulate(program: Callable[[Cluster, Client], Awaitable[None]], seed: int = 1) -> float:
    """Run a program with three brokers. Return how long its calls took together."""
    simulation = Simulation(seed)

    async def main() -> float:
        async with Cluster(brokers=3) as cluster:
            await cluster.create_topic("t", partitions=PARTITIONS, replication=3)
            async with Client(bootstrap_servers=cluster.bootstrap_servers, request_timeout_ms=1000) as client:
                for group in GROUPS:
                    await client.request(commit(group))
                before = simulation.time()
                await program(cluster, client)
                return simulation.time() - before

    return simulation.run(main())


def commit(group: str) -> OffsetCommitRequest:
    partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
    return OffsetCommitRequest(group_id=group, topics=[OffsetCommitRequestTopic(name="t", partitions=[partition])])


def offsets() -> ListOffsetsRequest:
    partitions = [ListOffsetsPartition(partition_index=index, timestamp=-1) for index in range(PARTITIONS)]
    return ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="t", partitions=partitions)])


def codes(answer: ListOffsetsResponse) -> dict[int, int]:
    (topic,) = answer.topics
    assert len(topic.partitions) == PARTITIONS
    return {each.partition_index: each.error_code for each in topic.partitions}


async def coordinators(client: Client) -> dict[str, int]:
    return {group: await client._cluster.coordinator(CoordinatorKind.GROUP, group) for group in GROUPS}


def test_partitions_of_several_leaders() -> None:
    async def program(cluster: Cluster, client: Client) -> None:
        assert len({cluster.leader("t", index) for index in range(PARTITIONS)}) == 3
        assert codes(await client.request(offsets())) == dict.fromkeys(range(PARTITIONS), 0)

    simulate(program)


def test_groups_of_several_coordinators() -> None:
    async def program(cluster: Cluster, client: Client) -> None:
        assert set((await coordinators(client)).values()) == {0, 1, 2}
        described = await client.request(DescribeGroupsRequest(groups=GROUPS))
        assert sorted(group.group_id for group in described.groups) == GROUPS
        topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
        groups = [OffsetFetchRequestGroup(group_id=group, topics=topics) for group in GROUPS]
        fetched = await client.request(OffsetFetchRequest(groups=groups), max_version=9)
        found = {group.group_id: group.topics[0].partitions[0].committed_offset for group in fetched.groups}
        assert found == dict.fromkeys(GROUPS, 5)
        deleted = await client.request(DeleteGroupsRequest(groups_names=GROUPS))
        assert {result.group_id: result.error_code for result in deleted.results} == dict.fromkeys(GROUPS, 0)

    simulate(program)


def test_groups_of_every_broker() -> None:
    async def program(cluster: Cluster, client: Client) -> None:
        listed = await client.request(ListGroupsRequest())
        assert sorted(group.group_id for group in listed.groups) == GROUPS

    simulate(program)


@pytest.mark.parametrize("seed", range(5))
def test_partitions_of_a_silent_leader_have_a_code(seed: int) -> None:
    async def program(cluster: Cluster, client: Client) -> None:
        cluster.faults.drop(ListOffsetsRequest, "response", node=SILENT)
        got = codes(await client.request(offsets(), timeout_ms=TIMEOUT))
        assert got == {
            index: ErrorCode.REQUEST_TIMED_OUT if cluster.leader("t", index) == SILENT else 0
            for index in range(PARTITIONS)
        }

    assert simulate(program, seed) <= TIMEOUT / 1000 + 0.1


@pytest.mark.parametrize("seed", range(5))
def test_groups_of_a_silent_coordinator_have_a_code(seed: int) -> None:
    async def program(cluster: Cluster, client: Client) -> None:
        cluster.faults.drop(DescribeGroupsRequest, "request", node=SILENT)
        where = await coordinators(client)
        answer = await client.request(DescribeGroupsRequest(groups=GROUPS), timeout_ms=TIMEOUT)
        assert {group.group_id: group.error_code for group in answer.groups} == {
            group: ErrorCode.REQUEST_TIMED_OUT if node == SILENT else 0 for group, node in where.items()
        }

    assert simulate(program, seed) <= TIMEOUT / 1000 + 0.1


def test_a_broker_that_lists_nothing_does_not_hide_the_others() -> None:
    async def program(cluster: Cluster, client: Client) -> None:
        cluster.faults.drop(ListGroupsRequest, "response", node=SILENT)
        where = await coordinators(client)
        with pytest.raises(PartialResponseError, match="1 of 3 brokers did not respond: ListGroups") as caught:
            await client.request(ListGroupsRequest(), timeout_ms=TIMEOUT)
        assert isinstance(caught.value.response, ListGroupsResponse)
        listed = sorted(group.group_id for group in caught.value.response.groups)
        assert listed == sorted(group for group, node in where.items() if node != SILENT)
        assert [type(failure) for failure in caught.value.failures] == [DeadlineError]

    simulate(program)


def test_the_call_fails_if_all_brokers_fail() -> None:
    async def program(cluster: Cluster, client: Client) -> None:
        cluster.faults.drop(ListOffsetsRequest, "response")
        with pytest.raises(DeadlineError, match="ListOffsets"):
            await client.request(offsets(), timeout_ms=TIMEOUT)

    simulate(program)


def test_the_others_do_not_wait_for_a_silent_broker() -> None:
    """The other answers are there at once: only the silent broker's part takes time."""

    async def program(cluster: Cluster, client: Client) -> None:
        cluster.faults.drop(ListOffsetsRequest, "response", node=SILENT, times=1)
        assert set(codes(await client.request(offsets(), timeout_ms=TIMEOUT)).values()) == {0}

    assert simulate(program) < 1.5


def test_a_partition_that_has_moved_is_requested_again() -> None:
    """A broker was known to lead two partitions. It answers for one, and the client finds the new leader of the
    other."""

    async def program(cluster: Cluster, client: Client) -> None:
        assert set(codes(await client.request(offsets())).values()) == {0}
        await cluster.move_leader("t", 0)
        assert codes(await client.request(offsets())) == dict.fromkeys(range(PARTITIONS), 0)

    simulate(program)


def test_a_group_that_has_moved_is_requested_again() -> None:
    async def program(cluster: Cluster, client: Client) -> None:
        await coordinators(client)
        with cluster.faults.fail(DescribeGroupsRequest, ErrorCode.NOT_COORDINATOR, group=GROUPS[3], times=1):
            answer = await client.request(DescribeGroupsRequest(groups=GROUPS))
        assert {group.group_id: group.error_code for group in answer.groups} == dict.fromkeys(GROUPS, 0)

    simulate(program)


def test_an_unknown_topic_has_a_code_and_the_known_ones_their_offsets() -> None:
    async def program(cluster: Cluster, client: Client) -> None:
        request = offsets()
        request.topics.append(ListOffsetsTopic(name="no-such", partitions=[ListOffsetsPartition(partition_index=0)]))
        answer = await client.request(request, timeout_ms=TIMEOUT)
        found = {
            (topic.name, each.partition_index): each.error_code for topic in answer.topics for each in topic.partitions
        }
        lost = found.pop(("no-such", 0))
        assert lost in (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.REQUEST_TIMED_OUT)
        assert found == {("t", index): 0 for index in range(PARTITIONS)}

    simulate(program)


def test_configurations_of_several_brokers() -> None:
    topic, of_broker = 2, 4
    resources = [DescribeConfigsResource(resource_type=of_broker, resource_name=str(node)) for node in range(3)]
    resources.append(DescribeConfigsResource(resource_type=topic, resource_name="t"))

    async def program(cluster: Cluster, client: Client) -> None:
        answer = await client.request(DescribeConfigsRequest(resources=resources))
        assert {(result.resource_type, result.resource_name): result.error_code for result in answer.results} == {
            (of_broker, "0"): 0,
            (of_broker, "1"): 0,
            (of_broker, "2"): 0,
            (topic, "t"): 0,
        }
        with cluster.faults.drop(DescribeConfigsRequest, "request", node=SILENT):
            answer = await client.request(DescribeConfigsRequest(resources=resources), timeout_ms=TIMEOUT)
        codes = {result.resource_name: result.error_code for result in answer.results}
        assert codes == {"0": 0, "1": 0, "t": 0, str(SILENT): ErrorCode.REQUEST_TIMED_OUT}

    simulate(program)


@pytest.mark.parametrize("groups", [1, 9])
def test_topics_by_name_go_in_a_version_that_has_names(groups: int) -> None:
    """OffsetFetch has only ids from version 10 on, so a request with nothing but a name would be empty."""
    topics = [OffsetFetchRequestTopics(name="t", partition_indexes=[0])]
    requested_groups = [OffsetFetchRequestGroup(group_id=group, topics=topics) for group in GROUPS[:groups]]

    async def program(cluster: Cluster, client: Client) -> None:
        answer = await client.request(OffsetFetchRequest(groups=requested_groups))
        found = [partition.committed_offset for group in answer.groups for partition in group.topics[0].partitions]
        assert found == [5] * groups

    simulate(program)


@pytest.mark.parametrize("topics", [[], [DeleteTopicState(name="t")]], ids=["names alone", "both forms"])
def test_topics_are_deleted_by_name_in_a_version_that_has_all_fields(topics: list[DeleteTopicState]) -> None:
    async def program(cluster: Cluster, client: Client) -> None:
        answer = await client.request(DeleteTopicsRequest(topics=topics, topic_names=["t"], timeout_ms=1000))
        assert [(each.name, each.error_code) for each in answer.responses] == [("t", 0)]

    simulate(program)
