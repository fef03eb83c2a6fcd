"""The outcomes of many records as a sequence."""

from __future__ import annotations

import gc

import pytest

from aiokproto.errors import KafkaError
from aiokproto.producer.delivery import BatchSlice
from aiokproto.producer.outcome import DeliveryContext, Outcome
from aiokproto.producer.outcomes import Outcomes, RejectedRecords, ScatteredRecords
from aiokproto.types import RecordMetadata, TopicPartition


def written(context: DeliveryContext, partition: int, count: int, base_offset: int) -> Outcome:
    outcome = Outcome(TopicPartition("flights", partition), context)
    outcome.complete(count, base_offset, -1)
    return outcome


def failed(context: DeliveryContext, error: KafkaError, record_errors: dict[int, KafkaError] | None = None) -> Outcome:
    outcome = Outcome(TopicPartition("flights", 0), context)
    outcome.fail(3, error, record_errors)
    return outcome


def metadata(partition: int, offset: int, timestamp: int = 5) -> RecordMetadata:
    return RecordMetadata("flights", partition, offset, timestamp)


def test_items_are_in_the_order_of_the_parts() -> None:
    context, full = DeliveryContext(), KafkaError("full")
    outcomes = Outcomes(
        [
            BatchSlice(written(context, 0, 3, 10), 1, 2, 5),
            RejectedRecords(full, 2),
            BatchSlice(written(context, 1, 1, 0), 0, 1, 5),
        ],
        context,
    )
    expected = [metadata(0, 11), metadata(0, 12), full, full, metadata(1, 0)]
    assert list(outcomes) == expected
    assert [outcomes[place] for place in range(5)] == expected
    assert [outcomes[place] for place in range(-5, 0)] == expected
    assert outcomes[1:4] == expected[1:4]
    assert outcomes[::-2] == expected[::-2]
    assert len(outcomes) == 5
    assert outcomes.errors == {2: full, 3: full}
    assert repr(outcomes) == "<Outcomes of 5 records, 2 of them not written>"
    for place in (5, -6):
        with pytest.raises(IndexError, match="there are 5 outcomes"):
            outcomes[place]


def test_without_records_there_are_no_outcomes() -> None:
    outcomes = Outcomes([], DeliveryContext())
    assert (len(outcomes), list(outcomes), outcomes.errors) == (0, [], {})


def test_each_row_has_the_partition_and_offset_it_was_stored_at() -> None:
    context, special, full = DeliveryContext(), KafkaError("special"), KafkaError("full")
    batches: list[Outcome | KafkaError] = [
        written(context, 0, 2, 10),
        failed(context, KafkaError("why"), {1: special}),
        full,
    ]
    outcomes = Outcomes([ScatteredRecords(batches, [1, 0, 2, 0], [1, 1, -1, 0], [5, 6, 7, 8])], context)
    assert list(outcomes) == [special, metadata(0, 11, 6), full, metadata(0, 10, 8)]
    assert outcomes.errors == {0: special, 2: full}


@pytest.mark.parametrize("look", [True, False])
def test_unobserved_errors_are_counted(look: bool) -> None:
    context = DeliveryContext()
    outcomes = Outcomes([BatchSlice(failed(context, KafkaError("why")), 0, 3, 5)], context)
    if look:
        assert len(outcomes.errors) == 3
    del outcomes
    gc.collect()
    assert context.unobserved_failures == (0 if look else 3)


@pytest.mark.parametrize("check", [None, "errors", "first", "all"])
def test_rejected_records_that_are_never_checked_are_logged(
    check: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    context, text, full = DeliveryContext(), KafkaError("not bytes"), KafkaError("full")
    rows = ScatteredRecords([written(context, 0, 2, 10), full], [1, 0, 1, 0], [0, 0, 0, 1], [5, 6, 7, 8])
    outcomes = Outcomes([RejectedRecords(text, 2), rows], context)
    if check == "errors":
        assert len(outcomes.errors) == 4
    elif check == "first":
        assert outcomes[0] is text
    elif check == "all":
        assert len(list(outcomes)) == 6
    del outcomes
    gc.collect()
    assert context.unobserved_failures == (0 if check else 4)
    logged = [] if check else ["send_many(): 4 records not buffered"]
    assert [record.getMessage().partition(",")[0] for record in caplog.records] == logged
    assert all(record.getMessage().endswith("the first error: not bytes") for record in caplog.records)
