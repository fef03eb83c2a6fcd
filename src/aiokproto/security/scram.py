"""SCRAM (RFC 5802, RFC 7677; KIP-84): client and broker prove that they know a password, without sending it.

The proofs aren't tied to the connection or its encryption: Kafka doesn't support channel binding. Without TLS, an
eavesdropper can try passwords against a recorded exchange, and an attacker in the middle can read and change everything
that follows.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable

from aiokproto.errors import AuthenticationError, ConfigurationError
from aiokproto.runtime import current
from aiokproto.security.mechanism import SaslExchange
from aiokproto.security.secret import Secret, SecretSource, padding
from aiokproto.security.shown import shown

DIGESTS = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
"""The hash's name in :mod:`hashlib`, by mechanism."""

MIN_ITERATIONS, MAX_ITERATIONS = 4096, 1_000_000
"""Limits on the iterations that a broker may request. With fewer, a fake broker could collect proofs that make it cheap
to guess the password (RFC 7677 §4); more would occupy a CPU for seconds."""

_HEADER = "n,,"
"""Means no channel binding, and no authorization id."""

_SERVER_FIRST = re.compile(
    r"r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+),s=(?P<salt>[A-Za-z0-9+/]+=*),i=(?P<iterations>[0-9]{1,9})(?:,.*)?"
)
_SERVER_FINAL = re.compile(r"(?:e=(?P<error>[^,]*)|v=(?P<signature>[A-Za-z0-9+/]+=*))(?:,.*)?")


class Scram:
    """SCRAM-SHA-256 or SCRAM-SHA-512.

    Args:
        name: ``"SCRAM-SHA-256"`` or ``"SCRAM-SHA-512"``.
        username: The user name, or the id of a delegation token.
        password: The password, or a delegation token's HMAC in base64. User name and password can each be a file or a
            function: see :class:`~aiokproto.security.Secret`.
        delegation_token: Whether user name and password belong to a delegation token (KIP-48). Default False.
    """

    def __init__(
        self, name: str, username: SecretSource, password: SecretSource, *, delegation_token: bool = False
    ) -> None:
        if name not in DIGESTS:
            raise ConfigurationError(f"{name!r} is no SCRAM mechanism: expected {' or '.join(DIGESTS)}")
        self.name = name
        self._username = Secret("sasl_username", username)
        self._password = Secret("sasl_password", password)
        self._delegation_token = delegation_token
        self._salted = SaltedPassword(DIGESTS[name])

    @property
    def user(self) -> str:
        """The user name; empty if it's read for each authentication, or if it's the id of a delegation token."""
        return "" if self._delegation_token else self._username.text

    def exchange(self, host: str) -> SaslExchange:
        """Start an exchange."""
        return ScramExchange(self._salted, self._username, self._password, delegation_token=self._delegation_token)

    def __repr__(self) -> str:
        return f"Scram({self.name!r})"


class SaltedPassword:
    """Salts a password, and caches the last result: all connections of a client salt the same password."""

    def __init__(self, digest: str) -> None:
        self.digest = digest
        self._last: tuple[tuple[str, bytes, int], bytes] | None = None

    async def of(self, password: str, salt: bytes, iterations: int) -> bytes:
        """Return the salted password, computed in a thread."""
        key = (password, salt, iterations)
        last = self._last
        if last is not None and last[0] == key:
            return last[1]
        loop = asyncio.get_running_loop()
        salted = await loop.run_in_executor(None, hashlib.pbkdf2_hmac, self.digest, password.encode(), salt, iterations)
        self._last = (key, salted)
        return salted

    def __getstate__(self) -> dict[str, object]:
        # Don't pickle the cached password, which may come from a function or a file.
        return {**self.__dict__, "_last": None}


class ScramExchange:
    """One exchange. See :class:`~aiokproto.security.mechanism.SaslExchange`."""

    def __init__(
        self,
        salted: SaltedPassword,
        username: Secret,
        password: Secret,
        *,
        delegation_token: bool = False,
        nonce: Callable[[], str] = lambda: base64.b64encode(current().secrets.randbytes(24)).decode(),
    ) -> None:
        self._salted = salted
        self._username = username
        self._password = password
        self._delegation_token = delegation_token
        self._new_nonce = nonce
        self._nonce = ""
        self._client_first = ""
        self._server_signature: bytes | None = None
        self._padding = ""
        self.user: str | None = None

    @property
    def complete(self) -> bool:
        # The exchange isn't complete after the last token: the broker's signature must be verified first.
        return False

    async def start(self) -> bytes:
        self.user = await self._username.read()
        name = self.user.replace("=", "=3D").replace(",", "=2C")
        if "\0" in name:
            raise ConfigurationError("sasl_username contains a null character, which SCRAM cannot carry")
        self._padding = padding("sasl_username", self.user)
        self._nonce = self._new_nonce()
        extensions = ",tokenauth=true" if self._delegation_token else ""
        self._client_first = f"n={name},r={self._nonce}{extensions}"
        return (_HEADER + self._client_first).encode()

    async def respond(self, challenge: bytes) -> bytes | None:
        text = challenge.decode("utf-8", "replace")
        if self._server_signature is None:
            return (await self._prove(text)).encode()
        self._verify(text, self._server_signature)
        return None

    def explain(self, message: str | None) -> str:
        """Return the broker's reason, and a hint about unusual credentials."""
        return f"{message or 'without a reason'}{self._padding}"

    async def _prove(self, text: str) -> str:
        message = _SERVER_FIRST.fullmatch(text)
        if message is None:
            raise AuthenticationError("the broker's first SCRAM message is malformed")
        # The nonce must consist of the client's nonce followed by the broker's. Otherwise the exchange could be a
        # replay.
        nonce, iterations = message["nonce"], int(message["iterations"])
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise AuthenticationError("the broker's SCRAM nonce does not extend the client's")
        if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
            raise AuthenticationError(
                f"the broker asks for {iterations} SCRAM iterations: expected {MIN_ITERATIONS} to {MAX_ITERATIONS}"
            )
        password = await self._password.read()
        self._padding += padding("sasl_password", password)
        salted = await self._salted.of(password, _from_base64(message["salt"]), iterations)
        digest = self._salted.digest
        without_proof = f"c={base64.b64encode(_HEADER.encode()).decode()},r={nonce}"
        auth_message = f"{self._client_first},{text},{without_proof}".encode()
        client_key = hmac.digest(salted, b"Client Key", digest)
        client_signature = hmac.digest(hashlib.new(digest, client_key).digest(), auth_message, digest)
        self._server_signature = hmac.digest(hmac.digest(salted, b"Server Key", digest), auth_message, digest)
        proof = bytes(left ^ right for left, right in zip(client_key, client_signature, strict=True))
        return f"{without_proof},p={base64.b64encode(proof).decode()}"

    def _verify(self, text: str, expected: bytes) -> None:
        message = _SERVER_FINAL.fullmatch(text)
        if message is None:
            raise AuthenticationError("the broker's last SCRAM message is malformed")
        if message["error"] is not None:
            raise AuthenticationError(f"the broker ended the SCRAM exchange: {shown(message['error'])}")
        # The signature proves that the broker knows the password, too (RFC 5802 §3). Without this check anyone could
        # impersonate the broker.
        if not hmac.compare_digest(_from_base64(message["signature"]), expected):
            raise AuthenticationError(
                "the broker's SCRAM signature is wrong: it does not know the password, and may not be the broker"
            )


def _from_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationError("a SCRAM message of the broker has invalid base64") from None
