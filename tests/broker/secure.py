"""What the tests of security have in common: clusters with an authorizer, certificates, and clients that log in."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import ssl
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trustme
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from aiokproto.broker import Broker, Security
from aiokproto.broker.security.credentials import ScramCredentials
from aiokproto.broker.security.jwks import Jwks, Key
from aiokproto.broker.security.scram import Credential, Mechanism
from aiokproto.codec.messages.create_acls import AclCreation, CreateAclsRequest
from aiokproto.codec.messages.describe_acls import AclDescription, DescribeAclsRequest
from aiokproto.codec.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from aiokproto.codec.messages.sasl_handshake import SaslHandshakeRequest
from aiokproto.security.tls.subject import subject_of
from tests.broker.wire import Wire, connect

AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
USERS = {"admin": "admin-secret", "alice": "alice-secret"}

TOPIC, GROUP, CLUSTER, TRANSACTIONAL_ID, DELEGATION_TOKEN, USER = 2, 3, 4, 5, 6, 7
LITERAL, PREFIXED = 3, 4
ALL, READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 2, 3, 4, 5, 6, 7, 8, 9
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE, CREATE_TOKENS, DESCRIBE_TOKENS = 10, 11, 12, 13, 14
TWO_PHASE_COMMIT = 15
DENY, ALLOW = 2, 3


class KnownCredentials(ScramCredentials):
    """Credentials by user, each for both mechanisms. ``*`` is for every user that is not named."""

    def __init__(self, known: Mapping[str, Credential]) -> None:
        super().__init__({})
        self._known = known

    def find(self, user: str, mechanism: Mechanism) -> Credential | None:
        return self._known.get(user, self._known.get("*"))


class OneKey(Jwks):
    """A key set that has one key under every id, or none.

    Attributes:
        requested: The ids.
    """

    def __init__(self, key: Key | None) -> None:
        super().__init__("file:///keys", allow_http=False, backoff=1, backoff_max=1)
        self.requested: list[str] = []
        self._key = key

    def find(self, key_id: str) -> Key | None:
        self.requested.append(key_id)
        return self._key


ANY_ACL = DescribeAclsRequest(
    resource_type_filter=1,
    resource_name_filter=None,
    pattern_type_filter=1,
    principal_filter=None,
    host_filter=None,
    operation=1,
    permission_type=1,
)


def guarded(**config: str | int | bool) -> Broker:
    """A broker with an authorizer, where ``admin`` may do everything."""
    return Broker(
        security=Security("SASL_PLAINTEXT", users=USERS),
        config={"authorizer.class.name": AUTHORIZER, "super.users": "User:admin", **config},
    )


def plain(user: str, password: str | None = None) -> bytes:
    """The token of PLAIN."""
    return f"\0{user}\0{USERS[user] if password is None else password}".encode()


def unsecured(user: str, seconds: float = 3600) -> bytes:
    """The initial OAUTHBEARER message with an unsigned JSON web token."""

    def encoded(part: dict[str, Any]) -> str:
        return base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")

    now = time.time()
    # Brokers have whole milliseconds: to theirs, a token of this very moment would be of the future.
    claims = {"sub": user, "iat": now - 60, "exp": now + seconds}
    token = f"{encoded({'alg': 'none'})}.{encoded(claims)}."
    return b"n,,\x01auth=Bearer " + token.encode() + b"\x01\x01"


class ScramClient:
    """The client's side of SCRAM, written from RFC 5802 alone."""

    def __init__(
        self, user: str, password: str, digest: str, nonce: str = "fyko+d2lbbFgONRv9qkxdawL", extensions: str = ""
    ) -> None:
        self.digest = digest
        self.password = password
        self.bare = f"n={user},r={nonce}{extensions}"
        self.server_signature = b""

    def first(self) -> bytes:
        return f"n,,{self.bare}".encode()

    def final(self, server_first: bytes) -> bytes:
        nonce, salt, iterations = (part[2:] for part in server_first.decode().split(","))
        salted = hashlib.pbkdf2_hmac(self.digest, self.password.encode(), base64.b64decode(salt), int(iterations))
        client_key = hmac.digest(salted, b"Client Key", self.digest)
        without_proof = f"c=biws,r={nonce}"
        said = ",".join((self.bare, server_first.decode(), without_proof)).encode()
        signature = hmac.digest(hashlib.new(self.digest, client_key).digest(), said, self.digest)
        proof = bytes(left ^ right for left, right in zip(client_key, signature, strict=True))
        self.server_signature = hmac.digest(hmac.digest(salted, b"Server Key", self.digest), said, self.digest)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()


async def authenticate(wire: Wire, mechanism: str, token: bytes) -> SaslAuthenticateResponse:
    """Handshake, and the first token."""
    assert (await wire.ask(SaslHandshakeRequest(mechanism=mechanism))).error_code == 0
    return await wire.ask(SaslAuthenticateRequest(auth_bytes=token))


@asynccontextmanager
async def logged_in(broker: Broker, user: str) -> AsyncIterator[Wire]:
    """A connection of a user."""
    async with connect(broker) as wire:
        assert (await authenticate(wire, "PLAIN", plain(user))).error_code == 0
        yield wire


def acl(
    resource_type: int,
    name: str,
    operation: int,
    *,
    pattern: int = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    permission: int = ALLOW,
) -> AclCreation:
    """An entry for the authorizer."""
    return AclCreation(
        resource_type=resource_type,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def _entry(each: AclCreation | AclDescription) -> tuple[str, str, int, int]:
    return each.principal, each.host, each.operation, each.permission_type


async def grant(admin: Wire, *acls: AclCreation) -> None:
    """Add ACLs; return once the broker applies them."""
    answer = await admin.ask(CreateAclsRequest(creations=list(acls)), 3)
    assert [result.error_code for result in answer.results] == [0] * len(acls), answer
    # With all that tells ACLs apart: one for a prefix is not in force because that for the same literal name is.
    wanted = {((each.resource_type, each.resource_name, each.resource_pattern_type), _entry(each)) for each in acls}
    while True:
        found = await admin.ask(ANY_ACL, 3)
        known = {
            ((each.resource_type, each.resource_name, each.pattern_type), _entry(entry))
            for each in found.resources
            for entry in each.acls
        }
        if wanted <= known:
            return


class Certificates:
    """A certificate authority, and a certificate that it signed."""

    def __init__(self, folder: Path) -> None:
        authority = trustme.CA()
        self._authority = authority
        self.authority = str(folder / "authority.pem")
        authority.cert_pem.write_to_path(self.authority)
        self.keystore = str(folder / "broker.pem")
        authority.issue_cert("127.0.0.1", "localhost").private_key_and_cert_chain_pem.write_to_path(self.keystore)
        self.client = str(folder / "client.pem")
        client = authority.issue_cert("client@example.org", common_name="alice", organization_name="Wonder, Land")
        client.private_key_and_cert_chain_pem.write_to_path(self.client)
        certificate = x509.load_pem_x509_certificate(client.cert_chain_pems[0].bytes())
        # Not RFC 4514's form: Java escapes more characters.
        self.client_name = subject_of(certificate.public_bytes(Encoding.DER))

    def options(self, **more: str) -> dict[str, str]:
        """A broker's options. The authority of clients is of no use to one that asks for no certificates."""
        trusted = {"ssl.truststore.location": self.authority} if "ssl.client.auth" in more else {}
        return {"ssl.keystore.location": self.keystore, **trusted, **more}

    def context(self, *, with_client: bool = False) -> ssl.SSLContext:
        """What a client uses."""
        context = ssl.create_default_context(cafile=self.authority)
        if with_client:
            context.load_cert_chain(self.client)
        return context
