"""Finalized feature levels (KIP-584). Clients get them from ApiVersions before using a protocol such as KIP-848's."""

from __future__ import annotations

from collections.abc import Mapping

from aiokproto.broker.metadata.metadata_log import MetadataLog
from aiokproto.codec.schema import Versions
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

SUPPORTED = {
    "group.version": Versions(0, 1),
    "share.version": Versions(0, 2),
    "streams.version": Versions(0, 1),
    "transaction.version": Versions(0, 2),
}
"""The supported levels of each feature. The highest level is finalized unless UpdateFeatures has set another one."""

_LEVEL, _EPOCH = "feature", "features epoch"


def levels(metadata: MetadataLog) -> dict[str, int]:
    """Return the finalized level of each feature; 0 means disabled."""
    own = metadata.get(_LEVEL)
    return {name: own.get(name, versions.highest) for name, versions in SUPPORTED.items()}


def epoch(metadata: MetadataLog) -> int:
    """Return the epoch of the finalized features: how often they have changed."""
    return int(metadata.get(_EPOCH).get("", 0))


def check(metadata: MetadataLog, name: str, level: int, *, downgrade: bool) -> None:
    """Check a new level of a feature.

    Raises:
        BrokerError: INVALID_UPDATE_VERSION, with the reason.
    """
    wrong = ""
    if name not in SUPPORTED or level not in range(SUPPORTED[name].lowest, SUPPORTED[name].highest + 1):
        wrong = f"feature {name!r} has no level {level}"
    elif level < levels(metadata)[name] and not downgrade:
        wrong = f"{name} is at level {levels(metadata)[name]}, and the request does not allow a downgrade"
    elif level > levels(metadata)[name] and downgrade:
        wrong = f"{name} is at level {levels(metadata)[name]}, below the requested level of the downgrade"
    if wrong:
        raise BrokerError(ErrorCode.INVALID_UPDATE_VERSION, detail=wrong)


def finalize(metadata: MetadataLog, wanted: Mapping[str, int]) -> None:
    """Finalize levels that :func:`check` has accepted."""
    changed = {name: level for name, level in wanted.items() if levels(metadata)[name] != level}
    if changed:
        metadata.put_all([(_LEVEL, name, level) for name, level in changed.items()])
        metadata.put(_EPOCH, "", epoch(metadata) + 1)
