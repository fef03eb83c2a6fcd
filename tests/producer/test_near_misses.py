"""Arguments of the wrong shape raise an error that names the right one, before anything is buffered."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.errors import InvalidRecordError
from aiokproto.producer import ProducerRecord
from tests.producer.fake import FakeCluster, Make


@pytest.mark.parametrize("topic", [b"flights", None, 7, ("flights",)])
async def test_a_topic_that_is_not_a_str_is_an_error(make: Make, topic: Any) -> None:
    async with make(FakeCluster()) as producer:
        for call in (
            producer.send(topic, b"value"),
            producer.post(topic, b"value"),
            producer.partitions_for(topic),
        ):
            with pytest.raises(InvalidRecordError, match="topic must be a str, got"):
                await call


@pytest.mark.parametrize(
    ("records", "remedy"),
    [
        (b"value", r"got bytes; for one record use send\(\)"),
        ("value", r"got str; for one record use send\(\)"),
        (ProducerRecord(b"value"), r"got ProducerRecord; for one record use send\(\)"),
        ({"key": b"value"}, "got dict"),
        (7, "got int"),
    ],
)
async def test_send_many_refuses_a_single_record(make: Make, records: Any, remedy: str) -> None:
    fake = FakeCluster()
    async with make(fake) as producer:
        with pytest.raises(InvalidRecordError, match=rf"records must be an iterable.*{remedy}"):
            await producer.send_many("flights", records)
    assert fake.logs[0].values == []
