"""The share session handler, against a model of the broker's side."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker.share.session import ShareSession, ShareSessionKey, ShareSessions
from aiokproto.errors import BrokerError
from aiokproto.share.session import ShareSessionHandler, TopicIdPartition

KEY = ShareSessionKey("g", "m")
PARTITIONS = [(bytes([topic]) * 16, number) for topic in (1, 2) for number in range(3)]

wanted_partitions = st.lists(st.sampled_from(PARTITIONS), unique=True)
steps = st.lists(
    st.tuples(
        st.sampled_from(["fetch", "acknowledge", "lost response", "lost request"]), wanted_partitions, wanted_partitions
    ),
    max_size=20,
)


class Broker:
    """The broker's side of the session, as the embedded broker has it."""

    def __init__(self) -> None:
        self.sessions = ShareSessions(10)
        self.session: ShareSession | None = None

    def fetch(
        self, epoch: int, named: list[TopicIdPartition], forgotten: list[TopicIdPartition]
    ) -> set[TopicIdPartition]:
        if epoch == 0:
            self.session = self.sessions.create(KEY, None)
        else:
            self.session = self.sessions.next_request(KEY, epoch)
        self.session.update(named, forgotten)
        return set(self.session.partitions)

    def acknowledge(self, epoch: int) -> None:
        self.sessions.next_request(KEY, epoch)


@given(steps)
def test_the_broker_fetches_exactly_what_is_wanted(
    steps: list[tuple[str, list[TopicIdPartition], list[TopicIdPartition]]],
) -> None:
    handler, broker = ShareSessionHandler(), Broker()
    for what, wanted, acknowledged in steps:
        if what == "acknowledge":
            if handler.is_open:
                broker.acknowledge(handler.epoch)
                handler.answered()
            continue
        acks = acknowledged if handler.is_open else []
        plan = handler.plan(wanted, acks)
        if what == "lost request":
            handler.reset()
            continue
        named = list(dict.fromkeys([*plan.added, *acks]))
        assert broker.fetch(plan.epoch, named, plan.forgotten) == set(wanted)
        if what == "lost response":
            handler.reset()
        else:
            handler.answered()


@given(wanted_partitions)
def test_a_second_request_names_nothing_that_has_not_changed(wanted: list[TopicIdPartition]) -> None:
    handler = ShareSessionHandler()
    assert handler.plan(wanted, ()).added == wanted
    handler.answered()
    assert handler.plan(wanted, ())[1:] == ([], [])


def test_the_epoch_after_the_last_one_is_1() -> None:
    handler = ShareSessionHandler()
    handler.epoch = 2**31 - 1
    handler.answered()
    assert handler.epoch == 1


def test_a_reset_session_is_opened_again() -> None:
    handler, broker = ShareSessionHandler(), Broker()
    broker.fetch(*handler.plan(PARTITIONS, ()))
    handler.answered()
    broker.fetch(*handler.plan(PARTITIONS, ()))
    # The response is lost.
    handler.reset()
    assert not handler.is_open
    assert broker.fetch(*handler.plan(PARTITIONS[:1], ())) == set(PARTITIONS[:1])
    handler.answered()
    with pytest.raises(BrokerError, match="INVALID_SHARE_SESSION_EPOCH"):
        broker.fetch(5, [], [])
    assert handler.epoch == 1
