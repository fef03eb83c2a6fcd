"""The share consumer's own options, validated."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aiokproto.config.values import boolean, duration, function, integer, one_of, positive, seconds, text
from aiokproto.errors import ConfigurationError
from aiokproto.fetched.chunk import DecodeLimits
from aiokproto.share.acknowledgement import Acknowledgement, AcknowledgeOutcome

_LARGEST = 2**31 - 1

_GROUP_OPTION = "leave it out: it is an option of the group, {}, see docs/share-groups.md"
_NO_OFFSETS = "leave it out: share groups have no committed offsets; records are acknowledged one by one"

_NO_DESERIALIZER = "share consumers have none: decode record.key and record.value in your code"

HINTS = {
    "isolation_level": _GROUP_OPTION.format("share.isolation.level"),
    "auto_offset_reset": _GROUP_OPTION.format("share.auto.offset.reset"),
    "session_timeout_ms": _GROUP_OPTION.format("share.session.timeout.ms"),
    "heartbeat_interval_ms": _GROUP_OPTION.format("share.heartbeat.interval.ms"),
    "enable_auto_commit": 'use acknowledgement_mode="implicit" (the default) or "explicit"',
    "auto_commit_interval_ms": "use acknowledge_linger_ms",
    "share_acknowledgement_mode": "use acknowledgement_mode",
    "max_poll_interval_ms": "use max_processing_ms, which counts for each record",
    "group_instance_id": "leave it out: share groups have no static members",
    "partition_assignment_strategy": "leave it out: the broker assigns the partitions of a share group",
    "max_partition_fetch_bytes": "use max_poll_records and fetch_max_bytes: brokers divide both among partitions",
    "fetch_buffer_bytes": "use fetch_max_bytes: at most one response of each broker is buffered",
    "enable_auto_offset_store": _NO_OFFSETS,
    "key_deserializer": _NO_DESERIALIZER,
    "value_deserializer": _NO_DESERIALIZER,
    "on_undecodable": "decode in your code, and reject() what cannot be decoded",
}
"""Consumer options that the share consumer doesn't have → what to do instead."""


@dataclass(frozen=True)
class ShareFetchConfig:
    """The options for ShareFetch. Durations are in seconds."""

    max_records: int = 500
    record_limit: bool = False
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    max_wait: float = 0.5


@dataclass(frozen=True)
class ShareConfig:
    """The share consumer's options, without the connection options. Durations are in seconds."""

    group_id: str
    explicit: bool
    fetch: ShareFetchConfig
    linger: float
    renew: bool
    max_processing: float
    damaged: Acknowledgement
    check_crcs: bool
    limits: DecodeLimits
    on_acknowledged: Callable[[Sequence[AcknowledgeOutcome]], object] | None

    @classmethod
    def parse(cls, options: Mapping[str, Any]) -> ShareConfig:
        """Validate the options passed to the share consumer.

        Raises:
            ConfigurationError: A value is invalid; the message names the option.
        """
        mode = one_of("acknowledgement_mode", options["acknowledgement_mode"], ("implicit", "explicit"))
        acquire = one_of("share_acquire_mode", options["share_acquire_mode"], ("batch_optimized", "record_limit"))
        damaged = one_of("corrupt_records", options["corrupt_records"], ("reject", "release"))
        return cls(
            group_id=text("group_id", options["group_id"]),
            explicit=mode == "explicit",
            fetch=ShareFetchConfig(
                max_records=integer("max_poll_records", options["max_poll_records"], 1, _LARGEST),
                record_limit=acquire == "record_limit",
                min_bytes=integer("fetch_min_bytes", options["fetch_min_bytes"], 0, _LARGEST),
                max_bytes=min(positive("fetch_max_bytes", options["fetch_max_bytes"]), _LARGEST),
                max_wait=seconds("fetch_max_wait_ms", options["fetch_max_wait_ms"]),
            ),
            linger=seconds("acknowledge_linger_ms", options["acknowledge_linger_ms"]),
            renew=boolean("renew_locks", options["renew_locks"]),
            max_processing=duration("max_processing_ms", options["max_processing_ms"]),
            damaged=Acknowledgement[damaged.upper()],
            check_crcs=boolean("check_crcs", options["check_crcs"]),
            limits=DecodeLimits(
                positive("max_decompressed_bytes", options["max_decompressed_bytes"]),
                positive("max_record_bytes", options["max_record_bytes"]),
            ),
            on_acknowledged=function("on_acknowledged", options["on_acknowledged"]),
        )


def refuse_consumer_options(options: Mapping[str, Any]) -> None:
    """Raise ConfigurationError for an option that the consumer has but the share consumer doesn't."""
    for name in options:
        if name in HINTS:
            raise ConfigurationError(f"unknown option {name!r}: {HINTS[name]}")
