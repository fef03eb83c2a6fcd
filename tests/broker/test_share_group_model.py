"""A model test of share groups: members, topics and coordinators do anything in any order."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aiokproto.broker.groups.epoch_group import GroupSettings
from aiokproto.broker.groups.image import Image
from aiokproto.broker.groups.share import records
from aiokproto.broker.groups.share.group import ShareGroup, ShareHeartbeat
from aiokproto.error_codes import ErrorCode
from tests.broker.consumer_harness import Topics, places, refused

SESSION = 45.0


class Harness:
    """A group, its topics, the share coordinator and the time."""

    def __init__(self, max_size: int = 100, **sizes: int) -> None:
        self.topics = Topics(**sizes)
        self.settings = GroupSettings(SESSION, 5.0, max_size)
        self.group = ShareGroup("g", self.topics, self.settings)
        self.image: Image = {}
        self.now = 1000.0
        self.out_of_order = False
        self.epochs: dict[str, int] = {}

    def heartbeat(self, member_id: str, *topics: str) -> None:
        """The heartbeat of a member; of one that is new, if topics are given."""
        epoch = 0 if topics else self.epochs[member_id]
        heartbeat = ShareHeartbeat(member_id, epoch, topics=frozenset(topics) if topics else None)
        self.group.update_member(heartbeat, self.now)
        for topic_id, partitions in self.group.missing().items():
            self.group.states.start_initializing(topic_id, self.topics.name(topic_id) or "", partitions)
            if not self.out_of_order:
                self.group.states.mark_initialized(topic_id, partitions)
        answer = self.group.advance(heartbeat)
        self.epochs[member_id] = answer.epoch
        assert answer.epoch == self.group.epoch == self.group.assignment_epoch
        if topics:
            assert answer.assigned == self.group.members[member_id].assigned

    def save(self) -> None:
        records.changes(self.group, self.image, int(self.now))
        self.group.changed = False
        self.group.dirty.clear()

    def restart(self) -> None:
        """Restore the group at another coordinator from the records that this one has written."""
        self.save()
        self.group = ShareGroup("g", self.topics, self.settings)
        records.restore(self.group, self.image, self.now)


# ---- single steps


def test_the_maximum_share_group_size_is_enforced() -> None:
    harness = Harness(max_size=1, a=1)
    harness.heartbeat("x", "a")
    with refused(ErrorCode.GROUP_MAX_SIZE_REACHED):
        harness.heartbeat("y", "a")
    assert list(harness.group.members) == ["x"]
    harness.heartbeat("x", "a")


def test_a_member_without_heartbeats_is_removed() -> None:
    harness = Harness(a=2)
    harness.heartbeat("x", "a")
    harness.now += 40
    harness.heartbeat("y", "a")
    assert harness.group.next_deadline() == 1000.0 + SESSION
    harness.group.tick(1000.0 + SESSION)
    assert list(harness.group.members) == ["y"]
    harness.heartbeat("y")
    assert harness.group.members["y"].assigned == places(b"a" * 16, 0, 1)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        harness.heartbeat("x")


def test_a_partition_without_a_state_is_not_assigned_to_members() -> None:
    harness = Harness(a=2)
    harness.out_of_order = True
    harness.heartbeat("x", "a")
    assert harness.group.members["x"].assigned == frozenset()
    assert harness.group.missing() == {b"a" * 16: {0, 1}}
    epoch = harness.group.epoch
    harness.heartbeat("x")
    assert harness.group.epoch == epoch
    harness.out_of_order = False
    harness.heartbeat("x")
    assert harness.group.members["x"].assigned == places(b"a" * 16, 0, 1)
    assert harness.group.epoch == epoch + 1


def test_an_unchanged_heartbeat_writes_no_record() -> None:
    harness = Harness(a=2)
    harness.heartbeat("x", "a")
    harness.save()
    harness.heartbeat("x")
    assert not harness.group.changed
    assert records.changes(harness.group, harness.image, 2_000_000) == []


@pytest.mark.parametrize("epoch", [-3, 1, 99])
def test_a_heartbeat_with_another_epoch_is_fenced(epoch: int) -> None:
    harness = Harness(a=2)
    harness.heartbeat("x", "a")
    for other in ("y", "z"):
        harness.heartbeat(other, "a")
        harness.heartbeat("x")
    before = vars(harness.group.members["x"]).copy()
    with refused(ErrorCode.FENCED_MEMBER_EPOCH):
        harness.group.update_member(ShareHeartbeat("x", epoch, topics=frozenset({"b"})), harness.now)
    assert vars(harness.group.members["x"]) == before


# ---- anything in any order


class AnyOrder(RuleBasedStateMachine):
    """Members join, leave, change their subscriptions and pause, topics change, and coordinators move."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = Harness(a=3, b=2)
        self.ids = count()
        self.gone: set[str] = set()

    def _members(self) -> list[str]:
        return list(self.harness.group.members)

    @rule(topics=st.sets(st.sampled_from(["a", "b", "c"]), min_size=1))
    @precondition(lambda self: len(self.harness.group.members) < 6)
    def come(self, topics: set[str]) -> None:
        self.harness.heartbeat(f"m{next(self.ids)}", *topics)

    @rule(data=st.data())
    @precondition(lambda self: self.harness.group.members)
    def heartbeat(self, data: st.DataObject) -> None:
        self.harness.heartbeat(data.draw(st.sampled_from(self._members())))

    @rule(data=st.data(), topics=st.sets(st.sampled_from(["a", "b", "c"]), min_size=1))
    @precondition(lambda self: self.harness.group.members)
    def come_again(self, data: st.DataObject, topics: set[str]) -> None:
        self.harness.heartbeat(data.draw(st.sampled_from(self._members())), *topics)

    @rule(data=st.data())
    @precondition(lambda self: self.harness.group.members)
    def go(self, data: st.DataObject) -> None:
        member_id = data.draw(st.sampled_from(self._members()))
        assert self.harness.group.leave(member_id).epoch == -1
        with refused(ErrorCode.UNKNOWN_MEMBER_ID):
            self.harness.group.leave(member_id)

    @rule(name=st.sampled_from(["a", "b", "c"]), size=st.integers(0, 5))
    def change_topic(self, name: str, size: int) -> None:
        sizes = self.harness.topics.sizes
        if size and name not in self.gone:
            sizes[name] = max(size, sizes.get(name, 0))
        elif not size and name in sizes:
            del sizes[name]
            # It would be created again with another id.
            self.gone.add(name)
            self.harness.group.states.remove_topic(name.encode() * 16)

    @rule(late=st.booleans())
    def the_share_coordinator(self, late: bool) -> None:
        self.harness.out_of_order = late

    @rule(seconds=st.sampled_from([1.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.harness.now += seconds
        self.harness.group.tick(self.harness.now)

    @rule()
    def move(self) -> None:
        before = self.harness.group
        self.harness.restart()
        after = self.harness.group
        assert (after.epoch, after.assignment_epoch, after.targets) == (
            before.epoch,
            before.assignment_epoch,
            before.targets,
        )
        assert after.states == before.states
        for member_id, member in after.members.items():
            theirs = vars(before.members[member_id]) | {"session_deadline": None}
            assert vars(member) | {"session_deadline": None} == theirs
        # The new coordinator would write the same records as the old one.
        after.dirty = set(after.members)
        assert records.changes(after, dict(self.harness.image), 7) == []
        after.dirty.clear()

    @rule()
    def settle(self) -> None:
        """After another heartbeat of each member, every subscribed partition has a reader."""
        self.harness.out_of_order = False
        for _ in range(2):
            for member_id in self._members():
                self.harness.heartbeat(member_id)
        wanted = {
            (found[0], index)
            for member in self.harness.group.members.values()
            for name in member.topics
            if (found := self.harness.topics.find(name)) is not None
            for index in range(found[1])
        }
        assert {place for member in self.harness.group.members.values() for place in member.assigned} == wanted

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self.harness.group
        assert group.epoch >= group.assignment_epoch
        assert all(group.assignment_epoch >= each.epoch > each.previous_epoch for each in group.members.values())

    @invariant()
    def members_have_what_has_a_state(self) -> None:
        group = self.harness.group
        for target in group.targets.values():
            for topic_id, index in target:
                gone = self.harness.topics.name(topic_id) is None
                assert gone or index in group.states.partitions_of(topic_id)

    @invariant()
    def who_has_left_has_nothing(self) -> None:
        group = self.harness.group
        assert group.targets.keys() == group.members.keys()
        assert group.state == ("Stable" if group.members else "Empty")


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestAnyOrder = AnyOrder.TestCase
