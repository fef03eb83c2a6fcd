"""BrokerHeartbeat (ApiKey 63): a broker stays in the cluster, or asks to be fenced or to stop."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Request, Response, Route, field, int16, int32, int64, uuid


class BrokerHeartbeatResponse(Response, key=63, versions="0-2", flexible="0+"):
    """The controller's view of the broker. Errors: see `BrokerHeartbeatRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    is_caught_up: bool = False
    """True: the broker has approximately reached the end of the metadata log."""
    is_fenced: bool = True
    """True: the broker cannot lead partitions, and clients do not see it."""
    should_shut_down: bool = False
    """True: the controlled shutdown is complete, so the broker can stop."""


class BrokerHeartbeatRequest(
    Request[BrokerHeartbeatResponse], key=63, versions="0-2", flexible="0+", route=Route.CONTROLLER
):
    """Keep a broker's registration alive; ask to be fenced or for a controlled shutdown (KIP-631).

    Sent by brokers to the controller.

    Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, STALE_BROKER_EPOCH (also if the broker isn't registered).
    """

    broker_id: BrokerId = 0
    """Broker that sends the heartbeat."""
    broker_epoch: int64 = -1
    """Epoch of the broker's registration; -1: unknown."""
    current_metadata_offset: int64 = 0
    """Highest offset of the metadata log that the broker has applied."""
    want_fence: bool = False
    """True: the broker asks to be, or to stay, fenced."""
    want_shut_down: bool = False
    """True: the broker asks for its leaderships to be moved, so it can stop."""
    offline_log_dirs: list[uuid] = field("1+", tag=0, factory=list)
    """Ids of log directories that failed (KIP-858)."""
    cordoned_log_dirs: list[uuid] | None = field("2+", tag=1, default=None)
    """Ids of log directories that don't receive new replicas (KIP-1066); null: unchanged."""
