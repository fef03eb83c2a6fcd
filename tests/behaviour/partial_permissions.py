"""Users with partial permissions, and what brokers refuse to them.

For each operation on each type of resource there is a user who has nothing else, and one who has everything else.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Iterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, NamedTuple

from aiokproto.broker.security.acls import CLUSTER_NAME, Operation, PatternType, Permission, ResourceType
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.create_acls import AclCreation
from aiokproto.codec.messages.delete_acls import DeleteAclsFilter, DeleteAclsRequest
from aiokproto.codec.messages.find_coordinator import FindCoordinatorRequest
from aiokproto.codec.messages.init_producer_id import InitProducerIdRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from aiokproto.codec.schema import Role, Struct, Versions
from aiokproto.error_codes import ErrorCode, Policy
from tests.behaviour.requests_of_all_apis import Names, Sample
from tests.behaviour.secured import Secured, as_user, create, rule
from tests.behaviour.waiting import until
from tests.broker.secure import ALLOW, DENY, LITERAL, PREFIXED, grant
from tests.broker.wire import Wire

OPERATIONS = {
    ResourceType.TOPIC: "READ WRITE CREATE DELETE ALTER DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    ResourceType.GROUP: "READ DELETE DESCRIBE DESCRIBE_CONFIGS ALTER_CONFIGS",
    ResourceType.CLUSTER: ("CREATE ALTER DESCRIBE CLUSTER_ACTION DESCRIBE_CONFIGS ALTER_CONFIGS IDEMPOTENT_WRITE"),
    ResourceType.TRANSACTIONAL_ID: "DESCRIBE WRITE TWO_PHASE_COMMIT",
    ResourceType.DELEGATION_TOKEN: "DESCRIBE",
    ResourceType.USER: "CREATE_TOKENS DESCRIBE_TOKENS",
}
"""The operations of each type of resource, as in Kafka's AclEntry.supportedOperations()."""

PAIRS = [(kind, Operation[each]) for kind, operations in OPERATIONS.items() for each in operations.split()]

CLOSED = "the connection is closed"
Outcome = frozenset[str]


class User(NamedTuple):
    """A user who has one operation on all resources of a type, or all others on resources of all types.

    With ``first``, the user lacks the operation only on the first of two resources, whose name starts with the user's.
    """

    name: str
    resource_type: ResourceType
    operation: Operation
    only: bool
    first: bool = False

    def __str__(self) -> str:
        which = "the first " if self.first else ""
        return f"{'only' if self.only else 'without'} {self.operation.name} on {which}{self.resource_type.name}"

    def permits(self, operation: Operation, resource_type: ResourceType) -> bool:
        """Whether the user is authorized, by the rules of ACLs."""
        implied_by = {
            Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
            Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
        }
        asked = (resource_type, operation)
        if not self.only:
            return asked != (self.resource_type, self.operation)
        return resource_type is self.resource_type and self.operation in (operation, *implied_by.get(operation, ()))

    @property
    def acls(self) -> Iterator[AclCreation]:
        """Yield the ACL entries that make it so."""
        if not self.only:
            for kind in OPERATIONS:
                yield rule(self.name, kind, _all_of(kind), Operation.ALL, permission=ALLOW)
        permission = ALLOW if self.only else DENY
        name, pattern = _all_of(self.resource_type), LITERAL
        if self.first:
            # Some requests must name a resource that does not exist. Its name starts with the same letters.
            name, pattern = f"{self.name.split('-')[0]}-{_FIRST[self.resource_type]}", PREFIXED
        yield rule(self.name, self.resource_type, name, self.operation, permission=permission, pattern=pattern)


_FIRST = {ResourceType.TOPIC: "a", ResourceType.GROUP: "g"}
"""How the names of :func:`prepare` end."""


def _all_of(kind: ResourceType) -> str:
    return CLUSTER_NAME if kind is ResourceType.CLUSTER else "*"


def users(prefix: str) -> list[User]:
    """Return all of them, with names that start alike."""
    return [
        User(f"{prefix}-{number}-{only}", *pair, only) for number, pair in enumerate(PAIRS) for only in (False, True)
    ]


def users_without_the_first(prefix: str) -> list[User]:
    """Return the users who lack an operation on one of two topics or groups."""
    return [
        User(f"{prefix}-{number}-first", *pair, only=False, first=True)
        for number, pair in enumerate(PAIRS)
        if pair[0] in _FIRST
    ]


async def prepare(admin: Wire, prefix: str) -> Names:
    """Create what the requests name."""
    topics, groups = [f"{prefix}-{each}" for each in "ab"], (f"{prefix}-g", f"{prefix}-h")
    for name in topics:
        await create(admin, name)
    for group in groups:
        for kind in (0, 1):
            request = FindCoordinatorRequest(coordinator_keys=[group], key_type=kind)
            await until(partial(admin.ask, request, 4), lambda response: not _codes(response))
        commit = OffsetCommitRequest(
            group_id=group,
            topics=[
                OffsetCommitRequestTopic(
                    name=name,
                    partitions=[
                        OffsetCommitRequestPartition(partition_index=0, committed_offset=0, committed_metadata="")
                    ],
                )
                for name in topics
            ],
        )
        await until(partial(admin.ask, commit, 8), lambda response: not _codes(response))
    begin = InitProducerIdRequest(transactional_id=f"{prefix}-x", transaction_timeout_ms=60_000)
    await until(lambda: admin.ask(begin, 4), lambda response: not _codes(response))
    named = [MetadataRequestTopic(name=each) for each in topics]
    found = await admin.ask(MetadataRequest(topics=named, allow_auto_topic_creation=False), 12)
    return Names({each.name or "": each.topic_id for each in found.topics}, groups, f"{prefix}-x")


def _codes(part: Struct) -> set[int]:
    found: set[int] = set()
    for spec in part.fields():
        value = getattr(part, spec.name)
        if spec.name.endswith("error_code"):
            found.add(value)
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, Struct):
                found |= _codes(item)
    return found - {0}


async def served_by(wire: Wire) -> dict[int, Versions]:
    """Return the versions of the broker, by ApiKey."""
    found = await wire.ask(ApiVersionsRequest(client_software_name="test", client_software_version="1"), 3)
    return {each.api_key: Versions(each.min_version, each.max_version) for each in found.api_keys}


@asynccontextmanager
async def permitted_users(admin: Wire, everyone: Iterable[User]) -> AsyncIterator[None]:
    """Give users their permissions, for as long as the block lasts."""
    everyone = list(everyone)
    await grant(admin, *(each for user in everyone for each in user.acls))
    try:
        yield
    finally:
        of_users = [
            DeleteAclsFilter(
                resource_type_filter=ResourceType.ANY,
                resource_name_filter=None,
                pattern_type_filter=PatternType.ANY,
                principal_filter=f"User:{user.name}",
                host_filter=None,
                operation=Operation.ANY,
                permission_type=Permission.ANY,
            )
            for user in everyone
        ]
        assert not _codes(await admin.ask(DeleteAclsRequest(filters=of_users), 3))


async def outcomes(secured: Secured, user: User, samples: Iterable[Sample], names: Names) -> dict[str, Outcome]:
    """Send requests as a user; return what was refused, by request."""
    left, found = list(samples), {}
    while left:
        # Connect again after a request that the broker answers by closing the connection.
        async with as_user(secured, user.name) as wire:
            while left:
                sample = left.pop(0)
                outcome = await _ask(wire, sample, names)
                found[f"{sample.name} v{sample.version}"] = outcome
                if outcome == {CLOSED}:
                    break
    return found


async def _ask(wire: Wire, sample: Sample, names: Names) -> Outcome:
    try:
        response = await wire.ask(sample.request, sample.version)
    except (asyncio.IncompleteReadError, ConnectionError):
        return frozenset({CLOSED})
    return outcome(response, names, lists=sample.lists)


def outcome(response: Struct, names: Names, *, lists: bool) -> Outcome:
    """Return the errors of a response that are about authorization, with their places; and what it names, if asked."""
    labels: dict[Any, str] = {
        **{name: f"topic {number}" for number, name in enumerate(names.topics)},
        **{topic_id: f"topic {number}" for number, topic_id in enumerate(names.topics.values())},
        **{f"{name}-unknown": f"topic {number}" for number, name in enumerate(names.topics)},
        **{f"{name}!": f"topic {number}" for number, name in enumerate(names.topics)},
        **{name: f"group {number}" for number, name in enumerate(names.groups)},
        **{f"{name}-unknown": f"group {number}" for number, name in enumerate(names.groups)},
        **{f"{name}:{'A' * 22}:0": f"group {number}" for number, name in enumerate(names.groups)},
        names.transactional_id: "transaction",
    }
    return frozenset(_outcome(response, "", labels, lists))


def _outcome(part: Struct, place: str, labels: dict[Any, str], lists: bool) -> Iterator[str]:
    values = {spec.name: getattr(part, spec.name) for spec in part.fields()}
    named = {labels[value] for value in values.values() if isinstance(value, (str, bytes)) and value in labels}
    named |= {f"resource type {values['resource_type']}"} if "resource_type" in values else set()
    indexes = [spec.name for spec in part.fields() if spec.role is Role.PARTITION_INDEX and not spec.array]
    named |= {f"partition {values[name]}" for name in indexes}
    here = "/".join(filter(None, [place, *sorted(named)]))
    if lists and named & set(labels.values()):
        yield f"{here} is listed"
    for name, value in values.items():
        if name.endswith("error_code") and _is_of_authorization(ErrorCode(value)):
            yield f"{here}/{name} {ErrorCode(value).name}"
        for item in value if isinstance(value, list) else (value,):
            if isinstance(item, Struct):
                yield from _outcome(item, f"{here}/{name}", labels, lists)


def _is_of_authorization(error: ErrorCode) -> bool:
    # Items that aren't served because others in the request are refused get the second error.
    return bool(error.policy & Policy.AUTHORIZATION) or error is ErrorCode.OPERATION_NOT_ATTEMPTED
