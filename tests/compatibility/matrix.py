"""What clients do on brokers of every age: each test is a row, and says from which release on it works.

On a release before that, the same test has to end in an UnsupportedVersionError that names the first release. So the
run proves each cell of the table in docs/compatibility.md, which :mod:`tests.compatibility.page` makes of the rows.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

import pytest

from aiokproto.errors import UnsupportedVersionError
from tests.kafka.releases import RELEASES, number


class Row(NamedTuple):
    """A line of the table.

    Attributes:
        area: The heading that it stands under.
        name: What clients do.
        since: The first of the releases with it, as in error messages: "0.11".
    """

    area: str
    name: str
    since: str

    def works(self, release: str) -> bool:
        """Whether it works on a release."""
        return number(release) >= number(self.since)


class At(NamedTuple):
    """Where a test runs.

    Attributes:
        release: The release.
        servers: The broker's address.
        topic: A name that no other test has; the broker creates the topic, with two partitions.
    """

    release: str
    servers: str
    topic: str

    @property
    def options(self) -> dict[str, Any]:
        """Options of clients for this broker."""
        # One test lets the client find out by itself, because recognizing 0.9 takes seconds.
        given = {"broker_version": "0.9"} if self.release.startswith("0.9.") else {}
        return {"bootstrap_servers": self.servers, **given}


ROWS: list[Row] = []

Test = Callable[[At], Awaitable[None]]


def row(
    area: str, name: str, since: str = RELEASES[0], refusal: str = "", first: tuple[str, str] = ("0", "")
) -> Callable[[Test], Test]:
    """Declare a test as a row.

    Args:
        area: The heading.
        name: What clients do.
        since: The first release with it.
        refusal: What the error on an older release says besides "Kafka" and the release.
        first: A release before which the error says something else, and what: it lacks more than that.
    """
    declared = Row(area, name, since)
    ROWS.append(declared)

    def wrap(test: Test) -> Test:
        @functools.wraps(test)
        async def run(at: At) -> None:
            if declared.works(at.release):
                await test(at)
                return
            lacks_more = number(at.release) < number(first[0])
            needed, text = first if lacks_more else (since, refusal)
            with pytest.raises(UnsupportedVersionError, match=f"{text}.*Kafka {needed}") as caught:
                await test(at)
            # The text also names what was found.
            assert re.search("is like Kafka|has it disabled", str(caught.value))

        return run

    return wrap
