"""Our assignors against Kafka's own: the same assignments, in the same order, over generations of seeded groups."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest

from aiokproto.group.assignors import Assignment, make_assignors
from aiokproto.group.protocol import encode_assignment
from aiokproto.types import TopicPartition
from tests.figures import LINES
from tests.java.assignor_cases import ASSIGNORS, Case, confuses_java, histories, violation
from tests.java.assignor_judge import judge

# The first test has Java compile the judge, and judge all the cases.
pytestmark = [pytest.mark.java, pytest.mark.timeout(600)]

HISTORIES = 150


@pytest.fixture(scope="module")
def judged(request: pytest.FixtureRequest) -> list[tuple[Case, dict[str, Any]]]:
    cases = histories(HISTORIES)
    results = judge([case.for_java() for case in cases])
    request.config.stash[LINES].append(f"compared with Java: {len(cases)} assignments")
    return list(zip(cases, results, strict=True))


def assignment(result: dict[str, Any]) -> Assignment | None:
    """Java's assignment; None after an exception."""
    if isinstance(result.get("error"), str):
        return None
    return {member: [TopicPartition(*each) for each in assigned] for member, assigned in result.items()}


@pytest.mark.parametrize("assignor", ASSIGNORS)
def test_the_assignment_is_javas(judged: list[tuple[Case, dict[str, Any]]], assignor: str) -> None:
    """The order of each member's partitions is the same, too. Where Java's has a known defect, ours is valid."""
    defects: Counter[str] = Counter()
    cases = [(case, result) for case, result in judged if case.assignor == assignor]
    for case, result in cases:
        ours, java = case.assign(), assignment(result)
        assert not violation(case, ours)
        if ours == java:
            continue
        defect = confuses_java(case)
        assert defect, f"{case.for_java()}\n{result}\n{ours}"
        defects[defect] += 1
    assert sum(defects.values()) < len(cases) / 20, defects


def test_the_cases_are_of_all_kinds(judged: list[tuple[Case, dict[str, Any]]]) -> None:
    """Easy cases would prove nothing."""
    kinds: Counter[str] = Counter()
    for case, _ in judged:
        members = case.subscriptions.values()
        kinds["static members"] += any(said.group_instance_id for said in members)
        kinds["equal subscriptions"] += len({frozenset(said.topics) for said in members}) == 1
        kinds["racks of all members"] += all(said.rack_id for said in members)
        kinds["racks of some members"] += len({bool(said.rack_id) for said in members}) == 2
        kinds["racks of replicas"] += any(racks for topic in case.racks.values() for racks in topic)
        kinds["stale claims"] += len({said.generation for said in members}) > 2
        kinds["partitions claimed twice"] += len(case.claims) > len(set(case.claims))
        kinds["topics without partitions"] += 0 in case.partitions.values()
        kinds["unknown topics"] += any("unknown" in said.topics for said in members)
        kinds["many members"] += len(members) > 15
        kinds["old subscriptions"] += any(data[:2] < b"\x00\x02" for _, data in case.members.values())
    assert min(kinds.values()) > 50, kinds
    assert len(kinds) == 11


@pytest.mark.parametrize("assignor", ["sticky", "cooperative-sticky"])
def test_user_data_and_assignments_have_javas_bytes(assignor: str) -> None:
    rng = random.Random(assignor)
    names = [f"topic-{number}" for number in range(40)]
    partitions = [TopicPartition(name, number) for name in names for number in range(5)]
    cases = [(rng.sample(partitions, rng.choice([0, 1, 20, 200])), rng.choice([0, 1, 2**31 - 1])) for _ in range(50)]
    asked = [{"assignor": assignor, "assigned": assigned, "generation": number} for assigned, number in cases]
    for (assigned, generation), java in zip(cases, judge(asked), strict=True):
        [ours] = make_assignors([assignor])
        ours.on_assignment(assigned, generation)
        assert (ours.user_data(names) or b"").hex() == java["user_data"]
        assert encode_assignment(assigned).hex() == java["assignment"]
