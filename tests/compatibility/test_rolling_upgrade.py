"""An upgrade of a cluster of real brokers, one after the other and then the finalized features, under load.

And the way back, which is possible until the features are finalized.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator

import pytest

from aiokproto import Client, ShareConsumer
from aiokproto.codec.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from aiokproto.codec.messages.list_groups import ListGroupsRequest
from aiokproto.codec.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.figures import LINES
from tests.kafka.load import PLAIN, REPLICAS, Load, load
from tests.kafka.releases import NEWEST, missing
from tests.kafka.rolling import RollingKafka
from tests.timeouts import LONG_TIMEOUT

OLD = "3.9.2"
"""The last release from which a cluster can be upgraded to 4.x: the first step of every upgrade."""

pytestmark = [pytest.mark.kafka, pytest.mark.slow, pytest.mark.thorough, pytest.mark.timeout(900)]


@pytest.fixture
async def cluster() -> AsyncIterator[RollingKafka]:
    """Three brokers of the previous release."""
    reason = missing(OLD)
    if reason and os.environ.get("CI"):
        pytest.fail(f"not to be skipped under CI: {reason}", pytrace=False)
    elif reason:
        pytest.skip(reason)
    made = RollingKafka(OLD, REPLICAS, config={"min.insync.replicas": "2"})
    await asyncio.to_thread(made.start)
    try:
        yield made
    finally:
        await asyncio.to_thread(made.stop)


async def test_clients_go_on_through_an_upgrade(cluster: RollingKafka, request: pytest.FixtureRequest) -> None:
    async with load(cluster.bootstrap_servers) as clients:
        await clients.progress()
        for node_id in cluster.broker_ids:
            await restart(cluster, node_id, NEWEST, clients)
        features = await newest_features(clients.client)
        assert {"metadata.version", "group.version", "transaction.version", "share.version"} <= features.keys()
        # This feature comes first, because the others need it.
        for name in sorted(features, key=lambda name: (name != "metadata.version", name)):
            await finalize(clients.client, name, features[name])
            await clients.progress()
        assert await finalized(clients.client) == features
        assert await group_type(clients.client, "mixed") == "classic", "a member keeps its protocol"
        await clients.add_member("mixed 3", "mixed", group_protocol="auto")
        await clients.progress()
        assert await group_type(clients.client, "mixed") == "consumer", "a new one has the new protocol"
        async with ShareConsumer(PLAIN, bootstrap_servers=cluster.bootstrap_servers, group_id="shared") as consumer:
            while not await asyncio.wait_for(consumer.poll(1000), LONG_TIMEOUT):
                pass
        await clients.finish()
        report(request, clients)


async def test_clients_go_on_when_an_upgrade_is_taken_back(
    cluster: RollingKafka, request: pytest.FixtureRequest
) -> None:
    async with load(cluster.bootstrap_servers) as clients:
        await clients.progress()
        for release in (NEWEST, OLD):
            await restart(cluster, cluster.broker_ids[0], release, clients)
        await clients.finish()
        report(request, clients)


async def restart(cluster: RollingKafka, node_id: int, release: str, clients: Load) -> None:
    """Restart a broker as another release, and wait until it has caught up."""
    await asyncio.to_thread(cluster.restart_as, node_id, release)
    await clients.replicated()
    await clients.progress()


async def api_versions(client: Client, node: int) -> ApiVersionsResponse:
    """Return what a broker says about itself and the cluster's features."""
    request = ApiVersionsRequest(client_software_name="tests", client_software_version="1")
    response = await client.request(request, node=node)
    assert response.error_code == 0, response
    return response


async def newest_features(client: Client) -> dict[str, int]:
    """The highest level of each feature, which all brokers support."""
    answers = [await api_versions(client, node) for node in client.brokers]
    every = [{feature.name: feature.max_version for feature in response.supported_features} for response in answers]
    assert all(each == every[0] for each in every)
    return every[0]


async def finalized(client: Client) -> dict[str, int]:
    """The levels that the cluster uses."""
    response = await api_versions(client, min(client.brokers))
    return {feature.name: feature.max_version_level for feature in response.finalized_features}


async def finalize(client: Client, name: str, level: int) -> None:
    """Have the cluster use a level of a feature."""
    update = FeatureUpdateKey(feature=name, max_version_level=level)
    response = await client.request(UpdateFeaturesRequest(feature_updates=[update]))
    codes = [response.error_code, *(result.error_code for result in response.results)]
    assert not any(codes), response


async def group_type(client: Client, group_id: str) -> str:
    """Whether a group is a classic one, or one of the consumer protocol."""
    groups = (await client.request(ListGroupsRequest())).groups
    (found,) = [group.group_type for group in groups if group.group_id == group_id]
    return str(found).lower()


def report(request: pytest.FixtureRequest, clients: Load) -> None:
    """Print how long clients paused at most."""
    slowest = max(clients.works, key=lambda work: work.longest)
    pauses = ", ".join(f"{work.name} {work.longest:.1f}" for work in clients.works)
    request.config.stash[LINES].append(
        f"{request.node.name}: the longest pause was {slowest.longest:.1f} s ({slowest.name}; {pauses})"
    )
