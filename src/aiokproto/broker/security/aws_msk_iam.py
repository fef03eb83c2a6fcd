"""SASL/AWS_MSK_IAM: the client presents a request signed with its AWS credentials (Signature Version 4).

This is based on AWS's description of the signature, and is independent of the client's code.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from aiokproto.broker.security.sasl_server import AuthenticatedUser, AuthenticationFailed
from aiokproto.runtime import utc

_VERSION = "2020_10_22"
_REQUIRED = (
    "version",
    "host",
    "user-agent",
    "action",
    "x-amz-algorithm",
    "x-amz-credential",
    "x-amz-date",
    "x-amz-signedheaders",
    "x-amz-expires",
    "x-amz-signature",
)
_SIGNED = {
    "action": "Action",
    "x-amz-algorithm": "X-Amz-Algorithm",
    "x-amz-credential": "X-Amz-Credential",
    "x-amz-date": "X-Amz-Date",
    "x-amz-expires": "X-Amz-Expires",
    "x-amz-security-token": "X-Amz-Security-Token",
    "x-amz-signedheaders": "X-Amz-SignedHeaders",
}
"""The signed query parameters, by their names in the message."""

_CREDENTIAL = re.compile(r"(?P<key>[^/]+)/(?P<scope>(?P<day>\d{8})/(?P<region>[a-z0-9-]+)/kafka-cluster/aws4_request)")
_EXPIRES = re.compile(r"[1-9][0-9]{0,2}")
_MAX_EXPIRES = 900
_DATE = re.compile(r"[0-9]{8}T[0-9]{6}Z")
_HOST = re.compile(r"[^\0-\x20/@\x7f]{1,255}")
"""The name or address that the client uses for the broker. Behind a load balancer, the broker itself doesn't know
it."""
_SKEW = 300
"""How far a client's clock may be ahead (s)."""


class AwsMskIamSaslServer:
    """One AWS_MSK_IAM exchange. See :class:`~aiokproto.broker.security.sasl_server.SaslServer`."""

    def __init__(self, secrets: Mapping[str, str], now: Callable[[], int]) -> None:
        """``secrets`` maps access key ids to secret access keys. ``now`` returns the time in milliseconds."""
        self.authenticated_user: AuthenticatedUser | None = None
        self._secrets = secrets
        self._now = now

    def step(self, token: bytes) -> bytes:
        fields = _fields(token)
        credential = _CREDENTIAL.fullmatch(fields["x-amz-credential"])
        if (
            fields["version"] != _VERSION
            or fields["action"] != "kafka-cluster:Connect"
            or fields["x-amz-algorithm"] != "AWS4-HMAC-SHA256"
            or fields["x-amz-signedheaders"] != "host"
            or _HOST.fullmatch(fields["host"]) is None
            or _DATE.fullmatch(fields["x-amz-date"]) is None
            or credential is None
        ):
            raise AuthenticationFailed("Invalid AWS_MSK_IAM payload")
        secret = self._secrets.get(credential["key"])
        # Use the same message for an unknown key and a wrong signature, so it doesn't reveal whether the key exists.
        expected = _signature(fields, secret or "", credential["scope"])
        if not hmac.compare_digest(expected, fields["x-amz-signature"].encode()) or secret is None:
            raise AuthenticationFailed("Authentication failed: the signature does not match the access key")
        self._check_time(fields, credential["day"])
        self.authenticated_user = AuthenticatedUser(credential["key"])
        return json.dumps({"version": _VERSION, "request-id": fields["x-amz-signature"][:32]}).encode()

    def _check_time(self, fields: Mapping[str, str], day: str) -> None:
        now, date, expires = self._now() // 1000, fields["x-amz-date"], fields["x-amz-expires"]
        if _EXPIRES.fullmatch(expires) is None or int(expires) > _MAX_EXPIRES:
            raise AuthenticationFailed(f"Authentication failed: the signature must expire in {_MAX_EXPIRES} s or less")
        # Timestamps in this format sort chronologically as strings.
        if not date.startswith(day) or not utc(now - int(expires)) < date <= utc(now + _SKEW):
            raise AuthenticationFailed("Authentication failed: the signature has expired, or is of the future")


def _fields(token: bytes) -> dict[str, str]:
    try:
        found: Any = json.loads(token)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or not all(isinstance(found.get(name), str) for name in _REQUIRED):
        raise AuthenticationFailed("Invalid AWS_MSK_IAM payload")
    fields = {name: value for name, value in found.items() if isinstance(value, str)}
    try:
        # JSON escapes can produce characters that UTF-8 can't encode.
        "".join(fields.values()).encode()
    except UnicodeEncodeError:
        raise AuthenticationFailed("Invalid AWS_MSK_IAM payload") from None
    return fields


def _signature(fields: Mapping[str, str], secret: str, scope: str) -> bytes:
    query = sorted((name, quote(fields[key], safe="-_.~")) for key, name in _SIGNED.items() if key in fields)
    lines = [
        "GET",
        "/",
        "&".join(f"{name}={value}" for name, value in query),
        f"host:{fields['host']}",
        "",
        "host",
        hashlib.sha256(b"").hexdigest(),
    ]
    request = hashlib.sha256("\n".join(lines).encode()).hexdigest()
    text = "\n".join(["AWS4-HMAC-SHA256", fields["x-amz-date"], scope, request])
    key = b"AWS4" + secret.encode()
    for part in scope.split("/"):
        key = hmac.new(key, part.encode(), "sha256").digest()
    return hmac.new(key, text.encode(), "sha256").hexdigest().encode()
