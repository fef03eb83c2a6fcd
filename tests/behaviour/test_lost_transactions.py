"""A member that its group removes, and a timeout, in the middle of a transaction; with both transaction versions.

On the embedded broker and on real Kafka, where ``transaction.version`` decides.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator

import pytest

from aiokproto import Client, Consumer, ExactlyOnce, Producer
from aiokproto.codec.messages.leave_group import LeaveGroupRequest, MemberIdentity
from aiokproto.codec.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from aiokproto.errors import CommitError, TransactionAbortedError
from aiokproto.producer import Transaction
from aiokproto.types import Record, TopicPartition
from tests.behaviour.waiting import until as eventually
from tests.behaviour.waiting import written
from tests.clusters import BehaviourCluster
from tests.net.waiting import until

SAFE_DOWNGRADE, UPGRADE = 2, 1
COUNT = 6
TIMEOUT_MS = 300

pytestmark = pytest.mark.exclusive


async def set_transaction_version(cluster: BehaviourCluster, level: int) -> None:
    kind = UPGRADE if level == 2 else SAFE_DOWNGRADE
    update = FeatureUpdateKey(feature="transaction.version", max_version_level=level, upgrade_type=kind)
    async with Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        response = await client.request(UpdateFeaturesRequest(feature_updates=[update]))
    assert not any([response.error_code, *(result.error_code for result in response.results)]), response


@pytest.fixture(params=[1, 2])
async def version(request: pytest.FixtureRequest, cluster: BehaviourCluster) -> AsyncIterator[int]:
    """The version that transactions have."""
    if request.param == 2:
        yield 2
        return
    await set_transaction_version(cluster, 1)
    try:
        yield 1
    finally:
        await set_transaction_version(cluster, 2)


@pytest.fixture
async def source(cluster: BehaviourCluster, topic: str) -> str:
    """A topic of two partitions with some numbers."""
    await cluster.create_topic(topic, partitions=2)
    await cluster.create_topic(f"{topic}-out")
    async with Producer(bootstrap_servers=cluster.bootstrap_servers) as producer:
        for number in range(COUNT):
            await producer.send(topic, b"%d" % number, partition=number % 2)
    return topic


def clients(cluster: BehaviourCluster, topic: str, timeout_ms: int = 60_000) -> tuple[Consumer, Producer]:
    consumer = Consumer(
        topic,
        bootstrap_servers=cluster.bootstrap_servers,
        group_id=topic,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        isolation_level="read_committed",
        heartbeat_interval_ms=200,
    )
    producer = Producer(
        bootstrap_servers=cluster.bootstrap_servers,
        transactional_id=f"{topic}-one",
        transaction_timeout_ms=timeout_ms,
        linger_ms=0,
    )
    return consumer, producer


async def copied(cluster: BehaviourCluster, topic: str) -> Counter[bytes | None]:
    """The committed output."""
    out = f"{topic}-out"
    async with Consumer(
        out, bootstrap_servers=cluster.bootstrap_servers, auto_offset_reset="earliest", isolation_level="read_committed"
    ) as reader:
        ends = await written(cluster, *await reader.partitions_for_topic(out))
        found: Counter[bytes | None] = Counter()
        while any([await reader.position(each) < ends[each] for each in ends]):
            found.update(record.value for record in await reader.poll(100))
        return found


async def read_all(consumer: Consumer) -> list[Record]:
    records: list[Record] = []
    while len(records) < COUNT:
        records += await consumer.poll(1000)
    return records


@pytest.mark.parametrize("way", ["consumer", "progress"])
async def test_a_member_that_was_removed_and_is_back_does_not_commit_what_it_had(
    cluster: BehaviourCluster, source: str, version: int, way: str
) -> None:
    """The member rejoins without its application noticing, and owns the partitions in a new generation."""
    consumer, producer = clients(cluster, source)
    async with consumer, producer, Client(bootstrap_servers=cluster.bootstrap_servers) as client:
        records = await read_all(consumer)
        before = consumer.group_metadata()
        gone = (None, "", before.member_id)

        async def copy(records: list[Record], *, removed: bool) -> None:
            async with producer.transaction() as txn:
                for record in records:
                    await txn.post(f"{source}-out", record.value)
                if removed:
                    member = MemberIdentity(member_id=before.member_id)
                    await client.request(LeaveGroupRequest(group_id=source, members=[member]))
                    # A removed member has no id until it is back.
                    await until(lambda: consumer.assignment() and consumer.stats().member_id not in gone)
                await txn.send_offsets(consumer if way == "consumer" else consumer.progress(records))

        with pytest.raises(TransactionAbortedError) as caught:
            await copy(records, removed=True)
        assert isinstance(caught.value.__cause__, CommitError)
        # The records are delivered again from the start, because no offset is committed.
        await copy(await read_all(consumer), removed=False)
    assert await copied(cluster, source) == Counter(b"%d" % number for number in range(COUNT))


async def test_a_timeout_is_not_called_a_fence(cluster: BehaviourCluster, source: str, version: int) -> None:
    _, producer = clients(cluster, source, TIMEOUT_MS)
    out = f"{source}-out"
    async with producer:

        async def outlive() -> None:
            async with producer.transaction() as txn:
                await txn.send(out, b"late")
                await timed_out(cluster, source)
                await txn.send(out, b"late")

        with pytest.raises(TransactionAbortedError, match=f"transaction_timeout_ms={TIMEOUT_MS}"):
            await outlive()
        async with producer.transaction() as txn:
            await txn.send(out, b"next")
    assert await copied(cluster, source) == Counter([b"next"])


async def timed_out(cluster: BehaviourCluster, topic: str) -> None:
    """Wait until the coordinator has aborted: the stable offset is behind the marker then."""
    async with Consumer(bootstrap_servers=cluster.bootstrap_servers, isolation_level="read_committed") as committed:
        partition = (f"{topic}-out", 0)
        await eventually(lambda: committed.end_offsets(partition), lambda ends: ends[TopicPartition(*partition)] >= 2)


async def test_a_session_goes_on_after_a_timeout(cluster: BehaviourCluster, source: str, version: int) -> None:
    """Its batch is delivered again, whether ``send`` or the commit finds out."""
    consumer, producer = clients(cluster, source, TIMEOUT_MS)
    slow = [True]

    async def process(records: list[Record], txn: Transaction) -> None:
        for record in records:
            await txn.send(f"{source}-out", record.value)
            if slow:
                slow.clear()
                await timed_out(cluster, source)
        done.update(record.value for record in records)
        if len(done) == COUNT:
            session.stop()

    done: set[bytes | None] = set()
    async with ExactlyOnce(consumer, producer) as session:
        await session.run(process)
    assert await copied(cluster, source) == Counter(b"%d" % number for number in range(COUNT))
