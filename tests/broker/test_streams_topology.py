"""Configuring a topology: its tasks, and internal topics with the right number of partitions."""

from __future__ import annotations

import pytest

from aiokproto.broker.groups.streams.member import Topology
from aiokproto.broker.groups.streams.topology import StatusCode, check, configure
from aiokproto.error_codes import ErrorCode
from tests.broker.epoch_harness import Topics, refused
from tests.broker.streams_harness import subtopology, topology

COUNTING = topology(
    subtopology("0", ["a"], sinks=["r"]),
    subtopology("1", [], repartitions={"r": 0}, changelogs=["c"]),
)
JOINED = topology(
    subtopology("0", ["a"], sinks=["r"]),
    subtopology("1", ["b"], repartitions={"r": 0}, together=[([0], [0])]),
)
CHAIN = topology(
    subtopology("2", [], repartitions={"s": 0}),
    subtopology("1", [], sinks=["s"], repartitions={"r": 3}),
    subtopology("0", ["a"], sinks=["r"]),
)


@pytest.mark.parametrize(
    ("topology", "sizes", "tasks", "missing"),
    [
        (topology(subtopology("0", ["a", "b"])), {"a": 2, "b": 5}, {"0": 5}, {}),
        (COUNTING, {"a": 3}, {"0": 3, "1": 3}, {"r": 3, "c": 3}),
        (COUNTING, {"a": 3, "r": 3}, {"0": 3, "1": 3}, {"c": 3}),
        (COUNTING, {"a": 3, "r": 3, "c": 3}, {"0": 3, "1": 3}, {}),
        # Copartitioned topics get the number of the topic that cannot change.
        (JOINED, {"a": 3, "b": 6}, {"0": 3, "1": 6}, {"r": 6}),
        (JOINED, {"a": 6, "b": 3}, {"0": 6, "1": 3}, {"r": 3}),
        # A required number stays, and applies to topics derived from it.
        (CHAIN, {"a": 2}, {"0": 2, "1": 3, "2": 3}, {"r": 3, "s": 3}),
    ],
)
def test_partition_counts_are_derived(
    topology: Topology, sizes: dict[str, int], tasks: dict[str, int], missing: dict[str, int]
) -> None:
    check(topology)
    found = configure(topology, Topics(**sizes))
    assert found.tasks == tasks
    assert {name: info.partitions for name, info in found.missing.items()} == missing
    assert (found.error.code if found.error else None) == (StatusCode.MISSING_INTERNAL_TOPICS if missing else None)
    assert found.ready == (not missing)


@pytest.mark.parametrize(
    ("topology", "sizes", "code", "words"),
    [
        (COUNTING, {}, StatusCode.MISSING_SOURCE_TOPICS, "a"),
        (JOINED, {"a": 1}, StatusCode.MISSING_SOURCE_TOPICS, "b"),
        (COUNTING, {"a": 3, "c": 2}, StatusCode.INCORRECTLY_PARTITIONED_TOPICS, "c has 2 partitions, and needs 3"),
        (
            topology(subtopology("0", ["a", "b"], together=[([0, 1], [])])),
            {"a": 1, "b": 2},
            StatusCode.INCORRECTLY_PARTITIONED_TOPICS,
            "a 1, b 2",
        ),
        (topology(subtopology("0", ["a"], repartitions={"r": 0})), {"a": 1}, StatusCode.MISSING_SOURCE_TOPICS, "r"),
    ],
)
def test_mismatched_topics_are_reported(
    topology: Topology, sizes: dict[str, int], code: StatusCode, words: str
) -> None:
    found = configure(topology, Topics(**sizes))
    assert found.error is not None
    assert found.error.code is code
    assert words in found.error.detail
    assert (found.ready, found.tasks, found.missing) == (False, {}, {})


def test_internal_topics_get_the_requested_options() -> None:
    missing = configure(COUNTING, Topics(a=1)).missing["c"]
    assert [(config.key, config.value) for config in missing.topic_configs] == [("cleanup.policy", "compact")]


def test_the_hash_follows_the_topics() -> None:
    hashes = [configure(COUNTING, Topics(**sizes)).hash for sizes in ({}, {"a": 1}, {"a": 2}, {"a": 2, "z": 1})]
    assert hashes[0] == 0
    assert len(set(hashes)) == 3
    assert hashes[2] == hashes[3]


def _patterns() -> Topology:
    made = topology(subtopology())
    made.subtopologies[0].source_topic_regex = ["a.*"]
    return made


@pytest.mark.parametrize(
    ("topology", "code"),
    [
        (_patterns(), ErrorCode.INVALID_REQUEST),
        (topology(subtopology("0"), subtopology("0")), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (topology(subtopology("0", [])), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (topology(subtopology("0", ["a"], together=[([1], [])])), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (topology(subtopology("0", ["a"], together=[([0], [0])])), ErrorCode.STREAMS_INVALID_TOPOLOGY),
        (topology(subtopology("0", ["a"], together=[([-1], [])])), ErrorCode.STREAMS_INVALID_TOPOLOGY),
    ],
)
def test_an_invalid_topology_is_refused(topology: Topology, code: ErrorCode) -> None:
    with refused(code):
        check(topology)
