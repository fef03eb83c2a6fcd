"""A model of groups whose assignment the coordinator computes: members and coordinators do anything in any order."""

from __future__ import annotations

from itertools import count
from typing import Any, Generic, TypeVar

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from aiokproto.broker.groups.reconciliation import MemberState, ReconciledMember
from aiokproto.error_codes import ErrorCode
from tests.broker.epoch_harness import EpochHarness, refused

MODEL_SETTINGS = settings(max_examples=60, stateful_step_count=30, deadline=None)
DEADLINES = {"session_deadline": None, "rebalance_deadline": None}
"""What a member has that is in no record."""


H = TypeVar("H", bound=EpochHarness[Any, Any, Any])


class EpochGroupModel(RuleBasedStateMachine, Generic[H]):
    """Members join, leave, pause and return, and coordinators move.

    A subclass makes the harness, adds members, and says what is true once the group is settled.

    Attributes:
        settling_rounds: After how many heartbeats of each member the group is stable.
        compared: Attributes of the group that another coordinator restores, besides the members.
    """

    settling_rounds = 8
    compared: tuple[str, ...] = ("epoch", "assignment_epoch", "targets")
    harness: H

    def __init__(self) -> None:
        super().__init__()
        self.clients: dict[str, Any] = {}
        self.ids = count()

    def check_settled(self) -> None:
        raise NotImplementedError

    def add(self, client: Any) -> None:
        self.clients[client.member_id] = client
        self.call(client)

    def call(self, client: Any) -> None:
        """Send a heartbeat, which joins if the member is new or knows that it was removed."""
        if not client.joined:
            self.harness.join(client)
        elif client.member_id in self.harness.group.members:
            self.harness.heartbeat(client)
        else:
            with refused(ErrorCode.UNKNOWN_MEMBER_ID):
                self.harness.heartbeat(client)
            client.reset()

    @rule(data=st.data(), obey=st.booleans())
    @precondition(lambda self: self.clients)
    def heartbeat(self, data: st.DataObject, obey: bool) -> None:
        client = self.clients[data.draw(st.sampled_from(sorted(self.clients)))]
        if obey:
            client.owned = client.assigned
        self.call(client)

    @rule(data=st.data())
    @precondition(lambda self: self.clients)
    def leave(self, data: st.DataObject) -> None:
        client = self.clients.pop(data.draw(st.sampled_from(sorted(self.clients))))
        if client.member_id in self.harness.group.members:
            self.harness.leave(client)
        with refused(ErrorCode.UNKNOWN_MEMBER_ID):
            self.harness.leave(client)

    @rule(seconds=st.sampled_from([1.0, 20.0, 50.0]))
    def wait(self, seconds: float) -> None:
        self.harness.wait(seconds)

    @rule()
    def move(self) -> None:
        """The group moves to another coordinator."""
        before = self.harness.group
        self.harness.restart()
        after = self.harness.group
        for name in self.compared:
            assert getattr(after, name) == getattr(before, name)
        assert after.members.keys() == before.members.keys()
        for member_id, member in after.members.items():
            assert vars(member) | DEADLINES == vars(before.members[member_id]) | DEADLINES

    @rule()
    def settle(self) -> None:
        """All members follow their assignments."""
        for _ in range(self.settling_rounds):
            for client in self.clients.values():
                self.call(client)
                client.owned = client.assigned
        assert self.harness.group.state == ("Stable" if self.clients else "Empty")
        self.check_settled()

    @invariant()
    def epochs_are_in_order(self) -> None:
        group = self.harness.group
        assert group.epoch >= group.assignment_epoch
        assert all(member.epoch <= group.assignment_epoch for member in group.members.values())

    @invariant()
    def only_a_member_that_has_to_revoke_waits_for_that(self) -> None:
        for member in self.harness.group.members.values():
            if isinstance(member, ReconciledMember):
                assert bool(member.pending_revocation) == (member.state is MemberState.UNREVOKED_PARTITIONS)
