"""Offsets of a member of a consumer group (KIP-848) against a coordinator in memory: commits, and committed ones."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from aiokproto.codec.messages.offset_commit import OffsetCommitRequest
from aiokproto.codec.messages.offset_fetch import OffsetFetchRequest, OffsetFetchResponse, OffsetFetchResponseGroup
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import CommitError, DeadlineError, UnsupportedVersionError
from aiokproto.group.changes import ChangeKind
from tests.group.epoch_fake import INTERVAL
from tests.group.fake import committed, partitions, run, topic_id
from tests.group.test_consumer_member import ALL, OFFSETS, Harness, harness

# ---- commits


def test_a_commit_that_races_an_epoch_is_repeated_in_the_new_one() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            epoch = it.group.epoch
            it.group.epoch += 2
            it.script(lambda request: it.group.answer(_in_epoch(request, epoch + 2)))
            assert not await it.member.commit(OFFSETS, 5.0)
            assert it.commits == [(epoch, [0, 1]), (epoch + 2, [0, 1])]
            assert it.owner.kinds == ["ASSIGN"]

    run(program())


def _in_epoch(request: Any, epoch: int) -> Any:
    request.member_epoch = epoch
    return request


@pytest.mark.parametrize("blocked", ["", "a callback runs"])
def test_a_commit_in_a_callback_catches_up_by_itself(blocked: str) -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.cluster.next[OffsetCommitRequest] = [ErrorCode.STALE_MEMBER_EPOCH]
            it.owner.takes[ChangeKind.REVOKE] = 30.0
            it.group.assign("t", 1)
            await asyncio.sleep(INTERVAL)
            assert not await it.member.commit(OFFSETS, 5.0, blocked=blocked)
            assert [found for _, found in it.commits] == [[0, 1], [0, 1]]

    run(program())


def test_a_refused_commit_is_not_repeated_for_partitions_that_others_may_have_owned_since() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")

            async def late(request: Any) -> Any:
                await asyncio.sleep(2 * INTERVAL)
                return committed(request, ErrorCode.UNKNOWN_MEMBER_ID)

            it.cluster.next[OffsetCommitRequest] = [late]
            committing = asyncio.create_task(it.member.commit(OFFSETS, 20.0))
            it.script(ErrorCode.FENCED_MEMBER_EPOCH)
            failures = await committing
            assert {type(failures[each]) for each in OFFSETS} == {CommitError}
            # The refusal of an earlier epoch does not end the current one.
            assert it.owner.kinds == ["ASSIGN", "LOST", "ASSIGN"]
            assert it.owner.owned == set(ALL)
            assert [epoch for epoch, _ in it.commits] == [it.group.epoch - 1]

    run(program())


def test_a_member_that_knows_a_newer_epoch_already_asks_for_none() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            before = len(it.beats)
            await it.member._member.catch_up(it.group.epoch - 1)
            assert len(it.beats) == before
            await it.member._member.catch_up(it.group.epoch)
            assert len(it.beats) == before + 1

    run(program())


@pytest.mark.parametrize("deadline", [0.5, 30.0], ids=["at its deadline", "cancelled"])
def test_a_commit_that_ends_while_it_catches_up_costs_no_partition(deadline: float) -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")

            async def late(request: Any) -> Any:
                answer = it.group.answer(request)
                await asyncio.sleep(1)
                return answer

            it.cluster.next[OffsetCommitRequest] = [ErrorCode.STALE_MEMBER_EPOCH]
            it.group.assign("t", 1, 2)
            it.script(late)
            committing = asyncio.create_task(it.member.commit(OFFSETS, deadline))
            await asyncio.sleep(0.6)
            committing.cancel()
            await asyncio.wait([committing])
            await asyncio.sleep(2 * INTERVAL)
            assert it.owner.changes[1:] == [("REVOKE", partitions("t", 0)), ("ASSIGN", partitions("t", 2))]
            assert it.group.reported == {(topic_id("t"), 1), (topic_id("t"), 2)}

    run(program())


def test_a_commit_that_learns_that_the_group_refuses_the_member_ends_the_member() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.cluster.next[OffsetCommitRequest] = [ErrorCode.STALE_MEMBER_EPOCH]
            it.script(UnsupportedVersionError("no such API any more"))
            with pytest.raises(UnsupportedVersionError):
                await it.member.commit(OFFSETS, 5.0)
            await asyncio.sleep(1)
            with pytest.raises(UnsupportedVersionError):
                await it.task

    run(program())


def test_a_commit_that_stays_stale_ends_at_its_deadline() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.cluster.next[OffsetCommitRequest] = [ErrorCode.STALE_MEMBER_EPOCH] * 200
            with pytest.raises(DeadlineError):
                await it.member.commit(OFFSETS, 3.0)
            assert len(it.commits) < 40

    run(program())


def test_a_commit_of_an_unknown_member_loses_its_partitions() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.group.remove()
            failures = await it.member.commit(OFFSETS, 5.0)
            assert failures.keys() == OFFSETS.keys()
            assert {type(error) for error in failures.values()} == {CommitError}
            await asyncio.sleep(1)
            assert it.owner.kinds == ["ASSIGN", "LOST", "ASSIGN"]

    run(program())


def test_a_member_that_has_not_joined_does_not_commit() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.owner.takes[ChangeKind.LOST] = 5.0
            it.script(ErrorCode.FENCED_MEMBER_EPOCH)
            await asyncio.sleep(INTERVAL)
            assert it.member.metadata.generation == -1
            failures = await it.member.commit(OFFSETS, 5.0)
            assert failures.keys() == OFFSETS.keys()
            assert all("not a member at the moment" in str(error) for error in failures.values())
            assert it.commits == []

    run(program())


# ---- committed offsets


def readers(it: Harness) -> list[tuple[str | None, int]]:
    """Who read committed offsets: member id and epoch."""
    return [
        (group.member_id, group.member_epoch) for each in it.cluster.sent(OffsetFetchRequest) for group in each.groups
    ]


def test_committed_offsets_are_read_as_the_member() -> None:
    async def program() -> None:
        async with harness() as it:
            found, failures = await it.member.committed(ALL, 5.0)
            assert (found, failures) == (dict.fromkeys(ALL), {})
            await it.subscribe("t")
            await it.member.committed(ALL, 5.0)
            # Brokers before 3.7 do not take it.
            it.cluster.newest = 8
            await it.member.committed(ALL, 5.0)
            assert readers(it) == [(None, -1), (it.group.member, it.group.epoch), (None, -1)]

    run(program())


@pytest.mark.parametrize("partly", [True, False])
def test_committed_offsets_of_some_partitions_are_read_beside_others_that_are_not_known_yet(partly: bool) -> None:
    async def program() -> None:
        async with harness() as it:

            def unstable(request: OffsetFetchRequest) -> OffsetFetchResponse:
                response: OffsetFetchResponse = it.group.answer(request)
                response.groups[0].topics[0].partitions[1].error_code = ErrorCode.UNSTABLE_OFFSET_COMMIT
                return response

            it.cluster.next[OffsetFetchRequest] = [unstable]
            found, failures = await it.member.committed(ALL, 5.0, partly=partly)
            assert len(readers(it)) == (1 if partly else 2)
            assert (list(found), list(failures)) == ((ALL[:1], ALL[1:]) if partly else (ALL, []))

    run(program())


def test_reading_committed_offsets_in_an_old_epoch_catches_up() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            epoch = it.group.epoch
            it.group.epoch += 2
            it.script(lambda request: it.group.answer(_in_epoch(request, epoch + 2)))
            assert (await it.member.committed(ALL, 5.0)).found == dict.fromkeys(ALL)
            assert readers(it) == [(it.group.member, epoch), (it.group.member, epoch + 2)]
            assert it.owner.kinds == ["ASSIGN"]

    run(program())


def test_reading_committed_offsets_that_stays_stale_ends_at_its_deadline() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            group = OffsetFetchResponseGroup(group_id="g", topics=[], error_code=ErrorCode.STALE_MEMBER_EPOCH)
            stale = OffsetFetchResponse(groups=[group])
            it.cluster.next[OffsetFetchRequest] = [lambda request: stale] * 200
            with pytest.raises(DeadlineError):
                await it.member.committed(ALL, 3.0)
            assert len(readers(it)) < 40

    run(program())


def test_reading_committed_offsets_reveals_that_the_member_was_removed() -> None:
    async def program() -> None:
        async with harness() as it:
            await it.subscribe("t")
            it.group.remove()
            assert (await it.member.committed(ALL, 5.0)).found == dict.fromkeys(ALL)
            await asyncio.sleep(0.1)
            assert it.owner.kinds == ["ASSIGN", "LOST", "ASSIGN"]

    run(program())
