"""Permanent topics that do not exist are requested for a while, and as long as the client needs them."""

from __future__ import annotations

from math import inf

from aiokproto.cluster.tracked_topics import TrackedTopics


def test_a_permanent_topic_never_expires_while_it_exists() -> None:
    tracked = TrackedTopics(10, lambda topic: -inf)
    tracked.add(["t"], True, 0)
    assert tracked.expire_idle(1000) == []


def test_a_permanent_topic_that_does_not_exist_expires_once() -> None:
    tracked = TrackedTopics(10, lambda topic: -inf)
    tracked.add(["t"], True, 0)
    tracked.lost(["t"], 100)
    assert tracked.expire_idle(109) == []
    assert tracked.expire_idle(110) == ["t"]
    assert tracked.expire_idle(1000) == []


def test_a_permanent_topic_that_is_found_again_is_permanent_again() -> None:
    tracked = TrackedTopics(10, lambda topic: -inf)
    tracked.add(["t"], True, 0)
    tracked.lost(["t"], 100)
    tracked.found("t")
    assert tracked.expire_idle(1000) == []


def test_a_topic_that_does_not_exist_stays_while_it_is_requested_or_needed() -> None:
    needed = {"needed"}
    tracked = TrackedTopics(10, lambda topic: inf if topic in needed else -inf)
    tracked.add(["needed", "requested"], True, 0)
    tracked.lost(["needed", "requested"], 100)
    tracked.add(["requested"], True, 109)
    assert tracked.expire_idle(110) == []
    assert tracked.expire_idle(119) == ["requested"]
    needed.clear()
    assert tracked.expire_idle(120) == ["needed"]
