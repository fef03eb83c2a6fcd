"""Transactions with brokers of old releases: what works, and errors that say what doesn't."""

from __future__ import annotations

import pytest

from aiokproto import Producer
from aiokproto.broker import Cluster
from aiokproto.codec.messages.produce import ProduceRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import (
    UnsupportedVersionError,
)
from aiokproto.simulation import Simulation
from aiokproto.types import GroupMetadata
from tests.simulation.one_producer import committed_offset, make, run, write


@pytest.mark.parametrize("release", ["0.10.2", "0.9"])
def test_brokers_without_transactions_are_named(release: str) -> None:
    async def main() -> None:
        async with Cluster(1, as_version=release) as cluster:
            with pytest.raises(UnsupportedVersionError, match=r"transactions need Kafka 0\.11 or later"):
                await make(cluster).start()

    Simulation(1).run(main())


def test_brokers_that_cannot_check_a_member_are_named() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        txn = await producer.transaction().__aenter__()
        await txn.send("t", b"v", partition=0)
        with pytest.raises(
            UnsupportedVersionError,
            match=r"member in a transaction need Kafka 2\.5 or later.*up to version 2, and is like Kafka 2\.4",
        ):
            await txn.send_offsets({("t", 0): 1}, GroupMetadata("g", 3, "member"))
        # The error has ended the producer, so another one aborts the open transaction.
        async with make(cluster):
            pass

    run(program, "2.4")


def test_brokers_before_2_5_commit_offsets_of_a_group_that_is_not_checked() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        async with producer.transaction() as txn:
            await txn.send("t", b"v", partition=0)
            await txn.send_offsets({("t", 0): 1}, "g")
        assert committed_offset(cluster) == 1

    run(program, "2.4")


def test_brokers_before_2_5_cannot_go_on_after_a_lost_record() -> None:
    async def program(cluster: Cluster, producer: Producer) -> None:
        with (
            cluster.faults.fail(ProduceRequest, ErrorCode.INVALID_RECORD),
            pytest.raises(UnsupportedVersionError, match=r"brokers before 2\.5 cannot continue"),
        ):
            await write_unawaited(producer)
        with pytest.raises(UnsupportedVersionError, match="create a new producer"):
            await write(producer, b"next")

    run(program, "2.4")


async def write_unawaited(producer: Producer) -> None:
    async with producer.transaction() as txn:
        await txn.post("t", b"refused", partition=0)
