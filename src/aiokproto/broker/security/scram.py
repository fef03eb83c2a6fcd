"""The server side of SCRAM (RFC 5802): credentials without passwords, and the exchange.

With the extension ``tokenauth=true``, the user name is a delegation token's id, and the password is its base64 HMAC
(KIP-48).
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from aiokproto.broker.security.plain import check_authorization_id
from aiokproto.broker.security.sasl_server import AuthenticatedUser, AuthenticationFailed
from aiokproto.runtime import current

if TYPE_CHECKING:
    from aiokproto.broker.security.credentials import ScramCredentials
    from aiokproto.broker.security.tokens import DelegationTokens

MIN_ITERATIONS, MAX_ITERATIONS = 4096, 16384
SALT_BYTES = 16

_LONGEST = 1 << 16
"""Maximum length of a client's message, in bytes. Anyone can send a message, and matching it takes the event loop's
time."""


class Mechanism(IntEnum):
    """The SCRAM mechanisms, with Kafka's numbers."""

    SCRAM_SHA_256 = 1
    SCRAM_SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        """The SASL name: ``SCRAM-SHA-256``."""
        return self.name.replace("_", "-")

    @property
    def digest(self) -> str:
        """The name in :mod:`hashlib`."""
        return "sha256" if self is Mechanism.SCRAM_SHA_256 else "sha512"


class Credential(NamedTuple):
    """What the server stores about a password: enough to verify a client proof, not enough to make one."""

    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes


def credential(mechanism: Mechanism, salt: bytes, iterations: int, salted_password: bytes) -> Credential:
    """Make a credential from a salted password, as sent by AlterUserScramCredentials."""
    client_key = hmac.digest(salted_password, b"Client Key", mechanism.digest)
    stored_key = hashlib.new(mechanism.digest, client_key).digest()
    server_key = hmac.digest(salted_password, b"Server Key", mechanism.digest)
    return Credential(salt, iterations, stored_key, server_key)


def credential_of(mechanism: Mechanism, password: str, salt: bytes | None = None) -> Credential:
    """Make a credential from a password, by default with a new salt."""
    salt = salt or current().secrets.randbytes(SALT_BYTES)
    salted = hashlib.pbkdf2_hmac(mechanism.digest, password.encode(), salt, MIN_ITERATIONS)
    return credential(mechanism, salt, MIN_ITERATIONS, salted)


class Salts:
    """Salts by user, for users whose passwords the broker has and users that don't exist. A user's salt never changes.

    Clients also get a salt for users that don't exist, and the same salt if they ask again, so they don't learn which
    users exist. PostgreSQL does the same.

    Args:
        secret: The key from which salts are derived. Clients can't tell the result from random salts.
    """

    def __init__(self, secret: bytes) -> None:
        self.secret = secret

    def salt(self, user: str, mechanism: Mechanism) -> bytes:
        """Return a user's salt."""
        return hmac.digest(self.secret, f"{mechanism.name} {user}".encode(), "sha256")[:SALT_BYTES]

    def no_credential(self, user: str, mechanism: Mechanism) -> Credential:
        """Return a credential that no password matches."""
        key = current().secrets.randbytes(hashlib.new(mechanism.digest).digest_size)
        return Credential(self.salt(user, mechanism), MIN_ITERATIONS, key, key)


# Names escape comma and equals sign as =2C and =3D. Ignored attributes must still match the grammar of RFC 5802 §7.
# Kafka implements the ASCII part of it.
_NAME = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE = r"[\x01-\x2b\x2d-\x7f]+"
_CLIENT_FIRST = re.compile(
    rf"(?P<header>n,(?:a=(?P<authzid>{_NAME}))?,)"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<user>{_NAME}),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)"
    rf"(?P<extensions>(?:,[A-Za-z]+={_VALUE})*))"
)
_CLIENT_FINAL = re.compile(
    rf"(?P<bare>c=(?P<binding>[A-Za-z0-9+/]*=*),r=(?P<nonce>[\x21-\x2b\x2d-\x7e]+)(?:,[A-Za-z]+={_VALUE})*)"
    r",p=(?P<proof>[A-Za-z0-9+/]+=*)"
)


class Account(NamedTuple):
    """A credential, and the user that it authenticates."""

    credential: Credential
    authenticated_user: AuthenticatedUser


class ScramSaslServer:
    """One SCRAM exchange. See :class:`~aiokproto.broker.security.sasl_server.SaslServer`."""

    def __init__(
        self,
        mechanism: Mechanism,
        credentials: ScramCredentials,
        tokens: DelegationTokens | None = None,
        nonce: Callable[[], str] = lambda: current().secrets.randbytes(24).hex(),
    ) -> None:
        """Start an exchange.

        Args:
            mechanism: The mechanism.
            credentials: The credentials of users, and the salts of users that don't exist.
            tokens: The delegation tokens, if enabled.
            nonce: Returns the server's part of the nonce.
        """
        self.authenticated_user: AuthenticatedUser | None = None
        self._mechanism = mechanism
        self._credentials = credentials
        self._tokens = tokens
        self._new_nonce = nonce
        self._header = ""
        self._nonce = ""
        self._auth_message = ""
        self._account: Account | None = None

    def step(self, token: bytes) -> bytes:
        if len(token) > _LONGEST:
            raise AuthenticationFailed
        text = token.decode("utf-8", "replace")
        return (self._first(text) if self._account is None else self._final(text, self._account)).encode()

    def _first(self, text: str) -> str:
        message = _CLIENT_FIRST.fullmatch(text)
        if message is None:
            raise AuthenticationFailed
        name = _unescape(message["user"])
        extensions = dict(extension.split("=", 1) for extension in message["extensions"].split(",")[1:])
        self._account = self._account_of(name, by_token=extensions.get("tokenauth", "").lower() == "true")
        found = self._account.credential
        check_authorization_id(_unescape(message["authzid"] or ""), name)
        self._header = message["header"]
        self._nonce = message["nonce"] + self._new_nonce()
        answer = f"r={self._nonce},s={_to_base64(found.salt)},i={found.iterations}"
        self._auth_message = f"{message['bare']},{answer}"
        return answer

    def _account_of(self, name: str, *, by_token: bool) -> Account:
        if by_token:
            account = self._tokens.account(name, self._mechanism) if self._tokens is not None else None
        else:
            known = self._credentials.find(name, self._mechanism)
            account = Account(known, AuthenticatedUser(name)) if known is not None else None
        return account or Account(self._credentials.salts.no_credential(name, self._mechanism), AuthenticatedUser(name))

    def _final(self, text: str, account: Account) -> str:
        known = account.credential
        message = _CLIENT_FINAL.fullmatch(text)
        # The nonce proves that the message belongs to this exchange and isn't a replay (RFC 5802 §5.1).
        if message is None or message["nonce"] != self._nonce:
            raise AuthenticationFailed
        # The client repeats its GS2 header in the signed message, so a man in the middle can't downgrade channel
        # binding.
        if _from_base64(message["binding"]) != self._header.encode():
            raise AuthenticationFailed
        auth_message = f"{self._auth_message},{message['bare']}".encode()
        digest = self._mechanism.digest
        signature = hmac.digest(known.stored_key, auth_message, digest)
        proof = _from_base64(message["proof"])
        # This isn't strict because the length is checked below, together with the proof.
        client_key = bytes(left ^ right for left, right in zip(proof, signature, strict=False))
        # StoredKey is a hash of ClientKey, so a stolen credential isn't enough to make a proof (RFC 5802 §3).
        if len(proof) != len(signature) or not hmac.compare_digest(
            hashlib.new(digest, client_key).digest(), known.stored_key
        ):
            raise AuthenticationFailed
        self.authenticated_user = account.authenticated_user
        return f"v={_to_base64(hmac.digest(known.server_key, auth_message, digest))}"


def _unescape(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _to_base64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _from_base64(text: str) -> bytes:
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error:
        raise AuthenticationFailed from None
    # Non-zero padding bits would give one proof several encodings (RFC 4648 §3.5).
    if _to_base64(data) != text:
        raise AuthenticationFailed
    return data
