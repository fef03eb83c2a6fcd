"""Token endpoints behind the proxy that the environment names."""

from __future__ import annotations

import re
from typing import Any

import pytest

from aiokproto.errors import BrokerConnectionError
from aiokproto.security import TokenEndpoint, http_request
from aiokproto.security.http_request import parse_url
from tests.net.proxies import proxy
from tests.patience import PATIENCE
from tests.security.oidc import oidc, response
from tests.security.test_token_endpoint import QUICK, Tls, serve_tls

HOST = "idp.example"
"""A name that only the proxy can resolve."""
TIMEOUTS: dict[str, Any] = {"connect_timeout": PATIENCE, "read_timeout": PATIENCE}


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


async def ask(url: str, **more: Any) -> str:
    return (await TokenEndpoint(url, **{**QUICK, **TIMEOUTS, **more}).request({}, {}, ())).value


@pytest.mark.parametrize("variable", ["https_proxy", "HTTPS_PROXY", "all_proxy"])
@pytest.mark.parametrize("login", [None, ("ann", "p:ss@")])
async def test_tls_goes_through_a_tunnel(
    variable: str, login: tuple[str, str] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tls = Tls(HOST)
    server, url = await serve_tls(tls)
    async with server, proxy("connect", login=login, leads_to={HOST: "127.0.0.1"}) as running:
        user = "" if login is None else "ann:p%3Ass%40@"
        monkeypatch.setenv(variable, f"http://{user}127.0.0.1:{running.port}")
        assert await ask(url.replace("127.0.0.1", HOST), ssl_context=tls.client) == "t"
    (asked,) = running.asked
    assert asked[0] == HOST


async def test_a_tunnel_leads_to_a_server_with_the_wrong_certificate(monkeypatch: pytest.MonkeyPatch) -> None:
    tls = Tls("other.example.org")
    server, url = await serve_tls(tls)
    async with server, proxy("connect", leads_to={HOST: "127.0.0.1"}) as running:
        monkeypatch.setenv("https_proxy", f"127.0.0.1:{running.port}")
        with pytest.raises(BrokerConnectionError, match="SSLCertVerificationError"):
            await ask(url.replace("127.0.0.1", HOST), ssl_context=tls.client)


async def test_a_proxy_gets_the_whole_url_of_a_request_without_tls(monkeypatch: pytest.MonkeyPatch) -> None:
    async with oidc(lambda asked: response(200, {"access_token": "t"})) as provider:
        monkeypatch.setenv("http_proxy", f"http://ann:s3cret@127.0.0.1:{provider.port}")
        assert await ask(f"http://{HOST}:8080/token?x=1", allow_http=True) == "t"
    (asked,) = provider.asked
    assert asked.target == f"http://{HOST}:8080/token?x=1"
    assert asked.headers["host"] == f"{HOST}:8080"
    assert asked.headers["proxy-authorization"] == "Basic YW5uOnMzY3JldA=="


async def test_this_machine_is_reached_without_the_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    async with oidc(lambda asked: response(200, {"access_token": "t"})) as provider:
        assert await ask(provider.url) == "t"


@pytest.mark.parametrize(
    ("no_proxy", "used"), [("x.example,idp.example", False), (".example", False), ("*", False), ("x.example", True)]
)
def test_hosts_of_no_proxy_are_reached_without_it(no_proxy: str, used: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("no_proxy", no_proxy)
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:3128")
    assert (http_request._proxy_for(parse_url("url", f"https://{HOST}/", allow_http=False)) is not None) is used


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("socks5://ann:s3cret@127.0.0.1:1080", "the environment's https_proxy is no HTTP proxy"),
        ("https://ann:s3cret@127.0.0.1:443", "the environment's https_proxy is no HTTP proxy"),
        ("http://ann:s3cret@:80", "the environment's https_proxy is no HTTP proxy"),
        ("http://ann:s3cret@127.0.0.1:99999", "the environment's https_proxy is malformed"),
    ],
)
async def test_what_is_no_proxy_is_named_without_its_password(
    value: str, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", value)
    with pytest.raises(BrokerConnectionError, match=re.escape(text)) as raised:
        await ask(f"https://{HOST}/token")
    assert "s3cret" not in str(raised.value)


async def test_a_proxy_that_refuses_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    async with proxy("connect", refuses="403 Forbidden") as running:
        monkeypatch.setenv("https_proxy", f"http://ann:s3cret@127.0.0.1:{running.port}")
        text = f"the proxy 127.0.0.1:{running.port} refused the connection: status 403"
        with pytest.raises(BrokerConnectionError, match=re.escape(text)) as raised:
            await ask(f"https://{HOST}/token")
    assert "s3cret" not in str(raised.value)
