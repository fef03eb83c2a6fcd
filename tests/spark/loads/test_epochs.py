"""Leader epochs of two logs: the offset at which they diverge, for any history of leaders."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.codec.messages.offset_for_leader_epoch import EpochEndOffset
from aiokproto.spark import truncation
from aiokproto.spark.loads.history import History
from aiokproto.spark.loads.manifest import LoadedPartition, Manifest
from aiokproto.spark.offsets import OffsetRange
from aiokproto.spark.positions import Epochs, Position
from aiokproto.spark.truncation import find_divergences, request_epochs
from aiokproto.types import TopicPartition

PARTITION = TopicPartition("t", 0)
Log = Sequence[int]
"""The leader epoch of each record."""


def answer(epoch: int, end: int) -> EpochEndOffset:
    return EpochEndOffset(error_code=0, partition=0, leader_epoch=epoch, end_offset=end)


class Leader(NamedTuple):
    """The current leader, which may not have written a batch yet."""

    log: Log
    epoch: int

    def end_of(self, epoch: int) -> EpochEndOffset:
        """Respond to OffsetForLeaderEpoch as Kafka does from its epoch cache."""
        firsts = {one: self.log.index(one) for one in sorted(set(self.log))}
        firsts.setdefault(self.epoch, len(self.log))
        newer = [one for one in firsts if one > epoch]
        known = [one for one in firsts if one <= epoch]
        if epoch == self.epoch:
            return answer(epoch, len(self.log))
        if not newer:
            return answer(-1, -1)
        return answer(max(known, default=epoch), firsts[min(newer)])


def epochs_of(log: Log, start: int = 0) -> Epochs:
    return tuple((epoch, max(log.index(epoch), start)) for epoch in sorted(set(log[start:])))


@st.composite
def two_logs(draw: st.DrawFn) -> tuple[Log, Leader]:
    """The loaded log and a leader's: equal up to some offset, then each with epochs that the other lacks."""
    owners = draw(st.lists(st.sampled_from(["both", "ours", "theirs", "neither"]), min_size=1, max_size=10))
    ours: list[int] = []
    theirs: list[int] = []
    parted = False
    for epoch, owner in enumerate(owners):
        count = draw(st.integers(1, 3))
        if owner == "both" and not parted:
            kept, lost = draw(st.integers(0, count)), draw(st.booleans())
            ours += [epoch] * (count if lost else kept)
            theirs += [epoch] * (kept if lost else count)
            parted = kept < count
        elif owner in ("both", "ours"):
            ours += [epoch] * count
            parted = True
        elif owner == "theirs":
            theirs += [epoch] * count
            parted = True
    return ours, Leader(theirs, len(owners))


def answering(leader: Leader) -> Any:
    async def epoch_ends(_: Any, epochs: Mapping[TopicPartition, int], __: Any) -> dict[TopicPartition, EpochEndOffset]:
        return {partition: leader.end_of(epoch) for partition, epoch in epochs.items()}

    return patch.object(truncation, "_epoch_ends", epoch_ends)


@given(two_logs())
def test_where_two_logs_part(logs: tuple[Log, Leader]) -> None:
    ours, leader = logs
    position = Position(len(ours), epochs_of(ours))
    with answering(leader):
        found = asyncio.run(find_divergences(None, {PARTITION: position}, None))  # type: ignore[arg-type]
    same = next((at for at, pair in enumerate(zip(ours, leader.log, strict=False)) if pair[0] != pair[1]), None)
    common = min(len(ours), len(leader.log)) if same is None else same
    assert {one: found[one].offset for one in found} == ({PARTITION: common} if common < len(ours) else {})


@given(two_logs(), st.integers(0, 20), st.integers(0, 20))
def test_in_which_epochs_a_range_was_written(logs: tuple[Log, Leader], start: int, end: int) -> None:
    _, leader = logs
    start = min(start, len(leader.log))
    end = min(max(start, end), len(leader.log))
    wanted = OffsetRange("t", bytes(16), 0, start, end, leader.epoch)
    with answering(leader):
        found = asyncio.run(request_epochs(None, [wanted], None))  # type: ignore[arg-type]
    assert found == ({PARTITION: epochs_of(leader.log[:end], start)} if end > start else {})


def test_the_epochs_of_consecutive_ranges_add_up_to_those_of_the_whole() -> None:
    log = [0, 0, 1, 1, 1, 3, 3, 7, 9, 9]
    history = History()
    for number, (start, end) in enumerate([(0, 1), (1, 4), (4, 4), (4, 6), (6, 10)], 1):
        loaded = LoadedPartition(
            "t", "id", 0, start, end, 9, epochs_of(log[:end], start), after=history.positions.get(PARTITION)
        )
        manifest = Manifest(number, f"{number:06}-a", 1, None, "c", f"run={number}", (), "", False, False, 0, (loaded,))
        history = history.then(manifest)
    assert history.positions[PARTITION] == Position(10, epochs_of(log))
    assert History.of_json(history.as_json()) == history


@pytest.mark.parametrize("epoch", [0, 5])
def test_a_log_without_leader_epochs_is_not_checked(epoch: int) -> None:
    """As with a log in a format of before 0.11."""
    with answering(Leader([], epoch - 1)):
        position = Position(9, ((epoch, 0),))
        found = asyncio.run(find_divergences(None, {PARTITION: position}, None))  # type: ignore[arg-type]
    assert found == {}
