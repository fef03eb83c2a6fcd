"""The tests' own ``grant()`` waits until the broker applies every ACL, which real Kafka does after its response."""

from __future__ import annotations

from typing import Any, cast

import pytest

from aiokproto.codec.messages.create_acls import AclCreation, AclCreationResult, CreateAclsRequest, CreateAclsResponse
from aiokproto.codec.messages.describe_acls import AclDescription, DescribeAclsResource, DescribeAclsResponse
from tests.broker.secure import DESCRIBE, GROUP, PREFIXED, READ, TOPIC, acl, grant
from tests.broker.wire import Wire


class LateBroker:
    """Has one ACL from the start, and applies the next one only after it has described its ACLs once."""

    def __init__(self, before: AclCreation) -> None:
        self._applied = [before]
        self._late: list[AclCreation] = []
        self.asked = 0

    async def ask(self, request: Any, version: int) -> Any:
        if isinstance(request, CreateAclsRequest):
            self._late = request.creations
            return CreateAclsResponse(results=[AclCreationResult() for _ in request.creations])
        self.asked += 1
        if self.asked > 1:
            self._applied += self._late
        return DescribeAclsResponse(resources=[_described(each) for each in self._applied])


def _described(each: AclCreation) -> DescribeAclsResource:
    entry = AclDescription(
        principal=each.principal, host=each.host, operation=each.operation, permission_type=each.permission_type
    )
    return DescribeAclsResource(
        resource_type=each.resource_type,
        resource_name=each.resource_name,
        pattern_type=each.resource_pattern_type,
        acls=[entry],
    )


@pytest.mark.parametrize(
    "other",
    [
        acl(TOPIC, "t", DESCRIBE, pattern=PREFIXED),
        acl(GROUP, "t", DESCRIBE),
        acl(TOPIC, "u", DESCRIBE),
        acl(TOPIC, "t", READ),
        acl(TOPIC, "t", DESCRIBE, principal="User:bob"),
    ],
    ids=["pattern", "type", "name", "operation", "principal"],
)
async def test_an_acl_is_waited_for_although_another_is_in_force(other: AclCreation) -> None:
    broker = LateBroker(acl(TOPIC, "t", DESCRIBE))
    await grant(cast("Wire", broker), other)
    assert broker.asked == 2
