"""Records are the same to whoever holds them, in both forms."""

from __future__ import annotations

import copy
import gc
import os
import pickle
import subprocess
import sys
import weakref
from typing import Any

import pytest

from aiokproto.accelerator import forms
from aiokproto.records import BatchRecord, decode, encode
from aiokproto.records.record import RecordMaker
from aiokproto.types import Record, TimestampType
from tests.accelerator.forms import each_form, not_compiled

each_record = pytest.mark.parametrize("form", each_form("aiokproto.types", "Record"))
each_batch_record = pytest.mark.parametrize("form", each_form("aiokproto.records.record", "BatchRecord"))

FIELDS: dict[str, Any] = {
    "topic": "flights",
    "partition": 3,
    "offset": 2**62,
    "timestamp": -1,
    "key": b"key",
    "value": None,
    "headers": (("name", b"content"), ("name", None)),
    "timestamp_type": TimestampType.LOG_APPEND_TIME,
    "leader_epoch": 9,
}
BATCH_FIELDS = {name: FIELDS[name] for name in ("offset", "timestamp", "key", "value", "headers")}


def fields_of(record: Any, names: Any = tuple(FIELDS)) -> dict[str, Any]:
    return {name: getattr(record, name) for name in names}


@each_record
def test_a_record_has_what_it_was_given(form: Any) -> None:
    assert fields_of(form(**FIELDS)) == FIELDS
    assert fields_of(form(*FIELDS.values())) == FIELDS


@each_record
def test_defaults_of_a_record(form: Any) -> None:
    record = form("flights", 0, 1, 2, None, b"value")
    assert (record.headers, record.timestamp_type, record.leader_epoch) == ((), TimestampType.CREATE_TIME, -1)
    assert type(record.timestamp_type) is TimestampType


@each_batch_record
def test_a_batch_record_has_what_it_was_given(form: Any) -> None:
    assert fields_of(form(**BATCH_FIELDS), BATCH_FIELDS) == BATCH_FIELDS
    assert form(0, 1, None, None).headers == ()


@each_record
def test_attributes_can_be_set(form: Any) -> None:
    record = form("flights", 0, 1, 2, None, b"value")
    for name, content in FIELDS.items():
        setattr(record, name, content)
    assert fields_of(record) == FIELDS
    record.value = {"any": "object"}
    assert record.value == {"any": "object"}
    with pytest.raises(AttributeError):
        record.nonsense = 1


@each_record
def test_how_a_record_looks(form: Any) -> None:
    assert repr(form(**FIELDS)) == (
        "Record(topic='flights', partition=3, offset=4611686018427387904, timestamp=-1, key=b'key', value=None, "
        "headers=(('name', b'content'), ('name', None)))"
    )
    assert (form.__module__, form.__qualname__) == ("aiokproto.types", "Record")


@each_batch_record
def test_how_a_batch_record_looks(form: Any) -> None:
    assert repr(form(1, 2, b"key", None)) == ("BatchRecord(offset=1, timestamp=2, key=b'key', value=None, headers=())")
    assert (form.__module__, form.__qualname__) == ("aiokproto.records.record", "BatchRecord")


@each_record
def test_a_record_equals_itself_only(form: Any) -> None:
    one, other = form(**FIELDS), form(**FIELDS)
    assert one == one
    assert one != other
    assert {one: 1}[one] == 1


@each_batch_record
@pytest.mark.parametrize("name", list(BATCH_FIELDS))
def test_batch_records_compare_by_value(form: Any, name: str) -> None:
    one, other = form(**BATCH_FIELDS), form(**BATCH_FIELDS)
    assert one == other
    setattr(other, name, 77)
    assert one != other
    assert one != tuple(BATCH_FIELDS.values())
    with pytest.raises(TypeError, match="unhashable type"):
        hash(one)


@each_record
def test_a_record_can_be_extended(form: Any) -> None:
    class Mine(form):  # type: ignore[misc]
        pass

    mine = Mine(**FIELDS)
    mine.note = "more"
    again = copy.copy(mine)
    assert (type(again), again.note, fields_of(again)) == (Mine, "more", FIELDS)


def test_both_forms_have_the_same_state() -> None:
    """So that a process which has the one can read what a process with the other has pickled."""
    for module, name, given in (
        ("aiokproto.types", "Record", FIELDS),
        ("aiokproto.records.record", "BatchRecord", BATCH_FIELDS),
    ):
        states = []
        for form in forms(module, name).values():
            make, (kind,), state, *_ = form(**given).__reduce_ex__(4)
            assert kind is form
            states.append((make, state))
        assert all(state == states[0] for state in states)


@pytest.mark.parametrize("protocol", range(2, pickle.HIGHEST_PROTOCOL + 1))
def test_records_can_be_pickled(protocol: int) -> None:
    again = pickle.loads(pickle.dumps(Record(**FIELDS), protocol))
    assert type(again) is Record
    assert fields_of(again) == FIELDS
    assert pickle.loads(pickle.dumps(BatchRecord(**BATCH_FIELDS), protocol)) == BatchRecord(**BATCH_FIELDS)


@pytest.mark.parametrize("duplicate", [copy.copy, copy.deepcopy])
def test_records_can_be_copied(duplicate: Any) -> None:
    record = Record(**FIELDS)
    again = duplicate(record)
    assert again is not record
    assert fields_of(again) == FIELDS


@pytest.mark.parametrize(("writer", "reader"), [("1", "0"), ("0", "1")], ids=["pure to other", "other to pure"])
def test_one_process_reads_what_another_has_pickled(writer: str, reader: str) -> None:
    """Where the accelerator was not compiled both processes are alike, and this holds all the more."""

    def run(pure: str, code: str, data: bytes = b"") -> bytes:
        environment = {**os.environ, "AIOKPROTO_PURE": pure}
        return subprocess.run(
            [sys.executable, "-c", f"import pickle, sys\nfrom aiokproto.types import Record\n{code}"],
            env=environment,
            input=data,
            capture_output=True,
            check=True,
        ).stdout

    data = run(writer, "sys.stdout.buffer.write(pickle.dumps(Record('t', 1, 2, 3, b'k', None)))")
    assert run(reader, "print(pickle.load(sys.stdin.buffer))", data).decode().strip() == repr(
        Record("t", 1, 2, 3, b"k", None)
    )


class Anything:
    """Something that can be referred to weakly."""

    record: Any


@pytest.mark.parametrize("make", [BatchRecord, RecordMaker("flights", 0, TimestampType.CREATE_TIME, -1)])
def test_a_cycle_through_a_record_that_was_read_is_collected(make: Any) -> None:
    """Nothing that a reader puts into records can be part of one, so the collector may pass over those, until then."""
    (batch,) = decode(encode([BatchRecord(0, 1, None, b"value", (("name", b"content"),))]))
    record = batch.records(make)[0]
    anything = Anything()
    anything.record = record
    record.value = anything
    gone = weakref.ref(anything)
    del anything, record
    gc.collect()
    assert gone() is None


def test_the_collector_does_not_walk_over_records_that_were_read() -> None:
    if "compiled" not in forms("aiokproto.types", "Record"):
        pytest.skip(not_compiled.kwargs["reason"])
    (batch,) = decode(encode([BatchRecord(0, 1, None, b"value", (("name", b"content"),))]))
    (record,) = batch.records(BatchRecord)
    assert not gc.is_tracked(record)
    assert not gc.is_tracked(record.headers)
    record.value = None
    assert gc.is_tracked(record)
    assert gc.is_tracked(BatchRecord(0, 1, None, b"value"))
