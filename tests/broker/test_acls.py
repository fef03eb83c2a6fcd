"""Authorization by ACLs."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker.security.acls import Acl, AclFilter, Operation, PatternType, Permission, ResourceType
from aiokproto.broker.security.authorizer import Authorizer
from aiokproto.codec.steps import finish
from tests.counting import counted_calls

TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
LITERAL, PREFIXED = PatternType.LITERAL, PatternType.PREFIXED
ALLOW, DENY = Permission.ALLOW, Permission.DENY
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL

# There are only a few of each, so that they meet.
NAMES = st.sampled_from(["*", "a", "ab", "abc", "b"])
ACLS = st.builds(
    Acl,
    st.sampled_from([TOPIC, GROUP]),
    NAMES,
    st.sampled_from([LITERAL, PREFIXED]),
    st.sampled_from(["User:alice", "User:bob", "User:*"]),
    st.sampled_from(["*", "10.0.0.1"]),
    st.sampled_from([READ, WRITE, DESCRIBE, ALL]),
    st.sampled_from([ALLOW, DENY]),
)


def covers(acl: Acl, name: str) -> bool:
    if acl.pattern_type is PREFIXED:
        return name.startswith(acl.name)
    return acl.name in ("*", name)


def expected(acls: set[Acl], host: str, operation: Operation, name: str, allow_if_no_acl: bool) -> bool:
    """Decide by Kafka's rules in the words of its documentation, entry by entry."""
    about = {acl for acl in acls if acl.resource_type is TOPIC and covers(acl, name)}
    mine = {acl for acl in about if acl.principal in ("User:alice", "User:*") and acl.host in ("*", host)}
    if any(acl.permission is DENY and acl.operation in (operation, ALL) for acl in mine):
        return False
    enough = {operation, ALL} | ({READ, WRITE} if operation is DESCRIBE else set())
    if any(acl.permission is ALLOW and acl.operation in enough for acl in mine):
        return True
    return not about and allow_if_no_acl


@given(
    st.lists(ACLS, max_size=12),
    st.sampled_from(["10.0.0.1", "10.0.0.2"]),
    st.sampled_from([READ, WRITE, DESCRIBE]),
    st.sampled_from(["a", "ab", "abc", "abcd", "b", "c"]),
    st.booleans(),
)
def test_decisions(acls: list[Acl], host: str, operation: Operation, name: str, allow_if_no_acl: bool) -> None:
    authorizer = Authorizer(allow_if_no_acl=allow_if_no_acl)
    authorizer.add(acls)
    found = authorizer.is_authorized("User:alice", host, operation, TOPIC, name)
    assert found == expected(set(acls), host, operation, name, allow_if_no_acl)


@given(st.lists(ACLS, max_size=12, unique=True), st.lists(ACLS, max_size=6, unique=True))
def test_removed_acls_have_no_effect(acls: list[Acl], passing: list[Acl]) -> None:
    passing = [acl for acl in passing if acl not in acls]
    changed, fresh = Authorizer(), Authorizer()
    changed.add([*acls, *passing])
    changed.remove(passing)
    fresh.add(acls)
    assert set(changed) == set(fresh) == set(acls)
    for name in ("a", "abc", "b"):
        operation_and_resource = ("User:alice", "10.0.0.1", READ, TOPIC, name)
        assert changed.is_authorized(*operation_and_resource) == fresh.is_authorized(*operation_and_resource)


@given(st.lists(ACLS, max_size=12))
def test_authorization_for_one_resource_implies_authorization_for_any(acls: list[Acl]) -> None:
    authorizer = Authorizer()
    authorizer.add(acls)
    operation_and_resource = ("User:alice", "10.0.0.1", WRITE, TOPIC)
    if any(authorizer.is_authorized(*operation_and_resource, name) for name in ("a", "ab", "abc", "b", "c")):
        assert authorizer.is_authorized_for_any(*operation_and_resource)


def test_authorization_for_any_resource_considers_denials() -> None:
    def entry(name: str, permission: Permission, pattern: PatternType = LITERAL) -> Acl:
        return Acl(TOPIC, name, pattern, "User:alice", "*", WRITE, permission)

    cases = [
        ([], False),
        ([entry("a", ALLOW)], True),
        ([entry("a", ALLOW), entry("a", DENY)], False),
        ([entry("a", ALLOW), entry("a", DENY, PREFIXED)], False),
        ([entry("ab", ALLOW, PREFIXED), entry("a", DENY, PREFIXED)], False),
        ([entry("a", ALLOW, PREFIXED), entry("a", DENY)], True),
        ([entry("a", ALLOW, PREFIXED), entry("ab", DENY, PREFIXED)], True),
        ([entry("*", ALLOW), entry("a", DENY)], True),
        ([entry("a", ALLOW), entry("*", DENY)], False),
    ]
    for acls, allowed in cases:
        authorizer = Authorizer()
        authorizer.add(acls)
        assert (acls, authorizer.is_authorized_for_any("User:alice", "h", WRITE, TOPIC)) == (acls, allowed)


def test_super_users_are_allowed_everything() -> None:
    authorizer = Authorizer(["User:root"])
    authorizer.add([Acl(TOPIC, "*", LITERAL, "User:*", "*", ALL, DENY)])
    assert authorizer.is_authorized("User:root", "h", READ, TOPIC, "t")
    assert authorizer.is_authorized_for_any("User:root", "h", WRITE, TOPIC)
    assert not authorizer.is_authorized("User:alice", "h", READ, TOPIC, "t")


def test_a_decision_looks_at_nothing_that_is_about_others() -> None:
    """It doesn't look at prefixes that no entry has, nor at the entries of other users and names."""

    def calls(name: str, others: int) -> int:
        authorizer = Authorizer()
        authorizer.add(Acl(TOPIC, "t" * 5, PREFIXED, f"User:{each}", "*", READ, ALLOW) for each in range(others))
        authorizer.add(Acl(TOPIC, f"x{each}", LITERAL, f"User:{each}", "*", READ, ALLOW) for each in range(others))
        authorizer.add(Acl(TOPIC, f"x{each:05}", PREFIXED, "User:alice", "*", READ, DENY) for each in range(others))
        with counted_calls() as counted:
            assert not authorizer.is_authorized("User:alice", "h", READ, TOPIC, name)
        return counted[0]

    assert calls("t" * 32_767, 100) == calls("t" * 10, 10)


def test_a_decision_about_any_resource_looks_at_nothing_that_is_about_others() -> None:
    def calls(length: int, others: int) -> int:
        authorizer = Authorizer()
        authorizer.add(Acl(TOPIC, f"t{each}", LITERAL, f"User:{each}", "*", WRITE, ALLOW) for each in range(others))
        authorizer.add(Acl(GROUP, f"t{each}", LITERAL, "User:alice", "*", WRITE, ALLOW) for each in range(others))
        authorizer.add([Acl(TOPIC, "a" * length, LITERAL, "User:alice", "*", WRITE, ALLOW)])
        authorizer.add([Acl(TOPIC, "aa", PREFIXED, "User:alice", "*", WRITE, DENY)])
        with counted_calls() as counted:
            assert not authorizer.is_authorized_for_any("User:alice", "h", WRITE, TOPIC)
        return counted[0]

    assert calls(10, 10) == calls(32_767, 100)


class CountedAcl(Acl):
    """An entry whose comparisons count as calls."""

    __hash__ = Acl.__hash__

    def __eq__(self, other: object) -> bool:
        return tuple(self) == other


def test_removing_twice_as_many_acls_costs_twice_as_much() -> None:
    def calls(count: int) -> int:
        acls = [CountedAcl(TOPIC, "t", LITERAL, "User:alice", f"h{each}", READ, ALLOW) for each in range(count)]
        authorizer = Authorizer()
        authorizer.add(acls)
        with counted_calls() as counted:
            authorizer.remove(reversed(acls))
        assert not list(authorizer)
        return counted[0]

    assert calls(200) < 2.2 * calls(100)


LITERAL_AB = Acl(TOPIC, "ab", LITERAL, "User:alice", "*", READ, ALLOW)
PREFIX_A = Acl(TOPIC, "a", PREFIXED, "User:alice", "h", WRITE, DENY)
ALL_GROUPS = Acl(GROUP, "*", LITERAL, "User:bob", "*", READ, ALLOW)
ANYTHING = AclFilter(ResourceType.ANY, None, PatternType.ANY, None, None, Operation.ANY, Permission.ANY)


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (ANYTHING, [LITERAL_AB, PREFIX_A, ALL_GROUPS]),
        (ANYTHING._replace(resource_type=GROUP), [ALL_GROUPS]),
        (ANYTHING._replace(name="ab"), [LITERAL_AB]),
        (ANYTHING._replace(name="a"), [PREFIX_A]),
        (ANYTHING._replace(name="ab", pattern_type=PREFIXED), []),
        (ANYTHING._replace(name="ab", pattern_type=PatternType.MATCH), [LITERAL_AB, PREFIX_A, ALL_GROUPS]),
        (ANYTHING._replace(name="ac", pattern_type=PatternType.MATCH, resource_type=TOPIC), [PREFIX_A]),
        (ANYTHING._replace(name="b", pattern_type=PatternType.MATCH), [ALL_GROUPS]),
        (ANYTHING._replace(principal="User:alice"), [LITERAL_AB, PREFIX_A]),
        (ANYTHING._replace(host="h"), [PREFIX_A]),
        (ANYTHING._replace(operation=READ), [LITERAL_AB, ALL_GROUPS]),
        (ANYTHING._replace(permission=DENY), [PREFIX_A]),
    ],
)
def test_filters(wanted: AclFilter, found: list[Acl]) -> None:
    authorizer = Authorizer()
    authorizer.add([LITERAL_AB, PREFIX_A, ALL_GROUPS])
    assert finish(authorizer.finding(wanted)) == found


@pytest.mark.parametrize(
    ("host", "client", "same"),
    [
        ("0:0:0:0:0:0:0:1", "::1", True),
        ("::1", "0:0:0:0:0:0:0:1", True),
        ("FE80::ABCD", "fe80::abcd", True),
        ("fe80::1", "fe80::1%eth0", True),
        ("fe80:0:0:0:0:0:0:1%2", "fe80::1%eth0", True),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "::ffff:10.0.0.1", True),
        ("10.0.0.1", "::ffff:a00:1", True),
        ("10.0.0.0/8", "10.1.2.3", True),
        ("10.9.9.9/8", "::ffff:10.1.2.3", True),
        ("::ffff:10.0.0.0/104", "10.1.2.3", True),
        ("0.0.0.0/0", "192.0.2.1", True),
        ("2001:db8::/32", "2001:DB8:0::1", True),
        ("::/0", "2001:db8::1", True),
        ("2001:db8::/32", "2001:db9::1", False),
        ("10.0.0.0/8", "11.0.0.1", False),
        ("0.0.0.0/0", "::1", False),
        ("10.0.0.1", "10.0.0.10", False),
        ("::1", "127.0.0.1", False),
        ("localhost", "127.0.0.1", False),
        ("10.0.0.0/255.0.0.0", "10.0.0.1", False),
        ("10.0.0.1", "?", False),
    ],
)
def test_hosts_are_compared_as_addresses(host: str, client: str, same: bool) -> None:
    """A DENY for an address in Java's form must have an effect."""
    authorizer = Authorizer(allow_if_no_acl=True)
    authorizer.add([Acl(TOPIC, "a", LITERAL, "User:*", "*", ALL, ALLOW)])
    assert authorizer.is_authorized("User:alice", client, READ, TOPIC, "a")
    authorizer.add([Acl(TOPIC, "a", LITERAL, "User:alice", host, ALL, DENY)])
    assert authorizer.is_authorized("User:alice", client, READ, TOPIC, "a") is not same
    assert authorizer.is_authorized("User:bob", client, READ, TOPIC, "a")
