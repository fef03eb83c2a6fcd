"""UnregisterBroker (ApiKey 64): remove the registration of a broker that has left permanently."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Request, Response, Route, int16, int32, string


class UnregisterBrokerResponse(Response, key=64, versions="0", flexible="0+"):
    """Whether the broker was removed. Errors: see `UnregisterBrokerRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""


class UnregisterBrokerRequest(
    Request[UnregisterBrokerResponse], key=64, versions="0", flexible="0+", route=Route.CONTROLLER
):
    """Remove a broker's registration from the metadata of a KRaft cluster.

    Sent by admin tools to the controller, after the broker has stopped; any broker forwards it.

    Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, BROKER_ID_NOT_REGISTERED, REQUEST_TIMED_OUT,
    UNSUPPORTED_VERSION.
    """

    broker_id: BrokerId = 0
    """Id of the broker."""
