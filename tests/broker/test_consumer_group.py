"""The consumer group of KIP-848: members, epochs, subscriptions, offsets, records."""

from __future__ import annotations

import pytest

from aiokproto.broker.groups.assignment import HeartbeatResult, TopicIdPartitions
from aiokproto.broker.groups.consumer.member import ConsumerHeartbeat
from aiokproto.broker.groups.consumer.subscriptions import REFRESH_SECONDS
from aiokproto.broker.groups.reconciliation import LEAVE_GROUP_MEMBER_EPOCH, LEAVE_GROUP_STATIC_MEMBER_EPOCH
from aiokproto.codec.payloads.consumer_groups import (
    ConsumerGroupCurrentMemberAssignmentValue,
)
from aiokproto.error_codes import ErrorCode
from tests.broker.consumer_scene import REBALANCE, SESSION, A, B, Client, Scene, anything, places, refused

# ---- joining, epochs, fencing


def test_the_first_member_is_assigned_all_partitions_at_once() -> None:
    scene = Scene()
    assert scene.group.state == "Empty"
    assert scene.join(Client("x")) == HeartbeatResult("x", 2, places(A, 0, 1, 2, 3))
    assert (scene.group.state, scene.group.epoch, scene.group.assignment_epoch) == ("Stable", 2, 2)


def test_no_partition_has_two_owners() -> None:
    """The second member gets its partitions when the first has reported that it revoked them, and not before."""
    scene = Scene()
    first, second = Client("x"), Client("y")
    first.owned = scene.join(first).assigned or frozenset()
    assert scene.join(second) == HeartbeatResult("y", 3, frozenset())
    answer = scene.heartbeat(first)
    assert (answer.epoch, len(answer.assigned or ())) == (2, 2)
    assert scene.group.state == "Reconciling"
    assert scene.heartbeat(first).epoch == 2, "it has not revoked anything yet"
    assert scene.heartbeat(second).assigned is None
    first.owned = first.assigned
    assert scene.heartbeat(first) == HeartbeatResult("x", 3)
    assert scene.heartbeat(second).assigned == places(A, 0, 1, 2, 3) - first.owned
    assert scene.group.state == "Stable"


def test_a_member_that_reports_no_owned_partitions_still_owns_them() -> None:
    scene = Scene()
    first, second = Client("x"), Client("y")
    first.owned = scene.join(first).assigned or frozenset()
    scene.join(second)
    for _ in range(3):
        scene.heartbeat(first, silent=True)
        assert not scene.heartbeat(second).assigned


@pytest.mark.parametrize(
    ("epoch", "owned", "error"),
    [
        (4, frozenset(), ErrorCode.FENCED_MEMBER_EPOCH),
        (1, frozenset(), ErrorCode.FENCED_MEMBER_EPOCH),
        (2, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (2, places(A, 0, 1, 2, 3), ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_a_wrong_member_epoch_is_fenced(epoch: int, owned: TopicIdPartitions | None, error: ErrorCode) -> None:
    scene = Scene()
    first, second = Client("x"), Client("y")
    scene.join(first)
    scene.join(second)
    scene.work(first, second)
    assert first.epoch == 3
    with refused(error):
        scene.group.heartbeat(ConsumerHeartbeat("x", epoch, owned=owned), scene.now)


def test_a_lost_response_does_not_fence_the_member() -> None:
    """A heartbeat with the previous epoch is accepted if the member owns only what it is assigned."""
    scene = Scene()
    first, second = Client("x"), Client("y")
    scene.join(first)
    scene.join(second)
    scene.work(first, second)
    assert scene.group.heartbeat(ConsumerHeartbeat("x", 2, owned=first.owned), scene.now).epoch == 3


def test_a_member_can_join_again_with_epoch_0() -> None:
    scene = Scene()
    client = Client("x")
    first = scene.join(client)
    assert scene.join(client) == first


def test_unknown_members_are_refused() -> None:
    scene = Scene()
    scene.join(Client("x"))
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        scene.group.heartbeat(ConsumerHeartbeat("y", 2), scene.now)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        scene.group.leave("y", None, LEAVE_GROUP_MEMBER_EPOCH)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        scene.group.leave("x", "nobody", LEAVE_GROUP_MEMBER_EPOCH)


def test_a_full_group_refuses_new_members() -> None:
    scene = Scene(max_size=1, a=4)
    scene.join(Client("x"))
    with refused(ErrorCode.GROUP_MAX_SIZE_REACHED):
        scene.join(Client("y"))
    assert scene.join(Client("x")).epoch == 2


# ---- leaving, and timeouts


def test_partitions_of_a_member_that_leaves_are_reassigned() -> None:
    scene = Scene()
    first, second = Client("x"), Client("y")
    scene.join(first)
    scene.join(second)
    scene.work(first, second)
    assert scene.group.leave("x", None, LEAVE_GROUP_MEMBER_EPOCH) == HeartbeatResult("x", LEAVE_GROUP_MEMBER_EPOCH)
    assert (scene.group.state, scene.group.epoch) == ("Assigning", 4)
    assert scene.heartbeat(second).assigned == places(A, 0, 1, 2, 3)
    scene.group.leave("y", None, LEAVE_GROUP_MEMBER_EPOCH)
    assert (scene.group.state, scene.group.members) == ("Empty", {})


def test_a_session_expires_without_heartbeats() -> None:
    scene = Scene()
    first, second = Client("x"), Client("y")
    scene.join(first)
    scene.join(second)
    scene.wait(SESSION - 1)
    scene.heartbeat(second)
    scene.wait(1)
    assert list(scene.group.members) == ["y"]
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        scene.heartbeat(first)


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    scene = Scene()
    first, second = Client("x"), Client("y")
    first.owned = scene.join(first).assigned or frozenset()
    scene.join(second)
    scene.heartbeat(first)
    for _ in range(4):
        scene.wait(REBALANCE / 4 - 1)
        scene.heartbeat(first)
        scene.heartbeat(second)
    scene.wait(4)
    assert list(scene.group.members) == ["y"]
    assert scene.heartbeat(second).assigned == places(A, 0, 1, 2, 3)


# ---- static members


def test_a_static_member_that_returns_gets_its_assignment_back() -> None:
    scene = Scene()
    one, other = Client("x", instance_id="i"), Client("y")
    scene.join(one)
    scene.join(other)
    scene.work(one, other)
    again = Client("z", instance_id="i")
    with refused(ErrorCode.UNRELEASED_INSTANCE_ID):
        scene.join(again)
    assert scene.group.leave("x", "i", LEAVE_GROUP_STATIC_MEMBER_EPOCH) == HeartbeatResult(
        "x", LEAVE_GROUP_STATIC_MEMBER_EPOCH
    )
    assert scene.heartbeat(other).assigned is None, "its partitions are retained for it"
    epoch = scene.group.epoch
    assert scene.join(again) == HeartbeatResult("z", epoch, one.owned)
    assert scene.group.epoch == epoch
    with refused(ErrorCode.FENCED_INSTANCE_ID):
        scene.heartbeat(one)


def test_a_member_cannot_take_over_another_members_instance_id() -> None:
    scene = Scene()
    scene.join(Client("x", instance_id="i"))
    scene.join(Client("y"))
    scene.group.leave("x", "i", LEAVE_GROUP_STATIC_MEMBER_EPOCH)
    with refused(ErrorCode.INVALID_REQUEST):
        scene.join(Client("y", instance_id="i"))
    assert scene.join(Client("z", instance_id="i")).epoch == scene.group.epoch


def test_a_members_instance_id_can_change() -> None:
    scene = Scene()
    for instance_id in ("i", "j"):
        scene.join(Client("x", instance_id=instance_id))
    assert scene.group.static_member("i") is None
    assert scene.group.static_member("j") is scene.group.members["x"]


def test_matches_of_a_regular_expression_survive_a_restart() -> None:
    scene = Scene()
    scene.join(Client("x", frozenset(), "a"))
    scene.restart()
    assert scene.group.subscribed("a")


def test_a_static_member_that_does_not_return_is_removed() -> None:
    scene = Scene()
    scene.join(Client("x", instance_id="i"))
    scene.group.leave("x", "i", LEAVE_GROUP_STATIC_MEMBER_EPOCH)
    scene.wait(SESSION)
    assert scene.group.state == "Empty"


# ---- subscriptions


def test_topics_that_are_created_extended_and_deleted_change_the_assignment() -> None:
    scene = Scene(a=1)
    client = Client("x", frozenset({"a", "b"}))
    assert scene.join(client).assigned == places(A, 0)
    scene.topics.sizes["b"] = 2
    assert scene.heartbeat(client).assigned == places(A, 0) | places(B, 0, 1)
    scene.topics.sizes["a"] = 3
    assert scene.heartbeat(client).assigned == places(A, 0, 1, 2) | places(B, 0, 1)
    del scene.topics.sizes["b"]
    client.owned = places(A, 0, 1, 2)
    assert scene.heartbeat(client).assigned == places(A, 0, 1, 2)


def test_regular_expressions_match_whole_names_and_follow_the_topics() -> None:
    scene = Scene(apple=1, banana=1)
    client = Client("x", frozenset(), "a.*")
    assert scene.join(client).assigned == places(A, 0)
    scene.topics.sizes["cab"] = 1
    assert scene.heartbeat(client).assigned is None
    assert scene.group.subscribed("apple")
    assert not scene.group.subscribed("banana")
    changed = ConsumerHeartbeat(
        "x", client.epoch, topics=frozenset({"cab"}), regex="b.*|a.*", owned=client.assigned, describable=anything
    )
    assert scene.group.heartbeat(changed, scene.now).assigned == places(A, 0) | places(B, 0) | places(b"c" * 16, 0)


def test_regular_expressions_do_not_match_topics_without_describe_permission() -> None:
    scene = Scene(apple=1, banana=1)
    scene.describable = lambda name: name == "banana"
    client = Client("x", frozenset(), ".*")
    assert scene.join(client).assigned == places(B, 0)
    assert not scene.group.subscribed("apple")
    # The matches survive a restart, and heartbeats of members without regular expressions.
    scene.restart()
    assert scene.group.subscriptions.matches == {".*": frozenset({"banana"})}
    scene.group.heartbeat(ConsumerHeartbeat("x", client.epoch), scene.now)
    assert scene.group.subscriptions.matches == {".*": frozenset({"banana"})}


def test_permissions_for_a_regular_expression_are_checked_again_periodically() -> None:
    scene = Scene(apple=1, banana=1)
    scene.describable = lambda name: name == "banana"
    client = Client("x", frozenset(), ".*")
    scene.join(client)
    scene.describable = anything
    assert scene.heartbeat(client).assigned is None
    scene.now += REFRESH_SECONDS
    assert scene.heartbeat(client).assigned == places(A, 0) | places(B, 0)
    # At once when topics are created, or for another regular expression.
    scene.describable = lambda name: name != "apple"
    scene.topics.sizes["cab"] = 1
    client.owned = places(B, 0)
    assert scene.heartbeat(client).assigned == places(B, 0) | places(b"c" * 16, 0)


def test_the_most_preferred_assignor_is_used() -> None:
    scene = Scene()
    clients = [Client("x", assignor="range"), Client("y"), Client("z", assignor="range")]
    for client in clients:
        scene.join(client)
    assert scene.group.assignor == "range"
    scene.group.heartbeat(ConsumerHeartbeat("x", clients[0].epoch, assignor="uniform"), scene.now)
    scene.group.heartbeat(ConsumerHeartbeat("z", clients[2].epoch, assignor="uniform"), scene.now)
    assert scene.group.assignor == "uniform"


# ---- offsets


def test_commits_are_checked_against_the_member() -> None:
    scene = Scene()
    first, second = Client("x"), Client("y")
    first.owned = scene.join(first).assigned or frozenset()
    scene.join(second)
    scene.work(first, second)
    check = scene.group.check_commit
    check("x", 3, 9, first.owned)
    check("x", 2, 9, first.owned)
    for epoch, wanted in ((2, places(A, 0, 1, 2, 3)), (1, first.owned), (4, first.owned)):
        with refused(ErrorCode.STALE_MEMBER_EPOCH):
            check("x", epoch, 9, wanted)
    with refused(ErrorCode.UNSUPPORTED_VERSION):
        check("x", 3, 8, ())
    for member_id, epoch in (("z", 1), ("", -1)):
        with refused(ErrorCode.UNKNOWN_MEMBER_ID):
            check(member_id, epoch, 9, ())


def test_offset_fetches_are_checked_against_the_member_epoch() -> None:
    scene = Scene()
    client = Client("x")
    scene.join(client)
    scene.group.check_fetch(None, -1)
    scene.group.check_fetch("x", 2)
    with refused(ErrorCode.STALE_MEMBER_EPOCH):
        scene.group.check_fetch("x", 1)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        scene.group.check_fetch("y", 2)


def test_an_empty_group_accepts_commits_without_a_member() -> None:
    Scene().group.check_commit("", -1, 5, ())


# ---- records


def test_only_what_changed_is_written() -> None:
    scene = Scene()
    first, second = Client("x"), Client("y", frozenset(), "a.*")
    scene.join(first)
    assert len(scene.save()) == 5
    scene.heartbeat(first)
    assert scene.save() == []
    scene.join(second)
    # Both epochs, the second member, the first member's target, and the regular expression.
    assert len(scene.save()) == 2 + 3 + 1 + 1
    scene.group.leave("y", None, LEAVE_GROUP_MEMBER_EPOCH)
    written = scene.save()
    assert sum(value is None for _, value in written) == 4
    scene.group.leave("x", None, LEAVE_GROUP_MEMBER_EPOCH)
    scene.save()
    assert len(scene.image) == 2


def test_records_without_assignment_epochs_are_restored() -> None:
    scene = Scene()
    scene.join(Client("x"))
    scene.save()
    (key,) = (key for key in scene.image if key[:2] == b"\0\x08")
    kind = ConsumerGroupCurrentMemberAssignmentValue
    value = kind.decode(scene.image[key][2:], 0)
    value.assigned_partitions[0].assignment_epochs = []
    scene.image[key] = b"\0\0" + value.encode(0)
    scene.restart()
    assert set(scene.group.members["x"].assigned.values()) == {2}
