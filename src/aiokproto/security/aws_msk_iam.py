"""IAM authentication for Amazon MSK: the mechanism AWS_MSK_IAM, and the same as an OAUTHBEARER token.

Both sign the action ``kafka-cluster:Connect``. The mechanism signs it for the broker's host, and sends JSON. The token
is a URL, signed for the region's endpoint. No secret is sent.
"""

from __future__ import annotations

import json
from typing import Any

from aiokproto.errors import AuthenticationError
from aiokproto.runtime import current
from aiokproto.security.assertion import base64url
from aiokproto.security.aws import (
    AwsCredentialsSource,
    CredentialsReader,
    check_region,
    presigned,
    query_string,
    region_of,
)
from aiokproto.security.mechanism import SaslExchange
from aiokproto.security.token import Token

_ACTION = {"Action": "kafka-cluster:Connect"}
_SERVICE = "kafka-cluster"
_VERSION = "2020_10_22"
_USER_AGENT = "aiokproto"
_EXPIRES = 900
"""How long a signature is valid (s)."""


class AwsMskIam:
    """AWS_MSK_IAM: a signature made with AWS credentials.

    Args:
        credentials: :class:`~aiokproto.security.AwsCredentials`, or a function, async or not, that returns them.
            Default None: the credentials that AWS's tools use (:class:`~aiokproto.security.BotocoreCredentials`).
        region: The cluster's region. Default None: the one in the broker's host name, or in the environment
            (``AWS_REGION``).

    Raises:
        ConfigurationError: An argument is invalid.
    """

    name = "AWS_MSK_IAM"

    def __init__(self, credentials: AwsCredentialsSource | None = None, region: str | None = None) -> None:
        self._credentials = CredentialsReader(credentials)
        self._region = None if region is None else check_region(region)

    def exchange(self, host: str) -> SaslExchange:
        """Start an exchange."""
        return _AwsMskIamExchange(self._credentials, host, self._region)

    def __repr__(self) -> str:
        return f"AwsMskIam(region={self._region!r})"


class _AwsMskIamExchange:
    def __init__(self, credentials: CredentialsReader, host: str, region: str | None) -> None:
        self._credentials = credentials
        self._host = host
        self._region = region
        self.user: str | None = None

    @property
    def complete(self) -> bool:
        # The exchange is complete only after the broker's response to the signature, which must not be empty.
        return False

    async def start(self) -> bytes:
        region = region_of(self._host, self._region)
        credentials = await self._credentials.read()
        self.user = credentials.access_key_id
        now = current().milliseconds() // 1000
        signed = presigned(self._host, region, _SERVICE, _ACTION, credentials, at=now, expires=_EXPIRES)
        fields = {"version": _VERSION, "host": self._host, "user-agent": _USER_AGENT}
        fields |= {name.lower(): value for name, value in signed.items()}
        return json.dumps(fields, separators=(",", ":")).encode()

    async def respond(self, challenge: bytes) -> bytes | None:
        try:
            found: Any = json.loads(challenge)
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, dict) or found.get("version") != _VERSION:
            raise AuthenticationError("the broker's response to the signature is not that of AWS_MSK_IAM")
        return None


class AwsMskIamToken:
    """A token for MSK with OAUTHBEARER: a function for :class:`~aiokproto.security.OAuthBearer`.

    Args:
        region: The cluster's region.
        credentials: See :class:`~aiokproto.security.AwsMskIam`.

    Raises:
        ConfigurationError: An argument is invalid.
    """

    def __init__(self, region: str, credentials: AwsCredentialsSource | None = None) -> None:
        self._credentials = CredentialsReader(credentials)
        self._region = check_region(region)

    async def __call__(self) -> Token:
        """Return a token that is valid for 15 minutes, or as long as the credentials, if that is shorter.

        Raises:
            BrokerConnectionError: There are no credentials.
        """
        credentials = await self._credentials.read()
        now = current().milliseconds() // 1000
        host = f"kafka.{self._region}.amazonaws.com"
        signed = presigned(host, self._region, _SERVICE, _ACTION, credentials, at=now, expires=_EXPIRES)
        url = f"https://{host}/?{query_string({**signed, 'User-Agent': _USER_AGENT})}"
        expires_at = min(now + _EXPIRES, credentials.expires_at or now + _EXPIRES)
        return Token(base64url(url.encode()), expires_at)

    def __repr__(self) -> str:
        return f"AwsMskIamToken({self._region!r})"
