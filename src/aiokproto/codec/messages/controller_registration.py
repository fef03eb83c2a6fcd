"""ControllerRegistration (ApiKey 70): a controller registers with the quorum."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int16, int32, string, uint16, uuid
from aiokproto.codec.wire import ZERO_UUID


class ControllerRegistrationResponse(Response, key=70, versions="0", flexible="0+"):
    """Whether the controller was registered. Errors: see `ControllerRegistrationRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""


class Listener(Struct):
    """A listener that the controller accepts connections on."""

    name: string = ""
    """Listener name."""
    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""
    security_protocol: int16 = 0
    """0: PLAINTEXT; 1: SSL; 2: SASL_PLAINTEXT; 3: SASL_SSL."""


class Feature(Struct):
    """A feature, and the levels that the controller supports."""

    name: string = ""
    """Feature name, such as `metadata.version`."""
    min_supported_version: int16 = 0
    """Lowest level supported."""
    max_supported_version: int16 = 0
    """Highest level supported."""


class ControllerRegistrationRequest(
    Request[ControllerRegistrationResponse], key=70, versions="0", flexible="0+", route=Route.CONTROLLER
):
    """Register a controller's listeners and features with the active controller (KIP-919).

    Sent by KRaft controllers to the active controller.

    Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, UNSUPPORTED_VERSION (the metadata version is too low, or a
    feature).
    """

    controller_id: int32 = 0
    """Node id of the controller."""
    incarnation_id: uuid = ZERO_UUID
    """Random id of the process, new at each start."""
    zk_migration_ready: bool = False
    """True: the controller is configured to migrate a cluster from ZooKeeper (KIP-866)."""
    listeners: list[Listener] = field(factory=list)
    features: list[Feature] = field(factory=list)
