"""Exceptions to the comparison with Java: what a release renamed, renumbered or redefined, and what neither has.

A test checks that each entry is still needed.
"""

from __future__ import annotations

from tests.java.generated_vectors import Vector

OLD_NAMES: dict[str, str] = {
    "ListClientMetricsResourcesRequest": "ListConfigResourcesRequest",
    "ListClientMetricsResourcesResponse": "ListConfigResourcesResponse",
}
"""Names of messages in the older release."""

OLD_FIELDS: dict[str, dict[str, str]] = {
    "ListConfigResourcesResponse": {"client_metrics_resources": "config_resources", "name": "resource_name"},
    "TxnOffsetCommitRequest": {"generation_id": "generation_id_or_member_epoch"},
    "VoteRequest": {
        "candidate_epoch": "replica_epoch",
        "candidate_id": "replica_id",
        "candidate_directory_id": "replica_directory_id",
    },
}
"""Message → names of its fields in the older release, where these are others."""

RECORD_TYPE_AS_VERSION: dict[str, set[int]] = {
    "ConsumerGroupCurrentMemberAssignmentKey": {8},
    "ConsumerGroupMemberMetadataKey": {5},
    "ConsumerGroupMetadataKey": {3},
    "ConsumerGroupPartitionMetadataKey": {4},
    "ConsumerGroupTargetAssignmentMemberKey": {7},
    "ConsumerGroupTargetAssignmentMetadataKey": {6},
    "GroupMetadataKey": {2},
    "OffsetCommitKey": {1},
    "ShareGroupMemberMetadataKey": {10},
    "ShareGroupMetadataKey": {11},
}
"""Until 4.0 a coordinator's key had its record type as its version. The bytes are the same as version 0's now."""

REDEFINED: dict[str, int] = {
    "ReadShareGroupStateSummaryResponse": 0,
    "ShareGroupMetadataValue": 0,
    "ShareGroupPartitionMetadataValue": 0,
}
"""Versions which were early access in the older release, and got other fields under the same number."""

UNKNOWN_TO_JAVA: dict[str, str] = {
    "AccessControlRecord": "0",  # gone since 3.5
    "QuotaRecord": "0",  # gone since 3.0
    "RemoveFeatureLevelRecord": "0",  # gone since 3.3
    "ShareGroupPartitionMetadataValue": "0",  # the form of 4.0; 3.9 had another
}
"""Message → versions without a vector."""


def name_here(vector: Vector) -> str:
    return OLD_NAMES.get(vector.name, vector.name)


def version_here(vector: Vector) -> int:
    return 0 if vector.version in RECORD_TYPE_AS_VERSION.get(vector.name, ()) else vector.version


def is_redefined(vector: Vector) -> bool:
    """Whether the older release means something else by this message-version than the newer ones."""
    return vector.release.startswith("3.") and REDEFINED.get(vector.name) == vector.version


def old_fields(vector: Vector) -> dict[str, str]:
    return OLD_FIELDS.get(name_here(vector), {}) if vector.release.startswith("3.") else {}
