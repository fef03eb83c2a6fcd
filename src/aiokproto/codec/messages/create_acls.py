"""CreateAcls (ApiKey 30): add access rules."""

from __future__ import annotations

from aiokproto.codec.schema import Request, Response, Route, Struct, field, int8, int16, int32, string


class AclCreationResult(Struct):
    """The result of one ACL, in the order of the request."""

    error_code: int16 = 0
    error_message: string | None = ""


class CreateAclsResponse(Response, key=30, versions="0-3", flexible="2+", client_throttles="1+"):
    """One result per ACL. Errors: see `CreateAclsRequest`."""

    throttle_time_ms: int32 = 0
    results: list[AclCreationResult] = field(factory=list)


class AclCreation(Struct):
    """An ACL to create."""

    resource_type: int8 = 0
    """Kind of resource: 2 topic, 3 group, 4 cluster, 5 transactional id, 6 delegation token, 7 user."""
    resource_name: string = ""
    """Name of the resource."""
    resource_pattern_type: int8 = field("1+", default=3)
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


class CreateAclsRequest(Request[CreateAclsResponse], key=30, versions="0-3", flexible="2+", route=Route.CONTROLLER):
    """Create ACLs.

    Sent by admin tools to the controller; brokers forward it.

    Errors: per ACL: CLUSTER_AUTHORIZATION_FAILED, SECURITY_DISABLED, INVALID_REQUEST, NOT_CONTROLLER,
    UNKNOWN_SERVER_ERROR.
    """

    creations: list[AclCreation] = field(factory=list)
