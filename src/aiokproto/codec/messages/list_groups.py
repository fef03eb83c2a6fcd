"""ListGroups (ApiKey 16): list the groups that a broker coordinates."""

from __future__ import annotations

from aiokproto.codec.schema import GroupId, Request, Response, Route, Struct, field, int16, int32, string


class ListedGroup(Struct):
    """A group."""

    group_id: GroupId = ""
    """Id of the group."""
    protocol_type: string = ""
    """Kind of group: "consumer", "connect", "share" or "streams"; empty: a classic group without members, which only
    stores offsets."""
    group_state: string = field("4+", default="", ignorable=True)
    """State such as "Stable", "Empty" or "PreparingRebalance"."""
    group_type: string = field("5+", default="", ignorable=True)
    """Protocol of the group: "classic", "consumer" (KIP-848), "share" or "streams"."""


class ListGroupsResponse(Response, key=16, versions="0-5", flexible="3+", client_throttles="2+"):
    """The groups of this broker that the caller is allowed to describe. Errors: see `ListGroupsRequest`."""

    throttle_time_ms: int32 = field("1+", default=0, ignorable=True)
    error_code: int16 = 0
    groups: list[ListedGroup] = field(factory=list)


class ListGroupsRequest(Request[ListGroupsResponse], key=16, versions="0-5", flexible="3+", route=Route.EVERY):
    """List groups.

    Sent by admin tools to every broker, as each lists only the groups that it coordinates.

    Errors: COORDINATOR_NOT_AVAILABLE, COORDINATOR_LOAD_IN_PROGRESS (list again: groups are missing until they have been
    loaded).
    """

    states_filter: list[string] = field("4+", factory=list)
    """States to list, in any letter case; empty: all (KIP-518)."""
    types_filter: list[string] = field("5+", factory=list)
    """Group types to list, in any letter case; empty: all (KIP-848)."""
