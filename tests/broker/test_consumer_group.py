"""The consumer group of KIP-848: members, epochs, what is read, offsets, records."""

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


def test_the_first_member_gets_everything_at_once() -> None:
    scene = Scene()
    assert scene.group.state == "Empty"
    assert scene.join(Client("x")) == HeartbeatResult("x", 2, places(A, 0, 1, 2, 3))
    assert (scene.group.state, scene.group.epoch, scene.group.assignment_epoch) == ("Stable", 2, 2)


def test_nothing_is_at_two_members() -> None:
    """The second gets its part when the first has said that it gave it up, and not before."""
    scene = Scene()
    first, second = Client("x"), Client("y")
    first.owned = scene.join(first).assigned or frozenset()
    assert scene.join(second) == HeartbeatResult("y", 3, frozenset())
    answer = scene.heartbeat(first)
    assert (answer.epoch, len(answer.assigned or ())) == (2, 2)
    assert scene.group.state == "Reconciling"
    assert scene.heartbeat(first).epoch == 2, "it has not given up anything yet"
    assert scene.heartbeat(second).assigned is None
    first.owned = first.told
    assert scene.heartbeat(first) == HeartbeatResult("x", 3)
    assert scene.heartbeat(second).assigned == places(A, 0, 1, 2, 3) - first.owned
    assert scene.group.state == "Stable"


def test_who_says_nothing_may_still_have_it() -> None:
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
def test_a_wrong_epoch_is_fenced(epoch: int, owned: TopicIdPartitions | None, error: ErrorCode) -> None:
    scene = Scene()
    first, second = Client("x"), Client("y")
    scene.join(first)
    scene.join(second)
    scene.work(first, second)
    assert first.epoch == 3
    with refused(error):
        scene.group.heartbeat(ConsumerHeartbeat("x", epoch, owned=owned), scene.now)


def test_an_answer_may_get_lost() -> None:
    """A heartbeat of the epoch before is taken, if the member has nothing but what it should have."""
    scene = Scene()
    first, second = Client("x"), Client("y")
    scene.join(first)
    scene.join(second)
    scene.work(first, second)
    assert scene.group.heartbeat(ConsumerHeartbeat("x", 2, owned=first.owned), scene.now).epoch == 3


def test_joining_again_is_taken() -> None:
    scene = Scene()
    client = Client("x")
    first = scene.join(client)
    assert scene.join(client) == first


def test_unknown_members() -> None:
    scene = Scene()
    scene.join(Client("x"))
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        scene.group.heartbeat(ConsumerHeartbeat("y", 2), scene.now)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        scene.group.leave("y", None, LEAVE_GROUP_MEMBER_EPOCH)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        scene.group.leave("x", "nobody", LEAVE_GROUP_MEMBER_EPOCH)


def test_a_full_group() -> None:
    scene = Scene(max_size=1, a=4)
    scene.join(Client("x"))
    with refused(ErrorCode.GROUP_MAX_SIZE_REACHED):
        scene.join(Client("y"))
    assert scene.join(Client("x")).epoch == 2


# ---- leaving and being lost


def test_who_leaves_is_replaced() -> None:
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


def test_silence_ends_a_session() -> None:
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


def test_who_does_not_give_up_in_time_is_out() -> None:
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


def test_a_static_member_comes_back() -> None:
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
    assert scene.heartbeat(other).assigned is None, "what it had waits for it"
    epoch = scene.group.epoch
    assert scene.join(again) == HeartbeatResult("z", epoch, one.owned)
    assert scene.group.epoch == epoch
    with refused(ErrorCode.FENCED_INSTANCE_ID):
        scene.heartbeat(one)


def test_a_member_cannot_become_another_one() -> None:
    scene = Scene()
    scene.join(Client("x", instance_id="i"))
    scene.join(Client("y"))
    scene.group.leave("x", "i", LEAVE_GROUP_STATIC_MEMBER_EPOCH)
    with refused(ErrorCode.INVALID_REQUEST):
        scene.join(Client("y", instance_id="i"))
    assert scene.join(Client("z", instance_id="i")).epoch == scene.group.epoch


def test_an_instance_id_may_change() -> None:
    scene = Scene()
    for instance_id in ("i", "j"):
        scene.join(Client("x", instance_id=instance_id))
    assert scene.group.static_member("i") is None
    assert scene.group.static_member("j") is scene.group.members["x"]


def test_what_a_pattern_matches_is_known_after_a_restart() -> None:
    scene = Scene()
    scene.join(Client("x", frozenset(), "a"))
    scene.restart()
    assert scene.group.subscribed("a")


def test_a_static_member_that_stays_away_is_out() -> None:
    scene = Scene()
    scene.join(Client("x", instance_id="i"))
    scene.group.leave("x", "i", LEAVE_GROUP_STATIC_MEMBER_EPOCH)
    scene.wait(SESSION)
    assert scene.group.state == "Empty"


# ---- what is read


def test_topics_that_come_grow_and_go() -> None:
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


def test_patterns_match_whole_names_and_follow_the_topics() -> None:
    scene = Scene(apple=1, banana=1)
    client = Client("x", frozenset(), "a.*")
    assert scene.join(client).assigned == places(A, 0)
    scene.topics.sizes["cab"] = 1
    assert scene.heartbeat(client).assigned is None
    assert scene.group.subscribed("apple")
    assert not scene.group.subscribed("banana")
    changed = ConsumerHeartbeat(
        "x", client.epoch, topics=frozenset({"cab"}), regex="b.*|a.*", owned=client.told, describable=anything
    )
    assert scene.group.heartbeat(changed, scene.now).assigned == places(A, 0) | places(B, 0) | places(b"c" * 16, 0)


def test_patterns_do_not_tell_of_topics_that_are_hidden() -> None:
    scene = Scene(apple=1, banana=1)
    scene.describable = lambda name: name == "banana"
    client = Client("x", frozenset(), ".*")
    assert scene.join(client).assigned == places(B, 0)
    assert not scene.group.subscribed("apple")
    # What was found out is kept through a restart, and while nobody asks that speaks of patterns.
    scene.restart()
    assert scene.group.subscriptions.matches == {".*": frozenset({"banana"})}
    scene.group.heartbeat(ConsumerHeartbeat("x", client.epoch), scene.now)
    assert scene.group.subscriptions.matches == {".*": frozenset({"banana"})}


def test_permissions_for_a_pattern_are_looked_at_again_now_and_then() -> None:
    scene = Scene(apple=1, banana=1)
    scene.describable = lambda name: name == "banana"
    client = Client("x", frozenset(), ".*")
    scene.join(client)
    scene.describable = anything
    assert scene.heartbeat(client).assigned is None
    scene.now += REFRESH_SECONDS
    assert scene.heartbeat(client).assigned == places(A, 0) | places(B, 0)
    # At once where topics come, or another pattern.
    scene.describable = lambda name: name != "apple"
    scene.topics.sizes["cab"] = 1
    client.owned = places(B, 0)
    assert scene.heartbeat(client).assigned == places(B, 0) | places(b"c" * 16, 0)


def test_the_assignor_that_most_ask_for() -> None:
    scene = Scene()
    clients = [Client("x", assignor="range"), Client("y"), Client("z", assignor="range")]
    for client in clients:
        scene.join(client)
    assert scene.group.assignor == "range"
    scene.group.heartbeat(ConsumerHeartbeat("x", clients[0].epoch, assignor="uniform"), scene.now)
    scene.group.heartbeat(ConsumerHeartbeat("z", clients[2].epoch, assignor="uniform"), scene.now)
    assert scene.group.assignor == "uniform"


# ---- offsets


def test_who_may_commit() -> None:
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


def test_who_may_fetch_offsets() -> None:
    scene = Scene()
    client = Client("x")
    scene.join(client)
    scene.group.check_fetch(None, -1)
    scene.group.check_fetch("x", 2)
    with refused(ErrorCode.STALE_MEMBER_EPOCH):
        scene.group.check_fetch("x", 1)
    with refused(ErrorCode.UNKNOWN_MEMBER_ID):
        scene.group.check_fetch("y", 2)


def test_anybody_may_commit_to_an_empty_group() -> None:
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
    # Both epochs, all of the second, the first's target, and the pattern.
    assert len(scene.save()) == 2 + 3 + 1 + 1
    scene.group.leave("y", None, LEAVE_GROUP_MEMBER_EPOCH)
    written = scene.save()
    assert sum(value is None for _, value in written) == 4
    scene.group.leave("x", None, LEAVE_GROUP_MEMBER_EPOCH)
    scene.save()
    assert len(scene.image) == 2


def test_an_older_kafkas_records_have_no_epochs_of_partitions() -> None:
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
