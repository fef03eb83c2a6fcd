"""Commits: which offsets are sent, in which generation, and what an error means."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto.codec.messages.heartbeat import HeartbeatRequest
from aiokproto.codec.messages.join_group import JoinGroupRequest
from aiokproto.codec.messages.offset_commit import OffsetCommitRequest, OffsetCommitResponse
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AuthorizationError, CommitError, DeadlineError, FencedError, UnknownTopicError
from aiokproto.types import OffsetAndMetadata
from tests.group.fake import committed, partitions, run
from tests.group.test_rebalance import ALL, Harness, harness

FIRST, SECOND = ALL
OFFSETS = {FIRST: OffsetAndMetadata(1), SECOND: OffsetAndMetadata(2)}


def sent(it: Harness) -> list[tuple[int, str, list[int]]]:
    """Generation, member and partitions of each commit."""
    return [
        (
            request.generation_id_or_member_epoch,
            request.member_id,
            [entry.partition_index for topic in request.topics for entry in topic.partitions],
        )
        for request in it.cluster.sent(OffsetCommitRequest)
    ]


def test_a_commit_goes_as_the_member_in_its_generation() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            assert not await it.member.commit(OFFSETS, 5.0)
            assert sent(it) == [(1, "member-1", [0, 1])]

    run(program())


def test_a_commit_leaves_out_partitions_that_are_not_owned() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            (other,) = partitions("u", 0)
            failures = await it.member.commit({FIRST: OffsetAndMetadata(1), other: OffsetAndMetadata(1)}, 5.0)
            assert isinstance(failures.pop(other), CommitError)
            assert not failures
            assert sent(it) == [(1, "member-1", [0])]

    run(program())


@pytest.mark.parametrize(
    ("code", "losses"), [(ErrorCode.UNKNOWN_MEMBER_ID, 1), (ErrorCode.ILLEGAL_GENERATION, 1)], ids=str
)
def test_a_rejected_commit_reveals_that_the_member_was_removed(code: ErrorCode, losses: int) -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.cluster.next[OffsetCommitRequest] = [code]
            failures = await it.member.commit(OFFSETS, 5.0)
            assert {partition: type(error) for partition, error in failures.items()} == dict.fromkeys(ALL, CommitError)
            assert it.owner.losses == losses
            await asyncio.sleep(1)
            assert it.owner.kinds[1:] == ["ASSIGN", "LOST", "ASSIGN"]

    run(program())


def test_a_member_outside_of_a_generation_does_not_commit_without_its_member_id() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.owner.takes = dict.fromkeys(it.owner.takes, 0.0)
            it.cluster.next[HeartbeatRequest] = [ErrorCode.UNKNOWN_MEMBER_ID]
            it.cluster.next[JoinGroupRequest] = [None]
            refused: list[str] = []
            lost = it.owner.lost

            def on_lost() -> None:
                lost()
                commit = asyncio.ensure_future(it.member.commit(OFFSETS, 5.0))
                commit.add_done_callback(lambda task: refused.append(str(task.result()[FIRST])))

            it.owner.lost = on_lost  # type: ignore[method-assign]
            await asyncio.sleep(4)
            assert len(refused) == 1
            assert "not" in refused[0]
            assert sent(it) == []

    run(program())


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_refused_commit_is_not_repeated_for_partitions_that_others_may_have_owned_since(strategy: str) -> None:
    async def program() -> None:
        async with harness(strategy) as it:
            await it.subscribe("t")

            async def late(request: OffsetCommitRequest) -> OffsetCommitResponse:
                await asyncio.sleep(10)
                return committed(request, ErrorCode.UNKNOWN_MEMBER_ID)

            it.cluster.next[OffsetCommitRequest] = [late]
            committing = asyncio.create_task(it.member.commit(OFFSETS, 30.0))
            await asyncio.sleep(1)
            it.group.remove()
            failures = await committing
            assert it.owner.kinds[1:] == ["ASSIGN", "LOST", "ASSIGN"]
            assert {type(failures[each]) for each in OFFSETS} == {CommitError}
            assert len(sent(it)) == 1
            assert not await it.member.commit(OFFSETS, 5.0)

    run(program())


def test_a_refused_commit_is_not_repeated_after_an_eager_member_was_removed_while_it_joined() -> None:
    async def program() -> None:
        async with harness("range") as it:
            await it.subscribe("t")

            async def late(request: OffsetCommitRequest) -> OffsetCommitResponse:
                await asyncio.sleep(10)
                return committed(request, ErrorCode.ILLEGAL_GENERATION)

            it.cluster.next[OffsetCommitRequest] = [late]
            committing = asyncio.create_task(it.member.commit(OFFSETS, 30.0))
            it.cluster.next[JoinGroupRequest] = [ErrorCode.UNKNOWN_MEMBER_ID]
            it.group.rebalancing = True
            failures = await committing
            assert it.owner.kinds[1:] == ["ASSIGN", "REVOKE", "ASSIGN"]
            assert {type(failures[each]) for each in OFFSETS} == {CommitError}
            assert len(sent(it)) == 1

    run(program())


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_commit_during_a_rebalance_is_repeated_in_the_next_generation(strategy: str) -> None:
    async def program() -> None:
        async with harness(strategy) as it:
            await it.subscribe("t")
            it.cluster.next[OffsetCommitRequest] = [ErrorCode.REBALANCE_IN_PROGRESS]
            assert not await it.member.commit(OFFSETS, 5.0)
            assert sent(it) == [(1, "member-1", [0, 1]), (2, "member-1", [0, 1])]

    run(program())


def test_a_rejected_commit_of_an_earlier_generation_does_not_end_the_current_one() -> None:
    async def program() -> None:
        async with harness("cooperative-sticky") as it:
            await it.subscribe("t")

            async def late(request: OffsetCommitRequest) -> OffsetCommitResponse:
                it.group.rebalancing = True
                await asyncio.sleep(5)
                return committed(request, ErrorCode.ILLEGAL_GENERATION)

            it.cluster.next[OffsetCommitRequest] = [late]
            assert not await it.member.commit(OFFSETS, 10.0)
            assert [generation for generation, *_ in sent(it)] == [1, 2]
            assert it.owner.losses == 0

    run(program())


def test_a_commit_waits_for_a_rebalance_until_its_deadline() -> None:
    async def program() -> None:
        async with harness("cooperative-sticky") as it:
            await it.subscribe("t")
            it.cluster.next[OffsetCommitRequest] = [ErrorCode.REBALANCE_IN_PROGRESS] * 100
            it.cluster.next[JoinGroupRequest] = [None]
            began = asyncio.get_running_loop().time()
            with pytest.raises(DeadlineError, match="rebalance did not end"):
                await it.member.commit(OFFSETS, 5.0)
            assert asyncio.get_running_loop().time() - began == pytest.approx(5.0, abs=0.1)
            assert len(sent(it)) < 20

    run(program())


def test_a_commit_does_not_wait_for_a_join() -> None:
    """While the coordinator waits for other members to join, it takes commits of the last generation."""

    async def program() -> None:
        async with harness("cooperative-sticky") as it:
            await it.subscribe("t")
            it.cluster.next[OffsetCommitRequest] = [ErrorCode.REBALANCE_IN_PROGRESS]
            it.cluster.next[JoinGroupRequest] = [None]
            began = asyncio.get_running_loop().time()
            assert await it.member.commit(OFFSETS, 5.0) == {}
            assert asyncio.get_running_loop().time() - began < 1
            assert [generation for generation, _, _ in sent(it)] == [1, 1]

    run(program())


def test_a_commit_that_may_not_wait_for_a_rebalance_is_refused_at_once() -> None:
    async def program() -> None:
        async with harness("cooperative-sticky") as it:
            await it.subscribe("t")
            it.cluster.next[OffsetCommitRequest] = [ErrorCode.REBALANCE_IN_PROGRESS]
            failures = await it.member.commit(OFFSETS, 5.0, blocked="a rebalance waits for the callback that commits")
            assert failures.keys() == OFFSETS.keys()
            assert "waits for the callback" in str(failures[FIRST])
            assert len(sent(it)) == 1

    run(program())


def test_the_error_of_one_partition_is_returned_and_the_others_are_committed() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.cluster.next[OffsetCommitRequest] = [
                lambda request: committed(request, ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.NONE)
            ]
            failures = await it.member.commit(OFFSETS, 5.0)
            assert isinstance(failures.pop(FIRST), AuthorizationError)
            assert not failures
            assert len(sent(it)) == 1
            assert not it.task.done()

    run(program())


def test_a_deleted_topic_is_an_error_and_the_other_topics_are_committed() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.cluster.next[OffsetCommitRequest] = [ErrorCode.UNKNOWN_TOPIC_ID] * 100
            committing = asyncio.create_task(it.member.commit(OFFSETS, 60.0))
            await asyncio.sleep(1)
            assert not committing.done(), "the coordinator may not have heard of the topic yet"
            assert it.cluster.invalidated
            it.cluster.snapshot = it.cluster.snapshot.without({"t"})
            failures = await asyncio.wait_for(committing, 5)
            assert {type(error) for error in failures.values()} == {UnknownTopicError}

    run(program())


def test_a_partition_missing_from_the_response_is_committed_again() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.cluster.next[OffsetCommitRequest] = [lambda request: OffsetCommitResponse(topics=[])]
            assert await it.member.commit(OFFSETS, 5.0) == {}
            assert len([each for each in it.cluster.requests if isinstance(each, OffsetCommitRequest)]) == 2

    run(program())


def test_a_fenced_commit_ends_the_member() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.cluster.next[OffsetCommitRequest] = [ErrorCode.FENCED_INSTANCE_ID]
            with pytest.raises(FencedError):
                await it.member.commit(OFFSETS, 5.0)
            with pytest.raises(FencedError):
                await asyncio.wait_for(it.task, 1)

    run(program())


def test_commits_are_sent_one_at_a_time_and_end_at_their_deadline() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.cluster.next[OffsetCommitRequest] = [None]
            first: Any = asyncio.create_task(it.member.commit(OFFSETS, 60.0))
            await asyncio.sleep(0.1)
            with pytest.raises(DeadlineError, match="another commit"):
                await it.member.commit(OFFSETS, 1.0)
            await first
            assert len(sent(it)) == 2

    run(program())


def test_a_commit_outside_of_the_group_has_no_member_id() -> None:
    async def program() -> None:
        async with harness() as it:
            it.cluster.next[OffsetCommitRequest] = [lambda request: committed(request, 0)]
            await it.member.commit_from_outside(OFFSETS, 5.0)
            assert sent(it) == [(-1, "", [0, 1])]
            with pytest.raises(Exception, match="UNKNOWN_MEMBER_ID"):
                await it.member.commit_from_outside(OFFSETS, 5.0)

    run(program())
