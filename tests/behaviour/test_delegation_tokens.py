"""Delegation tokens: the same on the embedded broker and on real Kafka."""

from __future__ import annotations

import base64
import hmac
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from aiokproto.codec.messages.create_delegation_token import (
    CreatableRenewers,
    CreateDelegationTokenRequest,
    CreateDelegationTokenResponse,
)
from aiokproto.codec.messages.describe_delegation_token import (
    DescribedDelegationToken,
    DescribeDelegationTokenOwner,
    DescribeDelegationTokenRequest,
)
from aiokproto.codec.messages.expire_delegation_token import ExpireDelegationTokenRequest
from aiokproto.codec.messages.metadata import MetadataRequest, MetadataRequestTopic
from aiokproto.codec.messages.renew_delegation_token import RenewDelegationTokenRequest
from aiokproto.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aiokproto.codec.schema import Request
from aiokproto.error_codes import ErrorCode
from tests.behaviour.requests_by_api import NO_TOPIC, OK, errors
from tests.behaviour.secured import SECURED, Secured, as_user, create, revoke, rule
from tests.broker.secure import (
    CREATE_TOKENS,
    DELEGATION_TOKEN,
    DESCRIBE,
    DESCRIBE_TOKENS,
    TOPIC,
    USER,
    ScramClient,
    authenticate,
    grant,
)
from tests.broker.wire import Wire, connect
from tests.clusters import BehaviourCluster

DAY = 86_400_000
NOT_ALLOWED = ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED
MECHANISMS = [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")]
REQUESTS: dict[str, Request[Any]] = {
    "create": CreateDelegationTokenRequest(renewers=[], max_lifetime_ms=-1),
    "renew": RenewDelegationTokenRequest(hmac=b"x", renew_period_ms=-1),
    "expire": ExpireDelegationTokenRequest(hmac=b"x", expiry_time_period_ms=-1),
    "describe": DescribeDelegationTokenRequest(owners=None),
}


async def make(
    wire: Wire, *renewers: str, owner: str | None = None, lifetime_ms: int = -1, version: int = 3
) -> CreateDelegationTokenResponse:
    request = CreateDelegationTokenRequest(
        renewers=[CreatableRenewers(principal_type="User", principal_name=name) for name in renewers],
        max_lifetime_ms=lifetime_ms,
    )
    if owner is not None:
        request.owner_principal_type, request.owner_principal_name = "User", owner
    return await wire.ask(request, version)


async def described(wire: Wire, *owners: str) -> dict[str, DescribedDelegationToken]:
    """Return the tokens that a client can describe, of all owners by default."""
    requested_owners = [DescribeDelegationTokenOwner(principal_type="User", principal_name=name) for name in owners]
    response = await wire.ask(DescribeDelegationTokenRequest(owners=requested_owners or None))
    assert response.error_code == OK
    return {token.token_id: token for token in response.tokens}


async def known(wire: Wire, created: CreateDelegationTokenResponse) -> DescribedDelegationToken:
    """Create a token; return it once the broker knows it."""
    assert created.error_code == OK
    while (found := (await described(wire)).get(created.token_id)) is None:
        pass
    return found


async def expire(wire: Wire, *tokens: CreateDelegationTokenResponse) -> None:
    """Expire tokens, and wait until the broker has removed them."""
    for token in tokens:
        ended = await wire.ask(ExpireDelegationTokenRequest(hmac=bytes(token.hmac), expiry_time_period_ms=-1))
        assert ended.error_code == OK
    while {token.token_id for token in tokens} & (await described(wire)).keys():
        pass


async def log_in(
    wire: Wire,
    token_id: str,
    password: bytes,
    mechanism: tuple[str, str] = MECHANISMS[0],
    extensions: str = ",tokenauth=true",
) -> SaslAuthenticateResponse:
    name, digest = mechanism
    client = ScramClient(token_id, base64.b64encode(password).decode(), digest, extensions=extensions)
    first = await authenticate(wire, name, client.first())
    if first.error_code != OK:
        return first
    return await wire.ask(SaslAuthenticateRequest(auth_bytes=client.final(bytes(first.auth_bytes))))


@asynccontextmanager
async def holder(
    secured: Secured,
    token: CreateDelegationTokenResponse,
    mechanism: tuple[str, str] = MECHANISMS[0],
    extensions: str = ",tokenauth=true",
) -> AsyncIterator[tuple[Wire, SaslAuthenticateResponse]]:
    """A connection authenticated with the token, and the last SaslAuthenticate response."""
    while True:
        async with connect(secured) as wire:
            response = await log_in(wire, token.token_id, bytes(token.hmac), mechanism, extensions)
            # A real broker describes a token a moment before it accepts it.
            if response.error_code == OK:
                yield wire, response
                return


async def test_a_token_has_the_requested_properties(secured: Secured) -> None:
    async with as_user(secured, "alice") as alice:
        created = await make(alice, "bob", "carol")
        assert (created.principal_type, created.principal_name) == ("User", "alice")
        assert (created.token_requester_principal_type, created.token_requester_principal_name) == ("User", "alice")
        assert created.expiry_timestamp_ms - created.issue_timestamp_ms == DAY
        assert created.max_timestamp_ms - created.issue_timestamp_ms == 7 * DAY
        secret = SECURED["delegation.token.secret.key"].encode()
        assert bytes(created.hmac) == hmac.digest(secret, created.token_id.encode(), "sha512")
        seen = await known(alice, created)
        assert (seen.principal_name, seen.token_requester_principal_name) == ("alice", "alice")
        assert (seen.issue_timestamp, seen.expiry_timestamp, seen.max_timestamp) == (
            created.issue_timestamp_ms,
            created.expiry_timestamp_ms,
            created.max_timestamp_ms,
        )
        assert bytes(seen.hmac) == bytes(created.hmac)
        assert {(each.principal_type, each.principal_name) for each in seen.renewers} == {
            ("User", "bob"),
            ("User", "carol"),
        }
        await expire(alice, created)


@pytest.mark.parametrize(
    ("requested", "lifetime"), [(-1, 7 * DAY), (0, 7 * DAY), (3_600_000, 3_600_000), (8 * DAY, 7 * DAY)]
)
async def test_the_lifetime_of_a_token_is_limited(secured: Secured, requested: int, lifetime: int) -> None:
    async with as_user(secured, "alice") as alice:
        created = await make(alice, lifetime_ms=requested, version=1)
        assert created.max_timestamp_ms - created.issue_timestamp_ms == lifetime
        assert created.expiry_timestamp_ms - created.issue_timestamp_ms == min(lifetime, DAY)
        await known(alice, created)
        await expire(alice, created)


@pytest.mark.parametrize("mechanism", MECHANISMS)
async def test_a_client_with_a_token_is_authenticated_as_its_owner(
    secured: Secured, topic: str, user: str, mechanism: tuple[str, str]
) -> None:
    async with as_user(secured, "admin") as admin, as_user(secured, user) as owner:
        await create(admin, topic)
        created = await make(owner, lifetime_ms=600_000)
        await known(owner, created)
        async with holder(secured, created, mechanism) as (job, response):
            # The session is no longer than the token's lifetime and the session limit.
            assert 0 < response.session_lifetime_ms <= 600_000
            request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
            assert errors(await job.ask(request, 9)) == {NO_TOPIC}
            await grant(admin, rule(user, TOPIC, topic, DESCRIBE))
            assert not errors(await job.ask(request, 9))
        await revoke(admin, user)
        await expire(owner, created)


async def test_a_session_ends_no_later_than_its_token(secured: Secured) -> None:
    async with as_user(secured, "alice") as alice:
        created = await make(alice)
        await known(alice, created)
        # A token expires after a day, a session after an hour.
        async with holder(secured, created) as (_, response):
            assert response.session_lifetime_ms == 3_600_000
        await expire(alice, created)


@pytest.mark.parametrize(
    ("token_id", "password", "extensions"),
    [
        ("{id}", b"wrong", ",tokenauth=true"),
        ("{id}", None, ""),
        ("{id}", None, ",tokenauth=false"),
        ("{id}", None, ",tokenauth=true,tokenauth=false"),
        ("nothing", None, ",tokenauth=true"),
        ("alice", None, ",tokenauth=true"),
    ],
)
async def test_a_failed_login(secured: Secured, token_id: str, password: bytes | None, extensions: str) -> None:
    async with as_user(secured, "alice") as alice, connect(secured) as job:
        created = await make(alice)
        await known(alice, created)
        secret = bytes(created.hmac) if password is None else password
        response = await log_in(job, token_id.format(id=created.token_id), secret, extensions=extensions)
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert response.error_message == (
            "Authentication failed during authentication due to invalid credentials with SASL mechanism SCRAM-SHA-256"
        )
        assert await job.closed()
        await expire(alice, created)


async def test_the_extension_may_be_in_capitals(secured: Secured) -> None:
    async with as_user(secured, "alice") as alice:
        created = await make(alice)
        await known(alice, created)
        async with holder(secured, created, extensions=",tokenauth=TRUE") as (_, response):
            assert response.error_code == OK
        await expire(alice, created)


async def test_a_client_with_a_token_cannot_create_tokens(secured: Secured) -> None:
    async with as_user(secured, "alice") as alice:
        created = await make(alice)
        await known(alice, created)
        async with holder(secured, created) as (job, _):
            for name, request in REQUESTS.items():
                assert (name, errors(await job.ask(request))) == (name, {NOT_ALLOWED})
        await expire(alice, created)


@pytest.mark.parametrize("api", REQUESTS)
async def test_an_unauthenticated_client_has_no_tokens(cluster: BehaviourCluster, api: str) -> None:
    """An unauthenticated client, over an unencrypted connection."""
    request = REQUESTS[api]
    async with connect(cluster) as wire:
        for version in range(1, request.versions.highest + 1):
            response = await wire.ask(request, version)
            assert errors(response) == {NOT_ALLOWED}


async def test_invalid_token_requests_are_refused(secured: Secured) -> None:
    async with as_user(secured, "alice") as alice:
        group = CreatableRenewers(principal_type="Group", principal_name="x")
        response = await alice.ask(CreateDelegationTokenRequest(renewers=[group], max_lifetime_ms=-1))
        assert response.error_code == ErrorCode.INVALID_PRINCIPAL_TYPE
        assert (response.principal_name, response.token_id, bytes(response.hmac)) == ("alice", "", b"")
        assert (response.issue_timestamp_ms, response.expiry_timestamp_ms, response.max_timestamp_ms) == (-1, -1, -1)
        for request in (REQUESTS["renew"], REQUESTS["expire"]):
            assert errors(await alice.ask(request)) == {ErrorCode.DELEGATION_TOKEN_NOT_FOUND}


async def test_a_token_is_renewed_by_its_owner_and_its_renewers(secured: Secured) -> None:
    async with as_user(secured, "alice") as alice, as_user(secured, "bob") as bob, as_user(secured, "carol") as carol:
        created = await make(alice, "bob", lifetime_ms=2 * DAY)
        await known(alice, created)
        secret = bytes(created.hmac)
        for wire, expected in ((carol, ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH), (bob, OK), (alice, OK)):
            response = await wire.ask(RenewDelegationTokenRequest(hmac=secret, renew_period_ms=3_600_000))
            assert response.error_code == expected
        assert 3_600_000 <= response.expiry_timestamp_ms - created.issue_timestamp_ms < DAY
        while (await known(alice, created)).expiry_timestamp != response.expiry_timestamp_ms:
            pass
        # Ask for longer than the broker's limit, and then for longer than the token lives.
        response = await bob.ask(RenewDelegationTokenRequest(hmac=secret, renew_period_ms=5 * DAY), 1)
        assert DAY <= response.expiry_timestamp_ms - created.issue_timestamp_ms < 2 * DAY
        late = await bob.ask(ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=5 * DAY), 1)
        assert (late.error_code, late.expiry_timestamp_ms) == (OK, created.max_timestamp_ms)
        sooner = await bob.ask(ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=60_000))
        assert 60_000 <= sooner.expiry_timestamp_ms - created.issue_timestamp_ms < DAY
        refused = await carol.ask(ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=-1))
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        await expire(bob, created)
        response = await alice.ask(RenewDelegationTokenRequest(hmac=secret, renew_period_ms=-1))
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_NOT_FOUND


async def test_an_expired_token(secured: Secured) -> None:
    async with as_user(secured, "alice") as alice:
        created = await make(alice, lifetime_ms=1)
        await known(alice, created)
        secret = bytes(created.hmac)
        while (
            response := await alice.ask(RenewDelegationTokenRequest(hmac=secret, renew_period_ms=-1))
        ).error_code == OK:
            pass
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
        later = ExpireDelegationTokenRequest(hmac=secret, expiry_time_period_ms=DAY)
        assert (await alice.ask(later)).error_code == ErrorCode.DELEGATION_TOKEN_EXPIRED
        # The token exists until the broker removes it. A session with it expires at once.
        async with holder(secured, created) as (job, answer_to_login):
            assert answer_to_login.session_lifetime_ms == 0
            job.send(MetadataRequest(topics=None), 9)
            assert await job.closed()
        await expire(alice, created)


async def test_a_token_created_for_another_user(secured: Secured, user: str) -> None:
    other = f"{user}-dora"
    async with as_user(secured, "admin") as admin, as_user(secured, user) as asking:
        refused = await make(asking, owner=other)
        assert refused.error_code == ErrorCode.DELEGATION_TOKEN_AUTHORIZATION_FAILED
        assert (refused.principal_name, refused.token_requester_principal_name) == (other, user)
        await grant(admin, rule(user, USER, f"User:{other}", CREATE_TOKENS))
        created = await make(asking, owner=other)
        seen = await known(asking, created)
        assert (seen.principal_name, seen.token_requester_principal_name) == (other, user)
        async with holder(secured, created) as (_, answer_to_login):
            assert answer_to_login.error_code == OK
        # The requester may describe the token, and do nothing else with it.
        response = await asking.ask(RenewDelegationTokenRequest(hmac=bytes(created.hmac), renew_period_ms=-1))
        assert response.error_code == ErrorCode.DELEGATION_TOKEN_OWNER_MISMATCH
        async with as_user(secured, other) as dora:
            await expire(dora, created)
        await revoke(admin, user)


async def test_which_users_can_describe_a_token(secured: Secured, user: str) -> None:
    async with (
        as_user(secured, "admin") as admin,
        as_user(secured, user) as client,
        as_user(secured, "eve") as eve,
        as_user(secured, "fred") as fred,
    ):
        of_eve, of_fred = await make(eve, "fred"), await make(fred)
        both = {of_eve.token_id, of_fred.token_id}
        await known(eve, of_eve)
        await known(fred, of_fred)
        assert both & (await described(eve)).keys() == {of_eve.token_id}
        assert both & (await described(fred)).keys() == both
        assert both & (await described(fred, "fred")).keys() == both
        assert both & (await described(fred, "eve")).keys() == {of_eve.token_id}
        assert both & (await described(admin)).keys() == both
        assert not both & (await described(client)).keys()
        response = await fred.ask(DescribeDelegationTokenRequest(owners=[]))
        assert (response.error_code, response.tokens) == (OK, [])
        await grant(admin, rule(user, DELEGATION_TOKEN, of_eve.token_id, DESCRIBE))
        assert both & (await described(client)).keys() == {of_eve.token_id}
        await grant(admin, rule(user, USER, "User:fred", DESCRIBE_TOKENS))
        assert both & (await described(client)).keys() == both
        await revoke(admin, user)
        assert not both & (await described(client)).keys()
        await expire(eve, of_eve)
        await expire(fred, of_fred)
