"""An identity provider: signs tokens, and serves its token endpoint and its keys over HTTP on 127.0.0.1.

It signs with the package cryptography, apart from the client's code, and has a mode for each way to misbehave.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature, encode_dss_signature

AUDIENCE = "kafka-cluster"
ISSUER = "https://issuer.example.org"


def b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def number(value: int) -> str:
    return b64(value.to_bytes((value.bit_length() + 7) // 8, "big"))


def decoded(part: str) -> Any:
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


class Issuer:
    """Keys, and the tokens that they sign."""

    def __init__(self, key: rsa.RSAPrivateKey | None = None, key_id: str = "key-1") -> None:
        self.key = key or rsa.generate_private_key(65537, 2048)
        self.elliptic = ec.generate_private_key(ec.SECP256R1())
        self.key_id = key_id

    def pem(self) -> bytes:
        return self.key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )

    def keys(self) -> dict[str, Any]:
        public, point = self.key.public_key().public_numbers(), self.elliptic.public_key().public_numbers()
        return {
            "keys": [
                {"kty": "RSA", "use": "sig", "kid": self.key_id, "n": number(public.n), "e": number(public.e)},
                {
                    "kty": "EC",
                    "crv": "P-256",
                    "kid": f"{self.key_id}-ec",
                    "x": b64(point.x.to_bytes(32, "big")),
                    "y": b64(point.y.to_bytes(32, "big")),
                },
            ]
        }

    def token(self, subject: str = "alice", lifetime: float = 3600, *, algorithm: str = "RS256", **more: Any) -> str:
        """Return a token. ``more`` adds, replaces or (with None) removes claims; ``kid`` is the key's id."""
        now = time.time()
        key_id = more.pop("kid", self.key_id + ("-ec" if algorithm == "ES256" else ""))
        header = {"alg": algorithm, "typ": "JWT", "kid": key_id}
        claims = {
            "sub": subject,
            "iss": ISSUER,
            "aud": AUDIENCE,
            "iat": int(now) - 1,
            "exp": int(now + lifetime),
            **more,
        }
        claims = {name: value for name, value in claims.items() if value is not None}
        unsigned = f"{b64(json.dumps(header).encode())}.{b64(json.dumps(claims).encode())}"
        if algorithm == "none":
            return f"{unsigned}."
        return f"{unsigned}.{b64(self.sign(unsigned.encode(), algorithm))}"

    def sign(self, data: bytes, algorithm: str) -> bytes:
        if algorithm == "RS256":
            return self.key.sign(data, padding.PKCS1v15(), hashes.SHA256())
        r, s = decode_dss_signature(self.elliptic.sign(data, ec.ECDSA(hashes.SHA256())))
        return r.to_bytes(32, "big") + s.to_bytes(32, "big")


def verified(token: str, key: rsa.RSAPublicKey | ec.EllipticCurvePublicKey) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims of an assertion. Raises InvalidSignature."""
    header, claims, signature = token.split(".")
    data = f"{header}.{claims}".encode()
    raw = base64.urlsafe_b64decode(signature + "=" * (-len(signature) % 4))
    if isinstance(key, rsa.RSAPublicKey):
        key.verify(raw, data, padding.PKCS1v15(), hashes.SHA256())
    else:
        both = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
        key.verify(encode_dss_signature(*both), data, ec.ECDSA(hashes.SHA256()))
    return decoded(header), decoded(claims)


@dataclass
class Asked:
    """A request that the server received."""

    method: str
    target: str
    headers: dict[str, str]
    form: dict[str, str]


Answer = Callable[[Asked], "bytes | None"]
"""The whole response. With None there is no response, and the connection stays open."""


def response(status: int, document: Any = None, *lines: str) -> bytes:
    body = document if isinstance(document, bytes) else json.dumps(document).encode()
    head = [f"HTTP/1.1 {status} Some Reason", f"Content-Length: {len(body)}", *lines]
    return "\r\n".join(head).encode() + b"\r\n\r\n" + body


@dataclass
class Oidc:
    """A running provider. ``asked`` has each request; ``answer`` can be replaced by a test."""

    issuer: Issuer
    answer: Answer
    port: int = 0
    asked: list[Asked] = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/token"

    @property
    def keys_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/keys"

    def tokens(self) -> int:
        """How many tokens were requested."""
        return sum(asked.method == "POST" for asked in self.asked)


def issuing(issuer: Issuer, lifetime: float = 3600, subject: str = "alice", **more: Any) -> Answer:
    def answer(asked: Asked) -> bytes:
        token = issuer.token(subject, lifetime, **more)
        return response(200, {"access_token": token, "token_type": "Bearer", "expires_in": lifetime})

    return answer


def refusing(error: str = "invalid_client", text: str = "no such client", status: int = 401) -> Answer:
    return lambda asked: response(status, {"error": error, "error_description": text})


@asynccontextmanager
async def oidc(answer: Answer | None = None, issuer: Issuer | None = None) -> AsyncIterator[Oidc]:
    """A provider that gives every client a token."""
    issuer = issuer or Issuer()
    provider = Oidc(issuer, answer or issuing(issuer))
    tasks: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        tasks.add(task)
        try:
            asked = await _asked(reader)
            provider.asked.append(asked)
            provider.arrived.set()
            keys = asked.method == "GET" and asked.target == "/keys"
            answer = response(200, issuer.keys()) if keys else provider.answer(asked)
            if answer is None:
                await reader.read()
            else:
                writer.write(answer)
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            tasks.discard(task)
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    provider.port = server.sockets[0].getsockname()[1]
    try:
        yield provider
    finally:
        server.close()
        for task in list(tasks):
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _asked(reader: asyncio.StreamReader) -> Asked:
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, target, _ = head[0].split(" ")
    headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:-2])}
    body = (await reader.readexactly(int(headers.get("content-length", "0")))).decode()
    return Asked(method, target, headers, {name: values[0] for name, values in parse_qs(body).items()})
