"""Features that need a minimum broker release, and the API version that provides each of them (pure).

This is the only such table, used for error messages and for docs/compatibility.md. :mod:`aiokproto.codec.releases` says
which release first served a version. A release is given here only if brokers serve an API before it is meant for
production.
"""

from __future__ import annotations

from typing import NamedTuple

from aiokproto.codec.registry import api_name
from aiokproto.codec.releases import first_release, last_release
from aiokproto.errors import UnsupportedVersionError


class Feature(NamedTuple):
    """Something that needs a minimum version of an API.

    Attributes:
        name: The feature's name, as the subject of a sentence.
        api_key: The API.
        version: The lowest version that supports it.
        plural: Whether the name is a plural.
        release: The first release that supports it in production; None for the first release that serves the version.
    """

    name: str
    api_key: int
    version: int
    plural: bool = False
    release: str | None = None

    @property
    def since(self) -> str:
        """The first release that supports it."""
        return self.release or first_release(self.api_key, self.version) or "a later release"

    @property
    def need(self) -> str:
        """What it needs, as a sentence without a period."""
        return (
            f"{self.name} need{'' if self.plural else 's'} Kafka {self.since} or later "
            f"({api_name(self.api_key)} version {self.version})"
        )

    def refused(self, who: str, version: int) -> UnsupportedVersionError:
        """Return the error for a broker that only supports a lower version of the API."""
        like = last_release(self.api_key, version)
        return UnsupportedVersionError(
            f"{self.need}: {who} supports it up to version {version}, and is like Kafka {like}"
        )


TIMESTAMPS = Feature("timestamps of records", 0, 2, plural=True)
HEADERS = Feature("headers of records", 0, 3, plural=True)
BATCHES = Feature("record batches of magic 2", 0, 3, plural=True)
ZSTD = Feature("compression with zstd", 0, 7)
TIMES = Feature("offsets for a time", 2, 1, plural=True)
LATEST_TIMESTAMP = Feature("the offset of the greatest timestamp", 2, 7)
GROUPS = Feature("membership in a group", 11, 0)
STATIC_MEMBERS = Feature("group_instance_id", 11, 5)
IDEMPOTENCE = Feature("idempotence", 22, 0)
TRANSACTIONS = Feature("transactions", 24, 0, plural=True)
MEMBERS_OFFSETS = Feature("offsets of a group's member in a transaction", 28, 3, plural=True)
CONSUMER_PROTOCOL = Feature('group_protocol="consumer"', 68, 0, release="4.0")
SHARE_GROUPS = Feature("share groups", 78, 1, plural=True)
RENEWAL = Feature("renewing the locks of acquired records", 79, 2)
STREAMS_GROUPS = Feature("streams groups", 88, 0, plural=True)

FEATURES = (
    TIMESTAMPS,
    HEADERS,
    BATCHES,
    ZSTD,
    TIMES,
    LATEST_TIMESTAMP,
    GROUPS,
    STATIC_MEMBERS,
    IDEMPOTENCE,
    TRANSACTIONS,
    MEMBERS_OFFSETS,
    CONSUMER_PROTOCOL,
    SHARE_GROUPS,
    RENEWAL,
    STREAMS_GROUPS,
)


_BELONGS = {
    12: GROUPS,
    13: GROUPS,
    14: GROUPS,
    25: TRANSACTIONS,
    26: TRANSACTIONS,
    28: TRANSACTIONS,
    69: CONSUMER_PROTOCOL,
    76: SHARE_GROUPS,
    77: SHARE_GROUPS,
    79: SHARE_GROUPS,
    89: STREAMS_GROUPS,
}
"""APIs that are useless without a feature that another API provides."""


def need_of(api_key: int, version: int) -> str | None:
    """Return a text that says which release a version of an API needs. Its subject is the feature that the version
    provides, or the API itself. Return None if no release supports the version."""
    for feature in FEATURES:
        if (feature.api_key, feature.version) == (api_key, version):
            return feature.need
    since = first_release(api_key, version)
    if api_key in _BELONGS and since == first_release(api_key):
        return _BELONGS[api_key].need
    return None if since is None else f"{api_name(api_key)} version {version} needs Kafka {since} or later"
