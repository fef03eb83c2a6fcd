"""Waits until a real cluster has applied all changes, and lists what tests left behind."""

from __future__ import annotations

import secrets

from aiokproto.client import Client
from aiokproto.codec.messages.describe_acls import DescribeAclsRequest
from aiokproto.codec.messages.describe_client_quotas import DescribeClientQuotasRequest
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.describe_user_scram_credentials import DescribeUserScramCredentialsRequest
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from aiokproto.codec.messages.list_config_resources import ListConfigResourcesRequest
from aiokproto.codec.messages.list_groups import ListGroupsRequest

TOPIC, BROKER, GROUP = 2, 4, 32
ANY = 1
SET = 0
# A topic that tools do not show, and an option of it that changes nothing.
TOLD_IN, OPTION = "__consumer_offsets", "retention.ms"


async def settle(servers: str) -> None:
    """Return when every broker has applied all earlier changes: each applies them in order.

    A broker may learn of one change together with earlier ones and apply those later, but not of a second one.
    """
    async with Client(bootstrap_servers=servers) as client:
        while TOLD_IN not in await client.metadata():
            # Whoever looks for a coordinator brings it into being.
            await client.request(FindCoordinatorRequest(coordinator_keys=["any"]))
        for _ in range(2):
            value = str(secrets.randbelow(1 << 40))
            change = AlterableConfig(name=OPTION, config_operation=SET, value=value)
            resource = AlterConfigsResource(resource_type=TOPIC, resource_name=TOLD_IN, configs=[change])
            answer = await client.request(IncrementalAlterConfigsRequest(resources=[resource], validate_only=False))
            assert answer.responses[0].error_code == 0, answer
            for node in client.brokers:
                while await _told(client, node) != value:
                    pass


async def _told(client: Client, node: int) -> str | None:
    resource = DescribeConfigsResource(resource_type=TOPIC, resource_name=TOLD_IN, configuration_keys=[OPTION])
    (result,) = (await client.request(DescribeConfigsRequest(resources=[resource]), node=node)).results
    return next((entry.value for entry in result.configs), None)


async def leftovers(servers: str) -> set[str]:
    """Return what a cluster contains beyond what a new one has."""
    async with Client(bootstrap_servers=servers) as client:
        topics = [name for name in await client.metadata() if not name.startswith("__")]
        groups = [
            group.group_id
            for node in client.brokers
            for group in (await client.request(ListGroupsRequest(), node=node)).groups
        ]
        acls = await client.request(
            DescribeAclsRequest(
                resource_type_filter=ANY,
                resource_name_filter=None,
                pattern_type_filter=ANY,
                principal_filter=None,
                host_filter=None,
                operation=ANY,
                permission_type=ANY,
            )
        )
        quotas = await client.request(DescribeClientQuotasRequest(components=[], strict=False))
        users = await client.request(DescribeUserScramCredentialsRequest(users=None))
        configured = await client.request(ListConfigResourcesRequest(resource_types=[GROUP]))
        everybody = DescribeConfigsResource(resource_type=BROKER, resource_name="", configuration_keys=None)
        (defaults,) = (await client.request(DescribeConfigsRequest(resources=[everybody]))).results
    return {
        *topics,
        *groups,
        *(each.resource_name for each in acls.resources),
        *(str(each.entity) for each in quotas.entries or []),
        *(each.user for each in users.results),
        *(each.resource_name for each in configured.config_resources),
        *(each.name for each in defaults.configs),
    }
