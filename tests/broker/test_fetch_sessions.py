"""Which client gets a fetch session, and whose it replaces: a client that may not read anything gets none, and takes
none from others."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from aiokproto.broker import Broker, VirtualClock
from aiokproto.broker.fetch import sessions
from aiokproto.codec.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from aiokproto.error_codes import ErrorCode
from tests.broker.secure import READ, TOPIC, acl, grant, guarded, logged_in
from tests.broker.wire import Wire, connect

TWO = {"max.incremental.fetch.session.cache.slots": 2}
NOT_FOUND = ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def fetch(partitions: Iterable[int], session_id: int = 0, epoch: int = 0, topic: str = "t") -> FetchRequest:
    wanted = [FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1) for index in partitions]
    topics = [FetchTopic(topic=topic, partitions=wanted)] if wanted else []
    return FetchRequest(max_wait_ms=0, min_bytes=0, session_id=session_id, session_epoch=epoch, topics=topics)


async def begun(wire: Wire, size: int = 1) -> int:
    """Return the id of a new session; 0 for none."""
    return (await wire.ask(fetch(range(size)), 12)).session_id


async def went_on(wire: Wire, session_id: int, epoch: int, new: Iterable[int] = ()) -> int:
    return (await wire.ask(fetch(new, session_id, epoch), 12)).error_code


async def test_a_new_session_replaces_one_that_was_not_used_for_two_minutes() -> None:
    clock = VirtualClock()
    async with Broker(config=TWO, clock=clock) as broker, connect(broker) as wire:
        await broker.create_topic("t")
        first, second = await begun(wire), await begun(wire)
        assert await begun(wire) == 0
        await clock.advance(119)
        assert await went_on(wire, second, 1) == 0
        assert await begun(wire) == 0
        await clock.advance(2)
        assert await begun(wire)
        assert await went_on(wire, first, 1) == NOT_FOUND
        assert await went_on(wire, second, 2) == 0


async def test_a_larger_session_replaces_one_that_is_older_than_two_minutes() -> None:
    clock = VirtualClock()
    async with Broker(config=TWO, clock=clock) as broker, connect(broker) as wire:
        await broker.create_topic("t", partitions=9)
        small, large = await begun(wire, 2), await begun(wire, 5)
        for epoch in (1, 2):
            await clock.advance(61)
            assert [await went_on(wire, each, epoch) for each in (small, large)] == [0, 0]
        assert await begun(wire, 2) == 0
        larger = await begun(wire, 3)
        assert [await went_on(wire, *each) for each in ((small, 3), (large, 3), (larger, 1))] == [NOT_FOUND, 0, 0]


async def test_the_partitions_of_all_sessions_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "MAX_PARTITIONS", 10)
    async with Broker() as broker, connect(broker) as wire:
        await broker.create_topic("t")
        assert await begun(wire, 11) == 0
        first, second = await begun(wire, 4), await begun(wire, 4)
        assert await begun(wire, 3) == 0
        assert await went_on(wire, first, 1, range(6)) == 0
        assert await went_on(wire, second, 1, range(5)) == NOT_FOUND
        assert await begun(wire, 4)


async def test_a_user_who_may_read_nothing_has_no_session() -> None:
    async with guarded(**TWO) as broker, logged_in(broker, "admin") as admin, logged_in(broker, "alice") as alice:
        await broker.create_topic("t")
        await broker.create_topic("hers")
        await grant(admin, acl(TOPIC, "hers", READ))
        for _ in range(3):
            answer = await alice.ask(fetch(range(5)), 12)
            refused = [partition.error_code for partition in answer.responses[0].partitions]
            assert (answer.session_id, refused) == (0, [ErrorCode.TOPIC_AUTHORIZATION_FAILED] * 5)
        assert await begun(admin)
        both = fetch([0])
        both.topics += fetch([0], topic="hers").topics
        assert (await alice.ask(both, 12)).session_id
