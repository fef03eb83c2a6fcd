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
from aiokproto.broker.groups.share.group import ShareGroup
from aiokproto.broker.groups.share.member import ShareHeartbeat
from aiokproto.error_codes import ErrorCode
from tests.broker.consumer_scene import Topics, places, refused

SESSION = 45.0


class Scene:
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
    scene = Scene(max_size=1, a=1)
    scene.heartbeat("x", "a")
    with refused(ErrorCode.GROUP_MAX_SIZE_REACHED):
        scene.heartbeat("y", "a")
    assert list(scene.group.members) == ["x"]
    scene.heartbeat("x", "a")


def test_a_member_without_heartbeats_is_removed() -> None:
    scene = Scene(a=2)
    scene.heartbeat("x", "a")
    scene.now += 40
    scene.heartbeat("y", "a")
    assert scene.group.next_deadline() == 1000.0 + SESSION
    scene.group.tick(1000.0 + SESSION)
    assert list(scene.group.members) == ["y"]
    scene.heartbeat("y")
    assert scene.group.members["y"].assigned == places(b"a" * 16, 0, 1)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        scene.heartbeat("x")


def test_a_partition_without_a_state_is_not_assigned_to_members() -> None:
    scene = Scene(a=2)
    scene.out_of_order = True
    scene.heartbeat("x", "a")
    assert scene.group.members["x"].assigned == frozenset()
    assert scene.group.missing() == {b"a" * 16: {0, 1}}
    epoch = scene.group.epoch
    scene.heartbeat("x")
    assert scene.group.epoch == epoch
    scene.out_of_order = False
    scene.heartbeat("x")
    assert scene.group.members["x"].assigned == places(b"a" * 16, 0, 1)
    assert scene.group.epoch == epoch + 1


def test_an_unchanged_heartbeat_writes_no_record() -> None:
    scene = Scene(a=2)
    scene.heartbeat("x", "a")
    scene.save()
    scene.heartbeat("x")
    assert not scene.group.changed
    assert records.changes(scene.group, scene.image, 2_000_000) == []


@pytest.mark.parametrize("epoch", [-3, 1, 99])
def test_a_heartbeat_with_another_epoch_is_fenced(epoch: int) -> None:
    scene = Scene(a=2)
    scene.heartbeat("x", "a")
    for other in ("y", "z"):
        scene.heartbeat(other, "a")
        scene.heartbeat("x")
    before = vars(scene.group.members["x"]).copy()
    with refused(ErrorCode.FENCED_MEMBER_EPOCH):
        scene.group.update_member(ShareHeartbeat("x", epoch, topics=frozenset({"b"})), scene.now)
    assert vars(scene.group.members["x"]) == before


# ---- anything in any order


class AnyOrder(RuleBasedStateMachine):
    """Members join, leave, change their subscriptions and pause, topics change, and coordinators move."""

    def __init__(self) -> None:
        super().__init__()
        self.scene = Scene(a=3, b=2)
        self.ids = count()
        self.gone: set[str] = set()

    def _members(self) -> list[str]:
        return list(self.scene.group.members)

    @rule(topics=st.sets(st.sampled_from(["a", "b", "c"]), min_size=1))
    @precondition(lambda self: len(self.scene.group.members) < 6)
    def come(self, topics: set[str]) -> None:
        self.scene.heartbeat(f"m{next(self.ids)}", *topics)

    @rule(data=st.data())
    @precondition(lambda self: self.scene.group.members)
    def heartbeat(self, data: st.DataObject) -> None:
        self.scene.heartbeat(data.draw(st.sampled_from(self._members())))

    @rule(data=st.data(), topics=st.sets(st.sampled_from(["a", "b", "c"]), min_size=1))
    @precondition(lambda self: self.scene.group.members)
    def come_again(self, data: st.DataObject, topics: set[str]) -> None:
        self.scene.heartbeat(data.draw(st.sampled_from(self._members())), *topics)

    @rule(data=st.data())
    @precondition(lambda self: self.scene.group.members)
    def go(self, data: st.DataObject) -> None:
        member_id = data.draw(st.sampled_from(self._members()))
        assert self.scene.group.leave(member_id).epoch == -1
        with refused(ErrorCode.UNKNOWN_MEMBER_ID):
            self.scene.group.leave(member_id)

    @rule(name=st.sampled_from(["a", "b", "c"]), size=st.integers(0, 5))
    def change_topic(self, name: str, size: int) -> None:
        sizes = self.scene.topics.sizes
        if size and name not in self.gone:
            sizes[name] = max(size, sizes.get(name, 0))
        elif not size and name in sizes:
            del sizes[name]
            # It would be created again with another id.
            self.gone.add(name)
            self.scene.group.states.remove_topic(name.encode() * 16)

    @rule(late=st.booleans())
    def the_share_coordinator(self, late: bool) -> None:
        self.scene.out_of_order = late

    @rule(seconds=st.sampled_from([1.0, 30.0]))
    def wait(self, seconds: float) -> None:
        self.scene.now += seconds
        self.scene.group.tick(self.scene.now)

    @rule()
    def move(self) -> None:
        before = self.scene.group
        self.scene.restart()
        after = self.scene.group
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
        assert records.changes(after, dict(self.scene.image), 7) == []
        after.dirty.clear()

    @rule()
    def settle(self) -> None:
        """After another heartbeat of each member, every subscribed partition has a reader."""
        self.scene.out_of_order = False
        for _ in range(2):
            for member_id in self._members():
                self.scene.heartbeat(member_id)
        wanted = {
            (found[0], index)
            for member in self.scene.group.members.values()
            for name in member.topics
            if (found := self.scene.topics.find(name)) is not None
            for index in range(found[1])
        }
        assert {place for member in self.scene.group.members.values() for place in member.assigned} == wanted

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self.scene.group
        assert group.epoch >= group.assignment_epoch
        assert all(group.assignment_epoch >= each.epoch > each.previous_epoch for each in group.members.values())

    @invariant()
    def members_have_what_has_a_state(self) -> None:
        group = self.scene.group
        for target in group.targets.values():
            for topic_id, index in target:
                gone = self.scene.topics.name(topic_id) is None
                assert gone or index in group.states.partitions_of(topic_id)

    @invariant()
    def who_has_left_has_nothing(self) -> None:
        group = self.scene.group
        assert group.targets.keys() == group.members.keys()
        assert group.state == ("Stable" if group.members else "Empty")


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestAnyOrder = AnyOrder.TestCase
