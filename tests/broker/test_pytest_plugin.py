"""The pytest plugin, run by pytest in its own process."""

from __future__ import annotations

import asyncio
import importlib.util

import pytest

from aiokproto.broker import Broker, ThreadedCluster, VirtualClock
from tests.broker.ports import free_port

HELPERS = """
    import asyncio
    import socket

    def is_there(address):
        host, port = address.split(":")
        with socket.create_connection((host, int(port)), 60) as connection:
            connection.sendall(bytes([0, 0, 0, 10, 0, 18, 0, 0, 0, 0, 0, 1, 0, 0]))
            return len(connection.recv(8)) == 8
"""
TESTS = """
    import pytest
    from helpers import is_there

    def test_plain(kafka_broker):
        assert is_there(kafka_broker.bootstrap_servers)
        assert kafka_broker.cluster.broker_ids == [0]

    def test_three(kafka_cluster):
        assert all(is_there(address) for address in kafka_cluster.bootstrap_servers.split(","))
        assert len(kafka_cluster.cluster.broker_ids) == 3

    @pytest.mark.kafka_cluster(brokers=2, config={"num.partitions": 5}, auto_create_topics=True)
    def test_marked(kafka_cluster):
        assert len(kafka_cluster.cluster.broker_ids) == 2

    @pytest.mark.kafka_broker(config={"min.insync.replicas": 1})
    def test_topic(kafka_broker, kafka_topic):
        assert kafka_topic.startswith("test_topic-")
        assert kafka_broker.call(kafka_broker.cluster.leader, kafka_topic, 0) == 0
"""
ASYNC = """
    import asyncio
    import pytest
    from helpers import is_there

    {marker}
    async def test_async(kafka_broker, kafka_topic):
        assert await asyncio.to_thread(is_there, kafka_broker.bootstrap_servers)
        assert kafka_broker.new_topic() != kafka_broker.new_topic()
"""


def run(pytester: pytest.Pytester, *options: str) -> pytest.RunResult:
    pytester.makepyfile(helpers=HELPERS)
    # The plugin may be loaded already under its own name, as an entry point of the installed package.
    arguments = [
        "-p",
        "no:aiokproto",
        "-p",
        "aiokproto.pytest",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:randomly",
        "--strict-markers",
        *options,
    ]
    return pytester.runpytest_subprocess(*arguments)


def test_synchronous_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(TESTS)
    run(pytester).assert_outcomes(passed=4)


@pytest.mark.parametrize(
    ("plugin", "marker"),
    [
        ("pytest_asyncio", "@pytest.mark.asyncio"),
        ("pytest_asyncio", "@pytest.mark.asyncio(loop_scope='session')"),
        ("anyio", "@pytest.mark.anyio"),
    ],
)
def test_coroutines_with_any_plugin(pytester: pytest.Pytester, plugin: str, marker: str) -> None:
    if importlib.util.find_spec(plugin) is None:
        pytest.skip(f"{plugin} is not installed")
    pytester.makepyfile(ASYNC.format(marker=marker))
    if plugin == "anyio":
        pytester.makeconftest("import pytest\n\n@pytest.fixture\ndef anyio_backend():\n    return 'asyncio'\n")
    run(pytester).assert_outcomes(passed=1)


def test_one_broker_for_all_tests(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nkafka_broker_scope = session")
    pytester.makepyfile(
        """
        seen = set()

        def test_one(kafka_broker, kafka_topic):
            seen.add((kafka_broker.bootstrap_servers, kafka_topic))

        def test_two(kafka_broker, kafka_topic):
            ((address, topic),) = seen
            assert (kafka_broker.bootstrap_servers, topic != kafka_topic) == (address, True)
        """
    )
    run(pytester).assert_outcomes(passed=2)


def test_wrong_use_is_reported(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_broker(config={"num.partition": 2})
        def test_option(kafka_broker): ...

        @pytest.mark.kafka_broker(3)
        def test_number(kafka_broker): ...
        """
    )
    result = run(pytester)
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["*did you mean 'num.partitions'*", "*only keyword arguments*"])
    pytester.makeini("[pytest]\nkafka_broker_scope = galaxy")
    run(pytester).stdout.fnmatch_lines(["*'galaxy' is none of function*"])


def test_a_threaded_cluster_is_used_from_outside_its_thread() -> None:
    clock, port = VirtualClock(), free_port()
    kafka = ThreadedCluster(Broker(port=port, clock=clock))
    with pytest.raises(RuntimeError, match="not started"):
        kafka.call(clock.advance, 1)
    with kafka:
        kafka.call(clock.advance, 1)
        assert clock.time() == 1
        assert kafka.call(kafka.cluster.leader, kafka.new_topic(partitions=2), 1) == 0
        with pytest.raises(RuntimeError, match="cannot wait for itself"):
            kafka.call(lambda: kafka.create_topic("deadlock"))
        with pytest.raises(RuntimeError, match="already started"):
            kafka.start()
        assert kafka.bootstrap_servers == f"127.0.0.1:{port}"
    kafka.close()
    with ThreadedCluster(Broker(port=port)):
        other = ThreadedCluster(Broker(port=port))
        with pytest.raises(OSError, match="address"):
            other.start()


async def test_a_threaded_cluster_serves_a_loop_that_waits_for_it() -> None:
    with ThreadedCluster(Broker()) as kafka:
        host, port = kafka.bootstrap_servers.split(":")
        _, writer = await asyncio.open_connection(host, int(port))
        kafka.create_topic("from-a-coroutine")
        writer.close()
        await writer.wait_closed()
