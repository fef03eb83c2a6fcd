"""Columns of loads: compatible types, and the columns of current files in a history."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.spark.loads.attempt import Counted, Written, run_attempt
from aiokproto.spark.loads.columns import columns_of, describe, incompatible_type
from aiokproto.spark.loads.commits import CommitLog
from aiokproto.spark.loads.history import History, SchemaError
from aiokproto.spark.loads.manifest import ManifestError
from aiokproto.types import TopicPartition
from tests.spark.loads.harness import Log, MemoryStorage, load
from tests.spark.loads.test_manifest import loaded, manifest

INT, LONG, STRING = (json.dumps(name) for name in ("integer", "long", "string"))


def field(name: str, kind: object, nullable: bool = True) -> dict[str, object]:
    return {"name": name, "type": kind, "nullable": nullable, "metadata": {"comment": name}}


def struct(**fields: object) -> dict[str, object]:
    return {"type": "struct", "fields": [field(name, kind) for name, kind in fields.items()]}


def array(of: object) -> dict[str, object]:
    return {"type": "array", "elementType": of, "containsNull": True}


def kind(of: object) -> str:
    return columns_of({"fields": [field("x", of)]})["x"]


kinds = st.recursive(
    st.sampled_from(["integer", "long", "string", "decimal(10,2)"]),
    lambda inner: (
        inner.map(array)
        | st.dictionaries(st.sampled_from("abc"), inner, max_size=3).map(lambda fields: struct(**fields))
        | st.tuples(inner, inner).map(lambda both: {"type": "map", "keyType": both[0], "valueType": both[1]})
    ),
    max_leaves=6,
).map(kind)


@given(kinds, kinds)
def test_type_compatibility_is_reflexive_and_symmetric(one: str, other: str) -> None:
    assert incompatible_type(one, [one]) is None
    assert (incompatible_type(one, [other]) is None) == (incompatible_type(other, [one]) is None)


@pytest.mark.parametrize(
    ("one", "other", "fits"),
    [
        ("integer", "long", False),
        ("integer", struct(a="integer"), False),
        (struct(a="integer"), struct(b="string"), True),
        (struct(a="integer", b="long"), struct(b="long", a="string"), False),
        (array("integer"), array("integer"), True),
        (array("integer"), array("long"), False),
        (array(struct(a="integer")), array(struct(b="long")), True),
        (array("integer"), struct(a="integer"), False),
        ({"type": "udt", "class": "a.B", "sqlType": "integer"}, "integer", True),
    ],
)
def test_which_types_can_be_read_together(one: object, other: object, fits: bool) -> None:
    assert (incompatible_type(kind(one), [kind(other)]) is None) == fits


def test_types_are_named_as_in_sql() -> None:
    assert describe(kind(struct(a="integer", b=array("long")))) == "struct<a: int, b: array<bigint>>"


def test_nullability_is_ignored() -> None:
    assert columns_of({"fields": [field("x", "integer", True)]}) == columns_of(
        {"fields": [field("x", "integer", False)]}
    )


def test_a_history_has_the_columns_of_committed_loads() -> None:
    one = replace(manifest(1, loaded(0, 0, 5)), columns={"n": INT, "m": STRING})
    two = replace(manifest(2, loaded(0, 5, 9, after=5)), columns={"n": INT})
    history = History().then(one).then(two)
    assert history.columns == {"n": {INT: 2}, "m": {STRING: 1}}
    assert History.of_json(json.loads(json.dumps(history.as_json()))) == history
    again = replace(manifest(3, loaded(0, 0, 5), replaces=1, run=1), columns={"m": LONG}, replaced_columns=one.columns)
    assert history.then(again).columns == {"n": {INT: 1}, "m": {LONG: 1}}
    assert history.then(replace(again, columns={})).columns == {"n": {INT: 1}}
    with pytest.raises(SchemaError, match="run 000001-aa: column 'n' is bigint, but int in the output"):
        history.then(replace(again, columns={"n": LONG}))


def test_an_attempt_that_replaces_an_unknown_run_is_refused() -> None:
    history = History().then(replace(manifest(1, loaded(0, 0, 5)), columns={"n": INT}))
    damaged = replace(manifest(2, loaded(0, 0, 5), replaces=1, run=1), replaced_columns={"n": STRING})
    with pytest.raises(ManifestError, match="replaces a column 'n'"):
        history.then(damaged)


def test_one_of_two_concurrent_loads_determines_a_columns_type() -> None:
    storage = MemoryStorage()
    load(storage, Log({TopicPartition("t", 0): 5}))
    (first,) = CommitLog(storage).manifests()
    history = CommitLog(storage).latest()
    mine, other = (
        replace(first, run_id=f"-{number}", data=f"run={number}", partitions=(loaded(number, 0, 5, "u"),))
        for number in range(2)
    )

    def write(data: str) -> Written:
        storage.write(f"{data}/part-0", b"0 1 2 3 4")
        CommitLog(storage).commit(replace(other, columns={"n": STRING}), history)
        return Written(5, 5, {"n": INT})

    def count(data: str) -> Counted:
        return Counted(("part-0",), tuple(replace(one, rows=5) for one in mine.partitions))

    with pytest.raises(SchemaError, match="column 'n' is int, but string in the output"):
        run_attempt(storage, history, mine, write, count, lambda _: None)
    assert storage.read(f"{mine.data}/part-0") is None
    assert [one.columns for one in CommitLog(storage).manifests()] == [{}, {"n": STRING}]
