"""A model test of consumer groups."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import invariant, precondition, rule

from tests.broker.consumer_harness import Client, Harness
from tests.broker.epoch_group_model import MODEL_SETTINGS, EpochGroupModel


class ConsumerGroupModel(EpochGroupModel[Harness]):
    """Topics change, too."""

    def __init__(self) -> None:
        super().__init__()
        self.harness = Harness(a=3, b=2)

    @rule(
        topics=st.frozensets(st.sampled_from(["a", "b"])),
        regex=st.sampled_from(["", "a", ".*"]),
        assignor=st.sampled_from([None, "range", "uniform"]),
    )
    @precondition(lambda self: len(self.clients) < 5)
    def join(self, topics: frozenset[str], regex: str, assignor: str | None) -> None:
        self.add(Client(f"m{next(self.ids)}", topics, regex, assignor=assignor))

    @rule(name=st.sampled_from(["a", "b", "c"]), size=st.integers(0, 5))
    def change_topic(self, name: str, size: int) -> None:
        if size:
            self.harness.topics.sizes[name] = max(size, self.harness.topics.sizes.get(name, 0))
        else:
            self.harness.topics.sizes.pop(name, None)

    def check_settled(self) -> None:
        """Each partition has one owner."""
        group = self.harness.group
        owned = [partition for client in self.clients.values() for partition in client.owned]
        wanted = {
            (topic_id, index)
            for member in group.members.values()
            for topic_id in group.subscriptions.ids_of(member)
            for index in range(group.subscriptions.sizes[topic_id])
        }
        assert sorted(owned) == sorted(wanted)

    @invariant()
    def no_partition_has_two_owners(self) -> None:
        members = self.harness.group.members.values()
        held = [place for member in members for place in (*member.assigned, *member.pending_revocation)]
        assert len(held) == len(set(held))

    @invariant()
    def nothing_is_assigned_in_a_later_epoch(self) -> None:
        group = self.harness.group
        assert all(
            epoch <= group.assignment_epoch for member in group.members.values() for epoch in member.assigned.values()
        )


ConsumerGroupModel.TestCase.settings = MODEL_SETTINGS
TestConsumerGroupModel = ConsumerGroupModel.TestCase
