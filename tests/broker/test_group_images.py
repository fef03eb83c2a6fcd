"""The records of consumer, share and streams groups are written in an order that does not depend on hashes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from aiokproto.broker.groups.consumer import records as consumer_records
from aiokproto.broker.groups.share import records as share_records
from aiokproto.broker.groups.streams import records as streams_records
from tests.broker import consumer_harness, share_group_harness, streams_harness

MEMBERS = [f"member-{number}" for number in range(30)]


def consumer_group() -> Any:
    harness = consumer_harness.Harness()
    for member_id in reversed(MEMBERS):
        harness.join(consumer_harness.Client(member_id))
    return harness.group


def share_group() -> Any:
    harness = share_group_harness.Harness(a=2)
    for member_id in reversed(MEMBERS):
        harness.join(share_group_harness.Reader(member_id))
    return harness.group


def streams_group() -> Any:
    harness = streams_harness.Harness()
    for member_id in reversed(MEMBERS):
        harness.join(streams_harness.Thread(member_id))
    return harness.group


@pytest.mark.parametrize(
    ("make", "records"),
    [(consumer_group, consumer_records), (share_group, share_records), (streams_group, streams_records)],
    ids=["consumer", "share", "streams"],
)
def test_members_are_written_in_the_order_of_their_ids(make: Callable[[], Any], records: Any) -> None:
    """Hashes of strings differ between processes, and a simulation must repeat itself in each."""
    written: Iterable[tuple[bytes, bytes | None]] = records.changes(make(), {}, 0)
    keys = [records.KEYS.decode(key) for key, _ in written]
    members = [key.member_id for key in keys if hasattr(key, "member_id")]
    assert list(dict.fromkeys(members)) == sorted(MEMBERS)
