"""BrokerRegistration (ApiKey 62): a broker enters the cluster."""

from __future__ import annotations

from aiokproto.codec.schema import (
    BrokerId,
    Request,
    Response,
    Route,
    Struct,
    field,
    int16,
    int32,
    int64,
    string,
    uint16,
    uuid,
)
from aiokproto.codec.wire import ZERO_UUID


class BrokerRegistrationResponse(Response, key=62, versions="0-4", flexible="0+"):
    """The epoch of the registration. Errors: see `BrokerRegistrationRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    broker_epoch: int64 = -1
    """Epoch that the broker sends in all later requests; -1: the registration failed."""


class Listener(Struct):
    """A listener that the broker accepts connections on."""

    name: string = ""
    """Listener name."""
    host: string = ""
    """Host name or address to connect to."""
    port: uint16 = 0
    """TCP port."""
    security_protocol: int16 = 0
    """0: PLAINTEXT; 1: SSL; 2: SASL_PLAINTEXT; 3: SASL_SSL."""


class Feature(Struct):
    """A feature, and the levels that the broker supports."""

    name: string = ""
    """Feature name, such as `metadata.version`."""
    min_supported_version: int16 = 0
    """Lowest level supported."""
    max_supported_version: int16 = 0
    """Highest level supported."""


class BrokerRegistrationRequest(
    Request[BrokerRegistrationResponse], key=62, versions="0-4", flexible="0+", route=Route.CONTROLLER
):
    """Register a broker with the KRaft controller when it starts (KIP-631).

    Sent by brokers to the controller.

    Errors: CLUSTER_AUTHORIZATION_FAILED, NOT_CONTROLLER, DUPLICATE_BROKER_REGISTRATION, INCONSISTENT_CLUSTER_ID,
    UNSUPPORTED_VERSION (a feature), INVALID_REGISTRATION (log directories), BROKER_ID_NOT_REGISTERED (a broker that
    uses ZooKeeper).
    """

    broker_id: BrokerId = 0
    """Node id of the broker."""
    cluster_id: string = ""
    """Cluster id of the broker; the controller rejects brokers of other clusters."""
    incarnation_id: uuid = ZERO_UUID
    """Random id of the process, new at each start."""
    listeners: list[Listener] = field(factory=list)
    features: list[Feature] = field(factory=list)
    rack: string | None = ""
    """Rack of the broker (`broker.rack`); null: none configured."""
    is_migrating_zk_broker: bool = field("1+", default=False)
    """True: a ZooKeeper broker in a cluster that is migrating to KRaft (KIP-866)."""
    log_dirs: list[uuid] = field("2+", factory=list, ignorable=True)
    """Ids of the broker's available log directories (KIP-858)."""
    previous_broker_epoch: int64 = field("3+", default=-1, ignorable=True)
    """Epoch before the last clean shutdown; -1: the shutdown was not clean, or unknown (KIP-966)."""
