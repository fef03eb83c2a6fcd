"""Options: each bad value is refused by name; nothing needs an event loop."""

from __future__ import annotations

from typing import Any

import pytest

from aiokproto.consumer import Consumer
from aiokproto.errors import ConfigurationError


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"auto_offset_reset": "first"}, "auto_offset_reset"),
        ({"isolation_level": "serializable"}, "isolation_level"),
        ({"enable_auto_commit": "yes"}, "enable_auto_commit"),
        ({"auto_commit_interval_ms": 0}, "auto_commit_interval_ms"),
        ({"heartbeat_interval_ms": 45_000}, "heartbeat_interval_ms"),
        ({"session_timeout_ms": -1}, "session_timeout_ms"),
        ({"group_id": ""}, "group_id"),
        ({"group_id": "g", "max_poll_interval_ms": 0}, "max_poll_interval_ms"),
        ({"max_poll_interval_ms": -1}, "max_poll_interval_ms"),
        ({"group_instance_id": "i"}, "group_id"),
        ({"partition_assignment_strategy": "fair"}, "partition_assignment_strategy"),
        ({"fetch_min_bytes": -1}, "fetch_min_bytes"),
        ({"fetch_max_bytes": 0}, "fetch_max_bytes"),
        ({"max_partition_fetch_bytes": 2**31}, "max_partition_fetch_bytes"),
        ({"fetch_max_wait_ms": "long"}, "fetch_max_wait_ms"),
        ({"fetch_buffer_bytes": 0}, "fetch_buffer_bytes"),
        ({"check_crcs": 1}, "check_crcs"),
        ({"client_rack": None}, "client_rack"),
        ({"bootstrap_server": "x"}, "did you mean 'bootstrap_servers'"),
    ],
)
def test_a_bad_option_is_named(options: dict[str, Any], named: str) -> None:
    options.setdefault("bootstrap_servers", "localhost")
    with pytest.raises(ConfigurationError, match=named):
        Consumer("topic", **options)


def test_topics_and_partitions_are_checked() -> None:
    with pytest.raises(ConfigurationError, match="topic name"):
        Consumer("", bootstrap_servers="localhost")
    consumer = Consumer(bootstrap_servers="localhost")
    with pytest.raises(ConfigurationError, match="topics or a pattern"):
        consumer.subscribe()
    with pytest.raises(ConfigurationError, match="topics or a pattern"):
        consumer.subscribe("a", pattern="b")
    with pytest.raises(ConfigurationError, match="not a partition"):
        consumer.assign(("a", -1))
    with pytest.raises(ConfigurationError, match="not assigned"):
        consumer.seek(("a", 0), 1)


def test_assigning_and_seeking_need_no_event_loop() -> None:
    consumer = Consumer(bootstrap_servers="localhost")
    consumer.assign(("a", 0), ("a", 1))
    consumer.seek(("a", 0), 5)
    consumer.pause(("a", 1))
    assert consumer.assignment() == {("a", 0), ("a", 1)}
    assert consumer.paused() == {("a", 1)}
