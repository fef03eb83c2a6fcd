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
from tests.broker.consumer_harness import Client, Harness, anything
from tests.broker.epoch_harness import REBALANCE, SESSION, A, B, partition_ids, refused

# ---- joining, epochs, fencing


def test_the_first_member_is_assigned_all_partitions_at_once() -> None:
    harness = Harness()
    assert harness.group.state == "Empty"
    assert harness.join(Client("x")) == HeartbeatResult("x", 2, partition_ids(A, 0, 1, 2, 3))
    assert (harness.group.state, harness.group.epoch, harness.group.assignment_epoch) == ("Stable", 2, 2)


def test_no_partition_has_two_owners() -> None:
    """The second member gets its partitions only when the first has reported that it revoked them."""
    harness = Harness()
    first, second = Client("x"), Client("y")
    first.owned = harness.join(first).assigned or frozenset()
    assert harness.join(second) == HeartbeatResult("y", 3, frozenset())
    answer = harness.heartbeat(first)
    assert (answer.epoch, len(answer.assigned or ())) == (2, 2)
    assert harness.group.state == "Reconciling"
    assert harness.heartbeat(first).epoch == 2, "it has not revoked anything yet"
    assert harness.heartbeat(second).assigned is None
    first.owned = first.assigned
    assert harness.heartbeat(first) == HeartbeatResult("x", 3)
    assert harness.heartbeat(second).assigned == partition_ids(A, 0, 1, 2, 3) - first.owned
    assert harness.group.state == "Stable"


def test_a_member_that_reports_no_owned_partitions_still_owns_them() -> None:
    harness = Harness()
    first, second = Client("x"), Client("y")
    first.owned = harness.join(first).assigned or frozenset()
    harness.join(second)
    for _ in range(3):
        harness.heartbeat(first, silent=True)
        assert not harness.heartbeat(second).assigned


@pytest.mark.parametrize(
    ("epoch", "owned", "error"),
    [
        (4, frozenset(), ErrorCode.FENCED_MEMBER_EPOCH),
        (1, frozenset(), ErrorCode.FENCED_MEMBER_EPOCH),
        (2, None, ErrorCode.FENCED_MEMBER_EPOCH),
        (2, partition_ids(A, 0, 1, 2, 3), ErrorCode.FENCED_MEMBER_EPOCH),
    ],
)
def test_a_wrong_member_epoch_is_fenced(epoch: int, owned: TopicIdPartitions | None, error: ErrorCode) -> None:
    harness = Harness()
    first, second = Client("x"), Client("y")
    harness.join(first)
    harness.join(second)
    harness.work(first, second)
    assert first.epoch == 3
    with refused(error):
        harness.group.heartbeat(ConsumerHeartbeat("x", epoch, owned=owned), harness.now)


def test_a_lost_response_does_not_fence_the_member() -> None:
    """A heartbeat with the previous epoch is accepted if the member owns only what it is assigned."""
    harness = Harness()
    first, second = Client("x"), Client("y")
    harness.join(first)
    harness.join(second)
    harness.work(first, second)
    assert harness.group.heartbeat(ConsumerHeartbeat("x", 2, owned=first.owned), harness.now).epoch == 3


def test_a_member_can_join_again_with_epoch_0() -> None:
    harness = Harness()
    client = Client("x")
    first = harness.join(client)
    assert harness.join(client) == first


def test_unknown_members_are_refused() -> None:
    harness = Harness()
    harness.join(Client("x"))
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        harness.group.heartbeat(ConsumerHeartbeat("y", 2), harness.now)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        harness.group.leave("y", None, LEAVE_GROUP_MEMBER_EPOCH)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        harness.group.leave("x", "unknown", LEAVE_GROUP_MEMBER_EPOCH)


def test_a_full_group_refuses_new_members() -> None:
    harness = Harness(max_size=1, a=4)
    harness.join(Client("x"))
    with refused(ErrorCode.GROUP_MAX_SIZE_REACHED):
        harness.join(Client("y"))
    assert harness.join(Client("x")).epoch == 2


# ---- leaving, and timeouts


def test_partitions_of_a_member_that_leaves_are_reassigned() -> None:
    harness = Harness()
    first, second = Client("x"), Client("y")
    harness.join(first)
    harness.join(second)
    harness.work(first, second)
    assert harness.group.leave("x", None, LEAVE_GROUP_MEMBER_EPOCH) == HeartbeatResult("x", LEAVE_GROUP_MEMBER_EPOCH)
    assert (harness.group.state, harness.group.epoch) == ("Assigning", 4)
    assert harness.heartbeat(second).assigned == partition_ids(A, 0, 1, 2, 3)
    harness.group.leave("y", None, LEAVE_GROUP_MEMBER_EPOCH)
    assert (harness.group.state, harness.group.members) == ("Empty", {})


def test_a_session_expires_without_heartbeats() -> None:
    harness = Harness()
    first, second = Client("x"), Client("y")
    harness.join(first)
    harness.join(second)
    harness.wait(SESSION - 1)
    harness.heartbeat(second)
    harness.wait(1)
    assert list(harness.group.members) == ["y"]
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        harness.heartbeat(first)


def test_a_member_that_does_not_revoke_in_time_is_removed() -> None:
    harness = Harness()
    first, second = Client("x"), Client("y")
    first.owned = harness.join(first).assigned or frozenset()
    harness.join(second)
    harness.heartbeat(first)
    for _ in range(4):
        harness.wait(REBALANCE / 4 - 1)
        harness.heartbeat(first)
        harness.heartbeat(second)
    harness.wait(4)
    assert list(harness.group.members) == ["y"]
    assert harness.heartbeat(second).assigned == partition_ids(A, 0, 1, 2, 3)


# ---- static members


def test_a_static_member_that_returns_gets_its_assignment_back() -> None:
    harness = Harness()
    one, other = Client("x", instance_id="i"), Client("y")
    harness.join(one)
    harness.join(other)
    harness.work(one, other)
    again = Client("z", instance_id="i")
    with refused(ErrorCode.UNRELEASED_INSTANCE_ID):
        harness.join(again)
    assert harness.group.leave("x", "i", LEAVE_GROUP_STATIC_MEMBER_EPOCH) == HeartbeatResult(
        "x", LEAVE_GROUP_STATIC_MEMBER_EPOCH
    )
    assert harness.heartbeat(other).assigned is None, "its partitions are retained for it"
    epoch = harness.group.epoch
    assert harness.join(again) == HeartbeatResult("z", epoch, one.owned)
    assert harness.group.epoch == epoch
    with refused(ErrorCode.FENCED_INSTANCE_ID):
        harness.heartbeat(one)


def test_a_member_cannot_take_over_another_members_instance_id() -> None:
    harness = Harness()
    harness.join(Client("x", instance_id="i"))
    harness.join(Client("y"))
    harness.group.leave("x", "i", LEAVE_GROUP_STATIC_MEMBER_EPOCH)
    with refused(ErrorCode.INVALID_REQUEST):
        harness.join(Client("y", instance_id="i"))
    assert harness.join(Client("z", instance_id="i")).epoch == harness.group.epoch


def test_a_members_instance_id_can_change() -> None:
    harness = Harness()
    for instance_id in ("i", "j"):
        harness.join(Client("x", instance_id=instance_id))
    assert harness.group.static_member("i") is None
    assert harness.group.static_member("j") is harness.group.members["x"]


def test_matches_of_a_regular_expression_survive_a_restart() -> None:
    harness = Harness()
    harness.join(Client("x", frozenset(), "a"))
    harness.restart()
    assert harness.group.subscribed("a")


def test_a_static_member_that_does_not_return_is_removed() -> None:
    harness = Harness()
    harness.join(Client("x", instance_id="i"))
    harness.group.leave("x", "i", LEAVE_GROUP_STATIC_MEMBER_EPOCH)
    harness.wait(SESSION)
    assert harness.group.state == "Empty"


# ---- subscriptions


def test_topics_that_are_created_extended_and_deleted_change_the_assignment() -> None:
    harness = Harness(a=1)
    client = Client("x", frozenset({"a", "b"}))
    assert harness.join(client).assigned == partition_ids(A, 0)
    harness.topics.sizes["b"] = 2
    assert harness.heartbeat(client).assigned == partition_ids(A, 0) | partition_ids(B, 0, 1)
    harness.topics.sizes["a"] = 3
    assert harness.heartbeat(client).assigned == partition_ids(A, 0, 1, 2) | partition_ids(B, 0, 1)
    del harness.topics.sizes["b"]
    client.owned = partition_ids(A, 0, 1, 2)
    assert harness.heartbeat(client).assigned == partition_ids(A, 0, 1, 2)


def test_regular_expressions_match_whole_names_and_follow_the_topics() -> None:
    harness = Harness(apple=1, banana=1)
    client = Client("x", frozenset(), "a.*")
    assert harness.join(client).assigned == partition_ids(A, 0)
    harness.topics.sizes["cab"] = 1
    assert harness.heartbeat(client).assigned is None
    assert harness.group.subscribed("apple")
    assert not harness.group.subscribed("banana")
    changed = ConsumerHeartbeat(
        "x", client.epoch, topics=frozenset({"cab"}), regex="b.*|a.*", owned=client.assigned, describable=anything
    )
    assigned = harness.group.heartbeat(changed, harness.now).assigned
    assert assigned == partition_ids(A, 0) | partition_ids(B, 0) | partition_ids(b"c" * 16, 0)


def test_regular_expressions_do_not_match_topics_without_describe_permission() -> None:
    harness = Harness(apple=1, banana=1)
    harness.describable = lambda name: name == "banana"
    client = Client("x", frozenset(), ".*")
    assert harness.join(client).assigned == partition_ids(B, 0)
    assert not harness.group.subscribed("apple")
    # The matches survive a restart, and heartbeats of members without regular expressions.
    harness.restart()
    assert harness.group.subscriptions.matches == {".*": frozenset({"banana"})}
    harness.group.heartbeat(ConsumerHeartbeat("x", client.epoch), harness.now)
    assert harness.group.subscriptions.matches == {".*": frozenset({"banana"})}


def test_permissions_for_a_regular_expression_are_checked_again_periodically() -> None:
    harness = Harness(apple=1, banana=1)
    harness.describable = lambda name: name == "banana"
    client = Client("x", frozenset(), ".*")
    harness.join(client)
    harness.describable = anything
    assert harness.heartbeat(client).assigned is None
    harness.now += REFRESH_SECONDS
    assert harness.heartbeat(client).assigned == partition_ids(A, 0) | partition_ids(B, 0)
    # The expression is resolved at once when topics are created, or for another regular expression.
    harness.describable = lambda name: name != "apple"
    harness.topics.sizes["cab"] = 1
    client.owned = partition_ids(B, 0)
    assert harness.heartbeat(client).assigned == partition_ids(B, 0) | partition_ids(b"c" * 16, 0)


def test_the_most_preferred_assignor_is_used() -> None:
    harness = Harness()
    clients = [Client("x", assignor="range"), Client("y"), Client("z", assignor="range")]
    for client in clients:
        harness.join(client)
    assert harness.group.assignor == "range"
    harness.group.heartbeat(ConsumerHeartbeat("x", clients[0].epoch, assignor="uniform"), harness.now)
    harness.group.heartbeat(ConsumerHeartbeat("z", clients[2].epoch, assignor="uniform"), harness.now)
    assert harness.group.assignor == "uniform"


# ---- offsets


def test_commits_are_checked_against_the_member() -> None:
    harness = Harness()
    first, second = Client("x"), Client("y")
    first.owned = harness.join(first).assigned or frozenset()
    harness.join(second)
    harness.work(first, second)
    check = harness.group.check_commit
    check("x", 3, 9, first.owned)
    check("x", 2, 9, first.owned)
    for epoch, wanted in ((2, partition_ids(A, 0, 1, 2, 3)), (1, first.owned), (4, first.owned)):
        with refused(ErrorCode.STALE_MEMBER_EPOCH):
            check("x", epoch, 9, wanted)
    with refused(ErrorCode.UNSUPPORTED_VERSION):
        check("x", 3, 8, ())
    for member_id, epoch in (("z", 1), ("", -1)):
        with refused(ErrorCode.UNKNOWN_MEMBER_ID):
            check(member_id, epoch, 9, ())


def test_offset_fetches_are_checked_against_the_member_epoch() -> None:
    harness = Harness()
    client = Client("x")
    harness.join(client)
    harness.group.check_fetch(None, -1)
    harness.group.check_fetch("x", 2)
    with refused(ErrorCode.STALE_MEMBER_EPOCH):
        harness.group.check_fetch("x", 1)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        harness.group.check_fetch("y", 2)


def test_an_empty_group_accepts_commits_without_a_member() -> None:
    Harness().group.check_commit("", -1, 5, ())


# ---- records


def test_only_what_changed_is_written() -> None:
    harness = Harness()
    first, second = Client("x"), Client("y", frozenset(), "a.*")
    harness.join(first)
    assert len(harness.save()) == 5
    harness.heartbeat(first)
    assert harness.save() == []
    harness.join(second)
    # The records are both epochs, the second member, the first member's target, and the regular expression.
    assert len(harness.save()) == 2 + 3 + 1 + 1
    harness.group.leave("y", None, LEAVE_GROUP_MEMBER_EPOCH)
    written = harness.save()
    assert sum(value is None for _, value in written) == 4
    harness.group.leave("x", None, LEAVE_GROUP_MEMBER_EPOCH)
    harness.save()
    assert len(harness.image) == 2


def test_records_without_assignment_epochs_are_restored() -> None:
    harness = Harness()
    harness.join(Client("x"))
    harness.save()
    (key,) = (key for key in harness.image if key[:2] == b"\0\x08")
    kind = ConsumerGroupCurrentMemberAssignmentValue
    value = kind.decode(harness.image[key][2:], 0)
    value.assigned_partitions[0].assignment_epochs = []
    harness.image[key] = b"\0\0" + value.encode(0)
    harness.restart()
    assert set(harness.group.members["x"].assigned.values()) == {2}
