"""A model test of streams groups: members and coordinators do anything in any order."""

from __future__ import annotations

from itertools import count

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from aiokproto.broker.groups.reconciliation import LEAVE_GROUP_MEMBER_EPOCH, MemberState
from aiokproto.broker.groups.streams.member import TaskRole
from aiokproto.error_codes import ErrorCode
from tests.broker.consumer_harness import refused
from tests.broker.streams_harness import Harness, Thread, subtopology, topology

TOPOLOGY = topology(
    subtopology("0", ["a"], sinks=["r"]),
    subtopology("1", ["b"], repartitions={"r": 0}, changelogs=["c"]),
)
INTERNAL = ("r", "c")


class AnyOrder(RuleBasedStateMachine):
    """Threads join, leave, pause and return, source topics grow, and coordinators move."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: dict[str, Thread] = {}
        self.ids = count()
        self.harness = Harness()

    @initialize(standbys=st.integers(0, 2))
    def begin(self, standbys: int) -> None:
        self.harness = Harness(standbys=standbys, a=2, b=3)

    def _call(self, thread: Thread) -> None:
        known = thread.member_id in self.harness.group.members
        if thread.joined and not known:
            with refused(ErrorCode.UNKNOWN_MEMBER_ID):
                self.harness.heartbeat(thread)
            thread.joined, thread.epoch, thread.owned, thread.assigned = False, 0, frozenset(), frozenset()
        elif thread.joined:
            self.harness.heartbeat(thread)
        else:
            self.harness.join(thread)
        for name, info in self.harness.group.configured.missing.items():
            self.harness.topics.sizes[name] = info.partitions

    @rule(process=st.sampled_from("pqr"))
    @precondition(lambda self: len(self.threads) < 6)
    def come(self, process: str) -> None:
        thread = Thread(f"m{next(self.ids)}", process, TOPOLOGY)
        self.threads[thread.member_id] = thread
        self._call(thread)

    @rule(data=st.data(), obey=st.booleans())
    @precondition(lambda self: self.threads)
    def heartbeat(self, data: st.DataObject, obey: bool) -> None:
        thread = self.threads[data.draw(st.sampled_from(sorted(self.threads)))]
        if obey:
            thread.owned = thread.assigned
        self._call(thread)

    @rule(data=st.data())
    @precondition(lambda self: self.threads)
    def go(self, data: st.DataObject) -> None:
        thread = self.threads.pop(data.draw(st.sampled_from(sorted(self.threads))))
        if thread.member_id in self.harness.group.members:
            self.harness.group.remove_or_keep_static(thread.member_id, None, LEAVE_GROUP_MEMBER_EPOCH)

    @rule(seconds=st.sampled_from([1.0, 20.0, 50.0]))
    def wait(self, seconds: float) -> None:
        self.harness.wait(seconds)

    @rule()
    def move(self) -> None:
        before = self.harness.group
        self.harness.restart()
        after = self.harness.group
        assert (after.epoch, after.assignment_epoch, after.targets, after.topology, after.validated_topology_epoch) == (
            before.epoch,
            before.assignment_epoch,
            before.targets,
            before.topology,
            before.validated_topology_epoch,
        )
        untold = {"session_deadline": None, "rebalance_deadline": None}
        for member_id, member in after.members.items():
            assert vars(member) | untold == vars(before.members[member_id]) | untold

    @rule()
    def settle(self) -> None:
        """When all members follow their assignments, every task is active at one member, and the group is stable."""
        for _ in range(14):
            for thread in self.threads.values():
                self._call(thread)
                thread.owned = thread.assigned
        # A member without heartbeats would block the others until its session expires.
        for member_id in set(self.harness.group.members) - set(self.threads):
            self.harness.group.remove_or_keep_static(member_id, None, LEAVE_GROUP_MEMBER_EPOCH)
        group = self.harness.group
        assert group.state == ("Stable" if self.threads else "Empty")
        held = [task for thread in self.threads.values() for task in thread.owned if task.role is TaskRole.ACTIVE]
        wanted = [(name, index) for name, size in group.configured.tasks.items() for index in range(size)]
        assert sorted(task.task_id for task in held) == (sorted(wanted) if self.threads else [])

    @invariant()
    def nothing_is_active_twice_or_twice_in_a_process(self) -> None:
        members = self.harness.group.members.values()
        held = [(task, each.process_id) for each in members for task in (*each.assigned, *each.pending_revocation)]
        actives = [task for task, _ in held if task.role is TaskRole.ACTIVE]
        assert len(actives) == len(set(actives))
        whats = [(task.task_id, process) for task, process in held]
        assert len(whats) == len(set(whats))

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self.harness.group
        assert group.epoch >= group.assignment_epoch
        assert all(member.epoch <= group.assignment_epoch for member in group.members.values())

    @invariant()
    def only_who_has_to_give_up_something_waits_for_that(self) -> None:
        for member in self.harness.group.members.values():
            assert bool(member.pending_revocation) == (member.state is MemberState.UNREVOKED_PARTITIONS)


AnyOrder.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestAnyOrder = AnyOrder.TestCase
