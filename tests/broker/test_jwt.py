"""Signed tokens at the broker, where it is stricter than Kafka."""

from __future__ import annotations

import json
import time

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding

from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.security.jwks import Key, decoded
from aiokproto.broker.security.jwt import JwtValidator
from tests.broker.secure import OneKey
from tests.security.oidc import Issuer, b64

SKEW = {"sasl.oauthbearer.clock.skew.seconds": "30"}


@pytest.mark.parametrize(("ahead", "accepted"), [(-60, True), (20, True), (90, False), (10 * 365 * 86400, False)])
def test_a_token_of_the_future_is_refused_beyond_the_skew(ahead: int, accepted: bool) -> None:
    issuer, now = Issuer(), int(time.time())
    validate = JwtValidator(OneKey(Key("RSA", issuer.key.public_key())), BrokerOptions(SKEW), lambda: now * 1000)
    token = issuer.token(iat=now + ahead, exp=now + ahead + 600)
    if accepted:
        assert validate(token).user == "alice"
    else:
        with pytest.raises(ValueError, match="the token was issued in the future"):
            validate(token)


@pytest.mark.parametrize(
    ("subject", "user"),
    [("alice", "alice"), (" alice\n", "alice"), ("alice\u00a0", "alice\u00a0"), ("\u3000alice", "\u3000alice")],
)
def test_only_the_white_space_that_java_removes_is_removed_from_subjects(subject: str, user: str) -> None:
    """An identity provider may give a name with the others to another user."""
    issuer, now = Issuer(), int(time.time())
    validate = JwtValidator(OneKey(Key("RSA", issuer.key.public_key())), BrokerOptions(SKEW), lambda: now * 1000)
    assert validate(issuer.token(sub=subject, iat=now, exp=now + 600)).user == user


def test_a_token_with_a_critical_extension_is_refused() -> None:
    """RFC 7515: who does not understand it must not accept the token."""
    issuer, now = Issuer(), int(time.time())
    keys = OneKey(Key("RSA", issuer.key.public_key()))
    validate = JwtValidator(keys, BrokerOptions(SKEW), lambda: now * 1000)
    header, claims, _ = issuer.token(iat=now, exp=now + 600).split(".")
    extended = {**json.loads(decoded(header)), "crit": ["exp"]}
    unsigned = f"{b64(json.dumps(extended).encode())}.{claims}"
    signature = issuer.key.sign(unsigned.encode(), padding.PKCS1v15(), hashes.SHA256())
    with pytest.raises(ValueError, match="signed in a way that is not accepted"):
        validate(f"{unsigned}.{b64(signature)}")
    assert not keys.requested
