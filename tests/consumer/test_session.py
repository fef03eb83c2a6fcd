"""Fetch sessions: a model broker that remembers must always end up with what the client wants."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiokproto.consumer.session import FetchSession, Wanted
from aiokproto.error_codes import ErrorCode
from aiokproto.types import TopicPartition

partitions = st.builds(TopicPartition, st.sampled_from("xy"), st.integers(0, 2))
wanted_values = st.builds(
    Wanted, st.sampled_from([b"1" * 16, b"2" * 16]), st.integers(0, 3), st.just(0), st.just(1 << 20)
)
steps = st.lists(
    st.tuples(st.dictionaries(partitions, wanted_values), st.sampled_from(["ok", "lost", "forgotten", "epoch"])),
    max_size=20,
)


@given(steps)
def test_the_broker_knows_what_is_wanted(script: list[tuple[dict[TopicPartition, Wanted], str]]) -> None:
    session = FetchSession()
    remembered: dict[tuple[TopicPartition, bytes], Wanted] = {}
    session_id, epoch = 0, 0
    for wanted, outcome in script:
        plan = session.plan(wanted)
        if plan.epoch == 0:
            remembered = {}
            session_id, epoch = session_id + 1, 0
        else:
            assert (plan.session_id, plan.epoch) == (session_id, epoch)
        for key, value in plan.forgotten.items():
            del remembered[key, value.topic_id]
        for key, value in plan.partitions.items():
            remembered[key, value.topic_id] = value
        if outcome == "ok":
            epoch += 1
            session.answered(0, session_id)
            assert remembered == {(key, value.topic_id): value for key, value in wanted.items()}
        elif outcome == "lost":
            session.failed()
        elif outcome == "forgotten":
            session.answered(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
            assert session.plan(wanted).session_id == 0
        else:
            session.answered(ErrorCode.INVALID_FETCH_SESSION_EPOCH, 0)


def test_only_news_is_told() -> None:
    session = FetchSession()
    one, two = TopicPartition("x", 0), TopicPartition("x", 1)
    before = {one: Wanted(b"", 0, 0, 1), two: Wanted(b"", 0, 0, 1)}
    assert session.plan(before).partitions == before
    session.answered(0, 7)
    plan = session.plan({one: Wanted(b"", 5, 0, 1), two: before[two]})
    assert (plan.session_id, plan.epoch, plan.partitions, plan.forgotten) == (7, 1, {one: Wanted(b"", 5, 0, 1)}, {})
    session.answered(0, 7)
    assert session.plan({one: Wanted(b"", 5, 0, 1)}).forgotten == {two: before[two]}


def test_a_broker_without_room_gets_full_requests() -> None:
    session = FetchSession()
    wanted = {TopicPartition("x", 0): Wanted(b"", 0, 0, 1)}
    for _ in range(3):
        plan = session.plan(wanted)
        assert (plan.session_id, plan.epoch, plan.partitions) == (0, 0, wanted)
        session.answered(0, 0)
