"""Assertions: JSON Web Tokens that a client signs itself, to prove its identity to a token endpoint (RFC 7523)."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiokproto.errors import BrokerConnectionError, ConfigurationError
from aiokproto.runtime import current
from aiokproto.security.secret import Secret, SecretSource

ALGORITHMS = ("RS256", "ES256")

_MIN_RSA_BITS = 2048
"""The minimum key size in RFC 7518 §3.3."""


class Assertion:
    """Creates assertions, each with the current time. Needs the extra ``oauth`` (the packages cryptography and PyJWT).

    Key and template are read again for each assertion. As in Kafka, claims in the template override ``audience``,
    ``issuer`` and ``subject``, but not the times.

    Args:
        key: The private key, in PEM: a file, or the text.
        algorithm: ``"RS256"`` (the default; an RSA key of at least 2048 bits) or ``"ES256"`` (a key of the curve
            P-256).
        passphrase: The passphrase of the key. Default None, if the key isn't encrypted.
        audience: The claim ``aud``: the token endpoint, or the identity provider. Default None.
        issuer: The claim ``iss``: the client. Default None.
        subject: The claim ``sub``: the client, or the user that the token is for. Default None.
        lifetime: How long an assertion is valid (s). Default 300.
        not_before: How long before its creation an assertion is already valid (s), to allow for clock skew. Default 60.
        jti: Whether an assertion has a unique id, the claim ``jti``. Default False.
        template: Header and claims as JSON, ``{"header": {…}, "payload": {…}}``: a file, or the object itself. Default
            None.

    Raises:
        ConfigurationError: An argument is invalid.
    """

    def __init__(
        self,
        key: SecretSource,
        *,
        algorithm: str = "RS256",
        passphrase: SecretSource | None = None,
        audience: str | None = None,
        issuer: str | None = None,
        subject: str | None = None,
        lifetime: int = 300,
        not_before: int = 60,
        jti: bool = False,
        template: Path | Mapping[str, Any] | None = None,
    ) -> None:
        if algorithm.upper() not in ALGORITHMS:
            raise ConfigurationError(
                f"sasl_oauthbearer_assertion_algorithm={algorithm!r}: expected {' or '.join(map(repr, ALGORITHMS))}"
            )
        self._algorithm = algorithm.upper()
        self._key = Secret("sasl_oauthbearer_assertion_private_key_file", key)
        self._passphrase = (
            None if passphrase is None else Secret("sasl_oauthbearer_assertion_private_key_passphrase", passphrase)
        )
        self._claims = {
            name: value for name, value in (("aud", audience), ("iss", issuer), ("sub", subject)) if value is not None
        }
        self._lifetime = lifetime
        self._not_before = not_before
        self._jti = jti
        self._template = template
        if isinstance(template, Mapping):
            _checked_template(template)

    async def __call__(self) -> str:
        """Return a new assertion.

        Raises:
            BrokerConnectionError: The key or the template can't be read, or is invalid.
            ConfigurationError: A package is missing.
        """
        pem = await self._key.read()
        passphrase = None if self._passphrase is None else await self._passphrase.read()
        template = await self._read_template()
        now = current().milliseconds() // 1000
        claims = {**self._claims, **template.get("payload", {})}
        claims |= {"iat": now, "exp": now + self._lifetime, "nbf": now - self._not_before}
        if self._jti:
            claims["jti"] = str(current().uuid())
        header = {**template.get("header", {}), "alg": self._algorithm, "typ": "JWT"}
        unsigned = f"{encode_part(header)}.{encode_part(claims)}"
        # Sign in a thread: decrypting the key is slow by design.
        loop = asyncio.get_running_loop()
        signature = await loop.run_in_executor(None, _sign, self._algorithm, pem, passphrase, unsigned.encode())
        return f"{unsigned}.{base64url(signature)}"

    async def _read_template(self) -> Mapping[str, Any]:
        if self._template is None or isinstance(self._template, Mapping):
            return self._template or {}
        text = await Secret("sasl_oauthbearer_assertion_template_file", self._template).read()
        try:
            return _checked_template(json.loads(text))
        except (ValueError, RecursionError) as error:
            why = error if isinstance(error, ConfigurationError) else "it is not JSON"
            raise BrokerConnectionError(f"sasl_oauthbearer_assertion_template_file: {why}") from None

    def __repr__(self) -> str:
        return f"Assertion(algorithm={self._algorithm!r})"


def _checked_template(template: Any) -> Mapping[str, Any]:
    if not isinstance(template, Mapping) or not all(
        isinstance(template.get(part, {}), Mapping) for part in ("header", "payload")
    ):
        raise ConfigurationError('the template of an assertion is no object {"header": {…}, "payload": {…}}')
    return template


def _sign(algorithm: str, pem: str, passphrase: str | None, data: bytes) -> bytes:
    try:
        from cryptography.exceptions import UnsupportedAlgorithm
        from cryptography.hazmat.primitives import serialization
        from cryptography.hazmat.primitives.asymmetric import ec, rsa
        from jwt.algorithms import get_default_algorithms
    except ImportError:
        raise ConfigurationError(
            "signing assertions needs the packages cryptography and pyjwt: pip install aiokproto[oauth]"
        ) from None
    option = "sasl_oauthbearer_assertion_private_key_file"
    try:
        key = serialization.load_pem_private_key(pem.encode(), passphrase.encode() if passphrase else None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        # Leave out the error's message: it may contain parts of the key.
        raise BrokerConnectionError(
            f"{option}: not a private key in PEM, or the passphrase is missing, not needed, or wrong"
        ) from None
    if algorithm == "RS256":
        if not isinstance(key, rsa.RSAPrivateKey) or key.key_size < _MIN_RSA_BITS:
            raise BrokerConnectionError(f"{option}: RS256 needs an RSA key of at least {_MIN_RSA_BITS} bits")
    elif not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP256R1):
        raise BrokerConnectionError(f"{option}: ES256 needs a key of the curve P-256")
    return get_default_algorithms()[algorithm].sign(data, key)


def encode_part(part: Mapping[str, Any]) -> str:
    """Encode the header or the claims of a JSON Web Token."""
    return base64url(json.dumps(part, separators=(",", ":")).encode())


def base64url(data: bytes) -> str:
    """Encode in base64 for URLs, without padding (RFC 7515 §2)."""
    return base64.urlsafe_b64encode(data).decode().rstrip("=")
