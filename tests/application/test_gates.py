"""Every public method in every situation: what :mod:`aiokproto.application.gates` says of it is what it does."""

from __future__ import annotations

import asyncio
import copy
import os
import pickle
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from aiokproto import Client, Consumer, ExactlyOnce, Producer, ShareConsumer
from aiokproto.application.gates import (
    CLIENT,
    CONSUMER,
    EXACTLY_ONCE,
    PRODUCER,
    PROGRESS,
    SHARE_CONSUMER,
    TRANSACTION,
    Inside,
    Obstacle,
    Table,
    Use,
    gated,
    public_methods,
)
from aiokproto.broker import Broker
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.consumer import Progress
from aiokproto.errors import ClientClosedError, ConfigurationError, KafkaError
from aiokproto.producer import Transaction
from aiokproto.records import BatchRecord, encode

TABLES: dict[type, Table] = {
    Consumer: CONSUMER,
    Progress: PROGRESS,
    ShareConsumer: SHARE_CONSUMER,
    Producer: PRODUCER,
    Transaction: TRANSACTION,
    Client: CLIENT,
    ExactlyOnce: EXACTLY_ONCE,
}
P = ("t", 0)


async def _nothing(*_: object) -> None: ...


ARGUMENTS: dict[str, tuple[Any, ...]] = {
    **dict.fromkeys(("seek",), (P, 0)),
    **dict.fromkeys(("lag", "at_end", "log_state", "partition_state", "position"), (P,)),
    "seek_to_time": (0,),
    "records": (0,),
    "offsets_for_times": ({P: 0},),
    "partitions_for_topic": ("t",),
    "partitions_for": ("t",),
    "progress": ([],),
    "deserialize": (None,),
    "run": (_nothing,),
    "subscribe": ("t",),
    "complete_transaction": (None,),
    **dict.fromkeys(("send", "post", "try_post", "post_bytes"), ("t", b"x")),
    **dict.fromkeys(("send_many", "post_many"), ("t", [b"x"])),
    **dict.fromkeys(("send_batch", "post_batch"), ("t", encode([BatchRecord(0, 0, None, b"x")]))),
    "send_offsets": ({},),
    "request": (MetadataRequest(topics=None),),
    "versions": (0,),
    "version": (MetadataRequest, 0),
}
NAMED: dict[str, dict[str, Any]] = {name: {"partition": 0} for name in ("send_batch", "post_batch")}
REFUSED = (KafkaError, RuntimeError, AttributeError, AssertionError)
"""Also what arguments that make no sense raise where nothing refuses the call."""
LAST = ("start", "abort", "stop", "close")
"""What would change the situation."""

TEXTS = {
    Obstacle.OTHER_PROCESS: "started in another process",
    Obstacle.OTHER_THREAD: "which this thread does not run",
    Obstacle.OTHER_LOOP: "started in another event loop: use it in that one",
    Obstacle.NOT_STARTED: "is not started",
    Obstacle.CLOSING: "is closed",
    Obstacle.CLOSED: "is closed",
    Obstacle.FAILED: "task was cancelled|cut off",
}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickle.dumps])
@pytest.mark.parametrize("kind", [Client, Producer, Consumer, ShareConsumer])
def test_a_client_is_neither_copied_nor_pickled(kind: Any, copied: Callable[[object], object]) -> None:
    options: dict[str, Any] = {"group_id": "g"} if kind is ShareConsumer else {}
    client = kind(bootstrap_servers="localhost:1", **options)
    with pytest.raises(TypeError, match=f"{kind.__name__} cannot be copied or pickled"):
        copied(client)


def text_of(use: Use, obstacle: Obstacle) -> str:
    return TEXTS.get(obstacle) or re.escape(use.instead[obstacle])


def use_of(row: Use | Inside) -> Use:
    return row.use if isinstance(row, Inside) else row


def methods(cls: type) -> list[str]:
    return sorted(TABLES[cls], key=lambda name: (LAST.index(name) if name in LAST else -1, name))


def called(target: Any, name: str) -> Any:
    """Call a method; of an iterator the first item is taken."""
    made = getattr(target, name)(*ARGUMENTS.get(name, ()), **NAMED.get(name, {}))
    return made.__anext__() if hasattr(made, "__anext__") and name != "batches" else made


def begun(target: Any, name: str) -> None:
    """As :func:`called`, where no event loop runs: the first step of a coroutine."""
    result = called(target, name)
    if hasattr(result, "__anext__"):
        result = result.__anext__()
    if isinstance(result, Coroutine):
        try:
            result.send(None)
        except StopIteration:
            pass
        finally:
            result.close()


async def outcome(target: Any, name: str) -> str:
    """The text of the error that a call raises at once; empty if it raises none."""
    try:
        result = called(target, name)
        if hasattr(result, "__anext__"):
            result = result.__anext__()
        if hasattr(result, "__await__"):
            await _at_once(result)
    except REFUSED as error:
        return f"{error}"
    return ""


async def _at_once(call: Awaitable[Any]) -> None:
    async def wait() -> None:
        await call

    task = asyncio.create_task(wait())
    # Two turns: a method that makes an iterator, and then the iterator.
    for _ in range(2):
        await asyncio.sleep(0)
    if task.done():
        await task
        return
    task.cancel()
    await asyncio.wait([task])


async def check(target: Any, cls: type, obstacle: Obstacle) -> None:
    """Each method raises what the table says of the situation, or nothing of it."""
    wrong = []
    for name in methods(cls):
        use = use_of(TABLES[cls][name])
        text = await outcome(target, name)
        wrong += _judged(cls, name, use, obstacle, text)
    assert not wrong, "\n".join(wrong)


def _judged(cls: type, name: str, use: Use, obstacle: Obstacle, text: str) -> list[str]:
    if obstacle in use.obstacles:
        right = re.search(text_of(use, obstacle), text)
        return [] if right else [f"{cls.__name__}.{name}, {obstacle.name}: {text!r} is not what refuses it"]
    own = TEXTS.get(obstacle)
    if own is not None and re.search(own, text):
        return [f"{cls.__name__}.{name}, {obstacle.name}: refused, which the table does not say: {text}"]
    return []


# -- the situations


@asynccontextmanager
async def broker() -> AsyncIterator[str]:
    async with Broker() as running:
        await running.create_topic("t", partitions=1)
        yield running.bootstrap_servers


def made(cls: type, servers: str, **more: Any) -> Any:
    """A client, not started; of a transaction the producer, of a session its consumer too."""
    if cls is Client:
        return Client(bootstrap_servers=servers)
    if cls in (Producer, Transaction):
        own = {} if cls is Producer else {"transactional_id": "a"}
        return Producer(bootstrap_servers=servers, **own)  # type: ignore[arg-type]
    if cls is ShareConsumer:
        return ShareConsumer("t", bootstrap_servers=servers, group_id="s")
    return Consumer(
        "t",
        bootstrap_servers=servers,
        group_id="g",
        enable_auto_commit=False,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        **more,
    )


def target_of(cls: type, client: Any, servers: str) -> Any:
    """What has the methods."""
    if cls is Transaction:
        return client.transaction()
    if cls is ExactlyOnce:
        return ExactlyOnce(client, Producer(bootstrap_servers=servers, transactional_id="a"))
    return client


CLIENTS = [Consumer, ShareConsumer, Producer, Transaction, Client, ExactlyOnce]
named = pytest.mark.parametrize("cls", CLIENTS, ids=lambda cls: cls.__name__)


@named
async def test_before_the_start(cls: type) -> None:
    servers = "127.0.0.1:1"
    client = made(cls, servers)
    await check(target_of(cls, client, servers), cls, Obstacle.NOT_STARTED)
    await client.close()


@named
async def test_after_the_end(cls: type) -> None:
    async with broker() as servers:
        client = made(cls, servers)
        target = target_of(cls, client, servers)
        async with client:
            pass
        await check(target, cls, Obstacle.CLOSED)


@named
async def test_after_a_failure(cls: type) -> None:
    async with broker() as servers:
        client = made(cls, servers)
        await client.start()
        target = target_of(cls, client, servers)
        cut = ClientClosedError("it was cut off")
        if cls is Client:
            client._cluster.fail(cut)
        elif isinstance(client, Producer):
            assert client._sender is not None
            client._sender.fail(cut)
        else:
            client._engine._tasks["metadata"].cancel()
        for _ in range(3):
            await asyncio.sleep(0)
        try:
            await check(target, cls, Obstacle.FAILED)
        finally:
            await client.close()


@named
async def test_elsewhere(cls: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """In another thread with and without an event loop, and in a process that was forked."""
    async with broker() as servers, AsyncExitStack() as stack:
        client = await stack.enter_async_context(made(cls, servers))
        target = target_of(cls, client, servers)
        await _elsewhere(lambda: asyncio.run(check(target, cls, Obstacle.OTHER_LOOP)))
        await _elsewhere(lambda: _check_begun(target, cls, Obstacle.OTHER_THREAD))
        with monkeypatch.context() as forked:
            own = os.getpid()
            forked.setattr(os, "getpid", lambda: own + 1)
            await _elsewhere(lambda: _check_begun(target, cls, Obstacle.OTHER_PROCESS))


async def _elsewhere(work: Callable[[], None]) -> None:
    with ThreadPoolExecutor(1) as threads:
        await asyncio.get_running_loop().run_in_executor(threads, work)


def _check_begun(target: Any, cls: type, obstacle: Obstacle) -> None:
    wrong = []
    for name in methods(cls):
        use, text = use_of(TABLES[cls][name]), ""
        # The others have an effect, or need an event loop.
        if obstacle in use.obstacles:
            try:
                begun(target, name)
            except REFUSED as error:
                text = str(error)
            wrong += _judged(cls, name, use, obstacle, text)
    assert not wrong, "\n".join(wrong)


async def test_in_a_session() -> None:
    async with broker() as servers:
        async with Producer(bootstrap_servers=servers) as source:
            await source.send_many("t", [b"a", b"b"])
        consumer, producer = made(Consumer, servers), made(Transaction, servers)
        early = aiter(consumer)
        async with ExactlyOnce(consumer, producer) as session:
            async for _, txn in session.batches(1):
                # What an iterator of before would take.
                with pytest.raises(Exception, match="an ExactlyOnce reads this consumer"):
                    await anext(early)
                progress = consumer.progress([])
                await check(progress, Progress, Obstacle.SESSION)
                wrong: list[str] = []
                for target, cls in ((consumer, Consumer), (producer, Producer), (txn, Transaction)):
                    for name in methods(cls):
                        use = use_of(TABLES[cls][name])
                        if Obstacle.SESSION in use.obstacles:
                            wrong += _judged(cls, name, use, Obstacle.SESSION, await outcome(target, name))
                assert not wrong, "\n".join(wrong)
                # Reads are allowed.
                assert consumer.positions()
                assert consumer.lags()
                assert consumer.stats().records_delivered
                session.stop()


async def test_a_consumer_that_is_read_already_gets_no_session() -> None:
    """Of run(), or of another session: each would take what the other commits."""
    async with broker() as servers:
        consumer = made(Consumer, servers)
        other = Producer(bootstrap_servers=servers, transactional_id="b")
        async with consumer:
            running = asyncio.create_task(consumer.run(_nothing))
            while consumer.run_status() is None:
                await asyncio.sleep(0)
            await asyncio.sleep(0)
            with pytest.raises(ConfigurationError, match="run\\(\\) or another session reads"):
                ExactlyOnce(consumer, other)
            consumer.stop_run()
            await running
            ExactlyOnce(consumer, other)
            third = Producer(bootstrap_servers=servers, transactional_id="c")
            with pytest.raises(ConfigurationError, match="run\\(\\) or another session reads"):
                ExactlyOnce(consumer, third)
            with pytest.raises(ConfigurationError, match="another session writes with this producer"):
                ExactlyOnce(made(Consumer, servers), other)


async def test_in_run() -> None:
    async with broker() as servers:
        async with Producer(bootstrap_servers=servers) as source:
            await source.send("t", b"a")
        for cls in (Consumer, ShareConsumer):
            async with made(cls, servers) as client:
                early = aiter(client)
                entered = asyncio.Event()

                async def handle(_: object, entered: asyncio.Event = entered) -> None:
                    entered.set()
                    await asyncio.Event().wait()

                running = asyncio.create_task(client.run(handle, drain_timeout_ms=0))
                if cls is Consumer:
                    await entered.wait()
                else:
                    await asyncio.sleep(0)
                # In a task: without the gate it would wait for a record.
                with pytest.raises(RuntimeError, match=r"run\(\) reads the records"):
                    await _at_once(anext(early))
                wrong: list[str] = []
                for name in methods(cls):
                    use = use_of(TABLES[cls][name])
                    if Obstacle.RUN in use.obstacles:
                        wrong += _judged(cls, name, use, Obstacle.RUN, await outcome(client, name))
                assert not wrong, "\n".join(wrong)
                client.stop_run()
                running.cancel()
                await asyncio.wait([running])


async def test_in_a_rebalance_callback_and_while_closing() -> None:
    found: Mapping[str, list[str]] = {"assigned": [], "revoked": []}

    async def look(when: str, obstacle: Obstacle) -> None:
        for name in methods(Consumer):
            use = use_of(CONSUMER[name])
            if obstacle in use.obstacles:
                found[when].extend(_judged(Consumer, name, use, obstacle, await outcome(consumer, name)))

    async def on_assigned(_: object) -> None:
        await look("assigned", Obstacle.CALLBACK)
        called_back.set()

    async def on_revoked(_: object) -> None:
        await look("revoked", Obstacle.CLOSING)

    called_back = asyncio.Event()
    async with broker() as servers:
        consumer = made(Consumer, servers)
        consumer.subscribe("t", on_assigned=on_assigned, on_revoked=on_revoked)
        async with consumer:
            await called_back.wait()
    assert not found["assigned"] + found["revoked"]


# -- the tables


@pytest.mark.parametrize("cls", TABLES, ids=lambda cls: cls.__name__)
def test_a_table_has_each_public_method_and_no_other(cls: type) -> None:
    assert public_methods(cls) == TABLES[cls].keys()


def test_a_class_with_a_method_that_its_table_lacks_is_refused() -> None:
    with pytest.raises(TypeError, match=r"Sample: aiokproto.application.gates says nothing of late"):

        @gated({"early": CONSUMER["seek"]})
        class Sample:
            def early(self) -> None: ...

            def late(self) -> None: ...


@pytest.mark.parametrize("cls", TABLES, ids=lambda cls: cls.__name__)
def test_a_use_says_what_to_do_instead(cls: type) -> None:
    """Of all but the life of the client and the place, which have texts of their own."""
    for name, row in TABLES[cls].items():
        use = use_of(row)
        assert use.instead.keys() == use.obstacles - TEXTS.keys(), name
