"""Tokens that identify the client itself, from an OAuth token endpoint.

There are two grants: client credentials (RFC 6749 §4.4; KIP-768), with a secret or a client assertion (RFC 7523 §2.2;
KIP-1258), and JWT bearer (RFC 7523 §2.1; KIP-1139). Each is a function for :class:`~aiokproto.security.OAuthBearer`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from urllib.parse import quote_plus

from aiokproto.errors import ConfigurationError
from aiokproto.security.secret import Secret, SecretSource
from aiokproto.security.token import Token
from aiokproto.security.token_endpoint import TokenEndpoint

_ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"


class ClientCredentials:
    """The client credentials grant: a token for an id and a secret, or for an id and a signed assertion.

    Args:
        endpoint: The token endpoint, or its URL.
        client_id: The client's id. Optional with an assertion.
        client_secret: The client's secret.
        assertion: Instead of a secret (KIP-1258): an :class:`~aiokproto.security.Assertion`, a file, or a function.
        scope: The scopes of the token, separated by spaces. Default None.
        parameters: Additional fields of the request. Some providers need ``audience`` or ``resource``. Default None.
        header_urlencode: Whether id and secret are URL-encoded for the header, as in RFC 6749 §2.3.1. Default False, as
            in Kafka.

    Each secret can be a file or a function: see :class:`~aiokproto.security.Secret`.

    Raises:
        ConfigurationError: An argument is missing or invalid.
    """

    def __init__(
        self,
        endpoint: TokenEndpoint | str,
        client_id: SecretSource | None = None,
        client_secret: SecretSource | None = None,
        *,
        assertion: SecretSource | None = None,
        scope: str | None = None,
        parameters: Mapping[str, str] | None = None,
        header_urlencode: bool = False,
    ) -> None:
        if (client_secret is None) == (assertion is None):
            raise ConfigurationError("client credentials need a client secret or an assertion, and not both")
        if client_id is None and assertion is None:
            raise ConfigurationError("client credentials need a client id")
        self.endpoint = TokenEndpoint(endpoint) if isinstance(endpoint, str) else endpoint
        prefix = "sasl_oauthbearer_client_credentials_client"
        self._client_id = None if client_id is None else Secret(f"{prefix}_id", client_id)
        self._client_secret = None if client_secret is None else Secret(f"{prefix}_secret", client_secret)
        self._assertion = None if assertion is None else Secret("sasl_oauthbearer_assertion", assertion)
        self._form = {"grant_type": "client_credentials", **_common_fields(scope, parameters)}
        self._header_urlencode = header_urlencode

    async def __call__(self) -> Token:
        """Request a token. Cancelling closes the connection to the endpoint.

        Raises:
            AuthenticationError: The endpoint rejects the credentials.
            BrokerConnectionError: The endpoint can't be reached, or a secret can't be read.
        """
        client_id = None if self._client_id is None else (await self._client_id.read()).strip()
        if self._assertion is not None:
            assertion = (await self._assertion.read()).strip()
            form = {"client_assertion_type": _ASSERTION_TYPE, "client_assertion": assertion, **self._form}
            if client_id:
                form["client_id"] = client_id
            return await self.endpoint.request(form, {}, (assertion,))
        assert self._client_secret is not None, "checked by the constructor"
        secret = (await self._client_secret.read()).strip()
        parts = (client_id or "", secret)
        pair = ":".join(map(quote_plus, parts) if self._header_urlencode else parts)
        basic = base64.b64encode(pair.encode()).decode()
        headers = {"Authorization": f"Basic {basic}"}
        return await self.endpoint.request(self._form, headers, (basic, secret, quote_plus(secret)))

    def __repr__(self) -> str:
        return f"ClientCredentials({self.endpoint!r})"


class JwtBearer:
    """The JWT bearer grant: a token for a signed assertion (KIP-1139).

    Args:
        endpoint: The token endpoint, or its URL.
        assertion: An :class:`~aiokproto.security.Assertion`, a file that contains one, or a function that returns one.
        scope: The scopes of the token, separated by spaces. Default None.
        parameters: Additional fields of the request. Default None.

    Raises:
        ConfigurationError: An argument is invalid.
    """

    def __init__(
        self,
        endpoint: TokenEndpoint | str,
        assertion: SecretSource,
        *,
        scope: str | None = None,
        parameters: Mapping[str, str] | None = None,
    ) -> None:
        self.endpoint = TokenEndpoint(endpoint) if isinstance(endpoint, str) else endpoint
        self._assertion = Secret("sasl_oauthbearer_assertion", assertion)
        self._form = {"grant_type": _JWT_BEARER, **_common_fields(scope, parameters)}

    async def __call__(self) -> Token:
        """Request a token. Cancelling closes the connection to the endpoint.

        Raises:
            AuthenticationError: The endpoint rejects the assertion.
            BrokerConnectionError: The endpoint can't be reached, or the assertion can't be created.
        """
        assertion = (await self._assertion.read()).strip()
        return await self.endpoint.request({**self._form, "assertion": assertion}, {}, (assertion,))

    def __repr__(self) -> str:
        return f"JwtBearer({self.endpoint!r})"


def _common_fields(scope: str | None, parameters: Mapping[str, str] | None) -> dict[str, str]:
    scoped = {"scope": scope.strip()} if scope and scope.strip() else {}
    return {**scoped, **(parameters or {})}
