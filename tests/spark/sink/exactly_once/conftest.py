"""Which of these tests run when: each of them runs on the embedded broker and on real Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

ON_KAFKA_IN_EVERY_RUN = {
    "test_ids_are_used_again_and_a_shrinking_query_keeps_them[kafka-v2]",
    "test_the_later_one_of_two_drivers_with_one_prefix_commits[kafka-v2]",
    "test_what_was_decided_is_committed_by_the_next_run[kafka-v1-1]",
}
"""Both versions of transactions, fencing, and recovery; that the two brokers agree is what all the others show."""

EXTENDED = {"test_a_driver_killed_at_every_request[embedded-v1-False]"}
"""Every run has the one with version 2 and requests that are executed."""

THOROUGH = {
    f"test_a_driver_killed_at_every_request[{case}]"
    for case in ("embedded-v1-True", "embedded-v2-False", "kafka-v1-False", "kafka-v2-True")
}
"""The whole suite has the other broker for each version, and for requests that are executed or not."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = [item for item in items if Path(__file__).parent in item.path.parents]
    for item in here:
        if item.name in THOROUGH:
            item.add_marker(pytest.mark.thorough)
        elif item.name in EXTENDED or (item.get_closest_marker("kafka") and item.name not in ON_KAFKA_IN_EVERY_RUN):
            item.add_marker(pytest.mark.extended)
