"""SASL authentication of a connection: its steps, and its failures."""

from __future__ import annotations

import base64
import hashlib
import json
import string
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aiokproto.broker.clock import VirtualClock
from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.security.aws_msk_iam import _REQUIRED as AWS_FIELDS
from aiokproto.broker.security.aws_msk_iam import AwsMskIamSaslServer
from aiokproto.broker.security.credentials import Deletion, ScramCredentials, Upsertion
from aiokproto.broker.security.jwt import JwtValidator
from aiokproto.broker.security.oauthbearer import OAuthBearerSaslServer, Token, unsecured_validator
from aiokproto.broker.security.plain import PlainSaslServer
from aiokproto.broker.security.sasl import SaslAuthenticator
from aiokproto.broker.security.sasl_server import AuthenticatedUser, AuthenticationFailed, SaslServer
from aiokproto.broker.security.scram import Credential, Mechanism, ScramSaslServer, credential, credential_of
from aiokproto.codec.messages.api_versions import ApiVersionsRequest
from aiokproto.codec.messages.metadata import MetadataRequest
from aiokproto.codec.messages.sasl_authenticate import SaslAuthenticateRequest
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest
from aiokproto.codec.steps import finish
from aiokproto.error_codes import ErrorCode
from tests.broker.secure import KnownCredentials, OneKey, ScramClient, unsecured

PASSWORDS = {"alice": "secret", "bob": "hidden"}
VERSIONS, HANDSHAKE, AUTHENTICATE, METADATA = (
    request.api_key for request in (ApiVersionsRequest, SaslHandshakeRequest, SaslAuthenticateRequest, MetadataRequest)
)


def authenticator(clock: VirtualClock, max_reauth_ms: int = 0) -> SaslAuthenticator:
    return SaslAuthenticator(
        {
            "PLAIN": lambda: PlainSaslServer(PASSWORDS),
            "OAUTHBEARER": lambda: OAuthBearerSaslServer(lambda token: Token(token, clock.wall() + 5000)),
        },
        max_reauth_ms,
        clock,
    )


def log_in(sasl: SaslAuthenticator, token: bytes = b"\0alice\0secret", mechanism: str = "PLAIN") -> int:
    """Returns the session's lifetime."""
    assert sasl.check_request(HANDSHAKE) is None
    assert sasl.handshake(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
    assert sasl.check_request(AUTHENTICATE) is None
    answer = sasl.authenticate(SaslAuthenticateRequest(auth_bytes=token))
    assert (answer.error_code, sasl.failure) == (0, None)
    return answer.session_lifetime_ms


def test_a_session_without_an_end() -> None:
    sasl = authenticator(VirtualClock())
    assert log_in(sasl) == 0
    assert str(sasl.principal) == "User:alice"
    assert sasl.complete
    # It never has to be authenticated again, so that cannot be done either.
    assert sasl.handshake(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    assert sasl.complete


@pytest.mark.parametrize(
    ("mechanism", "token", "max_reauth_ms", "lifetime_ms"),
    [
        ("PLAIN", b"\0alice\0secret", 3000, 3000),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer alice\x01\x01", 0, 5000),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer alice\x01\x01", 3000, 3000),
        ("OAUTHBEARER", b"n,,\x01auth=Bearer alice\x01\x01", 9000, 5000),
    ],
)
async def test_a_session_ends(mechanism: str, token: bytes, max_reauth_ms: int, lifetime_ms: int) -> None:
    clock = VirtualClock()
    sasl = authenticator(clock, max_reauth_ms)
    assert log_in(sasl, token, mechanism) == lifetime_ms
    await clock.advance(lifetime_ms / 1000 - 0.5)
    assert sasl.check_request(METADATA) is None
    assert sasl.failure is None
    await clock.advance(0.5)
    # In time or not: reauthentication is always accepted.
    assert log_in(sasl, token, mechanism) == lifetime_ms
    await clock.advance(lifetime_ms / 1000)
    sasl.check_request(METADATA)
    assert sasl.failure == "the session has expired, and the client did not re-authenticate"


def test_a_session_with_lifetime_zero_serves_no_request() -> None:
    """Not even within one step of the clock."""
    clock = VirtualClock()
    expired = Token("alice", clock.wall())
    sasl = SaslAuthenticator({"OAUTHBEARER": lambda: OAuthBearerSaslServer(lambda _: expired)}, 0, clock)
    assert log_in(sasl, b"n,,\x01auth=Bearer alice\x01\x01", "OAUTHBEARER") == 0
    sasl.check_request(METADATA)
    assert sasl.failure == "the session has expired, and the client did not re-authenticate"


async def test_reauthentication_is_refused_within_a_second() -> None:
    clock = VirtualClock()
    sasl = authenticator(clock, 60_000)
    log_in(sasl)
    log_in(sasl)
    again = SaslHandshakeRequest(mechanism="PLAIN")
    assert sasl.handshake(again, 1).error_code == ErrorCode.ILLEGAL_SASL_STATE
    await clock.advance(1)
    assert sasl.handshake(again, 1).error_code == 0


@pytest.mark.parametrize(
    ("mechanism", "token"), [("PLAIN", b"\0bob\0hidden"), ("OAUTHBEARER", b"n,,\x01auth=Bearer alice\x01\x01")]
)
def test_neither_the_user_nor_the_mechanism_can_change(mechanism: str, token: bytes) -> None:
    sasl = authenticator(VirtualClock(), 60_000)
    log_in(sasl)
    assert sasl.handshake(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == 0
    answer = sasl.authenticate(SaslAuthenticateRequest(auth_bytes=token))
    assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
    assert sasl.failure is not None


def test_the_order_of_requests() -> None:
    sasl = authenticator(VirtualClock())
    assert sasl.check_request(VERSIONS) is None
    sasl.api_versions_answered()
    assert sasl.failure is None
    assert sasl.check_request(HANDSHAKE) is None
    assert sasl.failure is None
    assert sasl.check_request(VERSIONS) is None
    assert sasl.failure == "ApiVersions was received before SASL authentication"


@pytest.mark.parametrize("api_key", [AUTHENTICATE, METADATA])
def test_only_the_handshake_and_api_versions_are_allowed_first(api_key: int) -> None:
    sasl = authenticator(VirtualClock())
    assert sasl.check_request(api_key) is None
    assert sasl.failure is not None


def test_tokens_are_wrapped_since_v1_of_the_handshake() -> None:
    for version, raw in ((0, True), (1, False)):
        sasl = authenticator(VirtualClock())
        sasl.handshake(SaslHandshakeRequest(mechanism="PLAIN"), version)
        assert sasl.raw == raw


# ---- mechanisms

# The example of RFC 7677, section 3.
RFC_CREDENTIAL = credential(
    Mechanism.SCRAM_SHA_256,
    b"[m\x99h\x9d\x125\x8e\xec\xa0K\x14\x126\xfa\x81",
    4096,
    hashlib.pbkdf2_hmac("sha256", b"pencil", b"[m\x99h\x9d\x125\x8e\xec\xa0K\x14\x126\xfa\x81", 4096),
)


def test_the_example_of_the_rfc() -> None:
    known: dict[str, Credential] = {"user": RFC_CREDENTIAL}
    exchange = ScramSaslServer(
        Mechanism.SCRAM_SHA_256, KnownCredentials(known), nonce=lambda: "%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    )
    assert exchange.step(b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO") == (
        b"r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096"
    )
    assert exchange.authenticated_user is None
    assert (
        exchange.step(
            b"c=biws,r=rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0,p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ="
        )
        == b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4="
    )
    assert exchange.authenticated_user == AuthenticatedUser("user")


@given(st.data())
def test_a_modified_scram_proof_is_refused(data: st.DataObject) -> None:
    client = ScramClient("user", "pencil", "sha256")
    exchange = ScramSaslServer(Mechanism.SCRAM_SHA_256, KnownCredentials({"user": RFC_CREDENTIAL}))
    final = bytearray(client.final(exchange.step(client.first())))
    at = data.draw(st.integers(0, len(final) - 1))
    final[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(AuthenticationFailed):
        exchange.step(bytes(final))
    assert exchange.authenticated_user is None


def test_a_scram_message_has_a_longest_length() -> None:
    """All of it is matched before anything is known of the client."""
    for length, accepted in ((60_000, True), (70_000, False)):
        exchange = ScramSaslServer(Mechanism.SCRAM_SHA_256, KnownCredentials({"user": RFC_CREDENTIAL}))
        token = b"n,,n=user,r=nonce,a=" + b"x" * length
        if accepted:
            assert exchange.step(token).startswith(b"r=nonce")
        else:
            with pytest.raises(AuthenticationFailed):
                exchange.step(token)


def test_a_scram_proof_has_one_valid_encoding() -> None:
    client = ScramClient("user", "pencil", "sha256")
    exchange = ScramSaslServer(Mechanism.SCRAM_SHA_256, KnownCredentials({"user": RFC_CREDENTIAL}))
    final = client.final(exchange.step(client.first()))
    # 32 bytes leave two bits of the last letter to say nothing.
    letters = string.ascii_uppercase + string.ascii_lowercase + string.digits + "+/"
    other = letters[letters.index(chr(final[-2])) ^ 1].encode()
    assert base64.b64decode(final[-44:-2] + other + b"=") == base64.b64decode(final[-44:])
    with pytest.raises(AuthenticationFailed):
        exchange.step(final[:-2] + other + b"=")


@given(st.binary(max_size=60))
def test_random_tokens_fail_without_an_internal_error(token: bytes) -> None:
    for exchange in (
        PlainSaslServer(PASSWORDS),
        ScramSaslServer(Mechanism.SCRAM_SHA_256, KnownCredentials({"user": RFC_CREDENTIAL})),
        OAuthBearerSaslServer(unsecured_validator(lambda: 0)),
    ):
        with pytest.raises(AuthenticationFailed):
            exchange.step(token)


def test_names_are_escaped() -> None:
    made = credential_of(Mechanism.SCRAM_SHA_512, "pencil")
    exchange = ScramSaslServer(Mechanism.SCRAM_SHA_512, KnownCredentials({"a,b=c": made}))
    client = ScramClient("a=2Cb=3Dc", "pencil", "sha512")
    exchange.step(client.final(exchange.step(client.first())))
    assert exchange.authenticated_user == AuthenticatedUser("a,b=c")


@pytest.mark.parametrize(
    "claims",
    [
        '{"sub": "alice"}',
        '{"sub": "alice", "exp": "tomorrow"}',
        '{"sub": "alice", "exp": 999}',
        '{"sub": "alice", "exp": 2000, "iat": 1500}',
        '{"sub": "alice", "exp": 2000, "iat": true}',
        '{"sub": "", "exp": 2000}',
        '{"sub": 7, "exp": 2000}',
        '{"exp": 2000}',
        "[]",
        "not JSON",
    ],
)
def test_invalid_claims_are_refused(claims: str) -> None:
    import base64

    def encoded(text: str) -> str:
        return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")

    validate = unsecured_validator(lambda: 1_000_000)
    good = '{"sub": "alice", "exp": 2000, "iat": 900}'
    none = encoded('{"alg": "none"}')
    assert validate(f"{none}.{encoded(good)}.") == Token("alice", 2_000_000)
    for token in (f"{none}.{encoded(claims)}.", f"{none}.{encoded(good)}.x", f"{encoded('{}')}.{encoded(good)}.", "x"):
        with pytest.raises(ValueError, match=r"token|claim"):
            validate(token)


def test_a_token_created_for_another_user() -> None:
    exchange = OAuthBearerSaslServer(lambda token: Token("alice", 1))
    with pytest.raises(AuthenticationFailed, match="different"):
        exchange.step(unsecured("alice").replace(b"n,,", b"n,a=bob,"))


@pytest.mark.parametrize("mechanism", Mechanism)
@pytest.mark.parametrize("extensions", ["", ",tokenauth=true"])
def test_scram_does_not_tell_which_users_exist(mechanism: Mechanism, extensions: str) -> None:
    credentials = ScramCredentials({"alice": "secret"})

    def answers(user: str) -> tuple[str, bytes, str, str | None]:
        """Salt, its form, iterations and the final failure."""
        client = ScramClient(user, "wrong", mechanism.digest, extensions=extensions)
        exchange = ScramSaslServer(mechanism, credentials)
        first = exchange.step(client.first())
        _, salt, iterations = first.decode().split(",")
        with pytest.raises(AuthenticationFailed) as raised:
            exchange.step(client.final(first))
        assert exchange.authenticated_user is None
        return salt, bytes([len(salt)]), iterations, raised.value.detail

    alice, bob, carol = answers("alice"), answers("bob"), answers("carol")
    assert alice[1:] == bob[1:] == carol[1:]
    assert len({alice[0], bob[0], carol[0]}) == 3
    assert (answers("alice"), answers("bob")) == (alice, bob)
    # Nor when the broker starts again.
    again = ScramCredentials({"alice": "secret"})
    again.load_json(list(credentials.to_json()), credentials.salts.secret.hex())
    credentials = again
    assert (answers("alice"), answers("bob")) == (alice, bob)


def test_the_salts_of_two_brokers_have_nothing_in_common() -> None:
    one, other = ScramCredentials({"alice": "secret"}), ScramCredentials({"alice": "secret"})
    for user in ("alice", "bob"):
        assert one.salts.salt(user, Mechanism.SCRAM_SHA_256) != other.salts.salt(user, Mechanism.SCRAM_SHA_256)
        assert one.salts.salt(user, Mechanism.SCRAM_SHA_256) != one.salts.salt(user, Mechanism.SCRAM_SHA_512)


# ---- credentials


def test_credentials_from_code_and_from_requests() -> None:
    before = ScramCredentials({"alice": "secret"})
    assert before.users == ["alice"]
    assert list(before.to_json()) == []
    old, new = (Upsertion("bob", mechanism, 8192, b"salt", b"salted") for mechanism in (1, 2))
    assert finish(before.altering([], [old])) == {"bob": None}
    assert finish(before.altering([], [new])) == {"bob": None}
    assert finish(before.altering([Deletion("bob", 1)], [])) == {"bob": None}
    assert list(before.of("bob")) == [Mechanism.SCRAM_SHA_512]
    assert list(before.of("alice")) == list(Mechanism)
    after = ScramCredentials({})
    after.load_json(list(before.to_json()))
    assert after.of("bob") == before.of("bob")
    assert after.users == ["bob"]


def test_a_user_named_twice_is_not_changed() -> None:
    credentials = ScramCredentials({})
    for mechanism in (1, 2):
        finish(credentials.altering([], [Upsertion("alice", mechanism, 8192, b"salt", b"salted")]))
    results = finish(credentials.altering([Deletion("alice", 1)], [Upsertion("alice", 2, 8192, b"salt", b"salted")]))
    assert results["alice"] is not None
    assert results["alice"].code == ErrorCode.DUPLICATE_RESOURCE
    assert len(credentials.of("alice")) == 2


# ---- what nobody sends


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(codec=None), max_size=5),
    lambda part: st.lists(part, max_size=2) | st.dictionaries(st.text(max_size=3), part, max_size=2),
    max_leaves=4,
)
CLAIMS = ("sub", "exp", "iat", "nbf", "aud", "iss", "scope")


def json_part(value: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


WEB_TOKENS = st.builds(
    lambda header, claims, signature: f"{json_part(header)}.{json_part(claims)}.{signature}",
    st.fixed_dictionaries({}, optional={"alg": JSON | st.sampled_from(["none", "RS256", "ES256"]), "kid": JSON}),
    st.fixed_dictionaries({}, optional={name: JSON | st.just(1e10) for name in CLAIMS}),
    st.sampled_from(["", "AA", "A" * 86]),
)
TOKENS = st.one_of(
    st.binary(max_size=40),
    st.text(max_size=40).map(str.encode),
    st.lists(st.sampled_from(["n,,", "n=a", "r=b", "c=biws", "p=AA", ",", "=", "m=", "\x01", "\0"])).map(
        lambda parts: "".join(parts).encode()
    ),
    WEB_TOKENS.map(lambda token: b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"),
    st.fixed_dictionaries(
        {"version": st.just("2020_10_22")},
        optional={name: JSON | st.sampled_from(["host", "900", "AWS4-HMAC-SHA256"]) for name in AWS_FIELDS[1:]},
    ).map(lambda fields: json.dumps(fields).encode()),
)


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM", "OAUTHBEARER", "AWS_MSK_IAM", "signed"])
@given(tokens=st.lists(TOKENS, min_size=1, max_size=3))
def test_no_token_fails_in_another_way_than_failing_to_authenticate(mechanism: str, tokens: list[bytes]) -> None:
    """Everyone can send them: anything else would be logged as a defect, with its traceback."""
    known = credential_of(Mechanism.SCRAM_SHA_256, "secret")
    validator = JwtValidator(OneKey(None), BrokerOptions({}), lambda: 5000)
    servers: dict[str, Callable[[], SaslServer]] = {
        "PLAIN": lambda: PlainSaslServer(PASSWORDS),
        "SCRAM": lambda: ScramSaslServer(Mechanism.SCRAM_SHA_256, KnownCredentials({"*": known})),
        "OAUTHBEARER": lambda: OAuthBearerSaslServer(unsecured_validator(lambda: 5000)),
        "AWS_MSK_IAM": lambda: AwsMskIamSaslServer({"AKIA1": "secret"}, lambda: 5000),
        "signed": lambda: OAuthBearerSaslServer(validator),
    }
    server = servers[mechanism]()
    for token in tokens:
        try:
            server.step(token)
        except AuthenticationFailed:
            return
        if server.authenticated_user is not None:
            server.authenticated_user.user.encode()


@pytest.mark.parametrize("algorithm", [[], {}, None, 5, "none", "HS256"])
def test_a_token_signed_in_no_known_way(algorithm: object) -> None:
    validator = JwtValidator(OneKey(None), BrokerOptions({}), lambda: 5000)
    with pytest.raises(ValueError, match="signed in a way that is not accepted"):
        validator(f"{json_part({'alg': algorithm, 'kid': 'k'})}.{json_part({})}.AA")


def test_texts_that_utf_8_does_not_have() -> None:
    server = OAuthBearerSaslServer(unsecured_validator(lambda: 5000))
    token = f"{json_part({'alg': 'none'})}.{json_part({'sub': chr(0xD800), 'exp': 1e9})}."
    assert server.step(b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01") == b'{"status":"invalid_token"}'
    fields = dict.fromkeys(AWS_FIELDS, "x") | {"host": chr(0xD800)}
    with pytest.raises(AuthenticationFailed, match="Invalid AWS_MSK_IAM payload"):
        AwsMskIamSaslServer({}, lambda: 5000).step(json.dumps(fields).encode())


def test_a_token_that_is_refused_ends_the_exchange() -> None:
    """RFC 7628: the client acknowledges the error, and begins again with another exchange."""
    asked = []

    def validate(token: str) -> Token:
        asked.append(token)
        raise ValueError("unknown")

    server = OAuthBearerSaslServer(validate)
    message = b"n,,\x01auth=Bearer abc\x01\x01"
    assert b"invalid_token" in server.step(message)
    with pytest.raises(AuthenticationFailed, match="invalid_token"):
        server.step(message)
    assert (len(asked), server.authenticated_user) == (1, None)
