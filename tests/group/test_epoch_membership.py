"""The state machine of a member whose assignment the coordinator computes: every event in every state."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.failures import Action
from aiokproto.group.epoch_membership import EpochMembership, MemberState, new_member_id

S = MemberState
NONE: frozenset[int] = frozenset()


def items(*numbers: int) -> frozenset[int]:
    return frozenset(numbers)


class Member(EpochMembership[int]):
    """A member of a group that learns what it owns, in a field of that name."""

    def __init__(self, instance_id: str | None = None) -> None:
        super().__init__(instance_id, ("owned",))
        self.topics: tuple[str, ...] = ("t",)

    @property
    def fields(self) -> dict[str, Any]:
        return {"topics": self.topics, "rack": None, "owned": sorted(self.owned)}

    def now(self) -> MemberState:
        """Its state, read again."""
        return self.state

    def beat(self, epoch: int = 1, target: frozenset[int] | None = None) -> dict[str, Any]:
        """One heartbeat that is accepted. Returns what it carried."""
        sent = self.heartbeat(self.fields)
        self.accepted(epoch, target)
        return sent

    def reconcile(self) -> None:
        """Carry out the target."""
        target = self.begin()
        self.give_up(self.owned - target)
        self.take(target)
        self.reconciled()


def joining() -> Member:
    member = Member()
    member.join()
    return member


def reconciling() -> Member:
    member = joining()
    member.beat(3, items(0, 1))
    return member


def acknowledging() -> Member:
    member = reconciling()
    member.reconcile()
    return member


def stable() -> Member:
    member = acknowledging()
    member.beat(3)
    return member


def preparing() -> Member:
    member = stable()
    member.prepare_leaving()
    return member


def leaving() -> Member:
    member = preparing()
    member.give_up(member.owned)
    member.leave(for_good=False)
    return member


def falling_back() -> Member:
    member = stable()
    member.refused(Action.FALL_BACK)
    return member


MAKERS = {
    S.UNSUBSCRIBED: Member,
    S.JOINING: joining,
    S.RECONCILING: reconciling,
    S.ACKNOWLEDGING: acknowledging,
    S.STABLE: stable,
    S.PREPARE_LEAVING: preparing,
    S.LEAVING: leaving,
    S.FALLING_BACK: falling_back,
}


@pytest.mark.parametrize("state", MAKERS)
def test_the_states_are_reached_as_kip_848_has_them(state: MemberState) -> None:
    assert MAKERS[state]().state is state


@pytest.mark.parametrize(
    ("state", "accepted", "with_target", "lost", "stopped", "falls_back"),
    [
        (S.UNSUBSCRIBED, S.UNSUBSCRIBED, S.UNSUBSCRIBED, S.UNSUBSCRIBED, S.UNSUBSCRIBED, S.UNSUBSCRIBED),
        (S.JOINING, S.RECONCILING, S.RECONCILING, S.FENCED, S.FATAL, S.FALLING_BACK),
        (S.RECONCILING, S.RECONCILING, S.RECONCILING, S.FENCED, S.FATAL, S.FALLING_BACK),
        (S.ACKNOWLEDGING, S.STABLE, S.RECONCILING, S.FENCED, S.FATAL, S.FALLING_BACK),
        (S.STABLE, S.STABLE, S.RECONCILING, S.FENCED, S.FATAL, S.FALLING_BACK),
        (S.PREPARE_LEAVING, S.PREPARE_LEAVING, S.PREPARE_LEAVING, S.FENCED, S.FATAL, S.FALLING_BACK),
        (S.LEAVING, S.LEAVING, S.LEAVING, S.LEAVING, S.LEAVING, S.LEAVING),
        (S.FALLING_BACK, S.FALLING_BACK, S.FALLING_BACK, S.FALLING_BACK, S.FALLING_BACK, S.FALLING_BACK),
    ],
)
def test_the_state_after_each_response(
    state: MemberState,
    accepted: MemberState,
    with_target: MemberState,
    lost: MemberState,
    stopped: MemberState,
    falls_back: MemberState,
) -> None:
    found = []
    for target in (None, items(0, 1, 2)):
        member = MAKERS[state]()
        member.beat(4, target)
        found.append(member.state)
    for action in (Action.REJOIN_LOST, Action.STOP, Action.FALL_BACK):
        member = MAKERS[state]()
        member.refused(action)
        found.append(member.state)
    assert found == [accepted, with_target, lost, stopped, falls_back]
    for action in (Action.BACKOFF, Action.FIND_COORDINATOR):
        member = MAKERS[state]()
        member.refused(action)
        assert member.now() is state


def test_a_member_that_falls_back_can_commit_until_the_group_has_forgotten_it_and_sends_nothing_else() -> None:
    member = falling_back()
    assert member.joined
    assert not member.due(member.fields)
    assert member.leave(for_good=True) is None
    member = falling_back()
    member.refused(Action.REJOIN_LOST)
    assert not member.joined


def test_a_member_joins_with_all_fields_and_then_sends_only_what_has_changed() -> None:
    member = joining()
    assert member.epoch == 0
    assert member.due(member.fields)
    assert member.beat(3, items(0)) == {"topics": ("t",), "rack": None, "owned": []}
    member.reconcile()
    assert member.beat(3) == {"owned": [0]}
    assert member.beat(3) == {}
    assert not member.due(member.fields)
    member.topics = ("t", "u")
    assert member.due(member.fields)
    assert member.beat(3) == {"topics": ("t", "u")}


def test_after_a_failure_the_heartbeat_carries_everything() -> None:
    member = stable()
    member.heartbeat(member.fields)
    member.refused(Action.FIND_COORDINATOR)
    assert member.beat(3) == member.fields
    assert member.beat(3) == {}


def test_a_target_is_acknowledged_even_if_the_member_owns_the_same_as_before() -> None:
    # The coordinator may have assigned a third partition and withdrawn it before the member knew: it waits for that.
    member = stable()
    member.beat(4, items(0, 1))
    assert member.now() is S.RECONCILING
    member.reconcile()
    assert member.due(member.fields)
    assert member.beat(5) == {"owned": [0, 1]}
    assert member.now() is S.STABLE


def test_a_first_target_without_partitions_is_reconciled_too() -> None:
    member = joining()
    member.beat(1, NONE)
    assert member.now() is S.RECONCILING
    member.reconcile()
    member.beat(1)
    assert member.now() is S.STABLE


def test_a_response_to_an_earlier_heartbeat_is_not_an_acknowledgement() -> None:
    member = reconciling()
    member.heartbeat(member.fields)
    member.reconcile()
    member.accepted(3, None)
    assert member.now() is S.ACKNOWLEDGING
    member.beat(3)
    assert member.now() is S.STABLE


def test_a_response_during_a_reconciliation_does_not_end_it() -> None:
    member = reconciling()
    member.take(member.begin())
    assert member.beat(3) == {"owned": [0, 1]}
    assert member.now() is S.RECONCILING
    member.reconciled()
    assert member.beat(3) == {"owned": [0, 1]}
    assert member.now() is S.STABLE


def test_all_that_is_owned_is_reported_together() -> None:
    member = EpochMembership[int](None, ("active", "standby"))
    member.join()
    member.heartbeat({"active": [], "standby": [], "rack": None})
    member.accepted(1, NONE)
    assert member.heartbeat({"active": [1], "standby": [], "rack": None}) == {"active": [1], "standby": []}


def test_a_target_that_arrives_during_the_reconciliation_is_reconciled_next() -> None:
    member = reconciling()
    target = member.begin()
    member.beat(4, items(0))
    member.take(target)
    member.reconciled()
    member.beat(4)
    assert member.now() is S.RECONCILING
    member.reconcile()
    member.beat(4)
    assert (member.state, member.owned) == (S.STABLE, items(0))


def test_a_fenced_member_joins_again_with_its_id_and_epoch_zero() -> None:
    member = stable()
    name = member.member_id
    member.refused(Action.REJOIN_LOST)
    assert (member.state, member.epoch, member.in_session) == (S.FENCED, 0, False)
    member.give_up(member.owned)
    member.join()
    assert member.beat(9) == {"topics": ("t",), "rack": None, "owned": []}
    assert (member.member_id, member.epoch) == (name, 9)


@pytest.mark.parametrize(
    ("instance_id", "for_good", "epoch"), [(None, False, -1), (None, True, -1), ("i", False, -2), ("i", True, -1)]
)
def test_a_static_member_leaves_for_a_while_unless_it_leaves_for_good(
    instance_id: str | None, for_good: bool, epoch: int
) -> None:
    member = Member(instance_id)
    member.join()
    member.beat(2, NONE)
    assert member.leave(for_good=for_good) == epoch
    member.left(stale=False)
    assert (member.state, member.epoch) == (S.UNSUBSCRIBED, -1)


def test_a_member_that_never_sent_a_heartbeat_has_nothing_to_leave() -> None:
    member = Member()
    assert member.leave(for_good=False) is None
    member = joining()
    assert member.leave(for_good=False) is None


def test_a_member_whose_join_is_in_flight_leaves_too() -> None:
    member = joining()
    member.heartbeat(member.fields)
    assert member.leave(for_good=False) == -1


def test_a_member_that_stays_after_all_takes_its_target_again() -> None:
    member = preparing()
    member.give_up(member.owned)
    member.stay()
    assert member.now() is S.RECONCILING
    member.reconcile()
    assert member.owned == items(0, 1)


def test_member_ids_are_kafkas_form_of_a_uuid() -> None:
    ids = {new_member_id() for _ in range(200)}
    assert len(ids) == 200
    assert {len(each) for each in ids} == {22}
    assert not any(each.startswith("-") for each in ids)


class Coordinator:
    """The coordinator's side: releases a partition only when a heartbeat reports that it is not owned any more."""

    def __init__(self) -> None:
        self.target: frozenset[int] = NONE
        self.assigned: frozenset[int] = NONE
        self.pending: frozenset[int] = NONE
        self.epoch = 0

    def answer(self, member: Member) -> None:
        sent = member.heartbeat(member.fields)
        joins = member.epoch == 0
        if joins:
            self.pending = NONE
        if "owned" in sent and not self.pending & set(sent["owned"]):
            self.pending = NONE
        before = self.assigned
        gone = self.assigned - self.target
        self.pending |= gone
        if not self.pending:
            self.assigned = self.target
            self.epoch += before != self.assigned
        else:
            self.assigned -= gone
        changed = joins or len(sent) == len(member.fields) or before != self.assigned
        member.accepted(max(self.epoch, 1), self.assigned if changed else None)


@given(
    st.lists(
        st.one_of(
            st.frozensets(st.integers(0, 3)),
            st.sampled_from(["beat", "reconcile", "begin", "end", "unanswered", "fenced"]),
        ),
        max_size=40,
    )
)
def test_a_member_reaches_every_target_after_any_history(events: list[frozenset[int] | str]) -> None:
    member, group = joining(), Coordinator()
    begun: frozenset[int] | None = None
    for event in events:
        if isinstance(event, frozenset):
            group.target = event
        elif event == "beat" and member.in_session:
            group.answer(member)
        elif event == "reconcile" and member.state is S.RECONCILING and begun is None:
            member.reconcile()
        elif event == "begin" and member.state is S.RECONCILING and begun is None:
            begun = member.begin()
            member.give_up(member.owned - begun)
        elif event == "end" and begun is not None:
            member.take(begun & member.target)
            member.reconciled()
            begun = None
        elif event == "unanswered" and member.in_session:
            # The coordinator has handled it, and the response is lost.
            was = member.epoch, member.target, member.state
            group.answer(member)
            member.epoch, member.target, member.state = was
            member.refused(Action.FIND_COORDINATOR)
        elif event == "fenced" and begun is None:
            member.refused(Action.REJOIN_LOST)
            member.give_up(member.owned)
            member.join()
    if begun is not None:
        member.reconciled()
    for _ in range(8):
        if member.state is S.RECONCILING:
            member.reconcile()
        group.answer(member)
    assert (member.state, member.owned) == (S.STABLE, group.target)
    assert not member.due(member.fields)
