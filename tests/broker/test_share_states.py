"""The states of share partitions: merging of writes, fencing, and changes of coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker import Cluster
from aiokproto.broker.clock import VirtualClock
from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.metadata.cluster_state import ClusterState, Node
from aiokproto.broker.metadata.internal_topics import internal_topic_records
from aiokproto.broker.metadata.topics import SHARE_STATE_TOPIC
from aiokproto.broker.share.coordinator import ShareCoordinator, is_key, key_of
from aiokproto.broker.share.persisted_state import combine
from aiokproto.broker.share.records import ShareGroupOffset, SharePartitionKey, Snapshot, StateBatch, Update, decode
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError
from tests.broker.coordinators import read_stored
from tests.broker.epoch_harness import refused

ONE = {"share.coordinator.state.topic.num.partitions": 1}

# ---- batches


def batches() -> st.SearchStrategy[list[StateBatch]]:
    return st.lists(
        st.builds(
            lambda first, size, state, count: StateBatch(first, first + size, state, count),
            st.integers(0, 30),
            st.integers(0, 8),
            st.sampled_from([0, 2, 4]),
            st.integers(1, 3),
        ),
        max_size=8,
    )


def by_offset(given: list[StateBatch]) -> dict[int, tuple[int, int]]:
    """Return the winning state and count of each offset."""
    found: dict[int, tuple[int, int]] = {}
    for batch in given:
        for offset in range(batch.first_offset, batch.last_offset + 1):
            found[offset] = max(found.get(offset, (0, 0)), (batch.delivery_count, batch.delivery_state))
    return found


@given(batches(), st.integers(-1, 35))
def test_batches_are_combined_offset_by_offset(given: list[StateBatch], start: int) -> None:
    combined = combine(given, start)
    expected = {offset: what for offset, what in by_offset(given).items() if offset >= start}
    assert by_offset(list(combined)) == expected
    for one, other in pairwise(combined):
        assert one.last_offset < other.first_offset
        touch = one.last_offset + 1 == other.first_offset
        assert not (touch and one.delivery_state == other.delivery_state and one.delivery_count == other.delivery_count)
    assert combine(combined, start) == combined


def test_adjacent_batches_with_the_same_state_are_joined() -> None:
    given = [StateBatch(5, 6, 0, 1), StateBatch(0, 4, 0, 1), StateBatch(7, 9, 2, 1)]
    assert combine(given, 2) == (StateBatch(2, 6, 0, 1), StateBatch(7, 9, 2, 1))


# ---- keys


@pytest.mark.parametrize(
    ("key", "fits"),
    [
        ("g:AAAAAAAAAAAAAAAAAAAAAA:0", True),
        ("a:b:AAAAAAAAAAAAAAAAAAAAAA:-1", True),
        (":AAAAAAAAAAAAAAAAAAAAAA:0", False),
        ("g:AAAAAAAAAAAAAAAAAAAA:0", False),
        ("g:AAAAAAAAAAAAAAAAAAAAAA:x", False),
        ("g:AAAAAAAAAAAAAAAAAAAAAA", False),
        ("g", False),
        ("", False),
    ],
)
def test_keys_of_share_partitions(key: str, fits: bool) -> None:
    assert is_key(key) is fits


# ---- persisted state


@contextmanager
def opened(root: Path, **options: int) -> Iterator[tuple[ClusterState, ShareCoordinator, bytes]]:
    """Yield the states of a topic with three partitions."""
    config = {name.replace("_", "."): value for name, value in options.items()}
    state = ClusterState(root, {0: Node(0, "h", 1)}, BrokerOptions({**ONE, **config}), VirtualClock())
    state.nodes_up([0])
    topic = state.topics.get("t") or state.create_topic("t", 3)
    states = ShareCoordinator(state)
    read_stored(states)
    try:
        yield state, states, topic.topic_id
    finally:
        state.close()


def wanted(
    start: int, done: int, *given: tuple[int, int, int, int], epochs: tuple[int, int] = (1, 1)
) -> ShareGroupOffset:
    return ShareGroupOffset(start, epochs[0], epochs[1], tuple(StateBatch(*each) for each in given), done)


def test_an_initialized_state_is_empty_and_can_be_read(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, states, topic):
        assert states.summary("g", topic, 0) is None
        states.initialize("g", topic, 0, 1, -1)
        assert states.read("g", topic, 0, 1) == ShareGroupOffset(-1, 1, 1, (), -1)
        states.write("g", topic, 0, wanted(0, 2, (0, 3, 0, 1), (4, 5, 2, 1)))
        states.write("g", topic, 0, wanted(2, 1, (2, 3, 2, 1), (6, 6, 4, 5)))
        known = states.summary("g", topic, 0)
        assert known == ShareGroupOffset(2, 1, 1, (StateBatch(2, 5, 2, 1), StateBatch(6, 6, 4, 5)), 1)
    with opened(tmp_path) as (_, states, topic):
        assert states.summary("g", topic, 0) == known
        assert states.summary("g", topic, 1) is None
        states.delete("g", topic, 0)
    with opened(tmp_path) as (_, states, topic):
        assert states.summary("g", topic, 0) is None


def test_neither_start_offset_nor_delivery_complete_count_moves_back(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, states, topic):
        states.initialize("g", topic, 0, 1, 10)
        for start, done, expected in (
            (10, 5, (10, 5)),
            (10, 3, (10, 5)),
            (7, 9, (10, 5)),
            (-1, 9, (10, 5)),
            (12, 3, (12, 3)),
        ):
            states.write("g", topic, 0, wanted(start, done))
            known = states.summary("g", topic, 0)
            assert known is not None
            assert (known.start_offset, known.delivery_complete_count) == expected


def test_fenced_leader_and_state_epochs_change_nothing(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, states, topic):
        states.initialize("g", topic, 0, 2, 10)
        states.read("g", topic, 0, 5)
        known = states.summary("g", topic, 0)
        with refused(ErrorCode.FENCED_LEADER_EPOCH):
            states.read("g", topic, 0, 4)
        with refused(ErrorCode.FENCED_LEADER_EPOCH):
            states.write("g", topic, 0, wanted(11, 0, epochs=(2, 4)))
        with refused(ErrorCode.FENCED_STATE_EPOCH):
            states.write("g", topic, 0, wanted(11, 0, epochs=(1, 5)))
        with refused(ErrorCode.FENCED_STATE_EPOCH):
            states.initialize("g", topic, 0, 1, 20)
        assert states.summary("g", topic, 0) == known
        # Old leaders stay fenced after a reset.
        states.initialize("g", topic, 0, 2, 20)
        with refused(ErrorCode.FENCED_LEADER_EPOCH):
            states.read("g", topic, 0, 4)
        assert states.read("g", topic, 0, 5) == ShareGroupOffset(20, 2, 0, (), 0)


@pytest.mark.parametrize(
    ("topic", "partition", "state", "error"),
    [
        (None, -1, wanted(0, 0), ErrorCode.INVALID_REQUEST),
        (None, 0, wanted(0, 0, epochs=(-1, 0)), ErrorCode.INVALID_REQUEST),
        (None, 0, wanted(0, 0, epochs=(0, -1)), ErrorCode.INVALID_REQUEST),
        (None, 0, wanted(0, 0, (3, 2, 0, 1)), ErrorCode.INVALID_REQUEST),
        (None, 0, wanted(0, 0, (-3, 2, 0, 1)), ErrorCode.INVALID_REQUEST),
        (None, 1, wanted(0, 0), ErrorCode.INVALID_REQUEST),
        (b"x" * 16, 0, wanted(0, 0), ErrorCode.INVALID_REQUEST),
    ],
)
def test_invalid_writes_are_refused(
    tmp_path: Path, topic: bytes | None, partition: int, state: ShareGroupOffset, error: ErrorCode
) -> None:
    with opened(tmp_path) as (_, states, known):
        states.initialize("g", known, 0, 0, 0)
        with refused(error):
            states.write("g", topic or known, partition, state)


@pytest.mark.parametrize(("topic", "partition"), [(None, 3), (b"x" * 16, 0), (bytes(16), 0)])
def test_states_of_unknown_partitions_are_refused(tmp_path: Path, topic: bytes | None, partition: int) -> None:
    with opened(tmp_path) as (_, states, known):
        with refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            states.initialize("g", topic or known, partition, 0, 0)
        with refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            states.summary("g", topic or known, partition)
        with refused(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            states.delete("g", topic or known, partition)


def test_resets_and_deletions_are_reported_to_the_leader(tmp_path: Path) -> None:
    with opened(tmp_path) as (_, states, topic):
        resets: list[tuple[str, bytes, int]] = []
        states.on_reset = lambda *key: resets.append(key)
        states.initialize("g", topic, 0, 1, 5)
        states.read("g", topic, 0, 1)
        states.write("g", topic, 0, wanted(6, 0))
        states.delete("g", topic, 0)
        states.delete("g", topic, 0)
        assert resets == [("g", topic, 0)] * 2


def test_deleting_a_topic_deletes_its_states(tmp_path: Path) -> None:
    with opened(tmp_path) as (state, states, topic):
        for index in (0, 1):
            states.initialize("g", topic, index, 1, 5)
        deleted = state.topics["t"]
        state.delete_topic(deleted)
        states.topic_deleted(deleted)
    with opened(tmp_path) as (state, _, _):
        latest = {key: value for _, (key, value, _) in internal_topic_records(state.partition(SHARE_STATE_TOPIC, 0))}
        assert set(latest.values()) == {None}


# ---- snapshots and pruning


def kinds(state: ClusterState) -> list[type[Snapshot | Update]]:
    found = [decode(key, value) for _, (key, value, _) in internal_topic_records(state.partition(SHARE_STATE_TOPIC, 0))]
    return [type(each[1]) for each in found if each is not None and each[1] is not None]


def test_a_snapshot_is_written_after_enough_updates(tmp_path: Path) -> None:
    with opened(tmp_path, share_coordinator_snapshot_update_records_per_snapshot=3) as (state, states, topic):
        states.initialize("g", topic, 0, 1, 0)
        for start in range(1, 9):
            states.write("g", topic, 0, wanted(start, 0, (start, start + 3, 0, 1)))
        assert kinds(state) == [Snapshot, *[Update] * 3, Snapshot, *[Update] * 3, Snapshot]
        known = states.summary("g", topic, 0)
        assert known == ShareGroupOffset(8, 1, 0, (StateBatch(8, 11, 0, 1),), 0)
    with opened(tmp_path) as (_, states, topic):
        assert states.summary("g", topic, 0) == known


def test_a_new_leader_epoch_can_be_stored_in_a_snapshot(tmp_path: Path) -> None:
    with opened(tmp_path, share_coordinator_snapshot_update_records_per_snapshot=0) as (state, states, topic):
        states.initialize("g", topic, 0, 1, 0)
        states.read("g", topic, 0, 4)
        assert kinds(state) == [Snapshot, Snapshot]
    with opened(tmp_path) as (_, states, topic), refused(ErrorCode.FENCED_LEADER_EPOCH):
        states.read("g", topic, 0, 3)


async def test_records_before_the_snapshots_are_pruned(tmp_path: Path) -> None:
    with opened(tmp_path, share_coordinator_snapshot_update_records_per_snapshot=2) as (state, states, topic):
        for index in (0, 1):
            states.initialize("g", topic, index, 1, 0)
        for start in range(1, 10):
            states.write("g", topic, 0, wanted(start, 0))
        log = state.partition(SHARE_STATE_TOPIC, 0).log
        clock = state.clock
        assert isinstance(clock, VirtualClock)
        states.prune()
        assert log.start_offset == 1, "the snapshot of the unchanged partition is still needed"
        states.snapshot()
        assert log.end_offset == 11, "it is not old enough"
        await clock.advance(301)
        states.snapshot()
        assert log.end_offset == 13
        states.prune()
        assert log.start_offset == 11
        known = [states.summary("g", topic, index) for index in (0, 1)]
        await clock.advance(301)
        states.snapshot()
        assert log.end_offset == 13, "nothing has changed since"
    with opened(tmp_path) as (state, states, topic):
        assert state.partition(SHARE_STATE_TOPIC, 0).log.start_offset == 11
        assert [states.summary("g", topic, index) for index in (0, 1)] == known
        for index in (0, 1):
            states.delete("g", topic, index)
        states.prune()
        log = state.partition(SHARE_STATE_TOPIC, 0).log
        assert log.start_offset == log.end_offset


# ---- more than one node


async def test_a_new_coordinator_loads_the_states() -> None:
    async with Cluster(2, config=ONE) as cluster:
        await cluster.create_topic("t", 1, 2)
        states = cluster._running.share_states
        assert states is not None
        topic = cluster._running.state.topics["t"].topic_id
        states.initialize("g", topic, 0, 1, 5)
        states.write("g", topic, 0, wanted(6, 0, (6, 7, 0, 2)))
        known = states.summary("g", topic, 0)
        old = cluster.leader(SHARE_STATE_TOPIC, 0)
        key = key_of(SharePartitionKey("g", topic, 0))
        assert states.partition_of(key).leader == old
        await cluster.move_leader(SHARE_STATE_TOPIC, 0)
        assert states.summary("g", topic, 0) == known
        for node in (0, 1):
            cluster._running.state.node_down(node)
        with refused(ErrorCode.COORDINATOR_NOT_AVAILABLE):
            states.summary("g", topic, 0)
        cluster._running.state.nodes_up([0, 1])
        assert states.summary("g", topic, 0) == known


def test_errors_name_the_cause(tmp_path: Path) -> None:
    with (
        opened(tmp_path) as (_, states, topic),
        pytest.raises(BrokerError, match=r"share partition g:.*, which is not initialized"),
    ):
        states.read("g", topic, 0, 0)
