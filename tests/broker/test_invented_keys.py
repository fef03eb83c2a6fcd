"""Logins by tokens of keys that clients invent: what they cost the broker and the identity provider."""

from __future__ import annotations

import base64
import json

import pytest

from aiokproto.broker.config.options import BrokerOptions
from aiokproto.broker.security import jwks
from aiokproto.broker.security.jwks import Jwks
from aiokproto.broker.security.jwt import JwtValidator
from aiokproto.broker.security.oauthbearer import OAuthBearerSaslServer
from tests.broker.reachable import reachable_bytes

LOGINS = 10_000
OPTIONS = BrokerOptions({})


def message(key_id: str) -> bytes:
    """The first message of OAUTHBEARER, with a token that an unknown key has signed."""

    def encoded(part: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")

    token = f"{encoded({'alg': 'RS256', 'kid': key_id})}.{encoded({'sub': 'alice'})}.AAAA"
    return f"n,,\x01auth=Bearer {token}\x01\x01".encode()


def refused(keys: Jwks, key_id: str) -> None:
    """Log in with an invented key."""
    server = OAuthBearerSaslServer(JwtValidator(keys, OPTIONS, lambda: 0))
    assert server.step(message(key_id)) == b'{"status":"invalid_token"}'
    assert server.authenticated_user is None


class Provider:
    """An identity provider of one key set, and the time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.asked = 0
        self.down = False
        self.keys = Jwks("http://provider.test/keys", allow_http=True, backoff=0.1, backoff_max=1.0)
        monkeypatch.setattr(jwks, "monotonic", lambda: self.now)
        monkeypatch.setattr(self.keys, "_fetch", self._fetch)

    async def _fetch(self) -> bytes:
        self.asked += 1
        if self.down:
            raise OSError("nobody is there")
        return b'{"keys": []}'

    async def refreshed(self) -> None:
        """Return when no request is under way."""
        if self.keys._refreshing is not None:
            await self.keys._refreshing


async def test_invented_keys_together_cause_one_request_a_minute(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider(monkeypatch)
    for seconds, requests in ((0, 1), (60, 1), (61, 2), (121, 2), (122, 3)):
        provider.now = seconds
        for number in range(100):
            refused(provider.keys, f"{seconds}-{number}")
            await provider.refreshed()
        assert provider.asked == requests


async def test_a_provider_that_is_down_is_asked_no_more_often(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    provider = Provider(monkeypatch)
    provider.down = True
    for number in range(100):
        refused(provider.keys, str(number))
        await provider.refreshed()
    assert provider.asked == 1
    assert len(caplog.records) == 1


async def test_what_no_key_is_called_is_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider(monkeypatch)
    refused(provider.keys, "x" * 1001)
    await provider.refreshed()
    assert provider.asked == 0


async def test_nothing_is_kept_of_invented_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    provider = Provider(monkeypatch)
    refused(provider.keys, "the first")
    await provider.refreshed()
    before = reachable_bytes(provider.keys)
    for number in range(100):
        refused(provider.keys, f"{number}-" + "x" * (900 if number % 2 else 5_000))
    # What a login does, without the work of reading its token.
    for number in range(LOGINS):
        assert provider.keys.find(f"{number}-" + "x" * (900 if number % 2 else 100_000)) is None
    assert reachable_bytes(provider.keys) - before < 1000
    assert provider.asked == 1
