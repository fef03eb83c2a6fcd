"""Share groups, step by step, and a model test of them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from aiokproto.broker.groups.share import records
from aiokproto.broker.groups.share.group import ShareHeartbeat
from aiokproto.error_codes import ErrorCode
from tests.broker.epoch_group_model import MODEL_SETTINGS, EpochGroupModel
from tests.broker.epoch_harness import SESSION, A, partition_ids, refused
from tests.broker.share_group_harness import Harness, Reader

# ---- single steps


def test_the_maximum_share_group_size_is_enforced() -> None:
    harness = Harness(max_size=1, a=1)
    reader = Reader("x")
    harness.join(reader)
    with refused(ErrorCode.GROUP_MAX_SIZE_REACHED):
        harness.join(Reader("y"))
    assert list(harness.group.members) == ["x"]
    harness.heartbeat(reader)


def test_a_member_without_heartbeats_is_removed() -> None:
    harness = Harness(a=2)
    first, second = Reader("x"), Reader("y")
    harness.join(first)
    harness.wait(40)
    harness.join(second)
    assert harness.group.next_deadline() == 1000.0 + SESSION
    harness.group.tick(1000.0 + SESSION)
    assert list(harness.group.members) == ["y"]
    harness.heartbeat(second)
    assert harness.group.members["y"].assigned == partition_ids(A, 0, 1)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        harness.heartbeat(first)


def test_a_partition_without_a_state_is_not_assigned_to_members() -> None:
    harness = Harness(a=2)
    harness.out_of_order = True
    reader = Reader("x")
    harness.join(reader)
    assert harness.group.members["x"].assigned == frozenset()
    assert harness.group.missing() == {A: {0, 1}}
    epoch = harness.group.epoch
    harness.heartbeat(reader)
    assert harness.group.epoch == epoch
    harness.out_of_order = False
    harness.heartbeat(reader)
    assert harness.group.members["x"].assigned == partition_ids(A, 0, 1)
    assert harness.group.epoch == epoch + 1


def test_an_unchanged_heartbeat_writes_no_record() -> None:
    harness = Harness(a=2)
    reader = Reader("x")
    harness.join(reader)
    harness.save()
    harness.heartbeat(reader)
    assert not harness.group.changed
    assert records.changes(harness.group, harness.image, 2_000_000) == []


@pytest.mark.parametrize("epoch", [-3, 1, 99])
def test_a_heartbeat_with_another_epoch_is_fenced(epoch: int) -> None:
    harness = Harness(a=2)
    reader = Reader("x")
    harness.join(reader)
    for other in ("y", "z"):
        harness.join(Reader(other))
        harness.heartbeat(reader)
    before = vars(harness.group.members["x"]).copy()
    with refused(ErrorCode.FENCED_MEMBER_EPOCH):
        harness.group.update_member(ShareHeartbeat("x", epoch, topics=frozenset({"b"})), harness.now)
    assert vars(harness.group.members["x"]) == before


# ---- anything in any order


SUBSCRIPTIONS = st.frozensets(st.sampled_from(["a", "b", "c"]), min_size=1)


class ShareGroupModel(EpochGroupModel[Harness]):
    """Members change their subscriptions, topics change, and the share coordinator is out of order for some time."""

    compared = (*EpochGroupModel.compared, "states")

    def __init__(self) -> None:
        super().__init__()
        self.harness = Harness(a=3, b=2)
        self.deleted: set[str] = set()

    @rule(topics=SUBSCRIPTIONS)
    @precondition(lambda self: len(self.clients) < 6)
    def join(self, topics: frozenset[str]) -> None:
        self.add(Reader(f"m{next(self.ids)}", topics))

    @rule(data=st.data(), topics=SUBSCRIPTIONS)
    @precondition(lambda self: self.clients)
    def join_again(self, data: st.DataObject, topics: frozenset[str]) -> None:
        client: Any = self.clients[data.draw(st.sampled_from(sorted(self.clients)))]
        client.topics, client.joined = topics, False
        self.call(client)

    @rule(name=st.sampled_from(["a", "b", "c"]), size=st.integers(0, 5))
    def change_topic(self, name: str, size: int) -> None:
        sizes = self.harness.topics.sizes
        if size and name not in self.deleted:
            sizes[name] = max(size, sizes.get(name, 0))
        elif not size and name in sizes:
            del sizes[name]
            # It would be created again with another id.
            self.deleted.add(name)
            self.harness.group.states.remove_topic(name.encode() * 16)

    @rule(out_of_order=st.booleans())
    def break_or_repair_the_share_coordinator(self, out_of_order: bool) -> None:
        self.harness.out_of_order = out_of_order

    @rule()
    def move(self) -> None:
        super().move()
        # The new coordinator would write the same records as the old one.
        after = self.harness.group
        after.dirty = set(after.members)
        assert records.changes(after, dict(self.harness.image), 7) == []
        after.dirty.clear()

    @rule()
    def settle(self) -> None:
        self.harness.out_of_order = False
        super().settle()

    def check_settled(self) -> None:
        """Every subscribed partition has a reader."""
        members = self.harness.group.members.values()
        wanted = {
            (found[0], index)
            for member in members
            for name in member.topics
            if (found := self.harness.topics.find(name)) is not None
            for index in range(found[1])
        }
        assert {partition for member in members for partition in member.assigned} == wanted

    @invariant()
    def epochs_of_members_grow(self) -> None:
        assert all(member.epoch > member.previous_epoch for member in self.harness.group.members.values())

    @invariant()
    def assigned_partitions_have_a_state(self) -> None:
        group = self.harness.group
        for target in group.targets.values():
            for topic_id, index in target:
                deleted = self.harness.topics.name(topic_id) is None
                assert deleted or index in group.states.partitions_of(topic_id)

    @invariant()
    def only_members_have_targets(self) -> None:
        group = self.harness.group
        assert group.targets.keys() == group.members.keys()
        assert group.state == ("Stable" if group.members else "Empty")


ShareGroupModel.TestCase.settings = MODEL_SETTINGS
TestShareGroupModel = ShareGroupModel.TestCase
