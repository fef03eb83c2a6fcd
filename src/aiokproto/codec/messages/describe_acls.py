"""DescribeAcls (ApiKey 29): the access rules that match a filter."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class AclDescription(Struct):
    """An ACL of the resource."""

    principal: string = ""
    """Principal, such as `User:alice`; `User:*`: everybody."""
    host: string = ""
    """Host that the ACL applies to; `*`: every host."""
    operation: int8 = 0
    """ACL operation: 1 (any, in filters), 2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster
    action, 10 describe configs, 11 alter configs, 12 idempotent write, 13 create tokens, 14 describe tokens, 15 two
    phase commit."""
    permission_type: int8 = 0
    """1: any (in filters); 2: deny; 3: allow."""


class DescribeAclsResource(Struct):
    """A resource pattern and its ACLs."""

    resource_type: int8 = 0
    """Kind of resource: 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user."""
    resource_name: string = ""
    """Name of the resource."""
    pattern_type: int8 = field("1+", default=3)
    """3: literal; 4: prefixed."""
    acls: list[AclDescription] = field(factory=list)


class DescribeAclsResponse(Response, key=29, versions="0-3", flexible="2+", client_throttles="1+"):
    """The matching ACLs, by resource pattern. Errors: see `DescribeAclsRequest`."""

    throttle_time_ms: int32 = 0
    error_code: int16 = 0
    error_message: string | None = ""
    resources: list[DescribeAclsResource] = field(factory=list)


class DescribeAclsRequest(Request[DescribeAclsResponse], key=29, versions="0-3", flexible="2+", route=Route.ANY):
    """List the ACLs that match a filter.

    Sent by admin tools to any broker.

    Errors: CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED, INVALID_REQUEST.
    """

    resource_type_filter: int8 = 0
    """Kind of resource: 1 any, 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user."""
    resource_name_filter: string | None = ""
    """Name of the resource; null: any."""
    pattern_type_filter: int8 = field("1+", default=3)
    """1: any; 2: every pattern that matches the name; 3: literal; 4: prefixed (KIP-290)."""
    principal_filter: string | None = ""
    """Principal, such as `User:alice`; null: any."""
    host_filter: string | None = ""
    """Host; null: any."""
    operation: int8 = 0
    """ACL operation: 1 (any, in filters), 2 all, 3 read, 4 write, 5 create, 6 delete, 7 alter, 8 describe, 9 cluster
    action, 10 describe configs, 11 alter configs, 12 idempotent write, 13 create tokens, 14 describe tokens, 15 two
    phase commit."""
    permission_type: int8 = 0
    """1: any (in filters); 2: deny; 3: allow."""
