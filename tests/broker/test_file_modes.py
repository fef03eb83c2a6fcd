"""Only the user of the broker can open its data directory, and what is in it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aiokproto import Consumer, Producer
from aiokproto.broker import Broker

pytestmark = pytest.mark.skipif(os.name != "posix", reason="Windows has no modes")


@pytest.fixture(autouse=True)
def _the_usual_umask() -> Iterator[None]:
    before = os.umask(0o022)
    yield
    os.umask(before)


def modes(folder: Path) -> dict[str, int]:
    """Return the modes of a folder and of everything in it."""
    return {str(path.relative_to(folder)): path.stat().st_mode & 0o777 for path in (folder, *folder.rglob("*"))}


async def work(broker: Broker) -> None:
    """Make the broker write every kind of file: full segments, indexes, transactions, offsets, compaction."""
    small: dict[str, Any] = {"segment.bytes": 200, "index.interval.bytes": 0, "cleanup.policy": "compact"}
    await broker.create_topic("t", config=small)
    options: dict[str, Any] = {"bootstrap_servers": broker.bootstrap_servers}
    async with Producer(transactional_id="x", **options) as producer:
        for number in range(5):
            async with producer.transaction() as transaction:
                await transaction.send("t", b"%d" % number * 50, key=b"k")
        async with Consumer("t", group_id="g", auto_offset_reset="earliest", **options) as consumer:
            await anext(consumer)
            await consumer.commit()
        async with producer.transaction() as transaction:
            await transaction.send("t", b"aborted", key=b"k")
            await transaction.abort()
    await broker.compact("t")


def warned(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING]


async def test_a_data_directory_that_the_broker_makes_is_its_users_alone(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "above" / "data"
    for _ in range(2):
        async with Broker(data_dir=folder) as broker:
            if not await broker.topics():
                await work(broker)
    found = modes(folder)
    assert {Path(name).suffix for name in found} >= {".log", ".index", ".timeindex", ".txnindex", ".snapshot", ".jsonl"}
    others = {name: f"{mode:o}" for name, mode in found.items() if mode & 0o077}
    assert others == {}
    assert warned(caplog) == []


async def test_a_data_directory_that_others_can_read_is_used_with_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = tmp_path / "data"
    folder.mkdir(0o755)
    async with Broker(data_dir=folder) as broker:
        await broker.create_topic("t")
        async with Producer(bootstrap_servers=broker.bootstrap_servers) as producer:
            await producer.send("t", b"x")
    (line,) = warned(caplog)
    assert line.startswith(f"data_dir: other users of this machine have access to {folder}, as its mode is 0755: ")
    found = modes(folder)
    assert found.pop(".") == 0o755
    assert not any(mode & 0o077 for mode in found.values())
