"""The API versions that each Kafka release serves to clients, and what follows from them: which release introduced a
version, and which release a broker resembles (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from aiokproto.codec.schema import Versions

_CHANGES = {
    "0.8.2": "0:0 1:0 2:0 3:0 8:1 9:1 10:0",
    "0.9": "0:1 1:1 8:2 11:0 12:0 13:0 14:0 15:0 16:0",
    "0.10.0": "0:2 1:2 3:1 17:0 18:0",
    "0.10.1": "1:3 2:1 3:2 11:1 19:0 20:0",
    "0.10.2": "9:2 19:1",
    "0.11": (
        "0:3 1:5 2:2 3:4 8:3 9:3 10:1 11:2 12:1 13:1 14:1 15:1 16:1 18:1 19:2 20:1 21:0 22:0 23:0 24:0 "
        "25:0 26:0 27:0 28:0 29:0 30:0 31:0 32:0 33:0"
    ),
    "1.0": "0:5 1:6 3:5 17:1 34:0 35:0 36:0 37:0",
    "1.1": "1:7 32:1 38:0 39:0 40:0 41:0 42:0",
    "2.0": (
        "0:6 1:8 2:3 3:6 8:4 9:4 10:2 11:3 12:2 13:2 14:2 15:2 16:2 18:2 19:3 20:2 21:1 22:1 23:1 24:1 "
        "25:1 26:1 28:1 29:1 30:1 31:1 32:2 33:1 34:1 35:1 37:1 38:1 39:1 40:1 41:1 42:1"
    ),
    "2.1": "0:7 1:10 2:4 3:7 8:6 9:5 20:3 23:2 28:2",
    "2.2": "2:5 11:4 36:1 43:0",
    "2.3": "1:11 3:8 8:7 11:5 12:3 14:3 15:3 23:3 44:0",
    "2.4": (
        "0:8 3:9 8:8 9:6 10:3 11:6 12:4 13:4 14:4 15:5 16:3 18:3 19:5 20:4 22:2 38:2 42:2 43:2 44:1 45:0 46:0 47:0"
    ),
    "2.5": "9:7 11:7 14:5 22:3 28:3 29:2 30:2 31:2 36:2 37:2 39:2 40:2 41:2",
    "2.6": "16:4 21:2 32:3 35:2 48:0 49:0",
    "2.7": "1:12 19:6 20:5 22:4 24:2 25:2 26:2 37:3 50:0 51:0 55:0 57:0",
    "2.8": "0:9 2:6 3:11 19:7 20:6 23:4 24:3 25:3 26:3 27:1 32:4 33:2 34:2 48:1 49:1 60:0 61:0 64:0",
    "3.0": "2:7 9:8 10:4 65:0 66:0",
    "3.1": "1:13 3:12",
    "3.2": "11:9 13:5 35:3",
    "3.3": "29:3 30:3 31:3 35:4 38:3 41:3 55:1 57:1",
    "3.4": "",
    "3.5": "1:15 2:8",
    "3.6": "24:4",
    "3.7": "0:10 1:16 8:9 9:9 60:1 68:0 71:0 72:0 74:0",
    "3.8": "0:11 10:5 16:5 22:5 24:5 25:4 26:4 28:4 66:1 69:0 75:0",
    "3.9": "1:17 2:9 10:6 18:4 55:2 80:0 81:0",
    "4.0": (
        "0:12 1:4-17 2:1-10 3:13 8:2-9 9:1-9 15:6 19:2-7 20:1-6 23:2-4 26:5 27:1-1 28:5 29:1-3 30:1-3 "
        "31:1-3 32:1-4 34:1-2 35:1-4 38:1-3 39:1-2 40:1-2 41:1-3 57:2 60:2 68:1 69:1"
    ),
    "4.1": "0:13 1:4-18 45:1 66:2 74:1 76:1-1 77:1-1 78:1-1 79:1-1 83:0 84:0 85:0 86:0 87:0 90:0 91:0 92:0",
    "4.2": "2:1-11 8:2-10 9:1-10 27:1-2 78:1-2 79:1-2 80:1 85:1 87:1 88:0 89:0 90:1",
    "4.3": "35:1-5",
    "4.4": "18:5 28:6 42:3 88:1 89:1 93:0 94:0",
}
"""The changes in each release: an ApiKey and its new version range. A single number N stands for 0-N.

Inter-broker APIs and versions that were unstable in a release are left out.
"""

RELEASES = tuple(_CHANGES)
"""The releases, oldest first."""


@cache
def versions_of(release: str) -> Mapping[int, Versions]:
    """Return the version range of each ApiKey in a release, one of :data:`RELEASES`."""
    ranges = dict(versions_of(before)) if (before := _before(release)) else {}
    for change in _CHANGES[release].split():
        key, _, versions = change.partition(":")
        ranges[int(key)] = Versions.parse(versions if "-" in versions else f"0-{versions}")
    return ranges


def _before(release: str) -> str | None:
    index = RELEASES.index(release)
    return RELEASES[index - 1] if index else None


def first_release(api_key: int, version: int = 0) -> str | None:
    """Return the first release that serves a version of an API or a higher one, or None."""
    for release in RELEASES:
        served = versions_of(release).get(api_key)
        if served is not None and served.highest >= version:
            return release
    return None


def last_release(api_key: int, version: int) -> str | None:
    """Return the last release in which this is the highest version of an API, or None."""
    for release in reversed(RELEASES):
        served = versions_of(release).get(api_key)
        if served is not None and served.highest == version:
            return release
    return None


def release_like(ranges: Mapping[int, Versions]) -> str:
    """Return the newest release that a broker resembles: each of the broker's APIs goes at least as high as in that
    release.

    Brokers don't say what they are. Two releases can look the same to a client, and brokers other than Kafka can have
    any versions. So use it for error messages, not for decisions.
    """
    for release in reversed(RELEASES):
        known = versions_of(release)
        if all(ranges[key].highest >= theirs.highest for key, theirs in known.items() if key in ranges):
            return release
    return RELEASES[0]
