"""One module an API, named as its messages' module, with an async function ``handle``; and the versions served.

A handler builds one response for all versions; the codec writes what the version at hand has. It returns None where no
answer is due, and raises ``Hangup`` where the connection must be closed.

Each module is imported when its first request comes: most of a broker's life is spent on a few of them, and a process
of its own is up sooner without the rest.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from aiokproto.broker.request_context import RequestContext
from aiokproto.codec import registry
from aiokproto.codec.registry_table import APIS
from aiokproto.codec.schema import NEVER, Request, Response, Versions

_VERSIONS = {
    "produce": "0-13",
    "fetch": "0-18",
    "list_offsets": "0-11",
    "metadata": "0-13",
    "offset_commit": "0-10",
    "offset_fetch": "0-10",
    "find_coordinator": "0-6",
    "join_group": "0-9",
    "heartbeat": "0-4",
    "leave_group": "0-5",
    "sync_group": "0-5",
    "describe_groups": "0-6",
    "list_groups": "0-5",
    "sasl_handshake": "0-1",
    "api_versions": "0-5",
    "create_topics": "0-7",
    "delete_topics": "0-6",
    "delete_records": "0-2",
    "init_producer_id": "0-5",
    "offset_for_leader_epoch": "0-4",
    "add_partitions_to_txn": "0-5",
    "add_offsets_to_txn": "0-4",
    "end_txn": "0-5",
    "write_txn_markers": "0-2",
    "txn_offset_commit": "0-6",
    "describe_acls": "0-3",
    "create_acls": "0-3",
    "delete_acls": "0-3",
    "describe_configs": "0-4",
    "alter_configs": "0-2",
    "alter_replica_log_dirs": "0-2",
    "describe_log_dirs": "0-5",
    "sasl_authenticate": "0-2",
    "create_partitions": "0-3",
    "create_delegation_token": "0-3",
    "renew_delegation_token": "0-2",
    "expire_delegation_token": "0-2",
    "describe_delegation_token": "0-3",
    "delete_groups": "0-3",
    "elect_leaders": "0-2",
    "incremental_alter_configs": "0-1",
    "alter_partition_reassignments": "0-1",
    "list_partition_reassignments": "0",
    "offset_delete": "0",
    "describe_client_quotas": "0-1",
    "alter_client_quotas": "0-1",
    "describe_user_scram_credentials": "0",
    "alter_user_scram_credentials": "0",
    "describe_quorum": "0-2",
    "update_features": "0-2",
    "describe_cluster": "0-2",
    "describe_producers": "0",
    "unregister_broker": "0",
    "describe_transactions": "0",
    "list_transactions": "0-2",
    "consumer_group_heartbeat": "0-1",
    "consumer_group_describe": "0-1",
    "get_telemetry_subscriptions": "0",
    "push_telemetry": "0",
    "list_config_resources": "0-1",
    "describe_topic_partitions": "0",
    "share_group_heartbeat": "0-1",
    "share_group_describe": "0-1",
    "share_fetch": "0-2",
    "share_acknowledge": "0-2",
    "initialize_share_group_state": "0",
    "read_share_group_state": "0",
    "write_share_group_state": "0-1",
    "delete_share_group_state": "0",
    "read_share_group_state_summary": "0-1",
    "streams_group_heartbeat": "0-1",
    "streams_group_describe": "0-1",
    "describe_share_group_offsets": "0-1",
    "alter_share_group_offsets": "0",
    "delete_share_group_offsets": "0",
    "streams_group_topology_description_update": "0",
}

SERVED: dict[int, Versions] = {
    key: Versions.parse(_VERSIONS[module]) for key, (module, _) in APIS.items() if module in _VERSIONS
}
"""What ApiVersions says: no more and no less than what is served."""

Handle = Callable[[Any, RequestContext], Awaitable[Response | None]]


class Handler(NamedTuple):
    """How an API is served."""

    request: type[Request[Any]]
    versions: Versions
    handle: Handle
    refused: Versions = NEVER
    """Versions that are answered though they are not served."""


@cache
def find(api_key: int) -> Handler | None:
    """What serves an API; None if nothing does."""
    if api_key not in SERVED:
        return None
    module = import_module(f"{__name__}.{APIS[api_key][0]}")
    return Handler(registry.request(api_key), SERVED[api_key], module.handle)
