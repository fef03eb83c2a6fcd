"""Fetch sessions: a model broker's session always matches the partitions that the client wants."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from aiokproto.consumer.fetch_session import FetchPosition, FetchSessionHandler, outside
from aiokproto.types import TopicPartition

ONE, TWO = TopicPartition("x", 0), TopicPartition("x", 1)

partitions = st.builds(TopicPartition, st.sampled_from("xy"), st.integers(0, 2))
values = st.builds(
    FetchPosition,
    topic_id=st.sampled_from([b"1" * 16, b"2" * 16]),
    offset=st.integers(0, 3),
    leader_epoch=st.just(0),
    last_epoch=st.just(-1),
    max_bytes=st.just(1 << 20),
    # A sought partition differs only in its version.
    version=st.integers(0, 1),
)
steps = st.lists(
    st.tuples(
        st.dictionaries(partitions, st.none() | values), st.sampled_from(["ok", "lost", "forgotten", "no session"])
    ),
    max_size=20,
)


def wanted(offset: int, topic_id: bytes = b"1" * 16) -> FetchPosition:
    return FetchPosition(topic_id, offset, 0, -1, 1, 1)


@given(steps)
def test_the_brokers_session_matches_the_wanted_partitions(
    script: list[tuple[dict[TopicPartition, FetchPosition | None], str]],
) -> None:
    session = FetchSessionHandler()
    remembered: dict[tuple[TopicPartition, bytes], FetchPosition] = {}
    desired: dict[TopicPartition, FetchPosition] = {}
    session_id, epoch = 0, 0
    again: list[TopicPartition] = []
    for changes, outcome in script:
        for partition, value in changes.items():
            if value is None:
                desired.pop(partition, None)
            else:
                desired[partition] = value
        plan = session.plan({partition: desired.get(partition) for partition in [*again, *changes]})
        again = []
        if plan.epoch == 0:
            remembered = {}
            session_id, epoch = session_id + 1, 0
        else:
            assert (plan.session_id, plan.epoch) == (session_id, epoch)
        for key, value in plan.forgotten.items():
            del remembered[key, value.topic_id]
        for key, value in plan.partitions.items():
            remembered[key, value.topic_id] = value
        assert session.wanted == desired
        if outcome == "ok":
            epoch += 1
            session.responded(session_id)
            assert remembered == {(key, value.topic_id): value for key, value in desired.items()}
        elif outcome == "no session":
            session.responded(0) if plan.epoch == 0 else session.responded(session_id)
            epoch += 1
        else:
            again = session.restart(known=outcome == "lost")
            assert again == list(desired)


def test_only_changes_are_sent() -> None:
    session = FetchSessionHandler()
    before = {ONE: wanted(0), TWO: wanted(0)}
    assert session.plan(before).partitions == before
    session.responded(7)
    plan = session.plan({ONE: wanted(5), TWO: wanted(0)})
    assert (plan.session_id, plan.epoch, plan.partitions, plan.forgotten) == (7, 1, {ONE: wanted(5)}, {})
    session.responded(7)
    assert session.plan({}).partitions == {}
    session.responded(7)
    assert session.plan({TWO: None}).forgotten == {TWO: wanted(0)}


def test_a_broker_that_refuses_a_session_gets_full_requests() -> None:
    session = FetchSessionHandler()
    for changes in ({ONE: wanted(0)}, {TWO: wanted(3)}, {}):
        plan = session.plan(changes)
        session.responded(0)
        assert (plan.session_id, plan.epoch) == (0, 0)
        assert plan.partitions == session.wanted
    assert session.wanted == {ONE: wanted(0), TWO: wanted(3)}


def test_a_topic_created_again_replaces_the_old_one_in_the_session() -> None:
    session = FetchSessionHandler()
    session.plan({ONE: wanted(5)})
    session.responded(7)
    plan = session.plan({ONE: wanted(0, b"2" * 16)})
    assert (plan.partitions, plan.forgotten) == ({ONE: wanted(0, b"2" * 16)}, {ONE: wanted(5)})
    assert [session.topic(topic_id * 16) for topic_id in (b"1", b"2", b"3")] == ["x", "x", ""]


def test_topics_are_sent_by_name_while_a_topic_id_is_missing() -> None:
    session = FetchSessionHandler()
    assert session.plan({ONE: wanted(0)}).by_name is False
    session.responded(7)
    assert session.plan({TWO: wanted(0, bytes(16))}).by_name is True
    session.responded(7)
    assert session.plan({}).by_name is True, "the session has it"
    session.responded(7)
    assert session.plan({TWO: wanted(0)}).by_name is True, "the session forgets it by its name"
    session.responded(7)
    assert session.plan({}).by_name is False


def test_fetching_one_partition_outside_of_the_session() -> None:
    plan = outside(ONE, wanted(4))
    assert (plan.session_id, plan.epoch, plan.partitions, plan.forgotten) == (0, -1, {ONE: wanted(4)}, {})
