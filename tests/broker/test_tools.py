"""Kafka's command line tools have the same effects and output on the embedded broker as on real Kafka."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aiokproto.broker import Cluster
from tests.broker.kafka_tools import Tools, Transcript, play, steps
from tests.broker.propagation import leftovers, settle
from tests.kafka.cluster import KafkaCluster
from tests.timeouts import LONG_TIMEOUT

# A script runs many tools, each of which may take its time.
pytestmark = [pytest.mark.kafka, pytest.mark.java, pytest.mark.timeout(900)]

CONFIG = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "min.insync.replicas": "1",
    "offsets.topic.num.partitions": "5",
    "transaction.state.log.num.partitions": "5",
}

# Real Kafka has this feature and the embedded broker doesn't. Without it a topic's options are only its own.
WITHOUT_ELR = """
    FeatureCommand downgrade --feature eligible.leader.replicas.version=0
    ConfigCommand --alter --broker-defaults --delete-config min.insync.replicas
"""


class Real:
    """A real cluster with the nodes 1 and 2, for these tests alone."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._cluster: KafkaCluster | None = None

    def start(self) -> str:
        """Start the cluster unless it runs, and return its address."""
        if self._cluster is None:
            self._cluster = KafkaCluster(2, config=CONFIG, heap="384m")
            self._cluster.start()
            servers = self._cluster.bootstrap_servers
            play(self._tools, servers, WITHOUT_ELR, settle=partial(settled, servers))
        return self._cluster.bootstrap_servers

    def stop(self) -> None:
        """Stop the cluster. The next start creates another one."""
        if self._cluster is not None:
            self._cluster.stop()
            self._cluster = None


def settled(servers: str) -> None:
    asyncio.run(settle(servers))


@pytest.fixture(scope="module")
def reals(tools: Tools) -> Iterator[Real]:
    real = Real(tools)
    yield real
    real.stop()


@pytest.fixture
async def real(reals: Real) -> AsyncIterator[str]:
    """Return the address of a real cluster that is still empty."""
    servers = await asyncio.to_thread(reals.start)
    yield servers
    left = await leftovers(servers)
    if left:
        await asyncio.to_thread(reals.stop)
    assert not left, "what a test leaves behind would be in the way of the others"


@pytest.fixture
async def embedded() -> AsyncIterator[str]:
    """Return the address of an embedded cluster with the nodes 1 and 2, in the same racks as the real cluster's."""
    async with Cluster(3, config=CONFIG, racks=["rack-0", "rack-1", "rack-2"]) as cluster:
        await cluster.stop_broker(0)
        yield ",".join(cluster.bootstrap_servers.split(",")[1:])


@dataclass(frozen=True)
class Stage:
    """Both clusters, and the embedded cluster's transcript of each script."""

    tools: Tools
    embedded: str
    real: str
    tally: Counter[str]
    ours: dict[str, Transcript] = field(default_factory=dict)

    async def play(self, servers: str, script: str, **names: str) -> Transcript:
        self.tally["runs of Kafka's command line tools"] += len(steps(script))
        if servers == self.real:
            like, done = self.ours[script], partial(settled, servers)
            return await asyncio.to_thread(play, self.tools, servers, script, names, like=like, settle=done)
        self.ours[script] = await asyncio.to_thread(play, self.tools, servers, script, names)
        return self.ours[script]

    async def compare(self, script: str, **names: str) -> None:
        await self.compare_acts(lambda servers: self.play(servers, script, **names))

    async def compare_acts(self, act: Callable[[str], Awaitable[Transcript]]) -> None:
        ours = await act(self.embedded)
        assert ours == await act(self.real)


@pytest.fixture
def stage(tools: Tools, embedded: str, real: str, tally: Counter[str]) -> Stage:
    return Stage(tools, embedded, real, tally)


async def test_topics(stage: Stage) -> None:
    await stage.compare("""
        TopicCommand --create --topic t --replica-assignment 1:2,2:1,1:2 --config retention.ms=3600000
        ! TopicCommand --create --topic t --partitions 1 => already exists
        TopicCommand --create --topic t --partitions 1 --if-not-exists
        ! TopicCommand --create --topic bad --partitions 1 --replication-factor 5
        ! TopicCommand --create --topic b@d --partitions 1
        ! TopicCommand --create --topic bad --replica-assignment 7
        TopicCommand --create --topic t.u --replica-assignment 1
        ! TopicCommand --create --topic t_u --replica-assignment 1
        TopicCommand --list --exclude-internal => t.u
        TopicCommand --list --topic t.*
        TopicCommand --describe --topic t => Isr: 2,1
        TopicCommand --describe --topic t --topics-with-overrides => retention.ms=3600000
        TopicCommand --describe --exclude-internal
        TopicCommand --describe --topic t --at-min-isr-partitions
        TopicCommand --describe --topic t --under-replicated-partitions
        TopicCommand --describe --topic t --unavailable-partitions
        TopicCommand --describe --topic t --partition-size-limit-per-response 2 => Partition: 2
        ! TopicCommand --describe --topic missing => does not exist
        TopicCommand --alter --topic t --partitions 5 --replica-assignment 1:2,2:1,1:2,2:1,1:2
        ! TopicCommand --alter --topic t --partitions 2
        ! TopicCommand --alter --topic t --partitions 5
        ! TopicCommand --alter --topic missing --partitions 5
        TopicCommand --describe --topic t => Partition: 4
        TopicCommand --delete --topic t.u
        ! TopicCommand --delete --topic missing
        TopicCommand --delete --topic missing --if-exists
        TopicCommand --list --exclude-internal => t
        TopicCommand --delete --topic t
    """)


async def test_options_of_topics_and_brokers(stage: Stage) -> None:
    await stage.compare("""
        TopicCommand --create --topic o --replica-assignment 1:2
        ConfigCommand --describe --topic o
        ConfigCommand --alter --topic o --add-config max.message.bytes=2000,cleanup.policy=[compact,delete]
        ConfigCommand --describe --topic o => cleanup.policy=compact,delete
        ! ConfigCommand --alter --topic o --add-config nonsense=1
        ! ConfigCommand --alter --topic o --add-config retention.ms=abc
        ! ConfigCommand --alter --topic o --add-config min.insync.replicas=0
        ConfigCommand --alter --topic o --delete-config max.message.bytes
        ConfigCommand --alter --topic o --delete-config max.message.bytes
        ConfigCommand --describe --entity-type topics --entity-name o
        ~ ConfigCommand --describe --topic o --all => segment.bytes=1073741824
        ConfigCommand --describe --topic missing
        ! ConfigCommand --alter --topic missing --add-config retention.ms=1000
        ConfigCommand --describe --broker 1
        ConfigCommand --describe --broker-defaults
        ConfigCommand --alter --broker 1 --add-config leader.replication.throttled.rate=1000
        ConfigCommand --describe --broker 1 => {DYNAMIC_BROKER_CONFIG:leader.replication.throttled.rate=1000}
        ConfigCommand --alter --broker 1 --delete-config leader.replication.throttled.rate
        ConfigCommand --alter --broker-defaults --add-config log.segment.bytes=1048576
        ConfigCommand --describe --broker-defaults => log.segment.bytes=1048576
        ~ ConfigCommand --describe --topic o --all => {DYNAMIC_DEFAULT_BROKER_CONFIG:log.segment.bytes=1048576, D
        ConfigCommand --alter --broker-defaults --delete-config log.segment.bytes
        ! ConfigCommand --alter --broker 1 --add-config num.partitions=2
        TopicCommand --delete --topic o
    """)


async def test_options_of_users_clients_and_groups(stage: Stage) -> None:
    await stage.compare("""
        ConfigCommand --alter --user alice --add-config consumer_byte_rate=1024,producer_byte_rate=2048
        ! ConfigCommand --alter --user alice --add-config nonsense=1024
        ConfigCommand --alter --user-defaults --add-config request_percentage=50
        ConfigCommand --alter --user alice --client app --add-config producer_byte_rate=10
        ConfigCommand --alter --client app --add-config controller_mutation_rate=5
        ConfigCommand --describe --user alice => consumer_byte_rate=1024.0
        ConfigCommand --describe --user-defaults
        ConfigCommand --describe --entity-type users
        ConfigCommand --describe --entity-type clients
        ConfigCommand --describe --user alice --client app
        ConfigCommand --alter --user alice --delete-config consumer_byte_rate
        ! ConfigCommand --alter --user alice --delete-config consumer_byte_rate
        ConfigCommand --alter --user alice --add-config SCRAM-SHA-256=[iterations=4096,password=secret]
        ConfigCommand --describe --user alice => SCRAM-SHA-256=iterations=4096
        ConfigCommand --describe --entity-type users
        ConfigCommand --alter --user alice --delete-config SCRAM-SHA-256
        ! ConfigCommand --alter --user alice --delete-config SCRAM-SHA-256
        ! ConfigCommand --alter --user alice --add-config SCRAM-SHA-256=[iterations=1,password=secret]
        ConfigCommand --alter --ip 127.0.0.9 --add-config connection_creation_rate=100
        ! ConfigCommand --alter --ip nonsense --add-config connection_creation_rate=100
        ConfigCommand --describe --ip 127.0.0.9
        ConfigCommand --describe --entity-type ips
        ConfigCommand --alter --ip 127.0.0.9 --delete-config connection_creation_rate
        ConfigCommand --alter --group g --add-config consumer.session.timeout.ms=50000
        ConfigCommand --describe --group g => {DYNAMIC_GROUP_CONFIG:consumer.session.timeout.ms=50000
        ConfigCommand --describe --entity-type groups
        ! ConfigCommand --alter --group g --add-config consumer.session.timeout.ms=5
        ! ConfigCommand --alter --group g --add-config nonsense=5
        ConfigCommand --alter --group g --delete-config consumer.session.timeout.ms
        ConfigCommand --describe --group g
        ConfigCommand --alter --user alice --delete-config producer_byte_rate
        ConfigCommand --alter --user-defaults --delete-config request_percentage
        ConfigCommand --alter --user alice --client app --delete-config producer_byte_rate
        ConfigCommand --alter --client app --delete-config controller_mutation_rate
    """)


async def test_groups(stage: Stage) -> None:
    await stage.compare("""
        TopicCommand --create --topic g --replica-assignment 1:2,2:1
        ConsoleProducer --topic g --reader-property parse.key=true --reader-property key.separator=: << a:1 b:2 c:3 d:4
        ConsoleConsumer --topic g --from-beginning --max-messages 4 --timeout-ms 60000 --group g1
        ConsoleConsumer --topic g --from-beginning --max-messages 4 --timeout-ms 60000 \
            --group g2 --command-property group.protocol=consumer
        ConsumerGroupCommand --list => g2
        ConsumerGroupCommand --list --state Empty => g1
        ConsumerGroupCommand --list --type consumer
        ConsumerGroupCommand --list --type
        ConsumerGroupCommand --describe --group g1 --group g2 => LOG-END-OFFSET
        ConsumerGroupCommand --describe --group g1 --offsets --verbose
        ~ ConsumerGroupCommand --describe --group g1 --state => Empty
        ~ ConsumerGroupCommand --describe --group g2 --state --verbose => uniform
        ConsumerGroupCommand --describe --group g2 --members --verbose => no active members
        ConsumerGroupCommand --describe --group missing => GroupIdNotFoundException
        ConsumerGroupCommand --reset-offsets --group g1 --topic g --to-earliest --dry-run
        ConsumerGroupCommand --reset-offsets --group g1 --topic g --to-earliest --execute
        ConsumerGroupCommand --reset-offsets --group g1 --topic g:0 --shift-by 1 --execute
        ConsumerGroupCommand --reset-offsets --group g2 --topic g --to-datetime 2020-01-01T00:00:00.000 --execute
        ConsumerGroupCommand --reset-offsets --group g2 --topic g --to-latest --execute --export => g,1,1
        ConsumerGroupCommand --reset-offsets --group new --topic g --to-latest --execute
        ConsumerGroupCommand --delete-offsets --group g1 --topic g
        ConsumerGroupCommand --delete-offsets --group missing --topic g
        ConsumerGroupCommand --delete --group g1 --group g2
        ConsumerGroupCommand --delete --group missing
        GroupsCommand --list => new
        GroupsCommand --list --consumer
        GroupsCommand --list --group-type classic
        ConsumerGroupCommand --delete --group new
        ConsumerGroupCommand --list
        TopicCommand --delete --topic g
    """)


LONG = 900_000
"""The longest that a transaction may take, in milliseconds."""


def member(servers: str, group: str) -> Any:
    """Return a member of the group that is named like its protocol, which has read a record of the topic `m`."""
    confluent = pytest.importorskip("confluent_kafka")
    options = {"bootstrap.servers": servers, "group.id": group, "group.protocol": group, "client.id": f"in-{group}"}
    consumer = confluent.Consumer(
        {**options, "auto.offset.reset": "earliest", "enable.auto.commit": False, "max.poll.interval.ms": LONG}
    )
    consumer.subscribe(["m"])
    (record,) = consumer.consume(1, LONG_TIMEOUT)
    consumer.commit(record, asynchronous=False)
    return consumer


async def test_groups_with_members(stage: Stage) -> None:
    script = """
        ConsumerGroupCommand --list --state Stable => consumer
        ConsumerGroupCommand --describe --group classic => in-classic
        ConsumerGroupCommand --describe --group consumer => in-consumer
        ConsumerGroupCommand --describe --group classic --members --verbose => m:0
        ConsumerGroupCommand --describe --group consumer --members --verbose => m:0
        ConsumerGroupCommand --reset-offsets --group classic --topic m --to-earliest --execute => inactive
        ConsumerGroupCommand --delete --group consumer => GroupNotEmptyException
        ConsumerGroupCommand --delete-offsets --group classic --topic m => GroupSubscribedToTopicException
    """

    async def act(servers: str) -> Transcript:
        await stage.play(servers, "TopicCommand --create --topic m --replica-assignment 1:2")
        await stage.play(servers, "ConsoleProducer --topic m << v")
        members = [await asyncio.to_thread(member, servers, group) for group in ("classic", "consumer")]
        try:
            seen = await stage.play(servers, script)
        finally:
            for each in members:
                await asyncio.to_thread(each.close)
        await stage.play(servers, "ConsumerGroupCommand --delete --group classic --group consumer")
        await stage.play(servers, "TopicCommand --delete --topic m")
        return seen

    await stage.compare_acts(act)


async def test_share_groups(stage: Stage) -> None:
    await stage.compare("""
        TopicCommand --create --topic s --replica-assignment 1:2
        ConfigCommand --alter --group shared --add-config share.auto.offset.reset=earliest
        ConfigCommand --describe --group shared => share.auto.offset.reset=earliest
        ConsoleProducer --topic s << a b c
        ConsoleShareConsumer --topic s --group shared --max-messages 3 --timeout-ms 60000 => c
        GroupsCommand --list --share => shared
        ShareGroupCommand --list => shared
        ShareGroupCommand --list --state => Empty
        ShareGroupCommand --describe --group shared => s
        ShareGroupCommand --describe --group shared --members
        ~ ShareGroupCommand --describe --group shared --state => Empty
        ShareGroupCommand --reset-offsets --group shared --topic s --to-earliest --execute => s
        ConsoleShareConsumer --topic s --group shared --max-messages 3 --timeout-ms 60000 => c
        ShareGroupCommand --delete-offsets --group shared --topic s
        ShareGroupCommand --delete --group shared
        ConfigCommand --alter --group shared --delete-config share.auto.offset.reset
        GroupsCommand --list --share => not shared
        TopicCommand --delete --topic s
    """)


def written(path: Path, content: object) -> str:
    path.write_text(json.dumps(content))
    return str(path)


async def test_partitions(stage: Stage, tmp_path: Path) -> None:
    first, second = ({"topic": "p", "partition": index} for index in (0, 1))
    files = {
        "delete": {"version": 1, "partitions": [{**first, "offset": -1}, {**second, "offset": -1}]},
        "elect": {"partitions": [first, second]},
        "move": {"version": 1, "partitions": [{**first, "replicas": [2, 1]}, {**second, "replicas": [2]}]},
        "back": {"version": 1, "partitions": [{**first, "replicas": [1, 2]}]},
        "nowhere": {"version": 1, "partitions": [{**first, "replicas": [9]}]},
        "topics": {"version": 1, "topics": [{"topic": "p"}]},
    }
    paths = {name: written(tmp_path / name, content) for name, content in files.items()}
    await stage.compare(
        """
        TopicCommand --create --topic p --replica-assignment 1:2,2:1
        ConsoleProducer --sync --timeout 1 --topic p \
            --reader-property parse.key=true --reader-property key.separator=: << a:1 b:2 c:3 d:4
        GetOffsetShell --topic p => p:0:
        GetOffsetShell --topic-partitions p:1
        GetOffsetShell --topic p --time earliest => p:0:0
        ~ GetOffsetShell --topic p --time -3 => p:0:
        GetOffsetShell --topic p --time -4
        GetOffsetShell --topic p --time latest-tiered
        GetOffsetShell --topic p --time 0 => p:0:
        GetOffsetShell --topic p --time 99999999999999
        ! GetOffsetShell --topic missing
        LogDirsCommand --describe --topic-list p => "size"
        LogDirsCommand --describe --topic-list p --broker-list 1
        ! LogDirsCommand --describe --topic-list p --broker-list 9
        DeleteRecordsCommand --offset-json-file {delete} => low_watermark
        GetOffsetShell --topic p --time -2
        LeaderElectionCommand --election-type preferred --topic p --partition 0 => already elected
        LeaderElectionCommand --election-type unclean --topic p --partition 0
        ! LeaderElectionCommand --election-type preferred --topic p --partition 7
        ~ ReassignPartitionsCommand --topics-to-move-json-file {topics} --broker-list 1,2 --generate => Proposed
        ReassignPartitionsCommand --reassignment-json-file {move} --execute => Successfully started
        ~ ReassignPartitionsCommand --reassignment-json-file {move} --verify => Clearing topic-level throttles
        TopicCommand --describe --topic p => Replicas: 2,1
        LeaderElectionCommand --election-type preferred --path-to-json-file {elect}
        TopicCommand --describe --topic p => Leader: 2
        ReassignPartitionsCommand --list
        ReassignPartitionsCommand --reassignment-json-file {back} --execute --throttle 1000000 => throttle limit was set
        ~ ConfigCommand --describe --topic p => leader.replication.throttled.replicas=0:1,0:2
        ConfigCommand --describe --broker 1 => follower.replication.throttled.rate=1000000
        ReassignPartitionsCommand --reassignment-json-file {back} --verify => is completed
        ConfigCommand --describe --topic p => not throttled
        ConfigCommand --describe --broker 1 => not throttled
        ReassignPartitionsCommand --reassignment-json-file {back} --cancel
        ! ReassignPartitionsCommand --reassignment-json-file {nowhere} --execute => Unknown broker
        TopicCommand --delete --topic p
        """,
        **paths,
    )


async def test_acls(stage: Stage) -> None:
    await stage.compare("""
        AclCommand --list
        AclCommand --add --allow-principal User:alice --operation Read --topic t1
        AclCommand --add --allow-principal User:alice --producer --topic t2
        AclCommand --add --allow-principal User:alice --consumer --topic t2 --group g --resource-pattern-type prefixed
        AclCommand --add --deny-principal User:bob --deny-host 10.0.0.1 --operation All --cluster
        AclCommand --add --allow-principal User:carol --transactional-id x --operation Write --operation Describe
        AclCommand --add --allow-principal User:carol --delegation-token tok --operation Describe
        AclCommand --add --allow-principal User:carol --user-principal User:dave --operation CreateTokens
        AclCommand --list => 10.0.0.1
        AclCommand --list --topic t2
        AclCommand --list --topic t2x --resource-pattern-type match => PREFIXED
        AclCommand --list --principal User:alice --topic *
        AclCommand --remove --force --topic t2 --resource-pattern-type match
        AclCommand --remove --force --allow-principal User:alice --operation Read --topic t1
        AclCommand --list
        AclCommand --remove --force --cluster
        AclCommand --remove --force --transactional-id x
        AclCommand --remove --force --delegation-token tok
        AclCommand --remove --force --user-principal User:dave
        AclCommand --remove --force --group g --resource-pattern-type any
        AclCommand --list
    """)


async def test_records(stage: Stage) -> None:
    await stage.compare("""
        TopicCommand --create --topic r --replica-assignment 1:2,2:1
        TopicCommand --create --topic perf --replica-assignment 1:2
        TopicCommand --create --topic copy --replica-assignment 1:2,2:1
        VerifiableProducer --topic r --max-messages 30 --acks -1 --repeating-keys 5
        ~ VerifiableConsumer --topic r --group-id v1 --max-messages 30 --reset-policy earliest => shutdown_complete
        ~ VerifiableConsumer --topic r --group-id v2 --max-messages 30 --reset-policy earliest \
            --group-protocol consumer => "maxOffset":17
        ConsoleConsumer --topic r --partition 0 --offset 0 --max-messages 5 --timeout-ms 60000 \
            --formatter-property print.key=true --formatter-property print.offset=true
        ~ TransactionalMessageCopier --broker-list {servers} --input-topic r --input-partition 0 --output-topic copy \
            --consumer-group c --transaction-size 10 --transactional-id copier --use-group-metadata --group-mode \
            => "totalProcessed":30
        ConsoleConsumer --topic copy --from-beginning --isolation-level read_committed \
            --max-messages 30 --timeout-ms 60000 --group copied
        ProducerPerformance --topic perf --num-records 1000 --record-size 100 --throughput -1 \
            --command-property compression.type=zstd => 1000 records sent
        ProducerPerformance --topic perf --num-records 100 --record-size 100 --throughput -1 \
            --transactional-id perf --transaction-duration-ms 60000 => 100 records sent
        ~ ConsumerPerformance --topic perf --num-records 1100 --timeout 60000 --group perf => 1100,
        ~ EndToEndLatency {servers} perf 10 all 100 => Percentiles
        ? ConsoleConsumer --topic __consumer_offsets --from-beginning --timeout-ms 1500 --group offsets \
            --command-property enable.auto.commit=false \
            --formatter org.apache.kafka.tools.consumer.OffsetsMessageFormatter => "group":"c"
        ConsumerGroupCommand --delete --group v1 --group v2 --group c --group perf --group copied --group offsets
        ~ ConsumerGroupCommand --delete --all-groups
        TopicCommand --delete --topic r
        TopicCommand --delete --topic perf
        TopicCommand --delete --topic copy
    """)


def in_transaction(servers: str) -> Any:
    """Return a producer in the middle of its first transaction."""
    confluent = pytest.importorskip("confluent_kafka")
    producer = confluent.Producer(
        {"bootstrap.servers": servers, "transactional.id": "open", "transaction.timeout.ms": LONG}
    )
    producer.init_transactions(LONG_TIMEOUT)
    producer.begin_transaction()
    producer.produce("x", b"v")
    assert producer.flush(LONG_TIMEOUT) == 0
    return producer


async def test_transactions(stage: Stage) -> None:
    """Every tool describes an open transaction, and a tool aborts it."""
    script = """
        ~ TransactionsCommand list --transactional-id-pattern op.* => Ongoing
        ~ TransactionsCommand list => open
        TransactionsCommand list --duration-filter 1000000
        ~ TransactionsCommand describe --transactional-id open => x-0
        ! TransactionsCommand describe --transactional-id missing
        ~ TransactionsCommand describe-producers --topic x --partition 0 => CurrentTransactionStartOffset
        TransactionsCommand find-hanging --topic x
        TransactionsCommand abort --topic x --partition 0 --start-offset 0
        GetOffsetShell --topic x => x:0:2
        TransactionsCommand forceTerminateTransaction --transactionalId open
        ~ TransactionsCommand list --transactional-id-pattern op.* => Empty
    """

    async def act(servers: str) -> Transcript:
        await stage.play(servers, "TopicCommand --create --topic x --replica-assignment 1:2")
        producer = await asyncio.to_thread(in_transaction, servers)
        seen = await stage.play(servers, script)
        del producer
        await stage.play(servers, "TopicCommand --delete --topic x")
        return seen

    await stage.compare_acts(act)


async def test_the_cluster(stage: Stage) -> None:
    await stage.compare("""
        ~ ClusterTool cluster-id --bootstrap-server {servers} => Cluster ID
        ClusterTool list-endpoints --bootstrap-server {servers} => unfenced
        ! ClusterTool unregister --id 9 --bootstrap-server {servers}
        ~ FeatureCommand describe => transaction.version
        FeatureCommand upgrade --feature group.version=1
        ! FeatureCommand upgrade --feature nonsense=1
        ! FeatureCommand upgrade --feature group.version=9
        FeatureCommand downgrade --feature transaction.version=1
        ~ FeatureCommand describe => FinalizedVersionLevel: 1
        FeatureCommand upgrade --feature transaction.version=2
        FeatureCommand disable --feature group.version --dry-run => can be disabled
        ~ MetadataQuorumCommand describe --status => CurrentVoters
        ~ MetadataQuorumCommand describe --replication => Leader
        ~ BrokerApiVersionsCommand => ListTransactions(66): 0 to 2
    """)
