"""A model test of streams groups."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import initialize, invariant, precondition, rule

from aiokproto.broker.groups.streams.member import TaskRole
from tests.broker.epoch_group_model import MODEL_SETTINGS, EpochGroupModel
from tests.broker.streams_harness import Harness, Thread, subtopology, topology

TOPOLOGY = topology(
    subtopology("0", ["a"], sinks=["r"]),
    subtopology("1", ["b"], repartitions={"r": 0}, changelogs=["c"]),
)


class StreamsGroupModel(EpochGroupModel[Harness]):
    """Internal topics are created as soon as they are missing."""

    settling_rounds = 14
    compared = (*EpochGroupModel.compared, "topology", "validated_topology_epoch")

    def __init__(self) -> None:
        super().__init__()
        self.harness = Harness()

    @initialize(standbys=st.integers(0, 2))
    def choose_standbys(self, standbys: int) -> None:
        self.harness = Harness(standbys=standbys, a=2, b=3)

    def call(self, client: Any) -> None:
        super().call(client)
        for name, info in self.harness.group.configured.missing.items():
            self.harness.topics.sizes[name] = info.partitions

    @rule(process=st.sampled_from("pqr"))
    @precondition(lambda self: len(self.clients) < 6)
    def join(self, process: str) -> None:
        self.add(Thread(f"m{next(self.ids)}", process, TOPOLOGY))

    def check_settled(self) -> None:
        """Each task is active at one member."""
        held = [task for thread in self.clients.values() for task in thread.owned if task.role is TaskRole.ACTIVE]
        wanted = [(name, index) for name, size in self.harness.group.configured.tasks.items() for index in range(size)]
        assert sorted(task.task_id for task in held) == (sorted(wanted) if self.clients else [])

    @invariant()
    def no_task_is_active_twice_or_twice_in_a_process(self) -> None:
        members = self.harness.group.members.values()
        held = [(task, each.process_id) for each in members for task in (*each.assigned, *each.pending_revocation)]
        actives = [task for task, _ in held if task.role is TaskRole.ACTIVE]
        assert len(actives) == len(set(actives))
        by_process = [(task.task_id, process) for task, process in held]
        assert len(by_process) == len(set(by_process))


StreamsGroupModel.TestCase.settings = MODEL_SETTINGS
TestStreamsGroupModel = StreamsGroupModel.TestCase
