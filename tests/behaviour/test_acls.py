"""ACLs: the same on the embedded broker and on real Kafka."""

from __future__ import annotations

from typing import Any, TypeVar

import pytest

from aiokproto.codec.messages.create_acls import CreateAclsRequest
from aiokproto.codec.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from aiokproto.codec.messages.describe_cluster import DescribeClusterRequest
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from aiokproto.codec.schema import Request, Response
from aiokproto.error_codes import ErrorCode
from tests.behaviour.requests_by_api import (
    NO_CLUSTER,
    NO_GROUP,
    NO_TOPIC,
    NO_TRANSACTION,
    OK,
    REQUESTS,
    THE_CLUSTER,
    errors,
    everything,
)
from tests.behaviour.secured import Secured, as_user, create, revoke, rule
from tests.behaviour.waiting import until
from tests.broker.secure import (
    ALL,
    ALTER,
    ALTER_CONFIGS,
    CLUSTER,
    CREATE,
    DELETE,
    DENY,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    IDEMPOTENT_WRITE,
    PREFIXED,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
    acl,
    grant,
)
from tests.broker.wire import Wire, batch, fetch_request, produce_request

R = TypeVar("R", bound=Response)


async def test_a_user_without_permissions_is_refused_every_request(secured: Secured, topic: str, user: str) -> None:
    async with as_user(secured, "admin") as admin, as_user(secured, user) as client:
        await create(admin, topic)
        for name, (make, version, refusal) in REQUESTS.items():
            request = make(topic, f"g-{topic}")
            assert (name, errors(await client.ask(request, version))) == (name, {refusal})
        everything_there_is = await client.ask(MetadataRequest(topics=None), 9)
        assert topic not in [found.name for found in everything_there_is.topics]
        assert (await client.ask(ListGroupsRequest(), 4)).groups == []
        cluster = await client.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
        assert cluster.cluster_authorized_operations == 0


GRANTS = {
    "Produce": [(TOPIC, WRITE)],
    "Fetch": [(TOPIC, READ)],
    "ListOffsets": [(TOPIC, DESCRIBE)],
    "OffsetForLeaderEpoch": [(TOPIC, DESCRIBE)],
    "Metadata": [(TOPIC, DESCRIBE)],
    "CreatePartitions": [(TOPIC, ALTER)],
    "DeleteRecords": [(TOPIC, DELETE)],
    "DescribeConfigs": [(TOPIC, DESCRIBE_CONFIGS)],
    "IncrementalAlterConfigs": [(TOPIC, ALTER_CONFIGS)],
    "OffsetCommit": [(GROUP, READ), (TOPIC, READ)],
    "OffsetFetch": [(GROUP, DESCRIBE), (TOPIC, DESCRIBE)],
    "ShareGroupHeartbeat": [(GROUP, READ), (TOPIC, DESCRIBE)],
    "AlterShareGroupOffsets": [(GROUP, READ), (TOPIC, READ)],
    "DescribeShareGroupOffsets": [(GROUP, DESCRIBE), (TOPIC, DESCRIBE)],
    "FindCoordinator": [(GROUP, DESCRIBE)],
    "FindCoordinator-txn": [(TRANSACTIONAL_ID, DESCRIBE)],
    "InitProducerId": [(CLUSTER, IDEMPOTENT_WRITE)],
    "DescribeAcls": [(CLUSTER, DESCRIBE)],
    "DescribeUserScramCredentials": [(CLUSTER, DESCRIBE)],
    "DescribeClientQuotas": [(CLUSTER, DESCRIBE_CONFIGS)],
    "DeleteTopics": [(TOPIC, DELETE)],
}


@pytest.mark.parametrize("api", GRANTS)
async def test_each_permission_suffices_for_its_request(secured: Secured, topic: str, user: str, api: str) -> None:
    group = f"g-{topic}"
    names = {TOPIC: topic, GROUP: group, CLUSTER: THE_CLUSTER, TRANSACTIONAL_ID: group}
    async with as_user(secured, "admin") as admin, as_user(secured, user) as client:
        await create(admin, topic)
        await coordinator(admin, group)
        given = [rule(user, resource, names[resource], operation) for resource, operation in GRANTS[api]]
        await grant(admin, *given)
        request, version = REQUESTS[api].make(topic, group), REQUESTS[api].version
        try:
            response = await permitted(client, request, version)
            # These two aren't refusals: producer ids may not be allocated yet, and SCRAM users not created.
            assert errors(response) <= {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.RESOURCE_NOT_FOUND}, response
        finally:
            await revoke(admin, user)


async def permitted(client: Wire, request: Request[R], version: int) -> R:
    """Send the request until it is permitted: the controller, which authorizes some, may learn of an ACL later."""
    refusals = {NO_TOPIC, NO_GROUP, NO_CLUSTER, NO_TRANSACTION}
    return await until(lambda: client.ask(request, version), lambda response: not errors(response) & refusals)


async def coordinator(admin: Wire, group: str) -> None:
    """Wait until groups and transactions have a coordinator."""
    for kind in (0, 1):
        while errors(await admin.ask(FindCoordinatorRequest(coordinator_keys=[group], key_type=kind), 4)):
            pass
    request = OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=group, topics=None)])
    while errors(await admin.ask(request, 8)):
        pass


async def test_permission_to_create_a_topic_does_not_show_its_configs(secured: Secured, topic: str, user: str) -> None:
    name = f"{topic}-new"
    request = REQUESTS["CreateTopics"].make(topic, topic)
    async with as_user(secured, "admin") as admin, as_user(secured, user) as client:
        await grant(admin, rule(user, TOPIC, name, CREATE))
        response = await until(
            lambda: client.ask(request, 7), lambda response: response.topics[0].error_code != NO_TOPIC
        )
        (created,) = response.topics
        assert (created.error_code, created.topic_config_error_code) == (OK, NO_TOPIC)
        assert (created.num_partitions, created.replication_factor) == (-1, -1)
        assert not created.configs
        # Permission to create the topic doesn't include permission to describe it.
        assert errors(await client.ask(REQUESTS["Metadata"].make(name, "g"), 9)) == {NO_TOPIC}
        await revoke(admin, user)


@pytest.mark.parametrize(
    ("acls", "allowed"),
    [
        ([], False),
        ([("{t}", READ, {})], True),
        ([("{t}", ALL, {})], True),
        ([("{t}", WRITE, {})], False),
        ([("*", READ, {})], True),
        ([("{t}"[:3], READ, {"pattern": PREFIXED})], True),
        ([("{p}", READ, {"pattern": PREFIXED})], True),
        ([("{p}", READ, {})], False),
        ([("{t}x", READ, {"pattern": PREFIXED})], False),
        ([("{t}", READ, {"principal": "User:*"})], True),
        ([("{t}", READ, {"principal": "User:bob"})], False),
        ([("{t}", READ, {"host": "127.0.0.1"})], True),
        ([("{t}", READ, {"host": "10.0.0.1"})], False),
        ([("{t}", READ, {"host": "127.0.0.0/8"})], True),
        ([("{t}", READ, {"host": "10.0.0.0/8"})], False),
        ([("{t}", READ, {}), ("{t}", READ, {"permission": DENY, "host": "127.0.0.1/32"})], False),
        ([("{t}", READ, {}), ("{t}", READ, {"permission": DENY})], False),
        ([("{t}", READ, {}), ("*", READ, {"permission": DENY})], False),
        ([("{t}", READ, {}), ("{p}", ALL, {"permission": DENY, "pattern": PREFIXED})], False),
        ([("{t}", READ, {}), ("{t}", READ, {"permission": DENY, "principal": "User:bob"})], True),
        ([("{t}", READ, {}), ("{t}", READ, {"permission": DENY, "host": "10.0.0.1"})], True),
        ([("{t}", READ, {}), ("{t}", DESCRIBE, {"permission": DENY})], True),
    ],
)
async def test_which_acls_permit_reading(
    secured: Secured, topic: str, user: str, acls: list[tuple[str, int, dict[str, Any]]], allowed: bool
) -> None:
    async with as_user(secured, "admin") as admin, as_user(secured, user) as client:
        await create(admin, topic)
        names = [name.format(t=topic, p=topic[:-3]) for name, _, _ in acls]
        await grant(
            admin,
            *[rule(user, TOPIC, name, each[1], **each[2]) for name, each in zip(names, acls, strict=True)],
        )
        try:
            expected = set() if allowed else {NO_TOPIC}
            assert errors(await client.ask(fetch_request(topic), 12)) == expected
        finally:
            await revoke(admin, user)
            # Other tests would see a permission for all users.
            await revoke(admin, "*")


async def test_a_request_is_refused_for_one_topic_and_served_for_another(
    secured: Secured, topic: str, user: str
) -> None:
    secret = f"{topic}-secret"
    async with as_user(secured, "admin") as admin, as_user(secured, user) as client:
        await create(admin, topic)
        await create(admin, secret)
        await grant(admin, rule(user, TOPIC, topic, ALL))
        request = produce_request(topic, batch([b"x"]))
        request.topic_data += produce_request(secret, batch([b"x"])).topic_data
        response = await client.ask(request, 9)
        codes = {each.name: each.partition_responses[0].error_code for each in response.responses}
        assert codes == {topic: OK, secret: NO_TOPIC}
        found = await client.ask(MetadataRequest(topics=None), 9)
        assert {each.name for each in found.topics} & {topic, secret} == {topic}
        await revoke(admin, user)


@pytest.mark.parametrize("version", [12, 13])
async def test_metadata_of_a_hidden_topic_by_its_id_has_no_name(
    secured: Secured, topic: str, user: str, version: int
) -> None:
    async with as_user(secured, "admin") as admin, as_user(secured, user) as client:
        await create(admin, topic)
        by_name = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
        (known,) = (await admin.ask(by_name, 12)).topics
        wanted = MetadataRequestTopic(topic_id=known.topic_id, name=None)
        (found,) = (await client.ask(MetadataRequest(topics=[wanted], allow_auto_topic_creation=False), version)).topics
        assert (found.error_code, found.name, found.partitions) == (NO_TOPIC, None, [])


async def test_authorized_operations_are_a_bit_field(secured: Secured, topic: str, user: str) -> None:
    async with as_user(secured, "admin") as admin, as_user(secured, user) as client:
        await create(admin, topic)
        await grant(admin, rule(user, TOPIC, topic, READ), rule(user, TOPIC, topic, ALTER_CONFIGS))
        request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], include_topic_authorized_operations=True)
        mine = (await client.ask(request, 9)).topics[0].topic_authorized_operations
        assert mine == sum(1 << each for each in (READ, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS))
        theirs = (await admin.ask(request, 9)).topics[0].topic_authorized_operations
        assert (
            theirs == sum(1 << each for each in range(READ, DESCRIBE + 1)) | 1 << DESCRIBE_CONFIGS | 1 << ALTER_CONFIGS
        )
        whole = await admin.ask(DescribeClusterRequest(include_cluster_authorized_operations=True), 0)
        expected = (CREATE, ALTER, DESCRIBE, 9, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE)
        assert whole.cluster_authorized_operations == sum(1 << each for each in expected)
        await revoke(admin, user)


async def test_acls_are_described_and_deleted_by_filters(secured: Secured, topic: str, user: str) -> None:
    async with as_user(secured, "admin") as admin:
        await grant(
            admin,
            rule(user, TOPIC, topic, READ),
            rule(user, TOPIC, topic[:-2], WRITE, pattern=PREFIXED),
            rule(user, TOPIC, f"{topic}-other", READ),
        )

        async def described(pattern: int, name: str | None) -> list[tuple[str, int]]:
            found = await admin.ask(everything(TOPIC, name, pattern), 3)
            return sorted(
                (each.resource_name, entry.operation)
                for each in found.resources
                for entry in each.acls
                if entry.principal == f"User:{user}"
            )

        any_pattern, match, prefixed = 1, 2, PREFIXED
        assert await described(any_pattern, topic) == [(topic, READ)]
        assert await described(match, topic) == [(topic[:-2], WRITE), (topic, READ)]
        assert await described(prefixed, topic[:-2]) == [(topic[:-2], WRITE)]
        assert await described(any_pattern, None) == [(topic[:-2], WRITE), (topic, READ), (f"{topic}-other", READ)]
        removed = DeleteAclsFilter(
            resource_type_filter=TOPIC,
            resource_name_filter=f"{topic}-other",
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
        assert not errors(await admin.ask(DeleteAclsRequest(filters=[removed]), 3))
        left = [(topic[:-2], WRITE), (topic, READ)]
        assert await until(lambda: described(any_pattern, None), lambda found: found == left) == left
        await revoke(admin, user)
        assert await described(any_pattern, None) == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": CLUSTER},
        {"resource_name": ""},
        {"principal": "alice"},
        {"host": ""},
        {"host": "10.0.0.0/33"},
        {"host": "10.0.0.0/255.0.0.0"},
        {"host": "example.org/24"},
        {"host": "::1/129"},
    ],
)
async def test_an_invalid_acl_is_refused(secured: Secured, wrong: dict[str, Any]) -> None:
    assert await refused(secured, wrong) == {ErrorCode.INVALID_REQUEST}


@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": 1},
        {"resource_pattern_type": 1},
        {"resource_pattern_type": 2},
        {"operation": 1},
        {"permission_type": 1},
    ],
)
async def test_an_acl_with_a_value_that_only_filters_have_is_refused(secured: Secured, wrong: dict[str, Any]) -> None:
    """Kafka raises an internal error; the embedded broker names the value."""
    expected = ErrorCode.INVALID_REQUEST if secured.kind == "embedded" else ErrorCode.UNKNOWN_SERVER_ERROR
    assert await refused(secured, wrong) == {expected}


async def refused(secured: Secured, wrong: dict[str, Any]) -> set[ErrorCode]:
    entry = acl(TOPIC, "t", READ)
    for name, value in wrong.items():
        setattr(entry, name, value)
    async with as_user(secured, "admin") as admin:
        return errors(await admin.ask(CreateAclsRequest(creations=[entry]), 3))
