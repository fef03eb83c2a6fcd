"""With any fault at any step of loads, the committed rows are the log, each record once."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from itertools import product
from typing import NamedTuple

import pytest

from aiokproto.spark.loads import commits
from aiokproto.spark.loads.commits import CHECKPOINT_EVERY, CommitLog, CommitUncertainError, checkpoint_name
from aiokproto.spark.loads.history import ConflictError
from aiokproto.spark.loads.manifest import Manifest
from aiokproto.spark.loads.storage import Storage
from aiokproto.types import TopicPartition
from tests.spark.loads.harness import (
    Fault,
    KilledError,
    Log,
    MemoryStorage,
    Outcome,
    Place,
    Race,
    Steps,
    committed,
    everything,
    load,
    no_fault,
    rerun,
    rows,
)

A, B = TopicPartition("a", 0), TopicPartition("b", 0)
Work = Callable[[Storage], Manifest | None]


def at(step: int, what: str) -> Fault:
    return lambda now, call, name: what if now == step else None


def lost_and_killed(lost: int, killed: int, now: int, call: str, name: str) -> str | None:
    return "after" if now == lost else "kill" if now == killed else None


def loaded(storage: Storage, log: Log, times: int) -> list[str]:
    """Run loads, each with some more records; return their run ids."""
    names = []
    for _ in range(times):
        log.ends = {partition: end + 3 for partition, end in log.ends.items()}
        done = load(storage, log)
        assert done is not None
        names.append(done.run_id)
    return names


def check(storage: Storage, log: Log, outcomes: list[Outcome]) -> None:
    """Check the guarantees, once no load is running."""
    numbers = [manifest.number for manifest in CommitLog(storage).manifests()]
    assert numbers == list(range(1, len(numbers) + 1))
    found = rows(storage)
    assert not found - everything(log), "a row twice, or one that the log does not have"
    for outcome in outcomes:
        if isinstance(outcome, Manifest):
            assert CommitLog(storage).manifest(outcome.number) == outcome, "a reported commit is in the log"
        elif outcome is not None:
            assert isinstance(outcome, KilledError | ConflictError | CommitUncertainError | TimeoutError), outcome
    load(storage, log)
    assert rows(storage) == everything(log), "the next load has what is missing, and nothing else"
    assert load(storage, log) is None


LOAD_CASES: list[tuple[str, int]] = [
    ("load", 0),
    ("load", 1),
    ("load", CHECKPOINT_EVERY - 1),
    ("rerun", 1),
    ("rerun", 12),
]


class Past(NamedTuple):
    storage: MemoryStorage
    ends: dict[TopicPartition, int]
    names: list[str]


@cache
def history(loads: int, checkpoint_every: int) -> Past:
    """Both determine what the storage has."""
    storage, log = MemoryStorage(), Log({A: 0, B: 2})
    names = loaded(storage, log, loads)
    return Past(storage, log.ends, names)


def prepare(place: Place, kind: str, before: int) -> tuple[Storage, Log, Work]:
    """Return an output after so many loads, a log with new records, and the load or rerun to run."""
    past = history(before, commits.CHECKPOINT_EVERY)
    log = Log({A: past.ends[A] + 4, B: past.ends[B] + 1})
    work: Work = partial(load, log=log) if kind == "load" else partial(rerun, run_id=past.names[-1])
    return place.output(past.storage), log, work


def steps_of(place: Place, kind: str, before: int) -> int:
    storage, _, work = prepare(place, kind, before)
    race = Race(storage, [work])
    race.run([])
    return len(race.steps[0].calls)


@pytest.mark.parametrize(("kind", "before"), LOAD_CASES)
@pytest.mark.parametrize("what", ["kill", "before", "after"])
def test_a_load_that_is_killed_or_fails_at_any_step(place: Place, kind: str, before: int, what: str) -> None:
    for step in range(steps_of(place, kind, before)):
        storage, log, work = prepare(place, kind, before)
        outcomes = Race(storage, [work]).run([], [at(step, what)])
        check(storage, log, outcomes)


@pytest.mark.parametrize(("kind", "before"), LOAD_CASES)
def test_a_load_that_is_killed_after_a_call_whose_response_was_lost(place: Place, kind: str, before: int) -> None:
    for first in range(steps_of(place, kind, before)):
        for later in range(first + 1, first + 4, place.stride):
            storage, log, work = prepare(place, kind, before)
            fault = partial(lost_and_killed, first, later)
            check(storage, log, Race(storage, [work]).run([], [fault]))


def works_on(storage: Storage, log: Log) -> dict[str, Work]:
    """A load of new records, and a rerun of the last load."""
    names = [manifest.run_id for manifest in committed(storage)]
    return {"load": partial(load, log=log), "rerun": partial(rerun, run_id=names[-1])}


PAIRS = [("load", "load"), ("load", "rerun"), ("rerun", "rerun")]


@pytest.mark.parametrize(("one", "other"), PAIRS)
@pytest.mark.parametrize(
    ("before", "checkpoint_every"),
    [
        (1, CHECKPOINT_EVERY),
        # The first commit of the two is due for a checkpoint.
        (2, 3),
        pytest.param(CHECKPOINT_EVERY - 1, CHECKPOINT_EVERY, marks=pytest.mark.thorough),
    ],
)
def test_two_in_any_order_of_their_steps(
    place: Place, one: str, other: str, before: int, checkpoint_every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first takes some steps, then the other does; then the first runs to its end, then the other."""
    monkeypatch.setattr(commits, "CHECKPOINT_EVERY", checkpoint_every)
    race_two(place, one, other, before)


@pytest.mark.thorough
@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_two_on_an_object_store(on_s3: Place, one: str, other: str) -> None:
    race_two(on_s3, one, other, 1)


def race_two(place: Place, one: str, other: str, before: int) -> None:
    limit = max(steps_of(place, one, before), steps_of(place, other, before)) + 6
    for first, second in product(range(limit), range(0, limit, place.stride)):
        storage, log, _ = prepare(place, "load", before)
        works = works_on(storage, log)
        outcomes = Race(storage, [works[one], works[other]]).run([0] * first + [1] * second + [0] * 100)
        done = [outcome for outcome in outcomes if isinstance(outcome, Manifest)]
        if one != other:
            assert len(done) == 2, "a load and a rerun have nothing to do with each other"
        elif 0 < second < limit:
            assert done, "one of them succeeds"
        check(storage, log, outcomes)


@pytest.mark.parametrize(
    "kinds",
    [
        ("load", "load", "rerun"),
        pytest.param(("load", "load", "load"), marks=pytest.mark.extended),
        pytest.param(("rerun", "rerun", "load"), marks=pytest.mark.extended),
    ],
)
def test_three_in_any_order_of_their_steps(place: Place, kinds: tuple[str, str, str]) -> None:
    race_three(place, kinds)


@pytest.mark.thorough
def test_three_on_an_object_store(on_s3: Place) -> None:
    race_three(on_s3, ("load", "rerun", "load"))


def race_three(place: Place, kinds: tuple[str, str, str]) -> None:
    stops = range(0, 16, 2 * place.stride)
    for first, second, third in product(stops, stops, stops):
        storage, log, _ = prepare(place, "load", 1)
        works = works_on(storage, log)
        schedule = [0] * first + [1] * second + [2] * third + [0] * 100 + [1] * 100
        check(storage, log, Race(storage, [works[kind] for kind in kinds]).run(schedule))


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_two_loads_of_which_one_has_a_fault(place: Place, one: str, other: str) -> None:
    """The calls that create the commit fail, before or after they took effect, once, repeatedly, or always."""
    for stop, what, times in product(range(0, 14, place.stride), ("before", "after"), (1, 2, 100)):
        storage, log, _ = prepare(place, "load", 1)
        works = works_on(storage, log)
        left = [times]

        def fault(now: int, call: str, name: str, left: list[int] = left, what: str = what) -> str | None:
            if call != "create" or not left[0]:
                return None
            left[0] -= 1
            return what

        outcomes = Race(storage, [works[one], works[other]]).run([0] * stop + [1] * 100, [fault])
        if what == "after":
            assert not isinstance(outcomes[0], CommitUncertainError), "it looks, and finds out"
        check(storage, log, outcomes)


def test_loads_of_different_topics_do_not_disturb_each_other() -> None:
    for first in range(16):
        storage = MemoryStorage()
        ours, theirs = Log({A: 5}), Log({B: 7})
        outcomes = Race(storage, [partial(load, log=ours), partial(load, log=theirs)]).run([0] * first + [1] * 100)
        assert all(isinstance(outcome, Manifest) for outcome in outcomes)
        both = Log({**ours.ends, **theirs.ends})
        assert rows(storage) == everything(both)


def test_the_thousandth_load_makes_no_more_calls_than_the_tenth() -> None:
    storage, log = MemoryStorage(), Log({A: 0, B: 0})
    call_counts = []
    for _ in range(1000):
        log.ends = {partition: end + 1 for partition, end in log.ends.items()}
        alone = Steps(storage, lambda: None, no_fault)
        load(alone, log)
        call_counts.append(len(alone.calls))
    assert max(call_counts[10:]) == max(call_counts[10:30])
    reading = Steps(storage, lambda: None, no_fault)
    assert len([*CommitLog(reading).manifests()]) == 1000
    assert len(reading.calls) <= 1000 // CHECKPOINT_EVERY + 2, "checkpoints are read, not a thousand manifests"
    assert rows(storage) == everything(log)


@pytest.mark.parametrize("of", range(0, 1200, 37))
def test_a_damaged_checkpoint_is_ignored(of: int) -> None:
    storage, log = MemoryStorage(), Log({A: 0})
    loaded(storage, log, 12)
    name = checkpoint_name(CHECKPOINT_EVERY)
    whole = storage.files[name]
    damaged = bytearray(whole)
    damaged[of % len(whole)] ^= 1
    for data in (bytes(damaged), whole[:of], b""):
        storage.files[name] = data
        assert CommitLog(storage).latest().number == 12
        assert rows(storage) == everything(log)
        assert CommitLog(storage).latest().positions[A].offset == log.ends[A]


def test_a_checkpoint_with_another_number_is_ignored() -> None:
    storage, log = MemoryStorage(), Log({A: 0})
    loaded(storage, log, 25)
    storage.files[checkpoint_name(10)], storage.files[checkpoint_name(20)] = (
        storage.files[checkpoint_name(20)],
        storage.files[checkpoint_name(10)],
    )
    assert CommitLog(storage).latest().number == 25
    assert rows(storage) == everything(log)


def test_an_uncertain_commit_keeps_its_files() -> None:
    """All responses are lost: that it was created, and whether it exists."""

    def fault(now: int, call: str, name: str) -> str | None:
        if name.endswith("commits/000000000001.json") and (call == "create" or created):
            created.append(call)
            return "after" if call == "create" else "before"
        return None

    created: list[str] = []
    storage, log = MemoryStorage(), Log({A: 5})
    (outcome,) = Race(storage, [partial(load, log=log)]).run([], [fault])
    assert isinstance(outcome, CommitUncertainError)
    check(storage, log, [outcome])
    assert [manifest.number for manifest in committed(storage)] == [1]


def test_one_of_two_concurrent_reruns_fails() -> None:
    for first in range(1, 20):
        storage, log = MemoryStorage(), Log({A: 0})
        (name,) = loaded(storage, log, 1)
        work = partial(rerun, run_id=name)
        outcomes = Race(storage, [work, work]).run([0] * first + [1] * 100)
        done = [outcome for outcome in outcomes if isinstance(outcome, Manifest)]
        assert [manifest.attempt for manifest in done] in ([2], [2, 3], [3, 2])
        assert len(done) == len({manifest.replaces for manifest in done})


@pytest.mark.parametrize(
    "damage", [None, b"", b"{", b'{"checkpoint": 7}', b'{"checkpoint": 1000}', b'{"checkpoint": 1e999}', b"[" * 9999]
)
def test_a_hint_that_is_lost_or_wrong_changes_nothing(damage: bytes | None) -> None:
    storage, log = MemoryStorage(), Log({A: 0})
    loaded(storage, log, 25)
    if damage is None:
        storage.files = {name: data for name, data in storage.files.items() if "last" not in name}
    else:
        storage.files["_aiokproto/last.json"] = damage
    assert CommitLog(storage).latest().number == 25
    loaded(storage, log, 1)
    assert rows(storage) == everything(log)
