"""The handlers: one module per API with an async function ``handle``, and the table of the versions that are served.

To add an API, add a line to ``_VERSIONS``, and a module here with the same name as its module in ``codec/messages``.
The module's ``REQUIRES`` lists the operations that clients need permission for. Without ``REQUIRES``, the API is only
for nodes of the cluster. To add a version, check what it changes, then raise the version in ``_VERSIONS``. ApiVersions
lists exactly what is in ``_VERSIONS``.

**How a request gets here.** The dispatcher decodes the header, rejects versions that aren't served, decodes the body,
removes the parts that the client isn't authorized for, and calls ``handle(request, context)``. It then merges the
errors of the removed parts into the response, sets the throttle time, and encodes the response. The requests of one
connection are handled one at a time. Requests of different connections interleave wherever a handler awaits.

- **Context.** :mod:`~aiokproto.broker.request_context` holds the cluster's state, the coordinators, the node that
  received the request, the client and the version. All nodes share one state, so a handler must itself check that its
  node is responsible: ``context.state.led_partition(...)`` for a partition, ``check_coordinator(...)`` for a group,
  ``context.transactions.check(...)`` for a transactional id.
- **Versions.** A handler builds one response for all versions, and the codec leaves out fields that the version doesn't
  have. Fields that aren't in the *request's* version have their defaults. Fields that aren't in the *response's*
  version must be left at their defaults, unless they're declared ignorable; otherwise encoding fails.
  ``context.topic_name`` resolves topics that are given by name or by id, depending on the version.
- **Authorization.** ``REQUIRES`` declares every check. The dispatcher refuses the parts of a request that the client
  has no permission for. A handler can also check an operation itself, with ``context.authorize`` (raises) or
  ``context.is_authorized``; in that case ``otherwise`` describes what happens without the permission. Handlers do this
  for names that they look up themselves, such as the topics of an assignment, and where Kafka doesn't return an error
  for each part. If there is no authorizer, every client is authorized.
- **Errors.** An error of one topic, partition or group goes into its own part of the response, and must not fail the
  others: catch ``BrokerError`` for each of them. A ``BrokerError`` raised by ``handle`` refuses the whole request: the
  dispatcher puts its code into every error field of the response (``codec.refusal``). Any other exception is a bug: it
  is logged, and the connection is closed.
- **No response.** Only Produce with acks=0 returns None. It raises ``CloseConnection`` if appending failed: closing the
  connection is the only way to report that. All other requests get a response, even if they're empty.
- **Throttling.** Handlers leave ``throttle_time_ms`` at 0, and the dispatcher sets it from the client's quotas. APIs
  that create or delete partitions count them with ``context.mutation_quota.record`` before they do so. They set
  ``mutation_quota.strict`` for versions in which clients know THROTTLING_QUOTA_EXCEEDED (KIP-599). Fetches respect
  ``context.fetch_limit()``.
- **The event loop.** A handler iterates over the items of a request with ``async for item in context.each(items)``,
  which yields to other connections (:mod:`~aiokproto.broker.yield_budget`): 100 KB can contain 50,000 items. After each
  item, everything that was checked before can have changed. So there must be no await between checking and changing the
  state of one item. Conditions that concern all items, such as the membership of a group, are checked after the loop,
  together with the change. A handler that processes many bytes accounts for them with ``context.turns``. A handler that
  waits for records uses :mod:`~aiokproto.broker.fetch.long_poll` and then looks up everything again, since topics,
  leaders and sessions can have changed. A handler is cancelled when its node stops, but not when its client
  disconnects.

A handler module is imported when its first request arrives. Most brokers serve only a few APIs, so they start faster.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

from aiokproto.broker.request_context import RequestContext
from aiokproto.broker.security.authorization import BROKERS_ONLY, Required
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
"""The served versions by ApiKey, as ApiVersions lists them."""

UNSTABLE: dict[int, Versions] = {**SERVED, 22: Versions(0, 6)}
"""The versions that are served with ``unstable.api.versions.enable``, including versions that Kafka may still
change."""

Handle = Callable[[Any, RequestContext], Awaitable[Response | None]]


class Handler(NamedTuple):
    """Serves an API.

    Attributes:
        request: The request class.
        versions: The versions that are served.
        handle: The handler.
        requires: The operations that clients need permission for.
        refused: Versions that aren't served, but get an error response.
    """

    request: type[Request[Any]]
    versions: Versions
    handle: Handle
    requires: tuple[Required, ...] = BROKERS_ONLY
    refused: Versions = NEVER


@cache
def find(api_key: int) -> Handler | None:
    """Return the handler of an API, or None if it isn't served."""
    if api_key not in SERVED:
        return None
    module = import_module(f"{__name__}.{APIS[api_key][0]}")
    return Handler(registry.request(api_key), SERVED[api_key], module.handle, getattr(module, "REQUIRES", BROKERS_ONLY))
