"""OAuth token endpoints (RFC 6749 §3.2): requests, retries, and the meaning of errors (KIP-768).

=====================================  ==========================================================================
response                               meaning
=====================================  ==========================================================================
none, 408, 429, 5xx, not HTTP          tried again, with exponential backoff; then a failed connection
400, 401, 403 with an ``error`` of     final: the identity provider rejects the credentials, and repeated
RFC 6749 §5.2; 401 and 403 without     attempts can lock an account
others                                 a failed connection: the address is wrong, or the server is misconfigured
=====================================  ==========================================================================

Retries are logged, since connections are waiting for them: a warning with the reason, at most once every
:data:`WARN_EVERY` seconds.
"""

from __future__ import annotations

import asyncio
import json
import logging
import ssl
from collections.abc import Collection, Mapping
from typing import Any
from urllib.parse import urlencode

from aiokproto.errors import AuthenticationError, BrokerConnectionError, ConfigurationError
from aiokproto.runtime import current, uniform
from aiokproto.security.http_request import HttpError, HttpResponse, is_loopback, parse_url, request
from aiokproto.security.shown import shown
from aiokproto.security.token import Token, claimed_expiry

_SUCCESS = (200, 201)
_TRANSIENT = (408, 429)
_REJECTED = {
    "invalid_request",
    "invalid_client",
    "invalid_grant",
    "unauthorized_client",
    "unsupported_grant_type",
    "invalid_scope",
    "access_denied",
}
_HEADERS = {
    "Accept": "application/json",
    "Cache-Control": "no-cache",
    "Content-Type": "application/x-www-form-urlencoded",
    "User-Agent": "aiokproto",
}


WARN_EVERY = 30.0
"""Minimum time between two warnings about an endpoint (s). Reasons aren't compared: they contain ids that differ each
time."""

logger = logging.getLogger("aiokproto.security")


class _TryAgain(Exception):
    """The attempt failed, but the next one may succeed."""


class TokenEndpoint:
    """The token endpoint of an identity provider.

    Args:
        url: The URL: ``https``, or ``http`` on this machine.
        ssl_context: Certificates and checks for ``https``. By default the system's certificate authorities are trusted,
            and the host name is verified.
        allow_http: Accept ``http`` for other hosts, too. Default False.
        connect_timeout: Maximum time to connect, per attempt (s). Default 10.
        read_timeout: Maximum time for the response, per attempt (s). Default 10.
        retry_backoff: Wait before the first retry (s); doubles with each retry, with jitter. Default 0.1.
        retry_backoff_max: Maximum wait between attempts, and the time after which no more attempts are started (s), as
            in the Java client. Default 10.

    Raises:
        ConfigurationError: The URL is invalid, or isn't encrypted.
    """

    def __init__(
        self,
        url: str,
        *,
        ssl_context: ssl.SSLContext | None = None,
        allow_http: bool = False,
        connect_timeout: float = 10.0,
        read_timeout: float = 10.0,
        retry_backoff: float = 0.1,
        retry_backoff_max: float = 10.0,
    ) -> None:
        self._url = parse_url("sasl_oauthbearer_token_endpoint_url", url, allow_http=allow_http)
        if ssl_context is not None and not self._url.tls:
            raise ConfigurationError(f"sasl_oauth_ssl_context is given, but {self._url.shown} is not https")
        self._ssl_context = ssl_context
        self._connect_timeout = connect_timeout
        self._read_timeout = read_timeout
        self._retry_backoff = retry_backoff
        self._retry_backoff_max = retry_backoff_max
        self._warned_at: float | None = None

    @property
    def readable(self) -> bool:
        """Whether requests leave this machine unencrypted."""
        return not self._url.tls and not is_loopback(self._url.host)

    @property
    def verifies_certificate(self) -> bool:
        """Whether the server's certificate is verified, if TLS is used."""
        return self._ssl_context is None or self._ssl_context.verify_mode is not ssl.CERT_NONE

    def __repr__(self) -> str:
        return f"TokenEndpoint({self._url.shown!r})"

    async def request(self, form: Mapping[str, str], headers: Mapping[str, str], secrets: Collection[str]) -> Token:
        """Request a token. Cancelling closes the connection.

        Args:
            form: The fields of the request.
            headers: Headers for authentication.
            secrets: Texts that errors must not show, even if the endpoint repeats them.

        Raises:
            AuthenticationError: The endpoint rejects the credentials.
            BrokerConnectionError: The request failed for another reason.
        """
        body, loop = urlencode(form).encode(), asyncio.get_running_loop()
        give_up_at, backoff = loop.time() + self._retry_backoff_max, self._retry_backoff
        while True:
            try:
                return await self._attempt(body, headers, secrets)
            except _TryAgain as error:
                wait = min(backoff, self._retry_backoff_max) * uniform(0.8, 1.2)
                if loop.time() + wait > give_up_at:
                    raise self._failed(str(error)) from error.__cause__
                self._report_retry(str(error), wait, loop.time())
            await asyncio.sleep(wait)
            backoff *= 2

    def _report_retry(self, why: str, wait: float, now: float) -> None:
        # Also compare with 0: the clock of another event loop may be behind.
        recent = self._warned_at is not None and 0 <= now - self._warned_at < WARN_EVERY
        if not recent:
            self._warned_at = now
        level = logging.DEBUG if recent else logging.WARNING
        logger.log(level, "%s; trying again in %.2g s", self._failed(why), wait)

    async def _attempt(self, body: bytes, headers: Mapping[str, str], secrets: Collection[str]) -> Token:
        sent = current().milliseconds() / 1000
        try:
            response = await request(
                "POST",
                self._url,
                {**_HEADERS, **headers},
                body,
                ssl_context=self._ssl_context,
                connect_timeout=self._connect_timeout,
                read_timeout=self._read_timeout,
            )
        except HttpError as error:
            raise _TryAgain(str(error)) from error.__cause__
        if response.status in _SUCCESS:
            return self._token(response, sent)
        why = _described(response, secrets)
        if response.status >= 500 or response.status in _TRANSIENT:
            raise _TryAgain(why)
        rejected = response.status == 400 and _fields(response).get("error") in _REJECTED
        if rejected or response.status in (401, 403):
            raise AuthenticationError(f"the token endpoint {self._url.shown} rejected the credentials: {why}")
        if 300 <= response.status < 400:
            why = f"{why}; redirects are not followed: set the address that it points to"
        raise self._failed(why)

    def _token(self, response: HttpResponse, sent: float) -> Token:
        fields = _fields(response)
        # As in Kafka, also accept the id_token: some providers return the client's own token only there.
        value = fields.get("access_token") or fields.get("id_token")
        if not isinstance(value, str) or not value.strip():
            raise self._failed("the response has no access_token")
        kind = fields.get("token_type", "Bearer")
        if not isinstance(kind, str) or kind.lower() != "bearer":
            raise self._failed(f"the token's type is {shown(str(kind))!r}, expected 'Bearer'")
        lifetime, value = fields.get("expires_in"), value.strip()
        if lifetime is None:
            return Token(value)
        try:
            # Convert it: some servers send it as text.
            expires_at = sent + min(max(float(lifetime), 0.0), 1e9)
        except (TypeError, ValueError, OverflowError):
            raise self._failed("the response has an invalid expires_in") from None
        # Take the earlier expiry, to be safe by either clock: the lifetime is relative to this machine's clock, while
        # the claim, which brokers check, is in whole seconds of the provider's clock.
        claimed = claimed_expiry(value)
        return Token(value, expires_at if claimed is None else min(expires_at, claimed))

    def _failed(self, why: str) -> BrokerConnectionError:
        return BrokerConnectionError(f"the token endpoint {self._url.shown} gave no token: {why}")


def _fields(response: HttpResponse) -> dict[str, Any]:
    try:
        found = json.loads(response.body)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _described(response: HttpResponse, secrets: Collection[str]) -> str:
    """Return the reason in a response, using only the fields of RFC 6749."""
    fields = _fields(response)
    reasons = [fields[name] for name in ("error", "error_description") if isinstance(fields.get(name), str)]
    text = shown(": ".join(map(str, reasons)), hidden=secrets)
    return f"status {response.status}" + (f", {text}" if text else "")
