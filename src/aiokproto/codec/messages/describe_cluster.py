"""DescribeCluster (ApiKey 60): the brokers or controllers, the controller's id and the cluster's id."""

from __future__ import annotations

from aiokproto.codec.schema import BrokerId, Request, Response, Route, Struct, field, int8, int16, int32, string


class DescribeClusterBroker(Struct):
    broker_id: BrokerId = 0
    host: string = ""
    port: int32 = 0
    rack: string | None = None
    is_fenced: bool = field("2+", default=False)


class DescribeClusterResponse(Response, key=60, versions="0-2", flexible="0+"):
    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = None
    endpoint_type: int8 = field("1+", default=1)
    cluster_id: string = ""
    controller_id: BrokerId = -1
    brokers: list[DescribeClusterBroker] = field(factory=list)
    cluster_authorized_operations: int32 = -2147483648


class DescribeClusterRequest(Request[DescribeClusterResponse], key=60, versions="0-2", flexible="0+", route=Route.ANY):
    include_cluster_authorized_operations: bool = False
    endpoint_type: int8 = field("1+", default=1)
    include_fenced_brokers: bool = field("2+", default=False)
