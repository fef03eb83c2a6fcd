"""Who may do what, as Kafka's StandardAuthorizer decides it."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from aiokproto.broker.security.acls import WILDCARD, Acl, AclFilter, Operation, PatternType, Permission, ResourceType

MAX_ACLS = 100_000
"""Most entries that are kept: each costs memory, and time to look through."""


class Authorizer:
    """The entries, and the answers that follow from them.

    What is denied is denied, whatever else is allowed; what nothing allows is denied too, unless no entry names the
    resource and ``allow.everyone.if.no.acl.found`` is set. Super users may do everything.
    """

    def __init__(self, super_users: Collection[str] = (), *, allow_if_no_acl: bool = False) -> None:
        self._super_users = frozenset(super_users)
        self._allow_if_no_acl = allow_if_no_acl
        # A dict for its order: what is described comes in the order in which it was created.
        self._acls: dict[Acl, None] = {}
        self._by_name: dict[tuple[ResourceType, PatternType, str], list[Acl]] = {}

    def __iter__(self) -> Iterator[Acl]:
        return iter(self._acls)

    def __len__(self) -> int:
        return len(self._acls)

    # ---- entries

    def add(self, acls: Iterable[Acl]) -> None:
        """Add entries; those that are there already stay as they are."""
        for acl in acls:
            if acl not in self._acls:
                self._acls[acl] = None
                self._by_name.setdefault(_place(acl), []).append(acl)

    def remove(self, acls: Iterable[Acl]) -> None:
        """Remove entries that are there."""
        for acl in acls:
            del self._acls[acl]
            place = _place(acl)
            self._by_name[place].remove(acl)
            if not self._by_name[place]:
                del self._by_name[place]

    def find(self, wanted: AclFilter) -> list[Acl]:
        """The entries that a filter means."""
        return [acl for acl in self._acls if wanted.matches(acl)]

    # ---- questions

    def is_authorized(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType, name: str
    ) -> bool:
        """Whether somebody, at an address, may do something to a resource."""
        if principal in self._super_users:
            return True
        named = allowed = False
        for acl in self._about(resource_type, name):
            named = True
            if acl.is_about(principal, host) and acl.decides(operation):
                if acl.permission is Permission.DENY:
                    return False
                allowed = True
        return allowed or (not named and self._allow_if_no_acl)

    def is_authorized_for_any(
        self, principal: str, host: str, operation: Operation, resource_type: ResourceType
    ) -> bool:
        """Whether there can be a resource of the type to which somebody may do something."""
        if self.is_authorized(principal, host, operation, resource_type, "hardcode"):
            return True
        found = [
            acl
            for acl in self._acls
            if acl.resource_type is resource_type
            and acl.is_about(principal, host)
            # Not what is implied: Kafka asks for the operation itself here.
            and acl.operation in (operation, Operation.ALL)
        ]
        denied = {(acl.pattern_type, acl.name) for acl in found if acl.permission is Permission.DENY}
        if (PatternType.LITERAL, WILDCARD) in denied:
            return False
        return any(acl.permission is Permission.ALLOW and not _dominated(acl, denied) for acl in found)

    def _about(self, resource_type: ResourceType, name: str) -> Iterator[Acl]:
        by_name = self._by_name
        yield from by_name.get((resource_type, PatternType.LITERAL, name), ())
        if name != WILDCARD:
            yield from by_name.get((resource_type, PatternType.LITERAL, WILDCARD), ())
        for length in range(1, len(name) + 1):
            yield from by_name.get((resource_type, PatternType.PREFIXED, name[:length]), ())


def _place(acl: Acl) -> tuple[ResourceType, PatternType, str]:
    return acl.resource_type, acl.pattern_type, acl.name


def _dominated(acl: Acl, denied: Collection[tuple[PatternType, str]]) -> bool:
    """Whether all that the entry allows is denied by another."""
    if acl.pattern_type is PatternType.LITERAL:
        if acl.name == WILDCARD:
            return False
        if (PatternType.LITERAL, acl.name) in denied:
            return True
    return any((PatternType.PREFIXED, acl.name[:length]) in denied for length in range(1, len(acl.name) + 1))
