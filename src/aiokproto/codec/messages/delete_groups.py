"""DeleteGroups (ApiKey 42): delete empty groups and their offsets."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Request, Response, Route, Struct, field, int16, int32, string


class DeletableGroupResult(Struct):
    """The result of one group."""

    group_id: GroupId = ""
    """The group."""
    error_code: int16 = 0
    error_message: string | None = field("3+", default=None, ignorable=True)


class DeleteGroupsResponse(Response, key=42, versions="0-3", flexible="2+", client_throttles="1+"):
    """One result per group. Errors: see `DeleteGroupsRequest`."""

    throttle_time_ms: int32 = 0
    results: list[DeletableGroupResult] = field(factory=list)


class DeleteGroupsRequest(Request[DeleteGroupsResponse], key=42, versions="0-3", flexible="2+", route=Route.GROUP):
    """Delete groups without members, of any type, and their offsets (KIP-229).

    Sent by admin tools to the groups' coordinators.

    Errors: per group: GROUP_AUTHORIZATION_FAILED, INVALID_GROUP_ID, GROUP_ID_NOT_FOUND, NON_EMPTY_GROUP,
    NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS.
    """

    groups_names: list[GroupId] = field(factory=list)
    """Groups to delete."""
