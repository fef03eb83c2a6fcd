"""The consumer's own options, validated."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, get_args

from aiokproto.config.values import boolean, duration, integer, one_of, positive, seconds, text
from aiokproto.consumer.fetch_request import FetchConfig
from aiokproto.consumer.offset_reset import ResetListener, ResetPolicy, to_listener
from aiokproto.consumer.undecodable import Policy, to_policy
from aiokproto.errors import ConfigurationError
from aiokproto.fetched.chunk import DecodeLimits
from aiokproto.group.assignors import make_assignors
from aiokproto.group.config import GroupConfig, GroupProtocol

_LARGEST = 2**31 - 1

_STRATEGY = ("range", "cooperative-sticky")
"""The default of ``partition_assignment_strategy``."""


@dataclass(frozen=True)
class ConsumerConfig:
    """The consumer's options, without the connection options. Durations are in seconds."""

    group: GroupConfig | None
    auto_offset_reset: ResetPolicy
    reads_new_partitions: bool
    on_offset_reset: ResetListener | None
    enable_auto_commit: bool
    auto_commit_interval: float
    on_undecodable: Policy
    fetch: FetchConfig

    @classmethod
    def parse(cls, options: Mapping[str, Any], rack: str) -> ConsumerConfig:
        """Validate the options passed to the consumer.

        Args:
            options: The consumer's own options.
            rack: The client's rack; empty if it has none.

        Raises:
            ConfigurationError: A value is invalid; the message names the option.
        """
        session = duration("session_timeout_ms", options["session_timeout_ms"])
        heartbeat = duration("heartbeat_interval_ms", options["heartbeat_interval_ms"])
        if heartbeat >= session:
            raise ConfigurationError(
                f"heartbeat_interval_ms={heartbeat * 1000:g}: must be less than session_timeout_ms "
                f"({session * 1000:g}), better a third of it"
            )
        isolation = one_of("isolation_level", options["isolation_level"], ("read_uncommitted", "read_committed"))
        poll = duration("max_poll_interval_ms", options["max_poll_interval_ms"])
        return cls(
            group=_group(options, session, heartbeat, poll, rack),
            auto_offset_reset=ResetPolicy.parse(options["auto_offset_reset"]),
            reads_new_partitions=one_of("new_partitions", options["new_partitions"], ("earliest", "reset"))
            == "earliest",
            on_offset_reset=to_listener(options["on_offset_reset"]),
            enable_auto_commit=boolean("enable_auto_commit", options["enable_auto_commit"]),
            auto_commit_interval=duration("auto_commit_interval_ms", options["auto_commit_interval_ms"]),
            on_undecodable=to_policy(options["on_undecodable"]),
            fetch=FetchConfig(
                min_bytes=integer("fetch_min_bytes", options["fetch_min_bytes"], 0, _LARGEST),
                max_bytes=integer("fetch_max_bytes", options["fetch_max_bytes"], 1, _LARGEST),
                max_partition_bytes=integer(
                    "max_partition_fetch_bytes", options["max_partition_fetch_bytes"], 1, _LARGEST
                ),
                max_wait=seconds("fetch_max_wait_ms", options["fetch_max_wait_ms"]),
                buffer_bytes=positive("fetch_buffer_bytes", options["fetch_buffer_bytes"]),
                read_committed=isolation == "read_committed",
                rack=rack,
                control_records=boolean("keep_control_records", options["keep_control_records"]),
                check_crcs=boolean("check_crcs", options["check_crcs"]),
                limits=DecodeLimits(
                    positive("max_decompressed_bytes", options["max_decompressed_bytes"]),
                    positive("max_record_bytes", options["max_record_bytes"]),
                ),
            ),
        )


def _group(options: Mapping[str, Any], session: float, heartbeat: float, poll: float, rack: str) -> GroupConfig | None:
    """Return the options of the group member, or None if there's no group."""
    strategy, remote = options["partition_assignment_strategy"], options["group_remote_assignor"]
    protocol = one_of("group_protocol", options["group_protocol"], get_args(GroupProtocol))
    if protocol == "consumer" and strategy is not None:
        raise ConfigurationError(
            "partition_assignment_strategy: the members compute no assignment with group_protocol='consumer'; "
            "group_remote_assignor chooses the broker's assignor"
        )
    if remote is not None:
        text("group_remote_assignor", remote)
        if protocol == "classic":
            raise ConfigurationError("group_remote_assignor requires group_protocol='consumer' or 'auto'")
    chosen = _STRATEGY if strategy is None else strategy
    assignors = make_assignors(list(chosen) if isinstance(chosen, list | tuple) else [chosen])
    instance = options["group_instance_id"]
    if instance is not None:
        text("group_instance_id", instance)
    if options["group_id"] is None:
        if instance is not None:
            raise ConfigurationError("group_instance_id requires group_id")
        return None
    return GroupConfig(
        group_id=text("group_id", options["group_id"]),
        group_instance_id=instance,
        session_timeout=session,
        heartbeat_interval=heartbeat,
        max_poll_interval=poll,
        client_rack=rack or None,
        # Only classic groups have client-side assignors.
        protocol="classic" if protocol == "auto" and strategy is not None else protocol,
        assignors=assignors,
        remote_assignor=remote,
    )
