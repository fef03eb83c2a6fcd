"""UnregisterController (ApiKey 94): remove a controller that is gone for good."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, int16, int32, string


class UnregisterControllerResponse(Response, key=94, versions="0", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""


class UnregisterControllerRequest(
    Request[UnregisterControllerResponse], key=94, versions="0", flexible="0+", route=Route.CONTROLLER
):
    controller_id: int32 = 0
