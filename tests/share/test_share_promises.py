"""What the share consumer promises in all cases: one outcome for each acknowledgement, and no wasted delivery."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from aiokproto.broker.control.request_info import RequestInfo, Serve
from aiokproto.codec.messages.share_acknowledge import ShareAcknowledgeRequest
from aiokproto.codec.messages.share_fetch import ShareFetchRequest
from aiokproto.codec.schema import Response
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import AuthorizationError, ConfigurationError
from aiokproto.fetched.chunk import Chunk, chunks
from aiokproto.fetched.time_slice import TimeSlice
from aiokproto.records import BatchRecord, encode
from aiokproto.share import AcknowledgeOutcome, ShareRecord
from tests.share.test_share_faults import broker, consumer, fill, of, read
from tests.timeouts import LONG_TIMEOUT

EXPLICIT = {"acknowledgement_mode": "explicit"}


def changed(change: Callable[[Any], None]) -> Callable[[RequestInfo, Serve], Any]:
    """An interception that changes each response."""

    async def intercept(call: RequestInfo, serve: Serve) -> Response | None:
        response: Any = await serve(call.request)
        if response is not None:
            change(response)
        return response  # type: ignore[no-any-return]

    return intercept


def offsets(outcomes: list[AcknowledgeOutcome]) -> list[int]:
    return sorted(offset for each in outcomes for offset in range(each.first_offset, each.last_offset + 1))


async def test_a_refusal_that_ends_the_consumer_leaves_no_acknowledgement_without_an_outcome() -> None:
    outcomes: list[AcknowledgeOutcome] = []

    def refuse(response: Any) -> None:
        response.responses[0].partitions[0].error_code = ErrorCode.GROUP_AUTHORIZATION_FAILED

    async with broker(3) as cluster:
        async with consumer(cluster, on_acknowledged=outcomes.extend, **EXPLICIT) as jobs:
            records = await read(jobs, 3)
            with cluster.faults.intercept(ShareAcknowledgeRequest, changed(refuse)):
                jobs.accept(records)
                assert offsets(await jobs.commit()) == [0, 1, 2]
                with pytest.raises(AuthorizationError):
                    await jobs.poll(0)
        assert offsets(outcomes) == [0, 1, 2]
        assert not any(each.ok for each in outcomes)


async def test_closing_amid_a_long_response_leaves_no_acknowledgement_without_an_outcome(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcomes: list[AcknowledgeOutcome] = []
    amid = asyncio.Event()

    class Endless(TimeSlice):
        async def pause(self) -> None:
            amid.set()
            await asyncio.Event().wait()

    def split(response: Any) -> None:
        # Another partition's result comes first.
        response.responses[0].partitions.insert(0, type(response.responses[0].partitions[0])(partition_index=7))

    async with broker(2) as cluster:
        jobs = consumer(cluster, on_acknowledged=outcomes.extend, **EXPLICIT)
        await jobs.start()
        records = await read(jobs, 2)
        with cluster.faults.intercept(ShareFetchRequest, changed(split)):
            jobs.accept(records)
            fill(cluster, 1)
            waiting = asyncio.ensure_future(jobs.poll(LONG_TIMEOUT * 1000))
            monkeypatch.setattr("aiokproto.share.broker_session.TimeSlice", Endless)
            await asyncio.wait_for(amid.wait(), LONG_TIMEOUT)
            await jobs.close(500)
            await asyncio.wait([waiting])
            waiting.exception()
        assert offsets(outcomes) == [0, 1]


@pytest.mark.parametrize("decision", ["skip", "renew", "gap", None])
async def test_an_unknown_decision_of_the_policy_ends_the_run(decision: Any) -> None:
    async def handle(record: ShareRecord) -> None:
        raise ValueError

    async with broker(1) as cluster, consumer(cluster) as jobs:
        with pytest.raises(ConfigurationError, match="on_error"):
            await asyncio.wait_for(jobs.run(handle, on_error=lambda record, error: decision), LONG_TIMEOUT)
        assert of(await read(jobs, 1)) == [(0, 2)], "it was released"


async def test_a_handler_cannot_close_the_consumer() -> None:
    async def handle(record: ShareRecord) -> None:
        with pytest.raises(RuntimeError, match="would wait for the handler"):
            await jobs.close()
        done.set()

    done = asyncio.Event()
    async with broker(1) as cluster, consumer(cluster) as jobs:
        running = asyncio.ensure_future(jobs.run(handle))
        await asyncio.wait_for(done.wait(), LONG_TIMEOUT)
        running.cancel()
        await asyncio.wait([running])


async def test_many_small_batches_are_cut_when_they_are_delivered(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not when they arrive: that would block the event loop for as long as there are batches."""
    cut = 0

    def counted(*args: Any, **options: Any) -> Iterator[Chunk]:
        nonlocal cut
        for chunk in chunks(*args, **options):
            cut += 1
            yield chunk

    monkeypatch.setattr("aiokproto.share.buffer.chunks", counted)
    async with broker() as cluster:
        partition = cluster._running.state.partition("t", 0)
        one = encode([BatchRecord(0, 0, None, b"")])
        for _ in range(600):
            partition.append(one, 0)
        async with consumer(cluster, max_poll_records=600, **EXPLICIT) as jobs:
            (first,) = await read(jobs, 1)
            assert cut == 1
            rest = [first]
            while len(rest) < 600:
                rest += await jobs.poll(LONG_TIMEOUT * 1000)
            assert [record.offset for record in rest] == list(range(600))
            assert cut == 3
