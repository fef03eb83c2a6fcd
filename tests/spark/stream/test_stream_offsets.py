"""The offset of a stream, as Spark stores it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.spark.stream.offsets import CheckpointError, StreamOffset, parse_offset
from aiokproto.types import TopicPartition

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)

partitions = st.builds(TopicPartition, st.sampled_from(["t", "u", "aiokproto", "topics"]), st.integers(0, 20))
numbers = st.dictionaries(partitions, st.integers(0, (1 << 63) - 1))
epochs = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 99)), min_size=1).map(tuple)


@given(
    st.builds(
        StreamOffset,
        offsets=numbers,
        starts=numbers,
        moved=numbers,
        epochs=st.dictionaries(partitions, epochs),
        topic_ids=st.dictionaries(st.sampled_from(["t", "u"]), st.text("0123456789abcdef", min_size=32, max_size=32)),
        initial=st.booleans(),
    )
)
def test_an_offset_survives_the_json_of_a_checkpoint(offset: StreamOffset) -> None:
    assert parse_offset(json.loads(json.dumps(offset.as_json()))) == offset


@given(numbers)
def test_equal_offsets_have_equal_texts(offsets: dict[TopicPartition, int]) -> None:
    """Spark takes a different text for new records."""
    turned = dict(reversed(offsets.items()))
    assert json.dumps(StreamOffset(offsets).as_json()) == json.dumps(StreamOffset(turned).as_json())


def test_an_offset_of_sparks_own_connector_is_accepted() -> None:
    assert parse_offset({"t": {"0": 5, "1": 0}, "u": {"0": 7}}) == StreamOffset({T0: 5, T1: 0, U0: 7})


@pytest.mark.parametrize(
    ("before", "start"),
    [
        (StreamOffset({T0: 3}), 3),
        (StreamOffset({T1: 3}), 1),
        (StreamOffset({T0: 3}, initial=True), 1),
        (StreamOffset({}, initial=True), 1),
    ],
)
def test_a_batch_starts_where_the_one_before_ended_if_there_was_one(before: StreamOffset, start: int) -> None:
    """The current initial offset doesn't count, because it differs from the one when the batch was planned."""
    assert StreamOffset({T0: 9}, starts={T0: 1}).start_of(T0, before) == start


def test_a_batch_starts_after_lost_records() -> None:
    assert StreamOffset({T0: 9}, moved={T0: 6}).start_of(T0, StreamOffset({T0: 3})) == 6


def test_a_start_that_neither_offset_has_is_unknown() -> None:
    assert StreamOffset({T0: 9}).start_of(T0, StreamOffset({T1: 3})) is None


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"aiokproto": 2, "topics": {}}, "offset of version 2; this version of aiokproto reads 1"),
        ({"aiokproto": 1}, "topics=None: expected an object"),
        ({"logOffset": 5}, "is none of a Kafka source: in its offset, 'logOffset' is 5"),
        ({"t": {"0": -1}}, "invalid offset for partition '0' of topic t: -1"),
        ({"t": {"0": True}}, "invalid offset for partition '0' of topic t: True"),
        ({"t": {"zero": 1}}, "invalid offset for partition 'zero'"),
        ({"aiokproto": 1, "topics": {}, "epochs": {"t": {"0": [[1]]}}}, "invalid epochs for partition '0' of topic t"),
        ({"aiokproto": 1, "topics": {}, "ids": {"t": 1}}, "ids="),
    ],
)
def test_an_invalid_offset_of_a_stream_is_named(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(CheckpointError, match=problem):
        parse_offset(given)
