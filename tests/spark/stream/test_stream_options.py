"""The options of a stream."""

from __future__ import annotations

import pytest

from aiokproto.errors import ConfigurationError
from aiokproto.spark.offsets import EARLIEST, LATEST
from aiokproto.spark.options import StreamOptions, parse_stream_options
from aiokproto.types import TopicPartition


def parsed(**options: str) -> StreamOptions:
    return parse_stream_options({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "t", **options})


def test_a_stream_starts_at_the_end_by_default() -> None:
    assert parsed().read.starting.every == LATEST
    assert parsed(startingOffsets="earliest").read.starting.every == EARLIEST


def test_offsets_may_mix_numbers_with_both_ends() -> None:
    starting = parsed(startingOffsets='{"t": {"0": 5, "1": -1, "2": -2}}').read.starting
    assert starting.each == {TopicPartition("t", 0): 5, TopicPartition("t", 1): -1, TopicPartition("t", 2): -2}


def test_timestamps_go_before_offsets() -> None:
    starting = parsed(startingTimestamp="1000", startingOffsets="earliest").read.starting
    assert (starting.every, starting.by_timestamp) == (1000, True)


@pytest.mark.parametrize(
    ("text", "seconds"), [("15m", 900.0), ("30s", 30.0), ("1500ms", 1.5), ("250", 0.25), ("2min", 120.0), ("1D", 86400)]
)
def test_a_delay_is_a_time_of_spark(text: str, seconds: float) -> None:
    assert parsed(maxTriggerDelay=text).max_delay == seconds


def test_limits_have_sparks_defaults() -> None:
    options = parsed()
    assert (options.max_offsets, options.min_offsets, options.max_delay) == (None, None, 900.0)
    options = parsed(maxOffsetsPerTrigger="5", minOffsetsPerTrigger="2")
    assert (options.max_offsets, options.min_offsets) == (5, 2)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"endingOffsets": "latest"}, "endingOffsets is for a batch: a stream has no end"),
        ({"endingTimestamp": "5"}, "endingTimestamp is for a batch"),
        ({"maxOffsetsPerTrigger": "0"}, "maxOffsetsPerTrigger='0': must be at least 1"),
        ({"maxTriggerDelay": "15 parsecs"}, "maxTriggerDelay='15 parsecs': must be a time such as 15m"),
        ({"maxTriggerDelay": "5x"}, "must be a time such as 15m"),
        ({"minOffsetsPerTrigger": "6", "maxOffsetsPerTrigger": "5"}, "minOffsetsPerTrigger=6 is more than max"),
        ({"startingOffsets": "newest"}, "startingOffsets must be earliest, latest, or JSON such as .*, not 'newest'"),
        ({"startingOffsets": '{"t": {"0": 5}'}, "startingOffsets is not valid JSON: .* line 1 column"),
        ({"maxOffsetPerTrigger": "5"}, "did you mean 'maxOffsetsPerTrigger'"),
    ],
)
def test_options_that_make_no_stream_are_named(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError, match=problem):
        parsed(**options)
