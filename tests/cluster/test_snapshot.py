"""The cluster snapshot, and how Metadata responses change it."""

from __future__ import annotations

from aiokproto.cluster.snapshot import MAX_OMISSIONS, MAX_REWINDS, BrokerNode, ClusterSnapshot
from aiokproto.codec.messages.metadata import (
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from aiokproto.codec.wire import ZERO_UUID

ID, OTHER_ID = b"\1" * 16, b"\2" * 16


def partition(index: int, leader: int, epoch: int, error: int = 0) -> MetadataResponsePartition:
    return MetadataResponsePartition(
        error_code=error,
        partition_index=index,
        leader_id=leader,
        leader_epoch=epoch,
        replica_nodes=[1, 2],
        isr_nodes=[leader],
    )


def answer(*partitions: MetadataResponsePartition, topic_id: bytes = ID, error: int = 0) -> MetadataResponse:
    return MetadataResponse(
        brokers=[MetadataResponseBroker(node_id=id_, host="h", port=9000 + id_, rack="r") for id_ in (1, 2)],
        cluster_id="c",
        controller_id=2,
        topics=[MetadataResponseTopic(error_code=error, name="t", topic_id=topic_id, partitions=list(partitions))],
    )


def test_a_metadata_response_becomes_the_snapshot() -> None:
    shot = ClusterSnapshot().updated(answer(partition(1, 2, 5), partition(0, 1, 4)))
    assert shot.brokers == {1: BrokerNode(1, "h", 9001, "r"), 2: BrokerNode(2, "h", 9002, "r")}
    assert (shot.controller_id, shot.cluster_id, shot.generation) == (2, "c", 1)
    assert [shot.leader("t", index) for index in (-1, 0, 1, 2)] == [None, 1, 2, None]
    assert [shot.leader_epoch("t", index) for index in (0, 1, 2)] == [4, 5, -1]
    assert shot.topic_name(ID) == "t"
    assert shot.leader("other", 0) is None


def test_an_epoch_never_goes_backwards() -> None:
    """Brokers learn of a new leader at different times (KIP-320)."""
    newer = ClusterSnapshot().updated(answer(partition(0, 2, 5), partition(1, 1, 3)))
    older = newer.updated(answer(partition(0, 1, 4), partition(1, 2, 4)))
    assert (older.leader("t", 0), older.leader_epoch("t", 0)) == (2, 5)
    assert (older.leader("t", 1), older.leader_epoch("t", 1)) == (2, 4)
    assert older.generation == newer.generation + 1


def test_a_lower_epoch_is_believed_when_several_responses_in_a_row_have_it() -> None:
    """A cluster that was restored counts its epochs from an older one."""
    shot = ClusterSnapshot().updated(answer(partition(0, 2, 5)))
    leaders = []
    for _ in range(MAX_REWINDS + 1):
        shot = shot.updated(answer(partition(0, 1, 3)))
        leaders.append((shot.leader("t", 0), shot.leader_epoch("t", 0)))
    assert leaders == [(2, 5)] * MAX_REWINDS + [(1, 3)]


def test_a_response_with_the_known_epoch_ends_the_row_of_lower_ones() -> None:
    shot = ClusterSnapshot()
    for _ in range(3):
        shot = shot.updated(answer(partition(0, 2, 5)))
        for _ in range(MAX_REWINDS):
            shot = shot.updated(answer(partition(0, 1, 3)))
    assert shot.leader("t", 0) == 2


def test_a_partition_without_leader_and_epoch_keeps_the_known_epoch() -> None:
    """Redpanda sends no epoch while there is no leader; an outdated response may follow."""
    leaderless = ClusterSnapshot().updated(answer(partition(0, 2, 5))).updated(answer(partition(0, -1, -1, error=5)))
    assert (leaderless.leader("t", 0), leaderless.leader_epoch("t", 0)) == (None, 5)
    outdated = leaderless.updated(answer(partition(0, 1, 4)))
    assert (outdated.leader("t", 0), outdated.leader_epoch("t", 0)) == (None, 5)
    assert outdated.updated(answer(partition(0, 1, 6))).leader("t", 0) == 1


def test_a_topic_created_again_starts_at_its_own_epoch() -> None:
    before = ClusterSnapshot().updated(answer(partition(0, 2, 5)))
    after = before.updated(answer(partition(0, 1, 0), topic_id=OTHER_ID))
    assert (after.leader("t", 0), after.leader_epoch("t", 0)) == (1, 0)
    assert (after.topic_name(ID), after.topic_name(OTHER_ID)) == (None, "t")


def test_a_topic_that_was_created_again_is_known_by_its_id() -> None:
    """Its name proves nothing, and neither does a response without topic ids."""
    first = ClusterSnapshot().updated(answer(partition(0, 1, 0)))
    again = first.updated(answer(partition(0, 1, 0), topic_id=OTHER_ID))
    unnamed = first.updated(answer(partition(0, 1, 0), topic_id=ZERO_UUID))
    assert again.recreated({"t": ID}) == ["t"]
    assert again.recreated({"t": OTHER_ID, "other": ID}) == []
    assert unnamed.recreated({"t": ID}) == []
    assert again.recreated({"t": ZERO_UUID}) == []
    assert first.without(["t"]).recreated({"t": ID}) == [], "gone is not created again"


def test_without_some_topics() -> None:
    whole = ClusterSnapshot().updated(answer(partition(0, 1, 0)))
    less = whole.without(["t", "other"])
    assert (less.topics, less.topic_name(ID), less.generation) == ({}, None, whole.generation + 1)
    assert whole.without(["other"]) is whole


def test_a_leader_without_an_epoch_is_accepted() -> None:
    """Old brokers do not send leader epochs."""
    before = ClusterSnapshot().updated(answer(partition(0, 2, 5)))
    assert before.updated(answer(partition(0, 1, -1))).leader("t", 0) == 1


def test_a_partition_without_leader() -> None:
    shot = ClusterSnapshot().updated(
        answer(partition(0, -1, 5), partition(1, 1, 3, error=5), partition(2, 1, 3, error=9))
    )
    assert [shot.leader("t", index) for index in (0, 1, 2)] == [None, None, 1]
    assert shot.leaderless(["t", "other"]) == [("t", 0), ("t", 1)]


def test_a_topic_with_an_error_stays_until_it_is_dropped() -> None:
    before = ClusterSnapshot().updated(answer(partition(0, 1, 0)))
    doubtful = before.updated(answer(error=3))
    assert doubtful.topics == before.topics
    assert doubtful.updated(answer(error=3), drop=["t"]).topics == {}


def test_topics_that_are_not_in_use_are_left_out() -> None:
    assert ClusterSnapshot().updated(answer(partition(0, 1, 0)), keep=["other"]).topics == {}


def test_a_topic_never_loses_partitions() -> None:
    """A broker that has just started, or lags behind, lists fewer."""
    shot = ClusterSnapshot().updated(answer(*(partition(index, 1, 0) for index in range(3))))
    for times in range(1, 30):
        shot = shot.updated(answer(partition(1, 2, 1)))
        assert [info.leader for info in shot.topics["t"].partitions] == [1, 2, 1]
        assert shot.topics["t"].omissions == times
    whole = shot.updated(answer(*(partition(index, 1, 2) for index in range(3))))
    assert whole.topics["t"].omissions == 0


def test_a_topic_that_is_created_again_can_have_fewer_partitions() -> None:
    shot = ClusterSnapshot().updated(answer(*(partition(index, 1, 0) for index in range(3))))
    assert len(shot.updated(answer(partition(0, 1, 0), topic_id=OTHER_ID)).topics["t"].partitions) == 1


def test_fewer_partitions_are_believed_where_topics_have_no_ids_once_several_responses_have_them() -> None:
    shot = ClusterSnapshot().updated(answer(*(partition(index, 1, 0) for index in range(3)), topic_id=ZERO_UUID))
    for _ in range(MAX_OMISSIONS):
        shot = shot.updated(answer(partition(0, 1, 0), topic_id=ZERO_UUID))
        assert len(shot.topics["t"].partitions) == 3
    shot = shot.updated(answer(partition(0, 1, 0), topic_id=ZERO_UUID))
    assert (len(shot.topics["t"].partitions), shot.topics["t"].omissions) == (1, 0)


def test_a_gap_is_a_partition_without_a_leader() -> None:
    shot = ClusterSnapshot().updated(answer(partition(2, 1, 0), partition(0, 1, 0)))
    assert [info.leader for info in shot.topics["t"].partitions] == [1, -1, 1]


def test_a_leader_hint() -> None:
    before = ClusterSnapshot().updated(answer(partition(0, 1, 4)))
    hinted = before.with_leader("t", 0, 2, 5)
    assert (hinted.leader("t", 0), hinted.leader_epoch("t", 0)) == (2, 5)
    assert hinted.generation == before.generation + 1
    assert before.leader("t", 0) == 1, "a snapshot does not change"
    for no_news in (("t", 0, 2, 4), ("t", 0, 99, 9), ("t", 7, 2, 9), ("other", 0, 2, 9)):
        assert before.with_leader(*no_news) is before


def test_how_a_broker_is_written_in_messages() -> None:
    assert str(BrokerNode(3, "h", 9092)) == "broker 3 (h:9092)"
    assert str(BrokerNode(-1, "::1", 9092)) == "[::1]:9092"
