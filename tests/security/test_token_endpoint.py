"""Token endpoints over HTTP: requests, responses of all kinds, retries, and what errors show."""

from __future__ import annotations

import asyncio
import ssl
import time
from typing import Any

import pytest
import trustme

from aiokproto.errors import AuthenticationError, BrokerConnectionError, ConfigurationError
from aiokproto.security import ClientCredentials, Token, TokenEndpoint
from aiokproto.security.http_request import MAX_BODY, MAX_HEADERS, MAX_LINE, parse_url
from tests.security.oidc import Asked, Oidc, issuing, oidc, refusing, response
from tests.timeouts import LONG_TIMEOUT

QUICK: dict[str, Any] = {"retry_backoff": 0.001, "retry_backoff_max": 0.01}


def endpoint(provider: Oidc, **more: Any) -> TokenEndpoint:
    timeouts = {"connect_timeout": LONG_TIMEOUT, "read_timeout": LONG_TIMEOUT}
    return TokenEndpoint(provider.url, **{**QUICK, **timeouts, **more})


async def ask(provider: Oidc, **more: Any) -> Token:
    return await endpoint(provider, **more).request({"grant_type": "x"}, {"Authorization": "Basic s3cret"}, ("s3cret",))


async def test_what_is_sent() -> None:
    async with oidc() as provider:
        await ask(provider)
    (asked,) = provider.asked
    assert (asked.method, asked.target, asked.form) == ("POST", "/token", {"grant_type": "x"})
    assert asked.headers == {
        "host": f"127.0.0.1:{provider.port}",
        "connection": "close",
        "accept": "application/json",
        "cache-control": "no-cache",
        "content-type": "application/x-www-form-urlencoded",
        "user-agent": "aiokproto",
        "authorization": "Basic s3cret",
        "content-length": "12",
    }


@pytest.mark.parametrize(
    ("document", "lifetime"),
    [
        ({"access_token": "t", "expires_in": 60}, 60),
        ({"access_token": " t\n", "expires_in": "60", "token_type": "bearer"}, 60),
        ({"id_token": "t"}, None),
        ({"access_token": "", "id_token": "t", "expires_in": -5}, 0),
        ({"access_token": "t", "expires_in": 1e300}, 1e9),
    ],
)
@pytest.mark.parametrize("status", [200, 201])
async def test_tokens_and_their_lifetimes(document: Any, lifetime: float | None, status: int) -> None:
    before = time.time()
    async with oidc(lambda asked: response(status, document)) as provider:
        token = await ask(provider)
    assert token.value == "t"
    if lifetime is None:
        assert token.expires_at is None
    else:
        assert token.expires_at is not None
        assert before - 1 <= token.expires_at - lifetime <= time.time()


BODY = b'{"access_token": "t"}'


def raw(head: str, body: bytes = BODY) -> bytes:
    return head.replace("\n", "\r\n").encode() + b"\r\n\r\n" + body


@pytest.mark.parametrize(
    "answer",
    [
        raw("HTTP/1.1 200 OK"),
        raw("HTTP/1.0 200"),
        raw(f"HTTP/1.1 100 Continue\n\nHTTP/1.1 103 Hints\nA: x\n\nHTTP/1.1 200 OK\ncontent-length: {len(BODY)}"),
        raw(
            "HTTP/1.1 200 OK\nTransfer-Encoding: chunked",
            b"5;name=x\r\n" + BODY[:5] + b"\r\n10\r\n" + BODY[5:] + b"\r\n0\r\n\r\n",
        ),
        raw("HTTP/1.1 200 OK\n" + "\n".join(f"X-{number}: y" for number in range(MAX_HEADERS - 1))),
        # Bytes after the body are ignored.
        raw(f"HTTP/1.1 200 OK\nContent-Length: {len(BODY)}", BODY + b"more"),
    ],
)
async def test_forms_of_a_response(answer: bytes) -> None:
    def answered(asked: Asked) -> bytes:
        return answer

    async with oidc(answered) as provider:
        assert (await ask(provider)).value == "t"


CHUNKED = "HTTP/1.1 200 OK\nTransfer-Encoding: chunked"


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"", "closed before the response was complete"),
        (b"HTTP/1.1 200 OK\r\n", "closed before the response was complete"),
        (b"SSH-2.0-OpenSSH\r\n", "the response is not HTTP/1.1"),
        (b"HTTP/2 200\r\n\r\n", "the response is not HTTP/1.1"),
        (b"HTTP/1.1 abc\r\n\r\n", "the response is not HTTP/1.1"),
        (b"HTTP/1.1 200 " + b"x" * MAX_LINE + b"\r\n\r\n", f"a line of more than {MAX_LINE} bytes"),
        (raw("HTTP/1.1 200 OK\n" + "\n".join(["X: y"] * (MAX_HEADERS + 1))), f"more than {MAX_HEADERS} headers"),
        (raw("HTTP/1.1 200 OK\nContent-Length: 100"), "closed before the response was complete"),
        (raw(f"HTTP/1.1 200 OK\nContent-Length: {MAX_BODY + 1}"), f"more than {MAX_BODY} bytes"),
        (raw("HTTP/1.1 200 OK\nContent-Length: -1"), "an invalid length"),
        (raw("HTTP/1.1 200 OK\nContent-Length: 9999999999999999999"), "an invalid length"),
        (raw("HTTP/1.1 200 OK", b"x" * (MAX_BODY + 1)), f"more than {MAX_BODY} bytes"),
        (raw("HTTP/1.1 200 OK\nTransfer-Encoding: gzip"), "a transfer coding other than 'chunked'"),
        (raw(CHUNKED, b"zz\r\n"), "an invalid length"),
        (raw(CHUNKED, b"fffffff\r\n"), f"more than {MAX_BODY} bytes"),
        (raw(CHUNKED, b"1\r\nxx\r\n0\r\n\r\n"), "does not end where it should"),
        (raw(CHUNKED, b"5\r\nx"), "closed before the response was complete"),
        (response(500, {}), "status 500"),
        (response(503, b"<html>s3cret</html>"), "status 503"),
        (response(429, {"error": "slow_down"}), "status 429, slow_down"),
        (response(408, {}), "status 408"),
    ],
)
async def test_failures_that_may_be_temporary(answer: bytes, text: str) -> None:
    async with oidc(lambda asked: answer) as provider:
        with pytest.raises(BrokerConnectionError, match=text) as raised:
            await ask(provider)
    assert not isinstance(raised.value, AuthenticationError)
    assert str(raised.value).startswith(f"the token endpoint {provider.url} gave no token: ")
    assert "s3cret" not in str(raised.value)


async def test_an_attempt_that_fails_is_followed_by_one_that_succeeds() -> None:
    async with oidc() as provider:
        success, answers = provider.answer, [response(500), b"", response(503)]
        provider.answer = lambda asked: answers.pop(0) if answers else success(asked)
        assert (await ask(provider, retry_backoff_max=LONG_TIMEOUT)).expires_at is not None
    assert len(provider.asked) == 4


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (response(200, {}), "has no access_token"),
        (response(200, {"access_token": 5}), "has no access_token"),
        (response(200, b"s3cret, but no JSON"), "has no access_token"),
        (response(200, b"[" * 100_000), "has no access_token"),
        (response(200, {"access_token": "s3cret", "token_type": "mac"}), "type is 'mac', expected 'Bearer'"),
        (response(200, {"access_token": "s3cret", "expires_in": "soon"}), "an invalid expires_in"),
        (response(200, {"access_token": "s3cret", "expires_in": []}), "an invalid expires_in"),
        (response(302, {}, "Location: https://elsewhere"), "status 302; redirects are not followed"),
        (response(404, b"not here"), "status 404$"),
        (response(400, {"error": "temporarily_unavailable"}), "status 400, temporarily_unavailable$"),
        (response(204, b""), "status 204$"),
    ],
)
async def test_failures_that_another_attempt_does_not_mend(answer: bytes, text: str) -> None:
    """The retries of this call end. The connection is tried again later, as after other errors."""
    async with oidc(lambda asked: answer) as provider:
        with pytest.raises(BrokerConnectionError, match=text) as raised:
            await ask(provider)
    assert not isinstance(raised.value, AuthenticationError)
    assert "s3cret" not in str(raised.value)
    assert len(provider.asked) == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (refusing(), "status 401, invalid_client: no such client"),
        (refusing("invalid_scope", "what?", 400), "status 400, invalid_scope: what\\?"),
        (refusing("invalid_grant", "", 400), "status 400, invalid_grant"),
        (lambda asked: response(401, b"<html>"), "status 401$"),
        (lambda asked: response(403, b""), "status 403$"),
        (
            refusing("invalid_client", "the secret s3cret of Basic s3cret\r\nis wrong"),
            "the secret … of Basic …\\?\\?is",
        ),
        (refusing("invalid_client", "x" * 5000), "invalid_client: x{180,190}$"),
        (lambda asked: response(401, {"error": 5, "error_description": ["s3cret"]}), "status 401$"),
    ],
)
async def test_rejected_credentials_are_final(answer: Any, text: str) -> None:
    async with oidc(answer) as provider:
        with pytest.raises(AuthenticationError, match=text) as raised:
            await ask(provider)
    assert str(raised.value).startswith(f"the token endpoint {provider.url} rejected the credentials: ")
    assert "s3cret" not in str(raised.value)
    assert len(provider.asked) == 1


async def test_a_server_that_stays_silent() -> None:
    async with oidc(lambda asked: None) as provider:
        with pytest.raises(BrokerConnectionError, match="no complete response in"):
            await ask(provider, read_timeout=0.05)


async def test_an_address_without_a_listener() -> None:
    async with oidc() as provider:
        port = provider.port
    with pytest.raises(BrokerConnectionError, match=f"http://127.0.0.1:{port}/token gave no token: ConnectionRefused"):
        await TokenEndpoint(f"http://127.0.0.1:{port}/token", **QUICK).request({}, {}, ())


@pytest.mark.parametrize("host", ["a..b", f"{'x' * 64}.example"])
async def test_a_host_that_no_name_server_can_have(host: str) -> None:
    with pytest.raises(BrokerConnectionError, match=r"gave no token: Unicode\w*Error: .*label"):
        await TokenEndpoint(f"https://{host}/token", **QUICK).request({}, {}, ())


async def test_cancelling_closes_the_connection() -> None:
    async with oidc(lambda asked: None) as provider:
        asking = asyncio.ensure_future(ask(provider))
        await provider.arrived.wait()
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking


class Tls:
    """An authority, and a server that its certificate is for."""

    def __init__(self, name: str) -> None:
        authority = trustme.CA()
        self.server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(name).configure_cert(self.server)
        self.client = ssl.create_default_context()
        authority.configure_trust(self.client)


async def serve_tls(tls: Tls) -> tuple[asyncio.Server, str]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(response(200, {"access_token": "t"}))
            await reader.read()
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=tls.server)
    return server, f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/token"


async def test_https_with_a_context() -> None:
    tls = Tls("127.0.0.1")
    server, url = await serve_tls(tls)
    async with server:
        token = await TokenEndpoint(url, ssl_context=tls.client, **QUICK).request({}, {}, ())
        assert token.value == "t"


@pytest.mark.parametrize("mode", [ssl.CERT_REQUIRED, ssl.CERT_OPTIONAL])
async def test_a_token_endpoint_without_certificate_gets_nothing(mode: ssl.VerifyMode) -> None:
    """The application's own context permits it, and OpenSSL calls the handshake complete."""
    tls = Tls("127.0.0.1")
    tls.client.verify_mode = mode
    for context in (tls.server, tls.client):
        context.maximum_version = ssl.TLSVersion.TLSv1_2
        context.set_ciphers("aNULL:@SECLEVEL=0")
    server, url = await serve_tls(tls)
    async with server:
        with pytest.raises(BrokerConnectionError, match="the server has no certificate"):
            await TokenEndpoint(url, ssl_context=tls.client, **QUICK).request({}, {}, ())


@pytest.mark.parametrize("trusted", [True, False])
async def test_https_verifies_authority_and_name(trusted: bool) -> None:
    tls = Tls("other.example.org" if trusted else "127.0.0.1")
    server, url = await serve_tls(tls)
    async with server:
        with pytest.raises(BrokerConnectionError, match="SSLCertVerificationError"):
            await TokenEndpoint(url, ssl_context=tls.client if trusted else None, **QUICK).request({}, {}, ())


@pytest.mark.parametrize(
    ("url", "shown", "authority", "target"),
    [
        ("https://issuer/token", "https://issuer/token", "issuer", "/token"),
        ("https://issuer", "https://issuer", "issuer", "/"),
        ("https://Issuer:8443/a?key=s3cret", "https://Issuer:8443/a", "issuer:8443", "/a?key=s3cret"),
        ("http://localhost:80/", "http://localhost:80/", "localhost", "/"),
        ("http://127.1.2.3:443/", "http://127.1.2.3:443/", "127.1.2.3:443", "/"),
        ("https://[2001:db8::1]:9/t", "https://[2001:db8::1]:9/t", "[2001:db8::1]:9", "/t"),
    ],
)
def test_urls(url: str, shown: str, authority: str, target: str) -> None:
    parsed = parse_url("option", url, allow_http=False)
    assert (parsed.shown, parsed.authority, parsed.target) == (shown, authority, target)
    assert "s3cret" not in repr(parsed)


@pytest.mark.parametrize(
    ("url", "text"),
    [
        (None, "expected a URL as text"),
        ("", "expected a URL as text"),
        ("issuer/s3cret", "expected an absolute URL"),
        ("ftp://issuer/s3cret", "expected an absolute URL"),
        ("https:///s3cret", "expected an absolute URL"),
        ("https://issuer/s3cret ä", "expected an absolute URL"),
        ("https://issuer/s3cret\r\nHost: x", "expected an absolute URL"),
        ("https://issuer/s3cret\0", "expected an absolute URL"),
        ("https://issuer\r\n/s3cret", "expected an absolute URL"),
        ("https://issuer:port/s3cret", "the URL is malformed"),
        ("https://[::1/s3cret", "the URL is malformed"),
        ("https://me:s3cret@issuer/", "user and password do not belong into the URL"),
        ("https://issuer/#s3cret", "has a fragment"),
        ("http://issuer/token", "http://issuer/token is not encrypted: use https, or allow it with"),
    ],
)
def test_urls_that_are_refused(url: Any, text: str) -> None:
    with pytest.raises(ConfigurationError, match=rf"^option: .*{text}") as raised:
        parse_url("option", url, allow_http=False)
    assert "s3cret" not in str(raised.value)


def test_http_can_be_allowed() -> None:
    assert repr(TokenEndpoint("http://issuer/token", allow_http=True)) == "TokenEndpoint('http://issuer/token')"


def test_a_context_for_http_has_no_effect() -> None:
    with pytest.raises(ConfigurationError, match="http://localhost/token is not https"):
        TokenEndpoint("http://localhost/token", ssl_context=ssl.create_default_context())


async def test_a_source_shows_its_endpoint_and_nothing_else() -> None:
    async with oidc() as provider:
        provider.answer = issuing(provider.issuer)
        source = ClientCredentials(f"{provider.url}?key=s3cret", "id", "s3cret")
        assert repr(source) == f"ClientCredentials(TokenEndpoint({provider.url!r}))"


@pytest.mark.parametrize(("claimed", "lifetime"), [(50, 50), (70, 60)])
async def test_the_earlier_of_lifetime_and_claim_counts(claimed: int, lifetime: int) -> None:
    now = time.time()
    async with oidc() as provider:
        token = provider.issuer.token(exp=now + claimed)
        provider.answer = lambda asked: response(200, {"access_token": token, "expires_in": 60})
        found = await ask(provider)
    assert found.expires_at is not None
    assert -1 <= found.expires_at - now - lifetime <= time.time() - now
