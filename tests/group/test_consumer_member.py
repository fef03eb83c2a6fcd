"""A member of a consumer group (KIP-848) against a coordinator in memory: changes, commits, fencing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from aiokproto.codec.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import DecodeError, FencedError, KafkaError, UnsupportedVersionError
from aiokproto.group.changes import ChangeKind
from aiokproto.group.config import GroupConfig
from aiokproto.group.consumer_member import ConsumerMember
from aiokproto.types import OffsetAndMetadata
from tests.group.epoch_fake import INTERVAL, FakeEpochGroup
from tests.group.fake import CONFIG, FakeCluster, FakeOwner, partitions, run, topic_id
from tests.group.harness import MemberHarness, running

FIRST, SECOND = ALL = partitions("t", 0, 1)
OFFSETS = {FIRST: OffsetAndMetadata(1), SECOND: OffsetAndMetadata(2)}


class Harness(MemberHarness):
    """The only member of a consumer group."""

    heartbeats = ConsumerGroupHeartbeatRequest
    member: ConsumerMember

    def __init__(self, config: GroupConfig) -> None:
        cluster: Any = FakeCluster(t=4, u=1)
        cluster.group = self.group = FakeEpochGroup()
        self.owner = FakeOwner()
        super().__init__(cluster, ConsumerMember(cluster, config, self.owner))

    @property
    def commits(self) -> list[tuple[int, list[int]]]:
        """Epoch and partitions of each commit."""
        return [
            (
                request.generation_id_or_member_epoch,
                [entry.partition_index for topic in request.topics for entry in topic.partitions],
            )
            for request in self.cluster.sent(OffsetCommitRequest)
        ]


@asynccontextmanager
async def harness(**options: Any) -> AsyncIterator[Harness]:
    made = Harness(replace(CONFIG, **options))
    made.group.assign("t", 0, 1)
    async with running(made):
        assert made.owner.kinds == ["LEFT"]
        made.owner.changes.clear()
        yield made


def test_the_first_heartbeat_says_everything() -> None:
    async def program() -> None:
        async with harness(group_instance_id="i", client_rack="r", remote_assignor="range") as it:
            await it.subscribe("t")
            first = it.beats[0]
            assert (first.member_epoch, first.instance_id, first.rack_id) == (0, "i", "r")
            assert (first.server_assignor, first.rebalance_timeout_ms) == ("range", 60_000)
            assert (first.subscribed_topic_names, first.topic_partitions) == (["t"], [])
            assert it.member.metadata == ("g", it.group.epoch, it.group.member, "i")
            assert it.owner.changes == [("ASSIGN", ALL)]
            assert it.group.reported == {(topic_id("t"), 0), (topic_id("t"), 1)}

    run(program())


def test_a_heartbeat_response_that_cannot_be_decoded_is_requested_again_in_full() -> None:
    async def program() -> None:
        async with harness() as it:
            it.script(DecodeError("broken"), DecodeError("broken"))
            await it.subscribe("t")
            assert it.owner.changes == [("ASSIGN", ALL)]
            it.group.assign("u", 0)
            it.script(DecodeError("broken"))
            await asyncio.sleep(4)
            assert it.owner.changes[1:] == [("ASSIGN", partitions("u", 0))]

    run(program())


def test_a_session_has_room_for_several_heartbeats_with_any_interval_of_the_coordinator() -> None:
    async def program() -> None:
        async with harness() as it:
            answer = it.group.answer

            def seldom(request: Any) -> Any:
                response = answer(request)
                response.heartbeat_interval_ms = 2**31 - 1
                return response

            it.group.answer = seldom  # type: ignore[method-assign]
            await it.subscribe("t")
            await asyncio.sleep(60)
            assert len(it.beats) > 60 / (CONFIG.session_timeout / 2)
            assert False not in it.owner.sessions

    run(program())


def test_partitions_are_revoked_before_the_group_knows_and_assigned_afterwards() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.owner.takes[ChangeKind.REVOKE] = 5.0
            it.group.assign("t", 1, 2)
            await asyncio.sleep(INTERVAL + 1)
            assert it.owner.changes[1:] == [("REVOKE", partitions("t", 0))]
            assert it.group.reported == {(topic_id("t"), 0), (topic_id("t"), 1)}
            await asyncio.sleep(5)
            assert it.owner.changes[2:] == [("ASSIGN", partitions("t", 2))]
            assert it.group.reported == {(topic_id("t"), 1), (topic_id("t"), 2)}

    run(program())


def test_what_was_withdrawn_during_a_revocation_is_not_assigned() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.owner.takes[ChangeKind.REVOKE] = 2 * INTERVAL
            it.group.assign("t", 1, 2)
            await asyncio.sleep(INTERVAL)
            it.group.assign("t", 1, 3)
            await asyncio.sleep(4 * INTERVAL)
            added = [partition for kind, changed in it.owner.changes[1:] if kind == "ASSIGN" for partition in changed]
            assert added == partitions("t", 3)

    run(program())


def test_a_member_that_is_fenced_while_it_revokes_is_assigned_nothing_before_it_has_joined_again() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.owner.takes[ChangeKind.REVOKE] = 2 * INTERVAL
            it.group.assign("t", 1, 2)
            await asyncio.sleep(INTERVAL)
            it.script(ErrorCode.FENCED_MEMBER_EPOCH)
            await asyncio.sleep(4 * INTERVAL)
            assert it.owner.changes[1:] == [
                ("REVOKE", partitions("t", 0)),
                ("LOST", partitions("t", 1)),
                ("ASSIGN", partitions("t", 1, 2)),
            ]

    run(program())


def test_heartbeats_go_on_while_a_callback_runs() -> None:
    async def program() -> None:
        async with harness() as it:
            it.owner.takes[ChangeKind.ASSIGN] = 10 * INTERVAL
            await it.subscribe("t")
            before = len(it.beats)
            await asyncio.sleep(5 * INTERVAL)
            assert len(it.beats) >= before + 5

    run(program())


def test_a_topic_that_the_metadata_lacks_is_looked_up_by_its_id() -> None:
    async def program() -> None:
        async with harness() as it:
            it.cluster.existing["new"] = 1
            await it.subscribe("t")
            it.group.assign("new", 0)
            await asyncio.sleep(INTERVAL)
            (request,) = it.cluster.sent(MetadataRequest)
            assert [each.topic_id for each in request.topics] == [topic_id("new")]
            assert it.owner.owned == {*ALL, *partitions("new", 0)}

    run(program())


def test_a_topic_that_no_broker_knows_yet_keeps_no_other_from_being_assigned() -> None:
    async def program() -> None:
        async with harness() as it:
            it.group.assign("late", 0)
            await it.subscribe("t")
            await asyncio.sleep(5)
            assert it.owner.owned == set(ALL)
            assert it.group.reported == {(topic_id("t"), 0), (topic_id("t"), 1)}
            assert len(it.cluster.sent(MetadataRequest)) < 40
            it.cluster.existing["late"] = 1
            await asyncio.sleep(5)
            assert it.owner.owned == {*ALL, *partitions("late", 0)}

    run(program())


def test_a_topic_that_was_deleted_is_revoked_by_the_name_it_had() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.cluster.snapshot = FakeCluster(u=1).snapshot
            it.group.assign("t")
            await asyncio.sleep(INTERVAL)
            assert it.owner.changes[1:] == [("REVOKE", ALL)]

    run(program())


@pytest.mark.parametrize("code", [ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.FENCED_MEMBER_EPOCH])
def test_a_fenced_member_loses_its_partitions_and_joins_again(code: ErrorCode) -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.script(code)
            await asyncio.sleep(INTERVAL)
            assert it.owner.kinds == ["ASSIGN", "LOST", "ASSIGN"]
            assert it.owner.losses == 1
            rejoining = next(beat for beat in it.beats[1:] if beat.member_epoch == 0)
            assert (rejoining.topic_partitions, rejoining.member_id) == ([], it.beats[0].member_id)

    run(program())


def test_a_static_member_waits_for_the_session_of_its_predecessor() -> None:
    async def program() -> None:
        async with harness(group_instance_id="i") as it:
            it.script(*[ErrorCode.UNRELEASED_INSTANCE_ID] * 5)
            await it.subscribe("t")
            assert "UNRELEASED_INSTANCE_ID" in it.member.problem
            await asyncio.sleep(5)
            assert it.owner.owned == set(ALL)

    run(program())


def test_another_process_with_the_same_instance_id_ends_the_member() -> None:
    async def program() -> None:
        async with harness(group_instance_id="i") as it:
            await it.subscribe("t")
            it.script(ErrorCode.FENCED_INSTANCE_ID)
            with pytest.raises(FencedError):
                await it.task

    run(program())


# ---- durations


def test_joining_and_each_target_are_measured() -> None:
    async def program() -> None:
        async with harness() as it:
            member = it.member

            def measured() -> tuple[int, bool]:
                return member.rebalances.count, member.joining_since is not None

            assert measured() == (0, False)
            it.owner.takes[ChangeKind.ASSIGN] = 3.0
            await it.subscribe("t")
            assert measured() == (0, True)
            await asyncio.sleep(3)
            assert measured() == (1, False)
            assert 3.0 <= member.rebalances.total < 4.0
            it.owner.takes[ChangeKind.REVOKE] = 30.0
            it.group.assign("t", 1)
            await asyncio.sleep(INTERVAL + 1)
            assert measured() == (1, True)
            await asyncio.sleep(30)
            assert measured() == (2, False)
            assert 30.0 <= member.rebalances.max < 31.0
            it.script(ErrorCode.FENCED_MEMBER_EPOCH)
            await asyncio.sleep(2 * INTERVAL + 4)
            assert measured() == (3, False)
            member.set_topics([])
            await asyncio.sleep(40)
            assert measured() == (3, False)

    run(program())


# ---- leaving


def test_a_member_whose_application_does_not_poll_leaves_until_it_does() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.member.leave_on_poll_timeout("no poll")
            await asyncio.sleep(1)
            assert it.owner.kinds == ["ASSIGN", "LOST", "LEFT"]
            assert it.beats[-1].member_epoch == -1
            assert "no poll" in it.member.state
            assert not it.member.outside
            it.member.rejoin()
            await asyncio.sleep(1)
            assert it.owner.kinds[3:] == ["ASSIGN"]

    run(program())


def test_unsubscribing_revokes_before_it_leaves() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.owner.takes[ChangeKind.REVOKE] = 3.0
            it.member.set_topics([])
            await asyncio.sleep(2.5)
            assert it.beats[-1].member_epoch > 0
            assert not it.member.outside
            await asyncio.sleep(1)
            assert it.beats[-1].member_epoch == -1
            assert it.owner.kinds == ["ASSIGN", "REVOKE", "LEFT"]
            assert it.member.outside

    run(program())


@pytest.mark.parametrize("turns", range(5))
def test_a_member_that_is_cancelled_when_it_has_something_to_say_ends(turns: int) -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.member.set_topics(["t", "u"])
            for _ in range(turns):
                await asyncio.sleep(0)
            it.task.cancel()
            ended, _ = await asyncio.wait([it.task], timeout=60)
            assert ended

    run(program())


def test_leaving_does_not_wait_for_a_heartbeat_in_flight() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.script(None)
            await asyncio.sleep(INTERVAL - 0.5)
            it.member.set_topics([])
            await asyncio.sleep(0.5)
            assert it.beats[-1].member_epoch == -1
            assert it.member.outside

    run(program())


def test_a_member_that_subscribes_again_while_it_revokes_stays() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.owner.takes[ChangeKind.REVOKE] = 1.0
            it.member.set_topics([])
            await asyncio.sleep(0.5)
            await it.subscribe("t", "u")
            await asyncio.sleep(1)
            assert it.owner.kinds == ["ASSIGN", "REVOKE", "ASSIGN"]
            assert it.owner.owned == set(ALL)
            assert all(beat.member_epoch >= 0 for beat in it.beats)

    run(program())


def test_what_is_withdrawn_from_a_member_that_leaves_is_not_taken_back_when_it_stays() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.owner.takes[ChangeKind.REVOKE] = 3 * INTERVAL
            it.member.set_topics([])
            await asyncio.sleep(0.5)
            it.group.assign("t", 1)
            await asyncio.sleep(INTERVAL)
            await it.subscribe("t")
            await asyncio.sleep(3 * INTERVAL)
            assert it.owner.changes[1:] == [("REVOKE", ALL), ("ASSIGN", [SECOND])]
            assert it.group.reported == {(topic_id("t"), 1)}

    run(program())


@pytest.mark.parametrize(
    ("instance", "how", "epochs"),
    [
        (None, "default", [-1]),
        (None, "leave", [-1]),
        (None, "remain", []),
        ("i", "default", [-2]),
        ("i", "leave", [-1]),
        ("i", "remain", [-2]),
    ],
)
def test_closing_leaves_as_asked(instance: str | None, how: Any, epochs: list[int]) -> None:
    async def program() -> None:
        async with harness(group_instance_id=instance) as it:
            await it.subscribe("t")
            it.task.cancel()
            await asyncio.wait([it.task])
            await it.member.leave("closing", 1.0, how)
            assert [beat.member_epoch for beat in it.beats if beat.member_epoch < 0] == epochs
            assert it.member.owned == set()

    run(program())


# ---- patterns


def test_a_pattern_is_sent_and_withdrawn() -> None:
    async def program() -> None:
        async with harness() as it:
            it.member.set_topics([], "t.*")
            await asyncio.sleep(1)
            assert (it.beats[0].subscribed_topic_names, it.beats[0].subscribed_topic_regex) == ([], "t.*")
            await it.subscribe("t")
            changed = [beat for beat in it.beats if beat.subscribed_topic_regex is not None]
            assert [beat.subscribed_topic_regex for beat in changed] == ["t.*", ""]

    run(program())


def test_a_coordinator_that_cannot_match_patterns_ends_the_member() -> None:
    async def program() -> None:
        async with harness() as it:
            it.cluster.newest = 0
            it.member.set_topics([], "t.*")
            with pytest.raises(UnsupportedVersionError, match=r"'t\.\*'"):
                await it.task

    run(program())


@pytest.mark.parametrize("code", [ErrorCode.INVALID_REGULAR_EXPRESSION, ErrorCode.UNSUPPORTED_ASSIGNOR])
def test_a_refused_subscription_ends_the_member(code: ErrorCode) -> None:
    async def program() -> None:
        async with harness() as it:
            it.script(code)
            it.member.set_topics([], "t.*")
            with pytest.raises(KafkaError, match=code.name):
                await it.task

    run(program())
