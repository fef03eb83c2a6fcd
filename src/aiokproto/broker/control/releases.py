"""The API versions that a broker serves with ``as_version``: the versions of a Kafka release, or an explicit list."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

from aiokproto.broker.control.fault_rule import key_of
from aiokproto.codec.releases import RELEASES, versions_of
from aiokproto.codec.schema import Request, Versions
from aiokproto.errors import ConfigurationError

AsVersion: TypeAlias = "str | Mapping[int | type[Request[Any]], str]"
"""A release of Kafka, or versions such as ``"0-7"`` by request class or ApiKey, as other implementations list them."""


def versions_served(as_version: AsVersion, served: Mapping[int, Versions]) -> dict[int, Versions]:
    """Return the versions that are served both by this broker and by the release or implementation.

    Args:
        as_version: See :data:`AsVersion`. ApiKeys that aren't in the protocol are left out.
        served: The versions that this broker serves.

    Raises:
        ConfigurationError: The release is unknown, or the mapping contains an invalid API or version range.
    """
    if not isinstance(as_version, Mapping):
        return versions_of_release(as_version, served)
    theirs: dict[int, Versions] = {}
    for api, versions in as_version.items():
        key = api if isinstance(api, int) else key_of(api)
        try:
            theirs[key] = Versions.parse(versions)
        except (AttributeError, ValueError):
            raise ConfigurationError(
                f"as_version: {api!r} has the versions {versions!r}, expected e.g. '0-7'"
            ) from None
    return _both(theirs, served)


def versions_of_release(release: str, served: Mapping[int, Versions]) -> dict[int, Versions]:
    """Return the versions that are served both by this broker and by a release of Kafka.

    Args:
        release: A release, with or without patch number: ``"2.8"`` and ``"2.8.1"`` are equivalent.
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
    return _both(versions_of(name), served)


def _both(theirs: Mapping[int, Versions], served: Mapping[int, Versions]) -> dict[int, Versions]:
    both = {key: _common(versions, theirs[key]) for key, versions in served.items() if key in theirs}
    return {key: versions for key, versions in both.items() if versions.lowest <= versions.highest}


def _common(one: Versions, other: Versions) -> Versions:
    return Versions(max(one.lowest, other.lowest), min(one.highest, other.highest))
