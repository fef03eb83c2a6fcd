"""The cluster's features: which levels there are, and which is in force (KIP-584).

Clients look at them before they use a protocol: the newer one of groups, say.
"""

from __future__ import annotations

from collections.abc import Mapping

from aiokproto.broker.metadata.metadata_log import MetadataLog
from aiokproto.codec.schema import Versions
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import BrokerError

SUPPORTED = {
    "group.version": Versions(0, 1),
    "share.version": Versions(0, 1),
    "streams.version": Versions(0, 1),
    "transaction.version": Versions(0, 2),
}
"""The levels of each feature. The highest is in force unless another was set."""

_LEVEL, _EPOCH = "feature", "features epoch"


def levels(metadata: MetadataLog) -> dict[str, int]:
    """The level of each feature that is in force, 0 for one that is off."""
    own = metadata.get(_LEVEL)
    return {name: own.get(name, versions.highest) for name, versions in SUPPORTED.items()}


def epoch(metadata: MetadataLog) -> int:
    """How often they were changed."""
    return int(metadata.get(_EPOCH).get("", 0))


def check(metadata: MetadataLog, name: str, level: int, *, downgrade: bool) -> None:
    """Whether a feature may get that level.

    Raises:
        BrokerError: INVALID_UPDATE_VERSION; its detail says why.
    """
    wrong = ""
    if name not in SUPPORTED or level not in range(SUPPORTED[name].lowest, SUPPORTED[name].highest + 1):
        wrong = f"feature {name!r} has no level {level} here"
    elif level < levels(metadata)[name] and not downgrade:
        wrong = f"{name} is at level {levels(metadata)[name]}, and a downgrade was not asked for"
    elif level > levels(metadata)[name] and downgrade:
        wrong = f"{name} is at level {levels(metadata)[name]}, below what it should be downgraded to"
    if wrong:
        raise BrokerError(ErrorCode.INVALID_UPDATE_VERSION, detail=wrong)


def finalize(metadata: MetadataLog, wanted: Mapping[str, int]) -> None:
    """Put levels in force, which were checked."""
    changed = {name: level for name, level in wanted.items() if levels(metadata)[name] != level}
    if changed:
        metadata.put_all([(_LEVEL, name, level) for name, level in changed.items()])
        metadata.put(_EPOCH, "", epoch(metadata) + 1)
