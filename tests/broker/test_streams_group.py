"""A streams group, heartbeat by heartbeat."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker.groups.reconciliation import (
    LEAVE_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    MemberState,
)
from aiokproto.broker.groups.streams.assignor import MemberSpec, sticky
from aiokproto.broker.groups.streams.member import Endpoint, StreamsHeartbeat, Task, TaskRole, Tasks
from aiokproto.broker.groups.streams.topology import StatusCode
from aiokproto.error_codes import ErrorCode
from tests.broker.epoch_harness import SESSION, refused
from tests.broker.streams_harness import SIMPLE, Harness, Thread, active, subtopology, topology

STATEFUL = topology(subtopology(changelogs=["c"]))


def test_tasks_move_only_after_they_were_revoked() -> None:
    harness = Harness()
    first, second = Thread("1", "p"), Thread("2", "q")
    harness.join(first)
    assert first.assigned == active("0", 0, 1, 2, 3)
    first.owned = first.assigned
    harness.join(second)
    assert second.assigned == frozenset()
    harness.heartbeat(first)
    assert len(first.assigned) == 2
    assert harness.group.members["1"].state is MemberState.UNREVOKED_PARTITIONS
    harness.heartbeat(second)
    assert second.assigned == frozenset(), "the first still owns them"
    harness.work(first, second)
    assert first.assigned | second.assigned == active("0", 0, 1, 2, 3)
    assert (len(first.assigned), len(second.assigned), harness.group.state) == (2, 2, "Stable")


def test_without_its_topics_a_group_is_not_ready() -> None:
    harness = Harness(b=1)
    thread = Thread("1", topology=STATEFUL)
    answer = harness.join(thread)
    assert [each.code for each in answer.statuses] == [StatusCode.MISSING_SOURCE_TOPICS]
    assert (harness.group.state, answer.assigned) == ("NotReady", frozenset())
    harness.topics.sizes["a"] = 2
    assert [each.code for each in harness.heartbeat(thread).statuses] == [StatusCode.MISSING_INTERNAL_TOPICS]
    harness.topics.sizes["c"] = 2
    answer = harness.heartbeat(thread)
    assert (answer.statuses, answer.assigned) == ((), active("0", 0, 1))


def test_standbys_are_in_other_processes() -> None:
    harness = Harness(standbys=1, a=2, c=2)
    threads = [Thread("1", "p", STATEFUL), Thread("2", "p", STATEFUL), Thread("3", "q", STATEFUL)]
    for thread in threads:
        harness.join(thread)
    harness.work(*threads)
    for partition in range(2):
        holders = {
            task.role: thread.process_id for thread in threads for task in thread.owned if task.partition == partition
        }
        assert holders.keys() == {TaskRole.ACTIVE, TaskRole.STANDBY}
        assert holders[TaskRole.ACTIVE] != holders[TaskRole.STANDBY]


def test_a_standby_becomes_active_when_the_active_member_leaves() -> None:
    harness = Harness(standbys=1, a=1, c=1)
    first, second = Thread("1", "p", STATEFUL), Thread("2", "q", STATEFUL)
    for thread in (first, second):
        harness.join(thread)
    harness.work(first, second)
    (holder,) = [thread for thread in (first, second) if active("0", 0) <= thread.owned]
    other = second if holder is first else first
    assert other.owned == {Task(TaskRole.STANDBY, "0", 0)}
    harness.group.remove_or_keep_static(holder.member_id, None, LEAVE_GROUP_MEMBER_EPOCH)
    harness.work(other)
    assert other.owned == active("0", 0)


def test_another_topology_is_refused_and_an_older_one_is_stale() -> None:
    harness = Harness()
    harness.join(Thread("1", topology=topology(subtopology(), epoch=1)))
    with refused(ErrorCode.INVALID_REQUEST):
        harness.join(Thread("2", topology=topology(subtopology("other"), epoch=1)))
    assert list(harness.group.members) == ["1"]
    late = harness.join(Thread("3", topology=topology(subtopology("other"), epoch=0)))
    assert [each.code for each in late.statuses] == [StatusCode.STALE_TOPOLOGY]


def test_members_without_heartbeats_or_that_do_not_revoke_are_removed() -> None:
    harness = Harness()
    first, second = Thread("1", "p"), Thread("2", "q")
    harness.join(first)
    first.owned = first.assigned
    harness.join(second)
    for _ in range(3):
        harness.wait(SESSION / 2)
        harness.heartbeat(first)
        harness.heartbeat(second)
    assert "1" in harness.group.members, "it has sent a heartbeat"
    harness.wait(SESSION / 2)
    assert list(harness.group.members) == ["2"], "but it did not revoke its tasks within the rebalance timeout"
    harness.wait(SESSION)
    assert harness.group.state == "Empty"


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        ("x", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("1", 3, ErrorCode.FENCED_MEMBER_EPOCH),
        ("1", 1, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_unknown_and_fenced_members_are_refused(member_id: str, epoch: int, code: ErrorCode) -> None:
    harness = Harness()
    harness.join(Thread("1"))
    with refused(code):
        harness.group.heartbeat(StreamsHeartbeat(member_id, epoch), harness.now)


def test_owned_tasks_outside_the_topology_are_refused() -> None:
    harness = Harness()
    thread = Thread("1")
    harness.join(thread)
    for wrong in (active("9", 0), active("0", 4), active("0", -1)):
        thread.owned = wrong
        with refused(ErrorCode.INVALID_REQUEST):
            harness.heartbeat(thread)


def test_a_full_streams_group_refuses_new_members() -> None:
    harness = Harness(max_size=1)
    harness.join(Thread("1"))
    with refused(ErrorCode.GROUP_MAX_SIZE_REACHED):
        harness.join(Thread("2"))


def test_a_static_member_that_returns_gets_its_tasks_back() -> None:
    harness = Harness()
    thread = Thread("1", instance_id="i")
    harness.join(thread)
    again = Thread("2", instance_id="i")
    with refused(ErrorCode.UNRELEASED_INSTANCE_ID):
        harness.join(again)
    harness.group.remove_or_keep_static("1", "i", LEAVE_GROUP_STATIC_MEMBER_EPOCH)
    assert harness.join(again).assigned == active("0", 0, 1, 2, 3)
    assert list(harness.group.members) == ["2"]


def test_a_shutdown_request_reaches_all_members_until_the_group_is_empty() -> None:
    harness = Harness()
    first, second = Thread("1"), Thread("2")
    harness.join(first)
    harness.join(second)
    harness.heartbeat(first, shutdown=True)
    assert [each.code for each in harness.heartbeat(second).statuses] == [StatusCode.SHUTDOWN_APPLICATION]
    for thread in (first, second):
        harness.group.remove_or_keep_static(thread.member_id, None, LEAVE_GROUP_MEMBER_EPOCH)
    assert harness.join(first).statuses == ()


def test_endpoints_list_the_partitions_of_their_members() -> None:
    harness = Harness(standbys=1, a=2, c=2)
    first = Thread("1", "p", STATEFUL, endpoint=Endpoint("h", 1))
    second = Thread("2", "q", STATEFUL)
    epochs = [harness.join(first).endpoint_epoch, harness.join(second).endpoint_epoch]
    assert epochs == [1, 1], "the second has no endpoint"
    harness.work(first, second)
    member = harness.group.members["1"]
    own = {role: {task.partition for task in first.owned if task.role is role} for role in TaskRole}
    for role in (TaskRole.ACTIVE, TaskRole.STANDBY):
        assert harness.group.partitions(member, role) == {"a": sorted(own[role])}
    before = harness.group.endpoint_epoch
    harness.group.remove_or_keep_static("1", None, LEAVE_GROUP_MEMBER_EPOCH)
    assert harness.group.endpoint_epoch == before + 1


def test_commits_need_the_member_epoch_or_tasks_owned_since() -> None:
    harness = Harness()
    thread = Thread("1")
    harness.join(thread)
    since = thread.epoch
    harness.topics.sizes["a"] = 5
    harness.heartbeat(thread)
    assert thread.epoch == since + 1
    a = b"a" * 16
    harness.group.check_commit("1", thread.epoch, 9, [(a, 4)])
    harness.group.check_commit("1", since, 9, [(a, 0)])
    for epoch, partitions in ((since, [(a, 4)]), (since - 1, [(a, 0)]), (thread.epoch + 1, [(a, 0)])):
        with refused(ErrorCode.STALE_MEMBER_EPOCH):
            harness.group.check_commit("1", epoch, 9, partitions)
    with refused(ErrorCode.UNSUPPORTED_VERSION):
        harness.group.check_commit("1", thread.epoch, 8, [])
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        harness.group.check_commit("", -1, 9, [])
    harness.group.check_fetch(None, -1)
    with refused(ErrorCode.STALE_MEMBER_EPOCH):
        harness.group.check_fetch("1", since)


def test_a_new_coordinator_continues_without_a_rebalance() -> None:
    harness = Harness(standbys=1, a=3, c=3)
    threads = [Thread("1", "p", STATEFUL, "i", Endpoint("h", 1)), Thread("2", "q", STATEFUL)]
    for thread in threads:
        harness.join(thread)
    harness.work(*threads)
    before = harness.group
    harness.restart()
    after = harness.group
    assert (after.epoch, after.topology, after.validated_topology_epoch) == (
        before.epoch,
        before.topology,
        before.validated_topology_epoch,
    )
    harness.work(*threads)
    assert after.epoch == before.epoch
    assert harness.save() == []


def test_only_changed_records_are_written() -> None:
    harness = Harness()
    first, second = Thread("1"), Thread("2")
    harness.join(first)
    assert len(harness.save()) == 6
    harness.heartbeat(first)
    assert harness.save() == []
    harness.join(second)
    harness.save()
    harness.group.remove_or_keep_static("2", None, LEAVE_GROUP_MEMBER_EPOCH)
    assert sum(value is None for _, value in harness.save()) == 3


def test_changing_the_number_of_standbys_causes_a_rebalance() -> None:
    harness = Harness(a=1, c=1)
    threads = [Thread("1", "p", STATEFUL), Thread("2", "q", STATEFUL)]
    for thread in threads:
        harness.join(thread)
    harness.work(*threads)
    harness.group.settings = Harness(standbys=1).settings
    harness.work(*threads)
    assert sorted(task.role for thread in threads for task in thread.owned) == [TaskRole.ACTIVE, TaskRole.STANDBY]


def test_the_group_subscribes_to_its_topologys_inputs() -> None:
    harness = Harness()
    assert not harness.group.subscribed("a")
    harness.join(Thread("1", topology=SIMPLE))
    assert (harness.group.subscribed("a"), harness.group.subscribed("c")) == (True, False)


# ---- the assignor

Wishes = Mapping[str, MemberSpec]


@st.composite
def specs(draw: st.DrawFn) -> dict[str, MemberSpec]:
    members = draw(st.lists(st.sampled_from("abc"), min_size=1, max_size=7))
    tasks = st.builds(Task, st.sampled_from(TaskRole), st.sampled_from("01"), st.integers(0, 5))
    return {f"m{at}": MemberSpec(process, draw(st.frozensets(tasks))) for at, process in enumerate(members)}


@given(
    specs(), st.dictionaries(st.sampled_from("01"), st.integers(0, 6)), st.frozensets(st.just("0")), st.integers(0, 2)
)
def test_every_task_is_active_once_and_never_twice_in_a_process(
    given_: Wishes, sizes: dict[str, int], stateful: frozenset[str], standbys: int
) -> None:
    targets = sticky(given_, sizes, stateful, standbys)
    assert targets.keys() == given_.keys()
    tasks = [(task, given_[member_id].process_id) for member_id, target in targets.items() for task in target]
    whats = sorted((subtopology_id, at) for subtopology_id, size in sizes.items() for at in range(size))
    assert sorted(task.task_id for task, _ in tasks if task.role is TaskRole.ACTIVE) == whats
    assert len({(task.task_id, process) for task, process in tasks}) == len(tasks)
    others = len({spec.process_id for spec in given_.values()}) - 1
    wanted = sorted(task_id for task_id in whats if task_id[0] in stateful for _ in range(min(standbys, others)))
    assert sorted(task.task_id for task, _ in tasks if task.role is TaskRole.STANDBY) == wanted
    assert not any(task.role is TaskRole.WARMUP for task, _ in tasks)


@given(st.integers(1, 6), st.integers(0, 20), st.booleans())
def test_processes_with_one_thread_get_even_and_sticky_assignments(members: int, size: int, stateful: bool) -> None:
    given_ = {f"m{at}": MemberSpec(f"p{at}") for at in range(members)}
    with_state = frozenset("0") if stateful else frozenset[str]()
    targets = sticky(given_, {"0": size}, with_state, 0)
    counts = sorted(len(target) for target in targets.values())
    assert counts[-1] - counts[0] <= 1
    again = {member_id: MemberSpec(spec.process_id, targets[member_id]) for member_id, spec in given_.items()}
    assert sticky(again, {"0": size}, with_state, 0) == targets


def test_remaining_members_retain_their_tasks() -> None:
    tasks = {"m0": active("0", 0, 2), "m1": active("0", 1, 3)}
    left: dict[str, MemberSpec] = {"m0": MemberSpec("p", tasks["m0"]), "m2": MemberSpec("q", Tasks())}
    assert tasks["m0"] <= sticky(left, {"0": 4}, frozenset(), 0)["m0"]
