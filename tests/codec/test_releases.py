"""What each release serves, and which release a broker resembles."""

from __future__ import annotations

import pytest

from aiokproto.codec.releases import RELEASES, first_release, last_release, release_like, versions_of
from aiokproto.codec.schema import Versions


@pytest.mark.parametrize(
    ("api_key", "version", "first"),
    [(0, 0, "0.8.2"), (0, 3, "0.11"), (11, 0, "0.9"), (18, 0, "0.10.0"), (22, 6, None), (78, 1, "4.1"), (999, 0, None)],
)
def test_the_first_release_with_a_version(api_key: int, version: int, first: str | None) -> None:
    assert first_release(api_key, version) == first


def test_the_last_release_whose_highest_version_it_is() -> None:
    assert [last_release(0, version) for version in (0, 1, 2, 3, 4)] == ["0.8.2", "0.9", "0.10.2", "0.11", None]


def test_versions_add_up_over_the_releases() -> None:
    assert versions_of("0.8.2")[3] == Versions(0, 0)
    assert versions_of("0.11")[3] == Versions(0, 4)
    assert versions_of("4.0")[1] == Versions(4, 17)
    assert 11 not in versions_of("0.8.2")


@pytest.mark.parametrize("release", RELEASES)
def test_a_broker_is_like_the_newest_release_that_it_equals(release: str) -> None:
    like = release_like(versions_of(release))
    assert versions_of(like) == versions_of(release)
    assert RELEASES.index(like) >= RELEASES.index(release)


def test_apis_that_a_broker_lacks_do_not_count() -> None:
    """Brokers with ZooKeeper lack some of their release; other implementations lack more."""
    some = {key: versions for key, versions in versions_of("2.8").items() if key < 20}
    assert release_like(some) == "2.8"


def test_a_broker_below_every_release_is_like_the_first() -> None:
    assert release_like({0: Versions(0, -1)}) == RELEASES[0]
