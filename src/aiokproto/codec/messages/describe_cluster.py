"""DescribeCluster (ApiKey 60): the brokers or controllers, the controller's id and the cluster's id."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Request, Response, Route, Struct, field, int8, int16, int32, string


class DescribeClusterBroker(Struct):
    """A broker or controller of the cluster."""

    broker_id: BrokerId = 0
    """Node id."""
    host: string = ""
    """Host name or address to connect to."""
    port: int32 = 0
    """TCP port."""
    rack: string | None = None
    """Rack of the broker (`broker.rack`); null: none configured."""
    is_fenced: bool = field("2+", default=False)
    """True: the broker is registered, but fenced (KIP-1073)."""


class DescribeClusterResponse(Response, key=60, versions="0-2", flexible="0+"):
    """The nodes of the cluster. Errors: see `DescribeClusterRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    endpoint_type: int8 = field("1+", default=1)
    """1: the nodes are brokers; 2: controllers."""
    cluster_id: string = ""
    """Id of the cluster."""
    controller_id: BrokerId = -1
    """Node id of the controller. A KRaft broker returns a random live broker, which forwards requests; -1: unknown."""
    brokers: list[DescribeClusterBroker] = field(factory=list)
    cluster_authorized_operations: int32 = -2147483648
    """Bit field of operations that the caller is authorized for; -2147483648: not requested."""


class DescribeClusterRequest(Request[DescribeClusterResponse], key=60, versions="0-2", flexible="0+", route=Route.ANY):
    """List the nodes of the cluster (KIP-700).

    Sent by admin tools to any broker, or to a controller for the controllers (KIP-919).

    Errors: MISMATCHED_ENDPOINT_TYPE and UNSUPPORTED_ENDPOINT_TYPE (INVALID_REQUEST in version 0), UNSUPPORTED_VERSION
    (a controller whose metadata version is too low). If the caller isn't allowed to describe the cluster, its
    authorized operations are 0.
    """

    include_cluster_authorized_operations: bool = False
    """True: return the operations that the caller is authorized for."""
    endpoint_type: int8 = field("1+", default=1)
    """1: list brokers; 2: list controllers."""
    include_fenced_brokers: bool = field("2+", default=False)
    """True: also list fenced brokers (KIP-1073)."""
