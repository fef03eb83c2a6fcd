"""Clients, topics and groups that come to brokers and go again, in rounds. Each round has its own names."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

from aiokproto import Client, Consumer, Producer, ShareConsumer
from aiokproto.broker import Cluster
from aiokproto.broker.metadata.topics import OFFSETS_TOPIC, TRANSACTIONS_TOPIC
from aiokproto.cluster import ClusterClient
from aiokproto.codec.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasRequestEntryData,
    EntityData,
    OpData,
)
from aiokproto.codec.messages.alter_partition_reassignments import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from aiokproto.codec.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from aiokproto.codec.messages.create_acls import AclCreation, CreateAclsRequest
from aiokproto.codec.messages.create_delegation_token import CreateDelegationTokenRequest
from aiokproto.codec.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from aiokproto.codec.messages.delete_groups import DeleteGroupsRequest
from aiokproto.codec.messages.delete_topics import DeleteTopicsRequest
from aiokproto.codec.messages.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.schema import Request, Response
from aiokproto.config import ClusterConfig
from aiokproto.error_codes import ErrorCode
from aiokproto.group.streams_member import StreamsListener, StreamsMember
from aiokproto.group.streams_topology import StreamsTopology, Subtopology

USER = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-256"}
ADMIN = {**USER, "sasl_username": "admin", "sasl_password": "a"}
SCRAM_SHA_256, TOPIC, LITERAL, READ, ALLOW, GROUP = 1, 2, 3, 3, 3, 32

Round = Callable[[Cluster, int], Awaitable[None]]


async def _request(client: Client, request: Request[Any], **options: Any) -> Any:
    """Send a request. Raise AssertionError if the response has an error anywhere in its first two levels."""
    response: Response = await client.request(request, **options)
    _check(response)
    return response


def _check(found: Any) -> None:
    assert not getattr(found, "error_code", 0), found
    for value in vars(type(found)).get("__slots__", ()):
        part = getattr(found, value)
        for each in part if isinstance(part, list) else ():
            if hasattr(each, "error_code"):
                _check(each)


def _options(cluster: Cluster, number: int, **others: Any) -> dict[str, Any]:
    # Clients would request their metrics subscription at random times.
    options = {"client_id": f"client {number}", "enable_metrics_push": False}
    return {"bootstrap_servers": cluster.bootstrap_servers, **options, **others}


async def _delete_topic(client: Client, name: str) -> None:
    await _request(client, DeleteTopicsRequest(topic_names=[name], timeout_ms=5000), max_version=5)


async def connections(cluster: Cluster, number: int) -> None:
    """A client of a new SCRAM user, with a new client id, for which there are quotas, ACLs and a delegation token."""
    user, client_id = f"user {number}", f"client {number}"

    def quota(*, remove: bool) -> AlterClientQuotasRequest:
        entity = [
            EntityData(entity_type="user", entity_name=user),
            EntityData(entity_type="client-id", entity_name=client_id),
        ]
        names = ("consumer_byte_rate", "controller_mutation_rate", "request_percentage")
        ops = [OpData(key=name, value=1e9, remove=remove) for name in names]
        return AlterClientQuotasRequest(entries=[AlterClientQuotasRequestEntryData(entity=entity, ops=ops)])

    acl: dict[str, Any] = {"resource_type": TOPIC, "principal": f"User:{user}", "host": "*", "operation": READ}
    async with Client(**_options(cluster, number, **ADMIN)) as admin:
        salted = hashlib.pbkdf2_hmac("sha256", user.encode(), b"salt", 4096)
        key = ScramCredentialUpsertion(
            name=user, mechanism=SCRAM_SHA_256, iterations=4096, salt=b"salt", salted_password=salted
        )
        await _request(admin, AlterUserScramCredentialsRequest(upsertions=[key]))
        await _request(admin, quota(remove=False))
        allowed = AclCreation(resource_name=user, resource_pattern_type=LITERAL, permission_type=ALLOW, **acl)
        await _request(admin, CreateAclsRequest(creations=[allowed]))
        token = await _request(admin, CreateDelegationTokenRequest(max_lifetime_ms=5000))
        assert token.hmac
        own = {**USER, "sasl_username": user, "sasl_password": user}
        async with Client(**_options(cluster, number, **own)) as client:
            for broker in cluster.broker_ids:
                await client.request(MetadataRequest(topics=None), node=broker)
                # The id makes this a client instance that the broker hasn't seen yet.
                await _request(client, GetTelemetrySubscriptionsRequest(), node=broker)
        await _request(admin, quota(remove=True))
        pattern = DeleteAclsFilter(
            resource_type_filter=TOPIC,
            resource_name_filter=user,
            pattern_type_filter=LITERAL,
            principal_filter=None,
            host_filter=None,
            operation=READ,
            permission_type=ALLOW,
        )
        await _request(admin, DeleteAclsRequest(filters=[pattern]))
        gone = ScramCredentialDeletion(name=user, mechanism=SCRAM_SHA_256)
        await _request(admin, AlterUserScramCredentialsRequest(deletions=[gone]))


async def topics(cluster: Cluster, number: int) -> None:
    """Create a topic, write it, read it in fetch sessions of new clients, reassign it, commit for it, and delete it."""
    topic = f"topic.{number}"
    await cluster.create_topic(topic, 2, 2)
    async with Client(**_options(cluster, number)) as admin, Producer(**_options(cluster, number)) as producer:
        for partition in (0, 1):
            await producer.send(topic, b"x", partition=partition)
        consumer: Consumer[Any, Any] = Consumer(
            topic, **_options(cluster, number), group_id="of all rounds", auto_offset_reset="earliest"
        )
        async with consumer:
            await consumer.poll(5000)
            await consumer.commit()
            moved = [ReassignablePartition(partition_index=0, replicas=[1, 0])]
            reassigned = [ReassignableTopic(name=topic, partitions=moved)]
            await _request(admin, AlterPartitionReassignmentsRequest(topics=reassigned, timeout_ms=5000))
            await cluster.move_leader(topic, 0)
            await producer.send(topic, b"x", partition=0)
            await consumer.poll(5000)
        await _delete_topic(admin, topic)


async def producers(cluster: Cluster, number: int) -> None:
    """Run an idempotent producer, and transactions of a new id: committed, aborted, and left open until they time
    out."""
    async with Producer(**_options(cluster, number)) as producer:
        await producer.send("stable", b"x", partition=0)
    options = _options(cluster, number, transactional_id=f"transaction {number}", transaction_timeout_ms=2000)
    async with Producer(**options) as producer:
        async with producer.transaction() as txn:
            await txn.post("stable", b"x", partition=0)
            await txn.send_offsets({("stable", 0): 1}, f"of transaction {number}")
        with suppress(ZeroDivisionError):
            async with producer.transaction() as txn:
                await txn.post("stable", b"x", partition=1)
                await txn.send_offsets({("stable", 1): 1}, f"of transaction {number}")
                await asyncio.sleep(0.1)
                raise ZeroDivisionError


async def internal_topics(cluster: Cluster, number: int) -> None:
    """Delete the topics of coordinators, with the offsets of an open transaction in them."""
    options = _options(cluster, number, transactional_id=f"deleted {number}")
    async with Client(**_options(cluster, number)) as admin, Producer(**options) as producer:
        with suppress(ZeroDivisionError):
            async with producer.transaction() as txn:
                await txn.post("stable", b"x", partition=0)
                await txn.send_offsets({("stable", 0): 1}, "of all rounds")
                await _delete_topic(admin, OFFSETS_TOPIC)
                raise ZeroDivisionError
        await _delete_topic(admin, TRANSACTIONS_TOPIC)
    consumer: Consumer[Any, Any] = Consumer(**_options(cluster, number), group_id="of all rounds")
    async with consumer:
        # The call would wait for an open transaction to end.
        assert list((await consumer.committed(("stable", 0))).values()) == [None]


async def groups(cluster: Cluster, number: int) -> None:
    """Run a classic, a consumer and a streams group twice: once the members leave, once they are lost."""
    for protocol in ("classic", "consumer"):
        consumer: Consumer[Any, Any] = Consumer(
            "stable",
            **_options(cluster, number, group_id=f"{protocol} {number}", group_protocol=protocol),
            group_instance_id=f"instance {number}" if number % 2 else None,
            auto_offset_reset="earliest",
        )
        async with consumer:
            await consumer.poll(5000)
            await consumer.commit()
    topology = StreamsTopology((Subtopology("0", source_topics=("stable",)),))
    async with ClusterClient(ClusterConfig.parse(_options(cluster, number))) as client:
        member = StreamsMember(client, f"streams {number}", topology, _Tasks())
        running = asyncio.create_task(member.run())
        while not member.tasks:
            await asyncio.sleep(0.1)
        running.cancel()
        await asyncio.wait([running])
        if number % 2:
            await member.leave(1000)


class _Tasks(StreamsListener):
    async def assigned(self, tasks: object) -> None: ...
    async def revoked(self, tasks: object) -> None: ...
    async def lost(self, tasks: object) -> None: ...


async def share_groups(cluster: Cluster, number: int) -> None:
    """Run a share group and a topic that are deleted, and a share group that stays."""
    topic, group = f"shared.{number}", f"share {number}"
    await cluster.create_topic(topic)
    async with Client(**_options(cluster, number)) as admin, Producer(**_options(cluster, number)) as producer:
        option = AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
        resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=[option])
        await _request(admin, IncrementalAlterConfigsRequest(resources=[resource]), node=0)
        await producer.send(topic, b"x")
        await producer.send("stable", b"x")
        # The states of the group that stays are deleted with the topic.
        for of, topics_read in ((group, ["stable", topic]), ("of all rounds", [topic])):
            async with ShareConsumer(*topics_read, **_options(cluster, number), group_id=of) as member:
                await member.poll(5000)
                await member.commit(5000)
        option = AlterableConfig(name="share.auto.offset.reset", config_operation=1, value=None)
        resource = AlterConfigsResource(resource_type=GROUP, resource_name=group, configs=[option])
        await _request(admin, IncrementalAlterConfigsRequest(resources=[resource]), node=0)
        await _request(admin, DeleteGroupsRequest(groups_names=[group]))
        await _delete_topic(admin, topic)


async def brokers(cluster: Cluster, number: int) -> None:
    """Stop brokers, let them fail, start them again, and inject faults."""
    oldest, other = cluster.broker_ids
    with (
        cluster.faults.fail(MetadataRequest, ErrorCode.UNKNOWN_SERVER_ERROR, times=1, client_id="nobody"),
        cluster.faults.random(number, 0.1, client_id="nobody"),
        cluster.faults.slow(oldest, latency=0.001),
    ):
        async with Client(**_options(cluster, number)) as client:
            await client.request(MetadataRequest(topics=None), node=oldest)
            with cluster.faults.partition(other):
                await asyncio.sleep(0.1)
    await cluster.add_broker()
    await cluster.kill_broker(oldest, noticed_after=1)
    await asyncio.sleep(2)
    await cluster.remove_broker(oldest)
