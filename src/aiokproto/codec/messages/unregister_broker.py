"""UnregisterBroker (ApiKey 64): remove a broker that is gone for good."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Request, Response, Route, int16, int32, string


class UnregisterBrokerResponse(Response, key=64, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""


class UnregisterBrokerRequest(
    Request[UnregisterBrokerResponse], key=64, versions="0", flexible="0+", route=Route.CONTROLLER
):
    broker_id: BrokerId = 0
