"""Delegation tokens: expiry, storage, and behaviour that real Kafka has only in other configurations."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, cast

import pytest

from aiokproto.broker import Broker, Security
from aiokproto.broker.clock import Clock, VirtualClock
from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.security import tokens as module
from aiokproto.broker.security.principal import Principal
from aiokproto.broker.security.sasl_server import AuthenticatedUser
from aiokproto.broker.security.scram import Mechanism, ScramSaslServer
from aiokproto.broker.security.tokens import DelegationTokens
from aiokproto.codec.messages.create_delegation_token import CreatableRenewers, CreateDelegationTokenRequest
from aiokproto.codec.messages.describe_configs import DescribeConfigsRequest, DescribeConfigsResource
from aiokproto.codec.messages.describe_delegation_token import DescribeDelegationTokenRequest
from aiokproto.codec.messages.expire_delegation_token import ExpireDelegationTokenRequest
from aiokproto.codec.messages.renew_delegation_token import RenewDelegationTokenRequest
from aiokproto.error_codes import ErrorCode
from aiokproto.errors import ConfigurationError
from tests.behaviour.requests_by_api import errors
from tests.behaviour.test_delegation_tokens import described, log_in, make
from tests.broker.epoch_harness import refused
from tests.broker.secure import (
    ALLOW,
    AUTHORIZER,
    CREATE_TOKENS,
    DENY,
    USER,
    USERS,
    Certificates,
    KnownCredentials,
    ScramClient,
    acl,
    grant,
    guarded,
    logged_in,
)
from tests.broker.wire import connect, connect_to

SECRET = "between brokers"
ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
HOUR, DAY = 3_600_000, 86_400_000


class Store:
    """A token store with a clock that the test sets."""

    def __init__(self, **options: int | str) -> None:
        given: dict[str, Any] = {"delegation.token.secret.key": SECRET}
        given |= {f"delegation.token.{name.replace('_', '.')}": value for name, value in options.items()}
        self.now = 1_000_000
        self.changes = 0
        self.options = BrokerOptions(given)
        self.tokens = DelegationTokens(self.options, lambda: self.now, cast("Any", self))

    def changed(self) -> None:
        self.changes += 1


def test_a_token_can_be_renewed_until_its_maximum_lifetime() -> None:
    store = Store(max_lifetime_ms=3 * HOUR, expiry_time_ms=HOUR)
    token = store.tokens.create(ALICE, ALICE, [BOB], -1)
    secret = store.tokens.hmac(token)
    assert (token.expires, token.ends) == (store.now + HOUR, store.now + 3 * HOUR)
    for principal, period, expected in ((ALICE, -1, 2), (BOB, 9 * HOUR, 2), (BOB, 0, 3), (ALICE, HOUR, 3)):
        store.now = 1_000_000 + (expected - 1) * HOUR
        assert store.tokens.renew(secret, period, principal) == 1_000_000 + expected * HOUR
    store.now = token.ends
    assert store.tokens.renew(secret, -1, ALICE) == token.ends
    store.now += 1
    with refused(ErrorCode.DELEGATION_TOKEN_EXPIRED):
        store.tokens.renew(secret, -1, ALICE)
    # The token can still be removed, and it is removed once its time is over.
    store.tokens.sweep()
    assert (list(store.tokens), store.changes) == ([], 7)
    with refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND):
        store.tokens.expire(secret, -1, ALICE)
    assert store.tokens.account(token.token_id, Mechanism.SCRAM_SHA_256) is None
    store.tokens.sweep()
    assert store.changes == 7


def test_refused_requests_change_nothing() -> None:
    store = Store()
    token = store.tokens.create(ALICE, BOB, [], -1)
    secret = store.tokens.hmac(token)
    for act in (store.tokens.renew, store.tokens.expire):
        with refused(ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH):
            act(secret, 1, BOB)
        with refused(ErrorCode.DELEGATION_TOKEN_NOT_FOUND):
            act(secret + b"x", 1, ALICE)
    with refused(ErrorCode.INVALID_PRINCIPAL_TYPE):
        store.tokens.create(ALICE, ALICE, [Principal("Group", "x")], -1)
    assert (list(store.tokens), store.changes) == ([token], 1)


def test_the_number_of_tokens_and_of_names_in_them_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_TOKENS", 2)
    store = Store()
    for owner, renewers in ((ALICE, [BOB] * 1000), (Principal("User", "x" * 5000), [])):
        with refused(ErrorCode.POLICY_VIOLATION):
            store.tokens.create(owner, ALICE, renewers, -1)
    token = store.tokens.create(ALICE, ALICE, [BOB] * 100, -1)
    store.tokens.create(ALICE, ALICE, [], -1)
    with refused(ErrorCode.POLICY_VIOLATION):
        store.tokens.create(ALICE, ALICE, [], -1)
    store.tokens.expire(store.tokens.hmac(token), -1, BOB)
    store.tokens.create(ALICE, ALICE, [], -1)


def test_the_longest_possible_lifetime() -> None:
    longest = (1 << 63) - 1
    store = Store(max_lifetime_ms=longest, expiry_time_ms=longest)
    token = store.tokens.create(ALICE, ALICE, [], longest)
    assert (token.expires, token.ends) == (longest, longest)
    assert store.tokens.expire(store.tokens.hmac(token), longest, ALICE) == longest


@pytest.mark.parametrize("extensions", [",tokenauth=true", ",a=b,tokenauth=True,c=d", ",tokenauth=no,tokenauth=true"])
@pytest.mark.parametrize("mechanism", Mechanism)
def test_a_token_authenticates_its_owner_until_it_expires(mechanism: Mechanism, extensions: str) -> None:
    store = Store()
    token = store.tokens.create(ALICE, BOB, [], -1)
    exchange = ScramSaslServer(mechanism, KnownCredentials({}), store.tokens)
    password = base64.b64encode(store.tokens.hmac(token)).decode()
    client = ScramClient(token.token_id, password, mechanism.digest, extensions=extensions)
    exchange.step(client.final(exchange.step(client.first())))
    assert exchange.authenticated_user == AuthenticatedUser("alice", token.expires, by_token=True)
    # The salt stays the same, or a login in progress would fail.
    assert store.tokens.account(token.token_id, mechanism) == store.tokens.account(token.token_id, mechanism)


def test_stored_tokens_do_not_contain_the_secrets() -> None:
    store = Store()
    odd = Principal("a:b", "c:d")
    first = store.tokens.create(ALICE, odd, [BOB, Principal("User", "c:d")], -1)
    second = store.tokens.create(Principal("User", "c:d"), odd, [], HOUR)
    saved = json.loads(json.dumps(list(store.tokens.to_json())))
    assert store.tokens.hmac(first).hex() not in str(saved)
    assert SECRET not in str(saved)
    again = Store()
    again.tokens.load_json(saved)
    assert list(again.tokens) == [first, second]
    assert again.tokens.renew(store.tokens.hmac(first), HOUR, BOB) == again.now + HOUR


def test_without_a_secret_there_are_no_tokens() -> None:
    saved = Store().tokens
    token = saved.create(ALICE, ALICE, [], -1)
    store = Store(secret_key="")
    store.tokens.load_json(list(saved.to_json()))
    assert store.tokens.account(token.token_id, Mechanism.SCRAM_SHA_256) is None
    with refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED):
        store.tokens.create(ALICE, ALICE, [], -1)
    with refused(ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED):
        store.tokens.renew(store.tokens.hmac(token), -1, ALICE)


# ---- the broker


async def test_tokens_are_disabled_without_a_secret() -> None:
    requests = [
        CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1),
        RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1),
        ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1),
        DescribeDelegationTokenRequest(owners=None),
    ]
    async with guarded() as broker, logged_in(broker, "alice") as alice:
        for request in requests:
            assert errors(await alice.ask(request)) == {ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED}
        # An error in the request itself comes first.
        group = CreatableRenewers(principal_type="Group", principal_name="x")
        wrong = CreateDelegationTokenRequest(renewers=[group], max_lifetime_ms=-1)
        assert errors(await alice.ask(wrong)) == {ErrorCode.INVALID_PRINCIPAL_TYPE}


def delegating(clock: Clock | None = None, data_dir: Path | None = None, **options: int) -> Broker:
    config: dict[str, str | int] = {"delegation.token.secret.key": SECRET, **options}
    return Broker(security=Security("SASL_PLAINTEXT", users=USERS), config=config, clock=clock, data_dir=data_dir)


async def test_only_users_own_tokens() -> None:
    """A token logs in as ``User:`` with its owner's name, so an owner of another type would get that user's ACLs."""
    security = Security("SASL_PLAINTEXT", users=USERS)
    config = {"delegation.token.secret.key": SECRET, "authorizer.class.name": AUTHORIZER, "super.users": "User:admin"}
    async with Broker(security=security, config=config) as broker:
        async with logged_in(broker, "admin") as admin:
            for name, permission in (("*", ALLOW), ("User:admin", DENY)):
                await grant(admin, acl(USER, name, CREATE_TOKENS, principal="User:alice", permission=permission))
        async with logged_in(broker, "alice") as alice:
            for kind, error in (
                ("User", ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED),
                ("user", ErrorCode.INVALID_PRINCIPAL_TYPE),
                ("Group", ErrorCode.INVALID_PRINCIPAL_TYPE),
                ("", ErrorCode.INVALID_PRINCIPAL_TYPE),
            ):
                request = CreateDelegationTokenRequest(
                    owner_principal_type=kind, owner_principal_name="admin", renewers=[], max_lifetime_ms=-1
                )
                assert errors(await alice.ask(request)) == {error}, kind


async def test_all_versions() -> None:
    async with delegating() as broker, logged_in(broker, "alice") as alice:
        created = [await make(alice, "bob", version=version) for version in range(4)]
        for version, token in enumerate(created):
            known = (await alice.ask(DescribeDelegationTokenRequest(owners=None), version)).tokens
            assert {each.token_id for each in known} == {each.token_id for each in created[version:]}
            assert {each.token_requester_principal_name for each in known} == {"alice" if version >= 3 else ""}
            version = min(version, 2)
            secret = bytes(token.hmac)
            renewed = await alice.ask(RenewDelegationTokenRequest(hmac=secret, renew_period_ms=HOUR), version)
            assert renewed.error_code == 0
            ended = await alice.ask(ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=-1), version)
            assert ended.error_code == 0


async def test_tokens_survive_a_restart(tmp_path: Path) -> None:
    async with delegating(data_dir=tmp_path) as broker, logged_in(broker, "alice") as alice:
        created = await make(alice, "bob")
        before = await described(alice)
    assert before.keys() == {created.token_id}
    async with delegating(data_dir=tmp_path) as broker, logged_in(broker, "alice") as alice:
        assert await described(alice) == before
        async with connect(broker) as job:
            assert (await log_in(job, created.token_id, bytes(created.hmac))).error_code == 0


async def test_a_file_from_before_tokens_is_read(tmp_path: Path) -> None:
    async with delegating(data_dir=tmp_path) as broker, logged_in(broker, "alice") as alice:
        await make(alice)
    file = tmp_path / "security.json"
    document = json.loads(file.read_text())
    del document["delegation_tokens"]
    file.write_text(json.dumps(document))
    async with delegating(data_dir=tmp_path) as broker, logged_in(broker, "alice") as alice:
        assert await described(alice) == {}


@pytest.mark.parametrize("broken", [{"token_id": "x"}, {"owner": ["User"]}, {"issued": "today"}, {"renewers": 7}])
async def test_malformed_stored_tokens_are_refused(tmp_path: Path, broken: dict[str, Any]) -> None:
    async with delegating(data_dir=tmp_path) as broker, logged_in(broker, "alice") as alice:
        await make(alice)
    file = tmp_path / "security.json"
    document = json.loads(file.read_text())
    document["delegation_tokens"] = [broken] if "token_id" in broken else [document["delegation_tokens"][0] | broken]
    file.write_text(json.dumps(document))
    with pytest.raises(ConfigurationError, match=r"security\.json cannot be read"):
        await delegating(data_dir=tmp_path).start()


async def test_expired_tokens_end_their_sessions() -> None:
    clock = VirtualClock()
    async with delegating(clock) as broker, logged_in(broker, "alice") as alice, connect(broker) as job:
        created = await make(alice, lifetime_ms=HOUR // 2)
        answer = await log_in(job, created.token_id, bytes(created.hmac))
        assert answer.session_lifetime_ms == HOUR // 2
        await clock.advance(HOUR // 2 / 1000 + 1)
        job.send(DescribeDelegationTokenRequest(owners=None))
        assert await job.closed()
        # It has expired, and is removed at the next access.
        assert (await described(alice)).keys() == {created.token_id}
        await clock.advance(HOUR // 2 / 1000)
        assert await described(alice) == {}


async def test_a_client_certificate_suffices_for_token_requests(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    # The secret is missing, since it would have no effect here: a token couldn't log in.
    config = certificates.options(**{"ssl.client.auth": "requested"})
    allowed, refused = ErrorCode.DELEGATION_TOKEN_AUTH_DISABLED, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
    async with Broker(security=Security("SSL"), config=config) as broker:
        for with_client, expected in ((True, allowed), (False, refused)):
            async with connect_to(broker.bootstrap_servers, certificates.context(with_client=with_client)) as wire:
                assert (await make(wire)).error_code == expected


async def test_the_secret_is_not_shown() -> None:
    request = DescribeConfigsRequest(
        resources=[DescribeConfigsResource(resource_type=4, resource_name="0", configuration_keys=None)],
        include_synonyms=True,
    )
    async with delegating() as broker, logged_in(broker, "alice") as alice:
        response = await alice.ask(request)
    (entry,) = [each for each in response.results[0].configs if each.name == "delegation.token.secret.key"]
    assert (entry.is_sensitive, entry.value, entry.config_type) == (True, None, 9)
    assert SECRET not in str(response)
