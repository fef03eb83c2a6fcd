"""Access control lists: resources, operations, entries and filters, with Kafka's numbers."""

from __future__ import annotations

from enum import IntEnum
from functools import lru_cache
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import NamedTuple

from aiokproto.broker.addresses import parse_address
from aiokproto.error_codes import ErrorCode


class ResourceType(IntEnum):
    """The type of a resource."""

    UNKNOWN = 0
    ANY = 1
    TOPIC = 2
    GROUP = 3
    CLUSTER = 4
    TRANSACTIONAL_ID = 5
    DELEGATION_TOKEN = 6
    USER = 7


class PatternType(IntEnum):
    """How an entry's name matches resources. ANY and MATCH occur only in filters."""

    UNKNOWN = 0
    ANY = 1
    MATCH = 2
    LITERAL = 3
    PREFIXED = 4


class Operation(IntEnum):
    """An operation on a resource."""

    UNKNOWN = 0
    ANY = 1
    ALL = 2
    READ = 3
    WRITE = 4
    CREATE = 5
    DELETE = 6
    ALTER = 7
    DESCRIBE = 8
    CLUSTER_ACTION = 9
    DESCRIBE_CONFIGS = 10
    ALTER_CONFIGS = 11
    IDEMPOTENT_WRITE = 12
    CREATE_TOKENS = 13
    DESCRIBE_TOKENS = 14
    TWO_PHASE_COMMIT = 15


class Permission(IntEnum):
    """Whether an entry allows or denies."""

    UNKNOWN = 0
    ANY = 1
    DENY = 2
    ALLOW = 3


WILDCARD = "*"
ANYONE = "User:*"
"""The principal of entries that apply to every user."""
CLUSTER_NAME = "kafka-cluster"
"""The name of the only resource of type CLUSTER."""

IMPLIED_BY = {
    Operation.DESCRIBE: frozenset({Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER}),
    Operation.DESCRIBE_CONFIGS: frozenset({Operation.ALTER_CONFIGS}),
}
"""Operations that imply other operations if they're allowed: READ on a topic implies DESCRIBE."""

OPERATIONS = {
    ResourceType.TOPIC: (
        Operation.READ,
        Operation.WRITE,
        Operation.CREATE,
        Operation.DELETE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.GROUP: (
        Operation.READ,
        Operation.DELETE,
        Operation.DESCRIBE,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
    ),
    ResourceType.CLUSTER: (
        Operation.CREATE,
        Operation.ALTER,
        Operation.DESCRIBE,
        Operation.CLUSTER_ACTION,
        Operation.DESCRIBE_CONFIGS,
        Operation.ALTER_CONFIGS,
        Operation.IDEMPOTENT_WRITE,
    ),
}
"""For each resource type, the operations that responses may report as authorized (KIP-430)."""

REFUSALS = {
    ResourceType.TOPIC: ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ResourceType.GROUP: ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ResourceType.CLUSTER: ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    ResourceType.TRANSACTIONAL_ID: ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ResourceType.DELEGATION_TOKEN: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
    # The only operations on users are CREATE_TOKENS and DESCRIBE_TOKENS (KIP-373).
    ResourceType.USER: ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED,
}
"""The error code of a failed authorization, by resource type."""


class Acl(NamedTuple):
    """An entry, which allows or denies a principal an operation on resources.

    Attributes:
        resource_type: The type of the resources.
        name: The name of the resource, or the prefix of the names. The literal name ``*`` matches all resources.
        pattern_type: LITERAL or PREFIXED.
        principal: ``User:alice``; ``User:*`` matches every user.
        host: The client's IP address, or a network (``10.0.0.0/8``). ``*`` matches any host.
        operation: The operation; ALL matches every operation.
        permission: ALLOW or DENY.
    """

    resource_type: ResourceType
    name: str
    pattern_type: PatternType
    principal: str
    host: str
    operation: Operation
    permission: Permission

    def applies_to(self, principal: str, host: str) -> bool:
        """Return whether the entry applies to a principal at an address."""
        if self.principal not in (principal, ANYONE):
            return False
        return self.host in (host, WILDCARD) or _has(self.host, host)

    def decides(self, operation: Operation) -> bool:
        """Return whether the entry allows or denies the operation. Only ALLOW entries imply other operations."""
        if self.operation in (operation, Operation.ALL):
            return True
        # As in Kafka's StandardAuthorizer, a user who is denied READ on a topic may still be allowed to describe it.
        return self.permission is Permission.ALLOW and self.operation in IMPLIED_BY.get(operation, ())


class AclFilter(NamedTuple):
    """Selects entries. None and ANY match everything. The pattern type MATCH selects entries that apply to the name."""

    resource_type: ResourceType
    name: str | None
    pattern_type: PatternType
    principal: str | None
    host: str | None
    operation: Operation
    permission: Permission

    @property
    def unknown(self) -> str | None:
        """The first part of the filter that has an unknown value, or None if all values are known."""
        kinds = (self.resource_type, self.pattern_type, self.operation, self.permission)
        return next((type(kind).__name__ for kind in kinds if kind == 0), None)

    def matches(self, acl: Acl) -> bool:
        """Return whether the filter selects an entry."""
        return (
            self.resource_type in (ResourceType.ANY, acl.resource_type)
            and self._matches_name(acl)
            and self.principal in (None, acl.principal)
            and self.host in (None, acl.host)
            and self.operation in (Operation.ANY, acl.operation)
            and self.permission in (Permission.ANY, acl.permission)
        )

    def _matches_name(self, acl: Acl) -> bool:
        if self.pattern_type not in (PatternType.ANY, PatternType.MATCH, acl.pattern_type):
            return False
        if self.name is None:
            return True
        # MATCH selects the entries that apply to a resource of this name. The other types compare the entry's own name.
        if self.pattern_type is not PatternType.MATCH:
            return self.name == acl.name
        # The entry's name is the prefix here, and the filter's name is the resource.
        if acl.pattern_type is PatternType.PREFIXED:
            return self.name.startswith(acl.name)
        return acl.name in (self.name, WILDCARD)


def check_host(host: str) -> None:
    """Check the host of an entry, like Kafka 4.4. Host names are accepted, even though they never match a client.

    Raises:
        ValueError: The host is empty, or looks like a network but isn't a valid one.
    """
    if not host:
        raise ValueError("Host pattern cannot be null or empty")
    if "/" in host:
        try:
            _network(host)
        except ValueError:
            raise ValueError(f"Invalid CIDR notation '{host[:100]}'") from None


# Clients with many addresses evict other clients' entries, but recomputing an entry takes only microseconds.
@lru_cache(4096)
def _has(pattern: str, host: str) -> bool:
    """Return whether an address is in the network of an entry's host, or is the same address in another notation.

    Kafka compares strings, in Java's notation: ``0:0:0:0:0:0:0:1``. Here, entries can use any notation.
    """
    try:
        client = parse_address(host)
        if "/" in pattern:
            return client in _network(pattern)
        return parse_address(pattern) == client
    except ValueError:
        return False


def _network(text: str) -> IPv4Network | IPv6Network:
    length = text.rpartition("/")[2]
    if not (length.isascii() and length.isdigit()):
        # Python would accept netmasks, too.
        raise ValueError("the length of the network's prefix is missing")
    found = ip_network(text, strict=False)
    mapped = found.network_address.ipv4_mapped if isinstance(found, IPv6Network) else None
    return found if mapped is None or found.prefixlen < 96 else IPv4Network((mapped, found.prefixlen - 96))
