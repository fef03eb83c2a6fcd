"""BrokerHeartbeat (ApiKey 63): a broker stays in the cluster, or asks to be fenced or to stop."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Request, Response, Route, field, int16, int32, int64, uuid


class BrokerHeartbeatResponse(Response, key=63, versions="0-2", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    is_caught_up: bool = False
    is_fenced: bool = True
    should_shut_down: bool = False


class BrokerHeartbeatRequest(
    Request[BrokerHeartbeatResponse], key=63, versions="0-2", flexible="0+", route=Route.CONTROLLER
):
    broker_id: BrokerId = 0
    broker_epoch: int64 = -1
    current_metadata_offset: int64 = 0
    want_fence: bool = False
    want_shut_down: bool = False
    offline_log_dirs: list[uuid] = field("1+", tag=0, factory=list)
    cordoned_log_dirs: list[uuid] | None = field("2+", tag=1, default=None)
