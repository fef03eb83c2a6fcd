"""FindCoordinator (ApiKey 10): find the broker that coordinates a group, a transactional id or a share partition."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    CoordinatorKey,
    Request,
    Response,
    Route,
    Struct,
    field,
    int8,
    int16,
    int32,
    string,
)


class Coordinator(Struct):
    """The coordinator of one key."""

    key: CoordinatorKey = ""
    """The key that was requested."""
    node_id: BrokerId = field(default=0, refused=-1)
    """Broker that coordinates the key; -1: an error."""
    host: string = ""
    """Host name or address to connect to."""
    port: int32 = 0
    """TCP port."""
    error_code: int16 = 0
    error_message: string | None = ""


class FindCoordinatorResponse(Response, key=10, versions="0-6", flexible="3+", client_throttles="2+"):
    """One coordinator, or since version 4, one per key in `coordinators`. Errors: see `FindCoordinatorRequest`."""

    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = field("0-3", default=0)
    error_message: string | None = field("1-3", default="", ignorable=True)
    node_id: BrokerId = field("0-3", default=0, refused=-1)
    """Broker that coordinates `key`; -1: an error."""
    host: string = field("0-3", default="")
    """Host name or address to connect to."""
    port: int32 = field("0-3", default=0)
    """TCP port."""
    coordinators: list[Coordinator] = field("4+", factory=list)


class FindCoordinatorRequest(Request[FindCoordinatorResponse], key=10, versions="0-6", flexible="3+", route=Route.ANY):
    """Find the coordinator of groups, transactional ids or share partitions.

    Sent by clients (for share partitions, by brokers) to any broker.

    Errors: per key (top level up to version 3): COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS,
    INVALID_REQUEST, GROUP_AUTHORIZATION_FAILED, TRANSACTIONAL_ID_AUTHORIZATION_FAILED, CLUSTER_AUTHORIZATION_FAILED
    (share partitions), TRANSACTION_ABORTABLE (version 5+).
    """

    key: CoordinatorKey = field("0-3", default="")
    """Group id or transactional id, depending on `key_type`."""
    key_type: int8 = field("1+", default=0)
    """0: group; 1: transactional id; 2: share partition (version 6+). Version 0 only finds groups."""
    coordinator_keys: list[CoordinatorKey] = field("4+", factory=list)
    """Keys of one type (KIP-699); a share partition has the key `group:topicId:partition`."""
