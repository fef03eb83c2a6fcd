"""How far what was fetched agrees with a leader's log: the leader epochs tell it exactly."""

from __future__ import annotations

from itertools import groupby

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aiokproto.consumer.epochs import MAX_EPOCHS, AskOlder, EpochEnd, EpochHistory

Log = list[int]
"""The leader epoch of each record. Epoch and offset identify a record: each epoch has one leader."""


def history(*entries: tuple[int, int]) -> EpochHistory:
    made = EpochHistory()
    for epoch, first in entries:
        made.add(epoch, first)
    return made


@pytest.mark.parametrize(
    ("entries", "asked", "found", "agreed"),
    [
        pytest.param([(3, 0)], 3, EpochEnd(3, 20), 15, id="the log has it all"),
        pytest.param([(3, 0)], 3, EpochEnd(3, 12), 12, id="the epoch ends earlier in the log"),
        pytest.param([(3, 0), (5, 10)], 5, EpochEnd(3, 20), 10, id="the log goes on in the older epoch"),
        pytest.param([(3, 0), (5, 10)], 5, EpochEnd(3, 8), 8, id="the log left the older epoch earlier"),
        pytest.param([(3, 0), (5, 10)], 5, EpochEnd(4, 8), AskOlder(3), id="an epoch that was never fetched"),
        pytest.param([(3, 0), (5, 10)], 3, EpochEnd(3, 7), 7, id="the answer to the older epoch"),
        pytest.param([(3, 2), (5, 10)], 5, EpochEnd(1, 9), 2, id="older than everything that was fetched"),
        pytest.param([], 5, EpochEnd(5, 20), 15, id="a position with an epoch, and nothing fetched"),
        pytest.param([], 5, EpochEnd(4, 15), 15, id="no record was written in the epoch of the position"),
        pytest.param([], 5, EpochEnd(4, 9), 9, id="the log ends before a position with an epoch"),
    ],
)
def test_agreement(entries: list[tuple[int, int]], asked: int, found: EpochEnd, agreed: int | AskOlder) -> None:
    made = EpochHistory(15, 5) if not entries else history(*entries)
    assert made.agreed(asked, found, 15) == agreed


def test_a_commit_has_the_epoch_of_the_record_before_it() -> None:
    made = history((3, 2), (5, 10))
    assert [made.before(offset) for offset in (2, 3, 10, 11, 99)] == [-1, 3, 3, 5, 5]


def test_a_committed_epoch_is_kept_until_records_are_fetched() -> None:
    made = EpochHistory(7, 4)
    assert (made.last, made.last_fetched, made.before(7)) == (4, -1, 4)
    made.add(6, 7)
    assert (made.last, made.last_fetched, made.before(7), made.before(8)) == (6, 6, 4, 6)


def test_records_without_epochs_make_what_came_before_unknown() -> None:
    made = EpochHistory(0, 3)
    made.add(3, 0)
    made.add(-1, 5)
    assert (made.last, made.before(6), made.before(0)) == (-1, -1, -1)


def test_old_epochs_are_forgotten() -> None:
    made = history(*((epoch, epoch) for epoch in range(2 * MAX_EPOCHS)))
    assert made.before(MAX_EPOCHS) == -1
    assert made.before(MAX_EPOCHS + 1) == MAX_EPOCHS


class Leader:
    """A leader that tells where an epoch ends, as LeaderEpochFileCache does."""

    def __init__(self, log: Log, epoch: int) -> None:
        self._end = len(log)
        starts = {each: log.index(each) for each, _ in groupby(log)}
        # The leader's own epoch begins at the end; an epoch without records there does not count any more.
        self._starts = {**{each: first for each, first in starts.items() if first < self._end}, epoch: self._end}

    def end_of(self, epoch: int) -> EpochEnd:
        if epoch > max(self._starts):
            return EpochEnd(-1, -1)
        later = [first for each, first in self._starts.items() if each > epoch]
        end = min(later, default=self._end)
        older = [each for each in self._starts if each <= epoch]
        return EpochEnd(max(older, default=epoch), end)


def common(one: Log, other: Log) -> int:
    return next(
        (at for at, pair in enumerate(zip(one, other, strict=False)) if len(set(pair)) > 1), min(len(one), len(other))
    )


def agree(made: EpochHistory, leader: Leader, fetched: int) -> tuple[int, int]:
    asked = made.last
    while isinstance(found := made.agreed(asked, leader.end_of(asked), fetched), AskOlder):
        assert found.epoch < asked
        asked = found.epoch
    return found, leader.end_of(asked).epoch


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("append"), st.integers(1, 4)),
        st.tuples(st.just("fetch"), st.integers(1, 6)),
        st.tuples(st.just("replicate"), st.integers(0, 2), st.integers(1, 5)),
        st.tuples(st.just("elect"), st.integers(0, 2)),
    ),
    max_size=40,
)


@given(STEPS, st.integers(0, 3))
@settings(max_examples=500)
def test_elections_of_any_replica_are_detected_exactly(steps: list[tuple[object, ...]], start: int) -> None:
    """Whatever was replicated and whoever is elected: the reader finds the first record that differs."""
    logs: list[Log] = [[0] * start for _ in range(3)]
    leader, epoch = 0, 0
    fetched: Log = [0] * start
    made = EpochHistory(start)
    for step in steps:
        match step:
            case ("append", int(count)):
                logs[leader] += [epoch] * count
            case ("fetch", int(count)):
                for record in logs[leader][len(fetched) : len(fetched) + count]:
                    made.add(record, len(fetched))
                    fetched.append(record)
            case ("replicate", int(replica), int(count)) if replica != leader:
                kept = common(logs[replica], logs[leader])
                logs[replica] = logs[leader][: kept + count]
            case ("elect", int(replica)):
                leader, epoch = replica, epoch + 1
                if made.last < 0:
                    continue
                agreed, below = agree(made, Leader(logs[leader], epoch), len(fetched))
                # Of what was not fetched nothing is known.
                expected = common(fetched, logs[leader])
                assert agreed == expected or (agreed == start > expected)
                fetched = logs[leader][:agreed]
                made.rewind(agreed, below)
                start = min(start, agreed)
