"""A model test of consumer groups: members and coordinators do anything in any order."""

from __future__ import annotations

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aiokproto.broker.groups.reconciliation import LEAVE_GROUP_MEMBER_EPOCH, MemberState
from aiokproto.error_codes import ErrorCode
from tests.broker.consumer_harness import Client, Harness, refused

# ---- anything in any order


class AnyOrder(RuleBasedStateMachine):
    """Members join, leave, pause and return, topics change, and coordinators move."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = Harness(a=3, b=2)
        self.clients: dict[str, Client] = {}
        self.ids = count()

    def _call(self, client: Client) -> None:
        known = client.member_id in self.harness.group.members
        if client.joined and not known:
            with refused(ErrorCode.UNKNOWN_MEMBER_ID):
                self.harness.heartbeat(client)
            client.joined, client.epoch, client.owned, client.assigned = False, 0, frozenset(), frozenset()
        elif client.joined:
            self.harness.heartbeat(client)
        else:
            self.harness.join(client)

    @rule(
        topics=st.frozensets(st.sampled_from(["a", "b"])),
        regex=st.sampled_from(["", "a", ".*"]),
        assignor=st.sampled_from([None, "range", "uniform"]),
    )
    @precondition(lambda self: len(self.clients) < 5)
    def come(self, topics: frozenset[str], regex: str, assignor: str | None) -> None:
        client = Client(f"m{next(self.ids)}", topics, regex, assignor=assignor)
        self.clients[client.member_id] = client
        self._call(client)

    @rule(data=st.data(), obey=st.booleans())
    @precondition(lambda self: self.clients)
    def heartbeat(self, data: st.DataObject, obey: bool) -> None:
        client = data.draw(st.sampled_from(sorted(self.clients.values(), key=lambda each: each.member_id)))
        if obey:
            client.owned = client.assigned
        self._call(client)

    @rule(data=st.data())
    @precondition(lambda self: self.clients)
    def go(self, data: st.DataObject) -> None:
        client = self.clients.pop(data.draw(st.sampled_from(sorted(self.clients))))
        if client.member_id in self.harness.group.members:
            self.harness.group.leave(client.member_id, None, LEAVE_GROUP_MEMBER_EPOCH)

    @rule(name=st.sampled_from(["a", "b", "c"]), size=st.integers(0, 5))
    def change_topic(self, name: str, size: int) -> None:
        if size:
            self.harness.topics.sizes[name] = max(size, self.harness.topics.sizes.get(name, 0))
        else:
            self.harness.topics.sizes.pop(name, None)

    @rule(seconds=st.sampled_from([1.0, 20.0, 50.0]))
    def wait(self, seconds: float) -> None:
        self.harness.wait(seconds)

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
        for member_id, member in after.members.items():
            theirs = vars(before.members[member_id]) | {"session_deadline": None, "rebalance_deadline": None}
            assert vars(member) | {"session_deadline": None, "rebalance_deadline": None} == theirs

    @rule()
    def settle(self) -> None:
        """When all members follow their assignments, each partition has one owner, and the group is stable."""
        for _ in range(8):
            for client in self.clients.values():
                self._call(client)
                client.owned = client.assigned
        # A member without heartbeats would block the others until its session expires.
        for member_id in set(self.harness.group.members) - set(self.clients):
            self.harness.group.leave(member_id, None, LEAVE_GROUP_MEMBER_EPOCH)
        group = self.harness.group
        assert group.state == ("Stable" if self.clients else "Empty")
        read = [place for client in self.clients.values() for place in client.owned]
        wanted = {
            (topic_id, index)
            for member in group.members.values()
            for topic_id in group.subscriptions.ids_of(member)
            for index in range(group.subscriptions.sizes[topic_id])
        }
        assert sorted(read) == sorted(wanted)

    @invariant()
    def nothing_is_at_two_members(self) -> None:
        members = self.harness.group.members.values()
        held = [place for member in members for place in (*member.assigned, *member.pending_revocation)]
        assert len(held) == len(set(held))

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self.harness.group
        assert group.epoch >= group.assignment_epoch
        assert all(member.epoch <= group.assignment_epoch for member in group.members.values())
        assert all(
            since <= group.assignment_epoch for each in group.members.values() for since in each.assigned.values()
        )

    @invariant()
    def only_who_has_to_give_up_something_waits_for_that(self) -> None:
        for member in self.harness.group.members.values():
            assert bool(member.pending_revocation) == (member.state is MemberState.UNREVOKED_PARTITIONS)


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestAnyOrder = AnyOrder.TestCase
