"""Decides authorizations from ACLs, as Kafka's StandardAuthorizer does."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from aiokproto.broker.security.acls import WILDCARD, Acl, AclFilter, Operation, PatternType, Permission, ResourceType

MAX_ACLS = 100_000
"""Most entries: each costs memory, and filters scan all of them."""


class Authorizer:
    """ACLs, indexed by resource.

    A matching DENY wins over every ALLOW. Without a matching ALLOW the answer is deny, unless no entry at all matches
    the resource and ``allow.everyone.if.no.acl.found`` is set. Super users are allowed everything, also what is denied.
    """

    def __init__(self, super_users: Collection[str] = (), *, allow_if_no_acl: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        # A dict for its order: DescribeAcls returns entries in the order in which they were created.
        self._acls: dict[Acl, None] = {}
        self._by_name: dict[tuple[ResourceType, PatternType, str], list[Acl]] = {}

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._acls)

    def __len__(self) -> int:
        return len(self._acls)

    # ---- entries

    def add(self, acls: Iterable[Acl]) -> None:
        """Add entries; existing ones are ignored."""
        for acl in acls:
            if acl not in self._acls:
                self._acls[acl] = None
                self._by_name.setdefault(_key(acl), []).append(acl)

    def remove(self, acls: Iterable[Acl]) -> None:
        """Remove existing entries."""
        for acl in acls:
            del self._acls[acl]
            place = _key(acl)
            self._by_name[place].remove(acl)
            if not self._by_name[place]:
                del self._by_name[place]

    def find(self, wanted: AclFilter) -> list[Acl]:
        """Return the entries that a filter selects."""
        return [acl for acl in self._acls if wanted.matches(acl)]

    # ---- decisions

    def is_authorized(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return whether a principal at an address is authorized for an operation on a resource."""
        if principal in self._super_users:
            return True
        named = allowed = False
        for acl in self._matching(resource_type, name):
            named = True
            if acl.applies_to(principal, host) and acl.decides(operation):
                # At once: no later entry can change it.
                if acl.permission is Permission.DENY:
                    return False
                allowed = True
        # One entry for the resource, whomever it is for, ends the exception, as in Kafka.
        return allowed or (not named and self._allow_if_no_acl)

    def is_authorized_for_any(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return whether a principal is authorized for an operation on any resource of a type
        (authorizeByResourceType).

        The resource need not exist: an ALLOW entry suffices, unless a DENY entry covers all resources that it matches.
        """
        # The name that Kafka's Authorizer uses here. It stands for a resource without entries of its own.
        if self.is_authorized(principal, host, operation, resource_type, "hardcode"):
            return True
        found = [
            acl
            for acl in self._acls
            if acl.resource_type is resource_type
            and acl.applies_to(principal, host)
            # Kafka does not consider implied operations here.
            and acl.operation in (operation, Operation.ALL)
        ]
        denied = {(acl.pattern_type, acl.name) for acl in found if acl.permission is Permission.DENY}
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(acl.permission is Permission.ALLOW and not _is_dominated(acl, denied) for acl in found)

    def _matching(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        by_name = self._by_name
        yield from by_name.get((resource_type, PatternType.LITERAL, name), ())
        if name != WILDCARD:
            yield from by_name.get((resource_type, PatternType.LITERAL, WILDCARD), ())
        # One lookup for each prefix: at most 249 for a topic, however many entries there are.
        for length in range(1, len(name) + 1):
            yield from by_name.get((resource_type, PatternType.PREFIXED, name[:length]), ())


def _key(acl: Acl) -> tuple[ResourceType, PatternType, str]:
    return acl.resource_type, acl.pattern_type, acl.name


def _is_dominated(acl: Acl, denied: Collection[tuple[PatternType, str]]) -> bool:
    """Return whether a DENY entry covers everything that the entry allows."""
    if acl.pattern_type is PatternType.LITERAL:
        if acl.name == WILDCARD:
            return False
        if (PatternType.LITERAL, acl.name) in denied:
            return True
    return any((PatternType.PREFIXED, acl.name[:length]) in denied for length in range(1, len(acl.name) + 1))
