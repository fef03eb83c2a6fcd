"""DeleteAcls (ApiKey 31): remove the access rules that match filters."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class DeleteAclsMatchingAcl(Struct):
    """An ACL that matched the filter."""

    error_code: int16 = 0
    error_message: string | None = ""
    resource_type: int8 = 0
    """Kind of resource: 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user."""
    resource_name: string = ""
    """Name of the resource."""
    pattern_type: int8 = field("1+", default=3)
    """3: literal; 4: prefixed."""
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


class DeleteAclsFilterResult(Struct):
    """The ACLs that one filter deleted."""

    error_code: int16 = 0
    error_message: string | None = ""
    matching_acls: list[DeleteAclsMatchingAcl] = field(factory=list)


class DeleteAclsResponse(Response, key=31, versions="0-3", flexible="2+", client_throttles="1+"):
    """One result per filter. Errors: see `DeleteAclsRequest`."""

    throttle_time_ms: int32 = 0
    filter_results: list[DeleteAclsFilterResult] = field(factory=list)


class DeleteAclsFilter(Struct):
    """Which ACLs to delete."""

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


class DeleteAclsRequest(Request[DeleteAclsResponse], key=31, versions="0-3", flexible="2+", route=Route.CONTROLLER):
    """Delete all ACLs that match at least one filter.

    Sent by admin tools to the controller; brokers forward it.

    Errors: per filter: CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED, INVALID_REQUEST, NOT_CONTROLLER; per ACL:
    UNKNOWN_SERVER_ERROR.
    """

    filters: list[DeleteAclsFilter] = field(factory=list)
