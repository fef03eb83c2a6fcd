"""The API versions that each Kafka release served to clients, for ``as_version``."""

from __future__ import annotations

from collections.abc import Mapping

from aiokproto.codec.releases import RELEASES, versions_of
from aiokproto.codec.schema import Versions
from aiokproto.errors import ConfigurationError


def versions_of_release(release: str, served: Mapping[int, Versions]) -> dict[int, Versions]:
    """Return the versions that both this broker and a release of Kafka serve.

    Args:
        release: A release, with or without its patch number: ``"2.8"`` and ``"2.8.1"`` are the same.
        served: The versions that this broker serves.

    Raises:
        ConfigurationError: The release is unknown.
    """
    number = release.split(".") if isinstance(release, str) else []
    name = ".".join(number[: 3 if number[:2] in (["0", "8"], ["0", "10"]) else 2])
    if name not in RELEASES:
        raise ConfigurationError(
            f"as_version={release!r} is no release of Kafka; expected one of {', '.join(RELEASES)}"
        )
    theirs = versions_of(name)
    both = {key: _common(versions, theirs[key]) for key, versions in served.items() if key in theirs}
    return {key: versions for key, versions in both.items() if versions.lowest <= versions.highest}


def _common(one: Versions, other: Versions) -> Versions:
    return Versions(max(one.lowest, other.lowest), min(one.highest, other.highest))
