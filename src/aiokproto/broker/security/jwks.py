"""The keys that verify signed tokens (KIP-768): a JSON Web Key Set (RFC 7517), from a file or an identity provider.

A provider's set is loaded at startup, at regular intervals, and when a token refers to a key that isn't in the set. As
in Kafka, that token is rejected, and the client's next attempt finds the key.

Clients that haven't logged in can invent key ids. So unknown ids aren't remembered, and all of them together cause at
most one request per minute. Kafka has that limit for each id, and remembers 16 ids.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote, urlsplit

from aiokproto.broker.config.options import BrokerOptions
from aiokproto.errors import ConfigurationError
from aiokproto.runtime import create_task, monotonic
from aiokproto.security.http_request import HttpError, parse_url, request

_URL = "sasl.oauthbearer.jwks.endpoint.url"
_TIMEOUT = 10.0
_AGAIN = 60.0
"""Minimum time between two requests caused by unknown keys (s)."""
_LONGEST_ID = 1000
"""Maximum length of a key id, in characters, as in Kafka."""
_MAX_FILE = 1 << 20

log = logging.getLogger("aiokproto.broker")


class Key(NamedTuple):
    """A public key.

    Attributes:
        kind: ``RSA`` or ``EC``.
        public: The key, an object from the cryptography package.
    """

    kind: str
    public: Any


class Jwks:
    """A set of keys, by their ids.

    Args:
        url: A URL: ``file:``, ``https:`` or ``http:``.
        allow_http: Whether the URL may use ``http`` to another machine.
        backoff: How long to wait before retrying (s). Doubles with each retry.
        backoff_max: Maximum wait between retries, and the time after which there are no more retries (s).
    """

    def __init__(self, url: str, *, allow_http: bool, backoff: float, backoff_max: float) -> None:
        self._keys: dict[str, Key] = {}
        self._backoff = backoff
        self._backoff_max = backoff_max
        self._missed_at = float("-inf")
        self._refreshing: asyncio.Task[None] | None = None
        parts = urlsplit(url)
        if parts.scheme == "file":
            self._file: Path | None = Path(unquote(parts.path))
            return
        self._file = None
        # Nothing secret is sent, but anyone who can tamper with the keys in transit can log in as any user.
        self._url = parse_url(_URL, url, allow_http=allow_http)

    def find(self, key_id: str) -> Key | None:
        """Return a key. If it's unknown, return None, and reload the set for the next token."""
        if len(key_id) > _LONGEST_ID:
            return None
        found = self._keys.get(key_id)
        if found is None and self._file is None:
            now = monotonic()
            if now - self._missed_at > _AGAIN:
                self._missed_at = now
                # Don't retry: bogus clients must not cause repeated requests to a provider that is down.
                self.refresh(again=False)
        return found

    async def load(self, *, again: bool = True) -> None:
        """Load the set. If that fails and ``again`` is set, retry for as long as the options say.

        Raises:
            ConfigurationError: The set can't be loaded, or is invalid.
        """
        loop = asyncio.get_running_loop()
        until, backoff = loop.time() + self._backoff_max, self._backoff
        while True:
            try:
                self._keys = parse_keys(self._read() if self._file is not None else await self._fetch())
                return
            except (HttpError, OSError, ValueError) as error:
                if not again or self._file is not None or loop.time() + backoff > until:
                    raise ConfigurationError(f"{_URL}: the keys cannot be loaded: {error}") from error
            await asyncio.sleep(backoff)
            backoff = min(2 * backoff, self._backoff_max)

    def refresh(self, *, again: bool = True) -> None:
        """Reload the set in the background; see :meth:`load`. If that fails, the current keys are kept."""
        if self._refreshing is None or self._refreshing.done():
            self._refreshing = create_task(self._refresh(again))

    def close(self) -> None:
        """Stop loading."""
        if self._refreshing is not None:
            self._refreshing.cancel()

    async def _refresh(self, again: bool) -> None:
        try:
            await self.load(again=again)
        except ConfigurationError as error:
            log.warning("%s", error)

    def _read(self) -> bytes:
        assert self._file is not None, "only called with one"
        with self._file.open("rb") as file:
            data = file.read(_MAX_FILE + 1)
        if len(data) > _MAX_FILE:
            raise ValueError(f"{self._file} has more than {_MAX_FILE} bytes")
        return data

    async def _fetch(self) -> bytes:
        accept = {"Accept": "application/json"}
        response = await request(
            "GET", self._url, accept, b"", ssl_context=None, connect_timeout=_TIMEOUT, read_timeout=_TIMEOUT
        )
        if response.status != 200:
            raise ValueError(f"{self._url.shown} answered with status {response.status}")
        return response.body


def jwks_of(options: BrokerOptions, *, allow_http: bool) -> Jwks | None:
    """Return the configured key set, not loaded yet, or None if none is configured.

    Args:
        options: The options.
        allow_http: Whether the set may be loaded with ``http`` from another machine.

    Raises:
        ConfigurationError: An option is missing or invalid, or a package is missing.
    """
    url = str(options.value(_URL))
    if not url:
        return None
    for claim in ("audience", "issuer"):
        expected, allow = f"sasl.oauthbearer.expected.{claim}", f"sasl.oauthbearer.allow.unverified.{claim}"
        if not options.value(expected) and not options.value(allow):
            raise ConfigurationError(f"{expected} is missing: {_URL} is set (or set {allow} to true)")
    try:
        import cryptography  # noqa: F401
        import jwt  # noqa: F401
    except ImportError:
        raise ConfigurationError(
            f"{_URL} needs the packages cryptography and pyjwt: pip install aiokproto[oauth]"
        ) from None
    retry = "sasl.oauthbearer.jwks.endpoint.retry.backoff"
    return Jwks(
        url,
        allow_http=allow_http,
        backoff=options.seconds(f"{retry}.ms"),
        backoff_max=options.seconds(f"{retry}.max.ms"),
    )


def parse_keys(data: bytes) -> dict[str, Key]:
    """Return the public signature keys, by id. Other keys are left out.

    Raises:
        ValueError: ``data`` isn't a JSON Web Key Set.
    """
    try:
        found = json.loads(data)["keys"]
        entries = [entry for entry in found if isinstance(entry, dict) and entry.get("use", "sig") == "sig"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ValueError("this is no JSON Web Key Set") from None
    makers: Mapping[str, Callable[[Mapping[str, Any]], Any]] = {"RSA": _rsa, "EC": _elliptic}
    keys = {}
    for entry in entries:
        make = makers.get(str(entry.get("kty")))
        if make is not None and isinstance(entry.get("kid"), str):
            try:
                keys[entry["kid"]] = Key(entry["kty"], make(entry))
            except (ValueError, KeyError, TypeError):
                raise ValueError(f"the key {entry['kid'][:100]!r} is invalid") from None
    return keys


def _rsa(entry: Mapping[str, Any]) -> Any:
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicNumbers

    return RSAPublicNumbers(_integer(entry["e"]), _integer(entry["n"])).public_key()


def _elliptic(entry: Mapping[str, Any]) -> Any:
    from cryptography.hazmat.primitives.asymmetric import ec

    curves: dict[str, ec.EllipticCurve] = {"P-256": ec.SECP256R1(), "P-384": ec.SECP384R1(), "P-521": ec.SECP521R1()}
    return ec.EllipticCurvePublicNumbers(_integer(entry["x"]), _integer(entry["y"]), curves[entry["crv"]]).public_key()


def _integer(text: str) -> int:
    return int.from_bytes(decoded(text), "big")


def decoded(text: str) -> bytes:
    """Decode URL-safe base64 without padding.

    Raises:
        ValueError: ``text`` isn't base64.
    """
    try:
        return base64.b64decode(text + "=" * (-len(text) % 4), b"-_", validate=True)
    except (binascii.Error, UnicodeEncodeError):
        raise ValueError("invalid base64") from None
