"""Declarations say what fields name, and they agree with Kafka's names of the fields."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from aiokproto.codec.schema import FieldSpec, Role, Struct
from tests.codec.fill import all_messages

NAMES = {
    Role.TOPIC_NAME: "name topic topic_name topics topic_names subscribed_topic_names source_topics sink_topic "
    "repartition_sink_topics",
    Role.TOPIC_ID: "id topic_id topic_ids",
    Role.PARTITION_INDEX: "partition partition_index partition_id index partitions partition_indexes partition_ids",
    Role.GROUP_ID: "group_id group_ids groups groups_names",
    Role.TRANSACTIONAL_ID: "transactional_id transactional_ids v3_and_below_transactional_id transactional_id_filters",
    Role.COORDINATOR_KEY: "key coordinator_keys",
    Role.PRODUCER_ID: "producer_id producer_ids previous_producer_id next_producer_id producer_id_start "
    "v3_and_below_producer_id producer_id_filters ongoing_txn_producer_id",
    Role.BROKER_ID: "",
}
"""The names of fields by role. Kafka has too many names for a broker's id."""
KINDS = {
    Role.TOPIC_NAME: "string",
    Role.TOPIC_ID: "uuid",
    Role.PARTITION_INDEX: "int32",
    Role.GROUP_ID: "string",
    Role.TRANSACTIONAL_ID: "string",
    Role.COORDINATOR_KEY: "string",
    Role.PRODUCER_ID: "int64",
    Role.BROKER_ID: "int32",
}
AMBIGUOUS = {"id", "name", "key"}
"""Names that stand for so many other things that they mean nothing alone."""
NOT_WHAT_IT_SEEMS = {
    ("TopicInfo", "partitions"): "a number of partitions",
}


def every_field() -> Iterator[tuple[type[Struct], FieldSpec]]:
    seen: set[type[Struct]] = set()
    waiting: list[type[Struct]] = list(all_messages())
    while waiting:
        struct = waiting.pop()
        if struct in seen:
            continue
        seen.add(struct)
        for spec in struct.fields():
            if spec.struct is None:
                yield struct, spec
            else:
                waiting.append(spec.struct)


@pytest.mark.parametrize("role", Role)
def test_a_field_named_like_a_role_has_the_role(role: Role) -> None:
    """This test shows a role that was forgotten, before a request goes nowhere."""
    names = set(NAMES[role].split()) - AMBIGUOUS
    lacking = {
        f"{struct.__module__}.{struct.__name__}.{spec.name}"
        for struct, spec in every_field()
        if spec.name in names and spec.kind == KINDS[role] and (struct.__name__, spec.name) not in NOT_WHAT_IT_SEEMS
        if spec.role is not role
    }
    assert not lacking


@pytest.mark.parametrize("role", [role for role in Role if NAMES[role]])
def test_a_field_with_a_role_is_named_like_the_role(role: Role) -> None:
    names = set(NAMES[role].split())
    named = {spec.name for _, spec in every_field() if spec.role is role}
    assert named <= names
    assert named


def test_a_role_has_one_wire_type() -> None:
    assert {(spec.role, spec.kind) for _, spec in every_field() if spec.role is not None} == set(KINDS.items())
