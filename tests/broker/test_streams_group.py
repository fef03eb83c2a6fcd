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
from tests.broker.consumer_scene import refused
from tests.broker.streams_scene import SESSION, SIMPLE, Scene, Thread, active, subtopology, topology

STATEFUL = topology(subtopology(changelogs=["c"]))


def test_tasks_move_only_after_they_were_revoked() -> None:
    scene = Scene()
    first, second = Thread("1", "p"), Thread("2", "q")
    scene.join(first)
    assert first.assigned == active("0", 0, 1, 2, 3)
    first.owned = first.assigned
    scene.join(second)
    assert second.assigned == frozenset()
    scene.heartbeat(first)
    assert len(first.assigned) == 2
    assert scene.group.members["1"].state is MemberState.UNREVOKED_PARTITIONS
    scene.heartbeat(second)
    assert second.assigned == frozenset(), "the first still owns them"
    scene.work(first, second)
    assert first.assigned | second.assigned == active("0", 0, 1, 2, 3)
    assert (len(first.assigned), len(second.assigned), scene.group.state) == (2, 2, "Stable")


def test_without_its_topics_a_group_is_not_ready() -> None:
    scene = Scene(b=1)
    thread = Thread("1", topology=STATEFUL)
    answer = scene.join(thread)
    assert [each.code for each in answer.statuses] == [StatusCode.MISSING_SOURCE_TOPICS]
    assert (scene.group.state, answer.assigned) == ("NotReady", frozenset())
    scene.topics.sizes["a"] = 2
    assert [each.code for each in scene.heartbeat(thread).statuses] == [StatusCode.MISSING_INTERNAL_TOPICS]
    scene.topics.sizes["c"] = 2
    answer = scene.heartbeat(thread)
    assert (answer.statuses, answer.assigned) == ((), active("0", 0, 1))


def test_standbys_are_in_other_processes() -> None:
    scene = Scene(standbys=1, a=2, c=2)
    threads = [Thread("1", "p", STATEFUL), Thread("2", "p", STATEFUL), Thread("3", "q", STATEFUL)]
    for thread in threads:
        scene.join(thread)
    scene.work(*threads)
    for partition in range(2):
        holders = {
            task.role: thread.process_id for thread in threads for task in thread.owned if task.partition == partition
        }
        assert holders.keys() == {TaskRole.ACTIVE, TaskRole.STANDBY}
        assert holders[TaskRole.ACTIVE] != holders[TaskRole.STANDBY]


def test_a_standby_becomes_active_when_the_active_member_leaves() -> None:
    scene = Scene(standbys=1, a=1, c=1)
    first, second = Thread("1", "p", STATEFUL), Thread("2", "q", STATEFUL)
    for thread in (first, second):
        scene.join(thread)
    scene.work(first, second)
    (holder,) = [thread for thread in (first, second) if active("0", 0) <= thread.owned]
    other = second if holder is first else first
    assert other.owned == {Task(TaskRole.STANDBY, "0", 0)}
    scene.group.remove_or_keep_static(holder.member_id, None, LEAVE_GROUP_MEMBER_EPOCH)
    scene.work(other)
    assert other.owned == active("0", 0)


def test_another_topology_is_refused_and_an_older_one_is_stale() -> None:
    scene = Scene()
    scene.join(Thread("1", topology=topology(subtopology(), epoch=1)))
    with refused(ErrorCode.INVALID_REQUEST):
        scene.join(Thread("2", topology=topology(subtopology("other"), epoch=1)))
    assert list(scene.group.members) == ["1"]
    late = scene.join(Thread("3", topology=topology(subtopology("other"), epoch=0)))
    assert [each.code for each in late.statuses] == [StatusCode.STALE_TOPOLOGY]


def test_members_without_heartbeats_or_that_do_not_revoke_are_removed() -> None:
    scene = Scene()
    first, second = Thread("1", "p"), Thread("2", "q")
    scene.join(first)
    first.owned = first.assigned
    scene.join(second)
    for _ in range(3):
        scene.wait(SESSION / 2)
        scene.heartbeat(first)
        scene.heartbeat(second)
    assert "1" in scene.group.members, "it has sent a heartbeat"
    scene.wait(SESSION / 2)
    assert list(scene.group.members) == ["2"], "but it did not revoke its tasks within the rebalance timeout"
    scene.wait(SESSION)
    assert scene.group.state == "Empty"


@pytest.mark.parametrize(
    ("member_id", "epoch", "code"),
    [
        ("x", 2, ErrorCode.UNKNOWN_MEMBER_ID),
        ("1", 3, ErrorCode.FENCED_MEMBER_EPOCH),
        ("1", 1, ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_unknown_and_fenced_members_are_refused(member_id: str, epoch: int, code: ErrorCode) -> None:
    scene = Scene()
    scene.join(Thread("1"))
    with refused(code):
        scene.group.heartbeat(StreamsHeartbeat(member_id, epoch), scene.now)


def test_owned_tasks_outside_the_topology_are_refused() -> None:
    scene = Scene()
    thread = Thread("1")
    scene.join(thread)
    for wrong in (active("9", 0), active("0", 4), active("0", -1)):
        thread.owned = wrong
        with refused(ErrorCode.INVALID_REQUEST):
            scene.heartbeat(thread)


def test_a_full_streams_group_refuses_new_members() -> None:
    scene = Scene(max_size=1)
    scene.join(Thread("1"))
    with refused(ErrorCode.GROUP_MAX_SIZE_REACHED):
        scene.join(Thread("2"))


def test_a_static_member_that_returns_gets_its_tasks_back() -> None:
    scene = Scene()
    thread = Thread("1", instance_id="i")
    scene.join(thread)
    again = Thread("2", instance_id="i")
    with refused(ErrorCode.UNRELEASED_INSTANCE_ID):
        scene.join(again)
    scene.group.remove_or_keep_static("1", "i", LEAVE_GROUP_STATIC_MEMBER_EPOCH)
    assert scene.join(again).assigned == active("0", 0, 1, 2, 3)
    assert list(scene.group.members) == ["2"]


def test_a_shutdown_request_reaches_all_members_until_the_group_is_empty() -> None:
    scene = Scene()
    first, second = Thread("1"), Thread("2")
    scene.join(first)
    scene.join(second)
    scene.heartbeat(first, shutdown=True)
    assert [each.code for each in scene.heartbeat(second).statuses] == [StatusCode.SHUTDOWN_APPLICATION]
    for thread in (first, second):
        scene.group.remove_or_keep_static(thread.member_id, None, LEAVE_GROUP_MEMBER_EPOCH)
    assert scene.join(first).statuses == ()


def test_endpoints_list_the_partitions_of_their_members() -> None:
    scene = Scene(standbys=1, a=2, c=2)
    first = Thread("1", "p", STATEFUL, endpoint=Endpoint("h", 1))
    second = Thread("2", "q", STATEFUL)
    epochs = [scene.join(first).endpoint_epoch, scene.join(second).endpoint_epoch]
    assert epochs == [1, 1], "the second has no endpoint"
    scene.work(first, second)
    member = scene.group.members["1"]
    own = {role: {task.partition for task in first.owned if task.role is role} for role in TaskRole}
    for role in (TaskRole.ACTIVE, TaskRole.STANDBY):
        assert scene.group.partitions(member, role) == {"a": sorted(own[role])}
    before = scene.group.endpoint_epoch
    scene.group.remove_or_keep_static("1", None, LEAVE_GROUP_MEMBER_EPOCH)
    assert scene.group.endpoint_epoch == before + 1


def test_commits_need_the_member_epoch_or_tasks_owned_since() -> None:
    scene = Scene()
    thread = Thread("1")
    scene.join(thread)
    since = thread.epoch
    scene.topics.sizes["a"] = 5
    scene.heartbeat(thread)
    assert thread.epoch == since + 1
    a = b"a" * 16
    scene.group.check_commit("1", thread.epoch, 9, [(a, 4)])
    scene.group.check_commit("1", since, 9, [(a, 0)])
    for epoch, places in ((since, [(a, 4)]), (since - 1, [(a, 0)]), (thread.epoch + 1, [(a, 0)])):
        with refused(ErrorCode.STALE_MEMBER_EPOCH):
            scene.group.check_commit("1", epoch, 9, places)
    with refused(ErrorCode.UNSUPPORTED_VERSION):
        scene.group.check_commit("1", thread.epoch, 8, [])
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        scene.group.check_commit("", -1, 9, [])
    scene.group.check_fetch(None, -1)
    with refused(ErrorCode.STALE_MEMBER_EPOCH):
        scene.group.check_fetch("1", since)


def test_a_new_coordinator_continues_without_a_rebalance() -> None:
    scene = Scene(standbys=1, a=3, c=3)
    threads = [Thread("1", "p", STATEFUL, "i", Endpoint("h", 1)), Thread("2", "q", STATEFUL)]
    for thread in threads:
        scene.join(thread)
    scene.work(*threads)
    before = scene.group
    scene.restart()
    after = scene.group
    assert (after.epoch, after.topology, after.validated_topology_epoch) == (
        before.epoch,
        before.topology,
        before.validated_topology_epoch,
    )
    scene.work(*threads)
    assert after.epoch == before.epoch
    assert scene.save() == []


def test_only_changed_records_are_written() -> None:
    scene = Scene()
    first, second = Thread("1"), Thread("2")
    scene.join(first)
    assert len(scene.save()) == 6
    scene.heartbeat(first)
    assert scene.save() == []
    scene.join(second)
    scene.save()
    scene.group.remove_or_keep_static("2", None, LEAVE_GROUP_MEMBER_EPOCH)
    assert sum(value is None for _, value in scene.save()) == 3


def test_changing_the_number_of_standbys_causes_a_rebalance() -> None:
    scene = Scene(a=1, c=1)
    threads = [Thread("1", "p", STATEFUL), Thread("2", "q", STATEFUL)]
    for thread in threads:
        scene.join(thread)
    scene.work(*threads)
    scene.group.settings = Scene(standbys=1).settings
    scene.work(*threads)
    assert sorted(task.role for thread in threads for task in thread.owned) == [TaskRole.ACTIVE, TaskRole.STANDBY]


def test_the_group_subscribes_to_its_topologys_inputs() -> None:
    scene = Scene()
    assert not scene.group.subscribed("a")
    scene.join(Thread("1", topology=SIMPLE))
    assert (scene.group.subscribed("a"), scene.group.subscribed("c")) == (True, False)


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
