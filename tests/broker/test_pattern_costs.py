"""Regular expressions of members cost other connections little, however they are made and however many there are."""

from __future__ import annotations

import asyncio
from collections.abc import Generator

import pytest

from aiokproto.broker import Broker
from aiokproto.broker.groups.consumer import resolution
from aiokproto.broker.groups.consumer.resolution import MAX_PATTERNS, Resolution
from aiokproto.broker.groups.consumer.subscriptions import PAUSE_SECONDS
from aiokproto.broker.groups.store import SlicedWork
from aiokproto.broker.patterns import Pattern, compile_pattern
from aiokproto.codec.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.list_transactions import ListTransactionsRequest
from aiokproto.error_codes import ErrorCode
from tests.broker.consumer_harness import Client, Harness, anything
from tests.broker.epoch_harness import A, B, partition_ids, refused
from tests.broker.wire import Wire, connect
from tests.net.waiting import until

WORST = "([ab]*a){200}x"
"""Takes about as long as a pattern of the permitted size can."""


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """Make any pattern take several slices."""
    monkeypatch.setattr(resolution, "SLICE", 1)


def steps(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the cost of each step of all patterns."""
    taken: list[int] = []
    matching = Pattern.matching

    def counted(pattern: Pattern, text: str) -> Generator[int, None, bool]:
        steps = matching(pattern, text)
        while True:
            try:
                cost = next(steps)
            except StopIteration as end:
                return bool(end.value)
            taken.append(cost)
            yield cost

    monkeypatch.setattr(Pattern, "matching", counted)
    return taken


def test_a_slice_has_a_bounded_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = steps(monkeypatch)
    work = Resolution()
    names = frozenset("ab" * 120 + str(number) for number in range(5))
    work.start([WORST], names, anything)
    slices = 0
    found = None
    while found is None:
        before = len(taken)
        found = work.advance()
        slices += 1
        assert sum(taken[before:]) < 1.2 * resolution.SLICE
    assert found == {WORST: frozenset()}
    assert slices > 5
    assert not work.under_way


def test_a_step_costs_no_more_than_it_says() -> None:
    """The unit is a state that is looked at, and a million of them take less than a second."""
    for text in (WORST, "(.?){600}", "[" + "a-b" * 300 + "]*x", "(a|b|(c|d)){100}\\b", "((((a*)*)*)*)*"):
        pattern = Pattern(text)
        assert pattern._step_cost >= len(pattern._states)
        name = "ab" * 124
        costs = list(pattern.matching(name))
        assert len(costs) <= len(name) + 1
        # The second time only the cache is used.
        assert sum(pattern.matching(name)) <= len(name) + 1 or sum(costs) > 20_000


@pytest.mark.usefixtures("slow")
def test_members_get_their_topics_when_the_pattern_is_resolved() -> None:
    harness = Harness(apple=1, banana=1)
    first, second = Client("x", frozenset({"banana"})), Client("y", frozenset(), "a.*")
    assert harness.join(first).assigned == partition_ids(B, 0)
    assert harness.join(second).assigned == frozenset()
    slices = 0
    while harness.group.subscriptions.resolving:
        assert not harness.heartbeat(second).assigned
        harness.group.resolve()
        slices += 1
    assert slices > 3
    assert harness.heartbeat(second).assigned == partition_ids(A, 0)
    assert first.epoch < harness.heartbeat(first).epoch == second.epoch


@pytest.mark.usefixtures("slow")
def test_what_was_resolved_before_holds_meanwhile() -> None:
    harness = Harness(apple=1)
    client = Client("x", frozenset(), "a.*")
    harness.join(client)
    while not harness.group.resolve():
        pass
    assert harness.heartbeat(client).assigned == partition_ids(A, 0)
    harness.restart()
    client.owned = client.assigned
    harness.heartbeat(client)
    assert harness.group.subscriptions.resolving
    assert client.assigned == partition_ids(A, 0)


@pytest.mark.usefixtures("slow")
def test_after_a_slow_resolution_the_next_one_waits() -> None:
    """It then answers for all topics that came meanwhile."""
    harness = Harness(apple=1)
    client = Client("x", frozenset(), ".*")
    harness.join(client)
    while not harness.group.resolve():
        pass
    harness.work(client)
    harness.topics.sizes["banana"] = 1
    harness.work(client)
    assert not harness.group.subscriptions.resolving
    harness.now += PAUSE_SECONDS
    harness.heartbeat(client)
    while not harness.group.resolve():
        pass
    assert harness.heartbeat(client).assigned == partition_ids(A, 0) | partition_ids(B, 0)


def test_a_new_topic_is_matched_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    taken = steps(monkeypatch)
    harness = Harness(**{f"topic-{number}": 1 for number in range(50)})
    client = Client("x", frozenset(), "topic-.*")
    harness.join(client)
    before = len(taken)
    assert before > 50 * len("topic-0")
    for _ in range(100):
        harness.heartbeat(client)
    assert len(taken) == before
    harness.topics.sizes["topic-new"] = 1
    harness.heartbeat(client)
    assert len(taken) - before <= len("topic-new") + 1
    assert harness.group.subscribed("topic-new")
    del harness.topics.sizes["topic-new"]
    harness.heartbeat(client)
    assert not harness.group.subscribed("topic-new")


def test_a_group_has_a_limited_number_of_patterns() -> None:
    harness = Harness(max_size=1000)
    for number in range(MAX_PATTERNS):
        harness.join(Client(f"m{number}", frozenset(), f"a{number}"))
    with refused(ErrorCode.INVALID_REGULAR_EXPRESSION):
        harness.join(Client("one more", frozenset(), "b"))
    assert len(harness.group.members) == MAX_PATTERNS
    # A pattern that the group already has, or no pattern, doesn't count as a further one.
    harness.join(Client("another", frozenset(), "a7"))
    harness.join(Client("names"))
    harness.group.leave("m0", None, -1)
    harness.join(Client("one more", frozenset(), "b"))
    assert harness.group.subscriptions.matches.keys() == {"b", *(f"a{number}" for number in range(1, MAX_PATTERNS))}


def test_nothing_is_kept_of_patterns_that_no_member_has() -> None:
    harness = Harness(a=1)
    client = Client("x", frozenset(), "first")
    harness.join(client)
    for number in range(50):
        client.regex = f"pattern{number}"
        harness.join(client)
    assert harness.group.subscriptions._resolution._known.keys() == {"pattern49"}


# ---- at a broker


async def beat(wire: Wire, epoch: int, **more: object) -> ConsumerGroupHeartbeatResponse:
    request = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch, **more)  # type: ignore[arg-type]
    return await wire.ask(request)


async def join(wire: Wire, pattern: str) -> ConsumerGroupHeartbeatResponse:
    return await beat(
        wire, 0, subscribed_topic_regex=pattern, rebalance_timeout_ms=60_000, topic_partitions=[], rack_id=None
    )


@pytest.mark.usefixtures("slow")
async def test_a_slow_pattern_is_resolved_between_heartbeats() -> None:
    async with Broker() as broker, connect(broker) as wire:
        for name in ("t1", "t2", "u"):
            await broker.create_topic(name, partitions=1)
        answer = await join(wire, "t[0-9]")
        assert answer.error_code == 0
        assert not (answer.assignment and answer.assignment.topic_partitions)
        groups = broker._running.groups
        await until(lambda: not groups._sliced_work._waiting)
        answer = await beat(wire, answer.member_epoch)
        assert answer.assignment is not None
        assert len(answer.assignment.topic_partitions) == 2


@pytest.mark.usefixtures("slow")
async def test_a_group_may_go_while_its_pattern_is_resolved() -> None:
    async with Broker() as broker, connect(broker) as wire:
        await broker.create_topic("t", partitions=1)
        epoch = (await join(wire, "t.*")).member_epoch
        assert broker._running.groups._sliced_work._waiting
        assert (await beat(wire, -1)).error_code == 0
        assert broker._running.groups.delete_group("g") is ErrorCode.NONE
        assert (await join(wire, "u.*")).error_code == 0
        assert epoch > 0


async def test_listing_transactions_by_the_worst_pattern_lets_others_go_on() -> None:
    pattern = compile_pattern(WORST)
    async with Broker() as broker, connect(broker) as wire:
        for number in range(3):
            name = "ab" * 120 + str(number)
            await wire.ask(
                InitProducerIdRequest(
                    transactional_id=name, transaction_timeout_ms=1000, producer_id=-1, producer_epoch=-1
                ),
                5,
            )
        pattern._transitions.clear()
        turns = 0

        def turn() -> None:
            nonlocal turns
            turns += 1
            asyncio.get_running_loop().call_soon(turn)

        turn()
        request = ListTransactionsRequest(
            state_filters=[], producer_id_filters=[], duration_filter=-1, transactional_id_pattern=WORST
        )
        before = turns
        assert (await wire.ask(request)).transaction_states == []
        assert turns - before > 20


# ---- turns


async def test_work_takes_turns_and_an_error_ends_only_its_own() -> None:
    turns, done, errors = SlicedWork(), [], []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: errors.append(context["exception"]))
    ended = asyncio.Event()

    def work(name: str, slices: int) -> bool:
        done.append(name)
        if name == "broken":
            raise ValueError
        if name == "long" and done.count(name) == slices:
            ended.set()
        return done.count(name) == slices

    for name, slices in (("long", 4), ("broken", 1), ("short", 2)):
        turns.add(name, lambda name=name, slices=slices: work(name, slices))  # type: ignore[misc]
    turns.add("long", lambda: True)
    await ended.wait()
    assert done == ["long", "broken", "short", "long", "short", "long", "long"]
    assert [type(error) for error in errors] == [ValueError]
    turns.add("never", lambda: work("never", 1))
    turns.close()
    assert turns._timer is None
