"""UnregisterController (ApiKey 94): remove the registration of a controller that has left permanently."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, int16, int32, string


class UnregisterControllerResponse(Response, key=94, versions="0", flexible="0+"):
    """Whether the controller was removed. Errors: see `UnregisterControllerRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""


class UnregisterControllerRequest(
    Request[UnregisterControllerResponse], key=94, versions="0", flexible="0+", route=Route.CONTROLLER
):
    """Remove a controller's registration from the metadata of a KRaft cluster.

    Sent by admin tools to the active controller, after the controller has stopped; any broker forwards it.

    Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, CONTROLLER_ID_NOT_REGISTERED, REQUEST_TIMED_OUT,
    UNSUPPORTED_VERSION.
    """

    controller_id: int32 = 0
    """Node id of the controller."""
