"""The consumer protocol's bytes are those of the codec's classes."""

from __future__ import annotations

import gc
import struct
from contextlib import suppress
from itertools import groupby

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.codec.payloads.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
from aiokproto.codec.payloads.consumer_protocol import TopicPartition as TopicPartitions
from aiokproto.errors import DecodeError
from aiokproto.group.assignors import Subscription
from aiokproto.group.partition_list import PartitionList
from aiokproto.group.protocol import decode_assignment, decode_subscription, encode_assignment, encode_subscription
from aiokproto.types import TopicPartition

text = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
partition = st.builds(TopicPartition, text, st.integers(0, 2**31 - 1))
some_partitions = st.lists(partition, max_size=8)


def by_topic(partitions: list[TopicPartition]) -> list[TopicPartitions]:
    """Adjacent partitions of a topic together."""
    return [
        TopicPartitions(topic=topic, partitions=[number for _, number in group])
        for topic, group in groupby(partitions, key=lambda each: each.topic)
    ]


@given(
    topics=st.lists(text, unique=True, max_size=5),
    user_data=st.none() | st.binary(max_size=9),
    owned=some_partitions,
    generation=st.integers(-1, 2**31 - 1),
    rack=st.none() | text,
)
def test_subscriptions_have_the_bytes_of_the_codec(
    topics: list[str], user_data: bytes | None, owned: list[TopicPartition], generation: int, rack: str | None
) -> None:
    message = ConsumerProtocolSubscription(
        topics=sorted(topics),
        user_data=user_data,
        owned_partitions=by_topic(sorted(owned)),
        generation_id=generation,
        rack_id=rack,
    )
    data = encode_subscription(topics, user_data, owned, generation, rack)
    assert data == b"\0\3" + message.encode(3)
    for version in range(4):
        data = struct.pack(">h", version) + message.encode(version)
        assert decode_subscription(data, "i") == Subscription(
            topics=dict.fromkeys(sorted(topics)).keys(),
            user_data=user_data,
            owned_partitions=PartitionList.of(sorted(owned)) if version >= 1 else (),
            generation=generation if version >= 2 else -1,
            rack_id=rack if version >= 3 else None,
            group_instance_id="i",
        )


@given(some_partitions)
def test_assignments_have_the_bytes_of_the_codec(assigned: list[TopicPartition]) -> None:
    order = list(dict.fromkeys(each.topic for each in assigned))
    grouped = sorted(assigned, key=lambda each: order.index(each.topic))
    data = encode_assignment(assigned)
    assert data == b"\0\3" + ConsumerProtocolAssignment(assigned_partitions=by_topic(grouped)).encode(3)
    assert decode_assignment(data) == grouped
    assert encode_assignment(decode_assignment(data)) == data


@given(st.binary(max_size=40))
def test_malformed_bytes_raise_nothing_but_decode_error(data: bytes) -> None:
    for start in (b"", b"\0\3", b"\0\3\0\0\0\1\0\1t"):
        for decode in (decode_assignment, lambda malformed: decode_subscription(malformed, None)):
            with suppress(DecodeError):
                decode(start + data)


@pytest.mark.parametrize(
    "data",
    [
        b"\0",
        b"\xff\xff",
        b"\0\0\0\0\0\1",
        b"\0\0\0\0\0\1\xff\xff",
        b"\0\0\0\0\0\1\0\1\xff",
        b"\0\1\0\0\0\0\0\0\0\2ab\0\0\0\1",
    ],
)
def test_a_subscription_that_ends_too_early_or_has_no_names_is_refused(data: bytes) -> None:
    with pytest.raises(DecodeError, match="malformed subscription"):
        decode_subscription(data, None)


@given(some_partitions, st.integers(-9, 9), st.integers(-9, 9))
def test_a_partition_list_behaves_as_a_list(partitions: list[TopicPartition], start: int, stop: int) -> None:
    compact = PartitionList.of(partitions)
    assert list(compact) == partitions == compact
    assert all(type(each) is TopicPartition for each in compact)
    assert list(compact[start:stop]) == partitions[start:stop]
    assert repr(compact) == repr(partitions)
    assert (compact == [*partitions, TopicPartition("more", 0)]) is False
    assert PartitionList.of(compact) is compact
    for index, expected in enumerate(partitions):
        assert compact[index] == expected
        assert expected in compact


def test_encoding_many_topics_leaves_the_garbage_collector_alone() -> None:
    """A collection blocks the event loop for as long as the objects of the whole process take."""
    assigned = PartitionList.of([(f"topic-{topic}", number) for number in range(3) for topic in range(2000)])
    collections: list[str] = []

    def note(phase: str, info: object) -> None:
        collections.append(phase)

    before = gc.get_threshold()
    gc.collect()
    gc.set_threshold(200)
    gc.callbacks.append(note)
    try:
        encoded = encode_assignment(assigned)
    finally:
        gc.callbacks.remove(note)
        gc.set_threshold(*before)
    assert not collections
    assert sorted(decode_assignment(encoded)) == sorted(assigned)
