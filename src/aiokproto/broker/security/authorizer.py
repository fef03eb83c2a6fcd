"""Decides authorizations from ACLs, as Kafka's StandardAuthorizer does.

Clients choose the names that are looked up, and a request may contain 100,000 names, so a decision must not scan
unrelated entries. Entries are therefore indexed by resource and principal. Prefixes of a name are looked up only if
there's a PREFIXED entry of that length.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import TypeVar

from aiokproto.broker.security.acls import (
    ANYONE,
    WILDCARD,
    Acl,
    AclFilter,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from aiokproto.codec.steps import Steps

K = TypeVar("K")

MAX_ACLS = 100_000
"""Maximum number of entries. Each entry takes memory, and filters scan all entries."""


_COMPARED = 16
"""How many entries are compared with a filter in one step."""


class Authorizer:
    """ACLs, indexed by resource.

    A matching DENY wins over any ALLOW. Without a matching ALLOW, the operation is denied, unless no entry at all
    matches the resource and ``allow.everyone.if.no.acl.found`` is set. Super users are allowed everything, even if an
    entry denies it.
    """

    def __init__(self, super_users: Collection[str] = (), *, allow_if_no_acl: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        # These are dicts rather than sets because DescribeAcls returns entries in the order in which they were created.
        self._acls: dict[Acl, None] = {}
        self._of_principal: dict[tuple[ResourceType, str], dict[Acl, None]] = {}
        self._by_name: dict[_Key, dict[str, dict[Acl, None]]] = {}
        # The lengths of the prefixes in PREFIXED entries, and how many such prefixes there are.
        self._lengths: dict[ResourceType, Counter[int]] = defaultdict(Counter)

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._acls)

    def __contains__(self, acl: object) -> bool:
        return acl in self._acls

    def __len__(self) -> int:
        return len(self._acls)

    # ---- entries

    def add(self, acls: Iterable[Acl]) -> None:
        """Add entries. Existing entries are ignored."""
        for acl in acls:
            if acl in self._acls:
                continue
            self._acls[acl] = None
            self._of_principal.setdefault((acl.resource_type, acl.principal), {})[acl] = None
            key = _key(acl)
            if key not in self._by_name:
                self._by_name[key] = {}
                if acl.pattern_type is PatternType.PREFIXED:
                    self._lengths[acl.resource_type][len(acl.name)] += 1
            self._by_name[key].setdefault(acl.principal, {})[acl] = None

    def remove(self, acls: Iterable[Acl]) -> None:
        """Remove existing entries."""
        for acl in acls:
            del self._acls[acl]
            _discard(self._of_principal, (acl.resource_type, acl.principal), acl)
            key = _key(acl)
            _discard(self._by_name[key], acl.principal, acl)
            if not self._by_name[key]:
                del self._by_name[key]
                if acl.pattern_type is PatternType.PREFIXED:
                    # Unlike subtract(), this removes lengths whose count drops to 0.
                    self._lengths[acl.resource_type] -= Counter([len(acl.name)])

    def finding(self, wanted: AclFilter) -> Steps[list[Acl]]:
        """Return the entries that a filter selects, in steps."""
        found: list[Acl] = []
        # Iterate over a copy, because entries may be added and removed between steps.
        for number, acl in enumerate(list(self._acls)):
            if wanted.matches(acl):
                found.append(acl)
            if number % _COMPARED == 0:
                yield
        return found

    # ---- decisions

    def is_authorized(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Return whether a principal at an address is authorized for an operation on a resource."""
        if principal in self._super_users:
            return True
        named = allowed = False
        for of_resource in self._matching(resource_type, name):
            named = True
            for acl in _of(of_resource, principal):
                if acl.applies_to(principal, host) and acl.decides(operation):
                    # Return right away, because no other entry can override a DENY.
                    if acl.permission is Permission.DENY:
                        return False
                    allowed = True
        # As in Kafka, allow.everyone.if.no.acl.found no longer applies once the resource has any entry, for any
        # principal.
        return allowed or (not named and self._allow_if_no_acl)

    def is_authorized_for_any(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Return whether a principal is authorized for an operation on any resource of a type
        (authorizeByResourceType).

        The resource doesn't have to exist: an ALLOW entry is enough, unless a DENY entry covers all the resources that
        it matches.
        """
        # Kafka's Authorizer uses this name, too. It stands for a resource that has no entries of its own.
        if self.is_authorized(principal, host, operation, resource_type, "hardcode"):
            return True
        found = [
            acl
            for granted in dict.fromkeys((principal, ANYONE))
            for acl in self._of_principal.get((resource_type, granted), ())
            # Kafka doesn't consider implied operations here.
            if acl.applies_to(principal, host) and acl.operation in (operation, Operation.ALL)
        ]
        denied = {(acl.pattern_type, acl.name) for acl in found if acl.permission is Permission.DENY}
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        lengths = sorted({len(name) for pattern, name in denied if pattern is PatternType.PREFIXED})
        return any(acl.permission is Permission.ALLOW and not _is_dominated(acl, denied, lengths) for acl in found)

    def _matching(self, resource_type: ResourceType, name: str) -> Iterator[dict[str, dict[Acl, None]]]:
        """Yield the entries of each resource pattern that matches a name, by principal."""
        names = [(PatternType.LITERAL, name)]
        if name != WILDCARD:
            names.append((PatternType.LITERAL, WILDCARD))
        names += [(PatternType.PREFIXED, prefix) for prefix in _prefixes(name, self._lengths.get(resource_type, ()))]
        for pattern_type, pattern in names:
            of_resource = self._by_name.get((resource_type, pattern_type, pattern))
            if of_resource is not None:
                yield of_resource


_Key = tuple[ResourceType, PatternType, str]


def _key(acl: Acl) -> _Key:
    return acl.resource_type, acl.pattern_type, acl.name


def _discard(acls: dict[K, dict[Acl, None]], key: K, acl: Acl) -> None:
    """Remove an entry from a key's entries. With the last entry, remove the key."""
    del acls[key][acl]
    if not acls[key]:
        del acls[key]


def _of(of_resource: dict[str, dict[Acl, None]], principal: str) -> Iterator[Acl]:
    """Yield the entries of a resource that can apply to a principal."""
    yield from of_resource.get(principal, ())
    if principal != ANYONE:
        yield from of_resource.get(ANYONE, ())


def _prefixes(name: str, lengths: Iterable[int]) -> Iterator[str]:
    """Yield the prefixes of a name that have one of the lengths.

    A name can have 32,767 characters. Slicing and hashing every prefix would take thousands of times as long as hashing
    the name.
    """
    for length in lengths:
        if length <= len(name):
            yield name[:length]


def _is_dominated(acl: Acl, denied: Collection[tuple[PatternType, str]], lengths: Collection[int]) -> bool:
    """Return whether a DENY entry covers everything that an ALLOW entry allows.

    Args:
        acl: The ALLOW entry.
        denied: The resource patterns of DENY entries.
        lengths: The lengths of the prefixes in ``denied``.
    """
    if acl.pattern_type is PatternType.LITERAL:
        if acl.name == WILDCARD:
            return False
        if (PatternType.LITERAL, acl.name) in denied:
            return True
    return any((PatternType.PREFIXED, prefix) in denied for prefix in _prefixes(acl.name, lengths))
